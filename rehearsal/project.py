"""A private copy of the project for one rehearsal: nothing is ever written into the operator's `stacks/`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import yaml

from infra.wording import nearest
from verdict.errors import BadConfig

LOCKS = ("encryptionsalt", "encryptedkey", "secretsprovider")
"""What `pulumi stack init` writes into a stack file: the lock of the operator's own state, which the rehearsal does not use."""


def private_copy(root: Path, folder: Path, stack: str, config: Mapping[str, str], sets: Sequence[str]) -> Path:
    """Make `folder/project` with Pulumi.yaml, the program by link, and the stack file with `config` and `sets` merged in."""
    source = root / "stacks" / f"Pulumi.{stack}.yaml"
    if not source.is_file():
        known = sorted(p.name.removeprefix("Pulumi.").removesuffix(".yaml") for p in source.parent.glob("Pulumi.*.yaml"))
        raise BadConfig(f"no stack {stack!r}", way_out=nearest(stack, known, "write its file into stacks/"))
    project = folder / "project"
    (project / "stacks").mkdir(parents=True)
    (project / "Pulumi.yaml").write_text((root / "Pulumi.yaml").read_text(encoding="utf-8"), encoding="utf-8")
    (project / "infra").symlink_to(root / "infra", target_is_directory=True)
    (project / ".venv").symlink_to(root / ".venv", target_is_directory=True)
    document = yaml.safe_load(source.read_text(encoding="utf-8"))
    for key in LOCKS:
        document.pop(key, None)
    values = document.setdefault("config", {})
    for setting in sets:
        key, _, text = setting.partition("=")
        _set(values, key, yaml.safe_load(text))
    values.update(config)
    (project / "stacks" / source.name).write_text(yaml.safe_dump(document, sort_keys=False), encoding="utf-8")
    return project


def change(project: Path, stack: str, setting: str) -> None:
    """Edit the private stack file as an operator would edit theirs: `serving.text_only=true`."""
    path = project / "stacks" / f"Pulumi.{stack}.yaml"
    document = yaml.safe_load(path.read_text(encoding="utf-8"))
    key, _, text = setting.partition("=")
    _set(document["config"], key, yaml.safe_load(text))
    path.write_text(yaml.safe_dump(document, sort_keys=False), encoding="utf-8")


def _set(values: dict[str, object], key: str, value: object) -> None:
    first, *rest = key.removeprefix("flexserve:").split(".")
    name = first if ":" in first else f"flexserve:{first}"
    if not rest:
        values[name] = value
        return
    at = values.setdefault(name, {})
    for part in rest[:-1]:
        at = at.setdefault(part, {})  # type: ignore[attr-defined]
    at[rest[-1]] = value  # type: ignore[index]
