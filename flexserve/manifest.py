"""All that decides a deployment's environment, as one document: two runs of the same manifest are the same environment."""

from __future__ import annotations

import hashlib
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from catalog.rows import Row
    from infra.plan import Plan
    from startup.spec import BootSpec

_DECIDING = ("flexserve", "pulumi", "pulumi-gcp", "pulumi-aws")


def manifest(plan: Plan, root: Path) -> dict[str, object]:
    """The document: settings, the catalog rows that they name, the boot with its script's hash, versions and the lock's hash.

    What is resolved at create only (image digest, model revision, host image) is null or a family's name until the stack file
    pins it; `plan --json` lists it under `unresolved`.
    """
    from startup.render import render

    deployment = plan.deployment
    rendered = render(plan.boot)
    return {
        "stack": deployment.stack,
        "target": deployment.target.model_dump(),
        "settings": deployment.common.model_dump(),
        "allowed": list(plan.allowed),
        "machine": _row(plan.machine),
        "accelerator": _row(plan.accelerator),
        "model": _row(plan.model),
        "image": _row(plan.image) if plan.image else None,
        "argv": plan.as_dict()["argv"],
        "boot": _row(plan.boot),
        "script_sha256": rendered.sha256,
        "stub_sha256": hashlib.sha256(rendered.stub).hexdigest(),
        "versions": {name: _version(name) for name in _DECIDING},
        "lock_sha256": _hash(root / "requirements.lock"),
    }


def _row(row: Row | BootSpec) -> dict[str, object]:
    import msgspec

    facts: dict[str, object] = msgspec.to_builtins(row)
    return facts


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _hash(path: Path) -> str | None:
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else None
