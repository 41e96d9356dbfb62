"""The typed, checked description of one deployment, read from a stack's configuration."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping, Sequence
from copy import deepcopy
from functools import partial
from pathlib import Path
from typing import Any, TypeVar, cast

from msgspec import Struct

from infra.checker import Wrong, check
from infra.settings import Access, Egress, Image, Model, Secret, Serving, Window
from infra.shape import Field, Settings
from infra.targets import registry
from infra.wording import nearest, short
from verdict.errors import BadConfig

T = TypeVar("T")
NAMESPACE = "flexserve"
PARTS = ("image", "access", "egress")
EXAMPLE = "for example --set target.zones=[us-east5-b]"
GROUPS = ("target", "model", "image", "serving", "secret", "access")


class Common(Settings):
    """Everything under `flexserve:` except `target`, whose keys depend on its kind."""

    model: Model
    image: Image | None = Field(None, description="The container image; left out where the server comes from a build.")
    serving: Serving = Field(Serving(), description="How vLLM serves.")
    secret: Secret | None = Field(None, description="The Hub token, by name; leave it out for ungated models.")
    window: Window = 14400
    egress: Egress = Field("address", description="The way out: an external address without ingress, `nat`, or `existing`.")
    access: Access | None = Field(None, description="Who may open the tunnel; left out where the cloud's own rights say it.")
    owner: str = Field("", description="Who pays, as a label; the login name when empty.")
    allow: tuple[str, ...] = Field((), description="Rules to go past, on your word; shown in the plan and the manifest.")


class Deployment(Struct, frozen=True):
    """One stack: what to serve, how, where, for how long and for whom."""

    stack: str
    target: registry.TargetConfig
    common: Common
    notes: tuple[str, ...] = ()  # what a stack file would have to say besides, where `--set` says something else than this one

    @property
    def model(self) -> Model:
        """Which checkpoint."""
        return self.common.model

    @property
    def image(self) -> Image | None:
        """Which container image; None where the server comes from a build."""
        return self.common.image

    @property
    def serving(self) -> Serving:
        """How vLLM serves."""
        return self.common.serving


def from_values(stack: str, values: Mapping[str, object]) -> Deployment:
    """Check the values under `flexserve:`. Raises `BadConfig` (exit 2) that names the key, and the nearest one that exists."""
    rest = {k: v for k, v in values.items() if k != "target"}
    target = values.get("target")
    if not isinstance(target, Mapping) or "kind" not in target:
        raise BadConfig("flexserve:target needs a kind", way_out=f"one of {', '.join(registry.kinds())}")
    kind = str(target["kind"])
    if not isinstance(target["kind"], str):
        raise BadConfig(f"flexserve:target.kind: must be text (got {short(target['kind'])})")
    if kind not in registry.kinds():
        raise BadConfig(f"flexserve:target.kind: no target {kind!r}", way_out=nearest(kind, registry.kinds()))
    config_class = cast("type[Settings]", registry.module(kind, "config").Config)
    config = cast("registry.TargetConfig", _validate(config_class, target, "target."))
    common: Common = _validate(Common, rest, "")
    _check_parts(config, common, rest)
    return Deployment(stack, config, common)


def _check_parts(config: registry.TargetConfig, common: Common, values: Mapping[str, object]) -> None:
    """The parts of the stack file that some kinds of target have and others have not."""
    for part in PARTS:
        given, why = part in values and getattr(common, part) is not None, config.without.get(part)
        if given and why is not None:
            raise BadConfig(
                f"{NAMESPACE}:{part}: a {config.kind} target has none", why=why, way_out=f"leave {NAMESPACE}:{part} out"
            )
        if getattr(common, part) is None and why is None and part not in config.optional:
            raise BadConfig(f"{NAMESPACE}:{part}: missing")


def from_stack_text(stack: str, text: str, sets: Sequence[str] = ()) -> Deployment:
    """Read a stack file's text; `sets` are `KEY=VALUE` with dotted keys of the stack file, as on the command line."""
    from infra import stackfile

    return _from_config(stack, stackfile.config_of(stack, text), sets)


def from_stack_file(root: Path, stack: str, sets: Sequence[str] = ()) -> Deployment:
    """Read `stacks/Pulumi.STACK.yaml` below the project's root, and what `Pulumi.yaml` says for all stacks.

    Raises `BadConfig` for a stack that is not there.
    """
    from infra import keptfile, projectfile, stackfile

    path = known(root, stack)
    config = stackfile.config_in(stack, keptfile.parsed(path.name, _text(path, f"stacks/{path.name}"), f"stacks/{path.name}"))
    project = _text(root / projectfile.FILE, projectfile.FILE) if (root / projectfile.FILE).is_file() else ""
    if not projectfile.says_nothing(project):
        config = projectfile.applied(config, keptfile.parsed(projectfile.FILE, project, projectfile.FILE))
    return _from_config(stack, config, sets)


def known(root: Path, stack: str) -> Path:
    """The stack's file. Raises `BadConfig` with the nearest name for a stack that is not there."""
    path = root / "stacks" / f"Pulumi.{stack}.yaml"
    if not path.is_file():
        names = sorted(p.name.removeprefix("Pulumi.").removesuffix(".yaml") for p in path.parent.glob("Pulumi.*.yaml"))
        raise BadConfig(
            f"no stack {stack!r}",
            why=f"there is no stacks/{path.name}",
            way_out=nearest(stack, names, f"write {path.name} into stacks/; docs/operator/start.md says what it holds"),
        )
    return path


def _text(path: Path, what: str) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise BadConfig(f"{what} cannot be read", why=str(error)) from error


def _from_config(stack: str, config: Mapping[str, Any], sets: Sequence[str]) -> Deployment:
    from infra import stackfile

    values = _ours(config)
    if not sets:
        return _agreed(from_values(stack, values), config)
    as_it_is, theirs = deepcopy(values), dict(config)
    for item in sets:
        key, _, value = item.partition("=")
        if ":" in key and not key.startswith(f"{NAMESPACE}:"):
            theirs[key] = value
            continue
        what = f"--set {item.partition('=')[0]}: the value"
        _set(values, item, partial(stackfile.parse, what=what, way_out=EXAMPLE))
    deployment = from_values(stack, values)
    unread = next((key for key in theirs if key not in config and key not in deployment.target.provider), "")
    if unread:
        keys = ", ".join(deployment.target.provider) or "none of a provider's"
        raise BadConfig(f"--set {unread}: nothing here reads it", way_out=f"keys of {NAMESPACE}'s, or {keys}")
    if theirs != config:
        return _agreed(deployment, theirs)
    if key := _differs(deployment, config):  # by the command line alone, which says what a stack file would be like
        _agreed(from_values(stack, as_it_is), config)
        notes = (f"with this the stack file has to say {key}: {deployment.target.provider[key]} as well",)
        return Deployment(deployment.stack, deployment.target, deployment.common, notes)
    return deployment


def from_pulumi(stack: str, config: Mapping[str, str]) -> Deployment:
    """Read Pulumi's own configuration map (`flexserve:target` -> JSON text), as the language host passes it."""
    return _agreed(from_values(stack, {name: _passed(name, text) for name, text in _ours(config).items()}), config)


def _differs(deployment: Deployment, config: Mapping[str, Any]) -> str:
    """The provider's own key that says something else than the target, or nothing at all."""
    return next((key for key, value in deployment.target.provider.items() if config.get(key) != value), "")


def _agreed(deployment: Deployment, config: Mapping[str, Any]) -> Deployment:
    """The same. The provider has its region from the stack's own configuration; another than the target's tears a stack apart."""
    if key := _differs(deployment, config):
        name, value = key.partition(":")[2], deployment.target.provider[key]
        raise BadConfig(
            f"{key} is {config.get(key) or 'missing'}, {NAMESPACE}:target.{name} is {value}",
            way_out=f"write {key}: {value} beside the flexserve keys of the stack file",
        )
    return deployment


def _ours(config: Mapping[str, T]) -> dict[str, T]:
    """The keys of our namespace. A misspelt namespace is refused: its keys would be passed over, and the defaults hold."""
    ours = {}
    for key, value in config.items():
        namespace, _, name = key.partition(":")
        if namespace == NAMESPACE:
            ours[name] = value
        elif _misspelt(namespace):
            raise BadConfig(f"{key}: nothing reads {namespace}", way_out=f"did you mean {NAMESPACE}:{name}?")
    return ours


def _misspelt(namespace: str) -> bool:
    if abs(len(namespace) - len(NAMESPACE)) > 2:
        return False
    from difflib import SequenceMatcher

    return SequenceMatcher(None, namespace.lower(), NAMESPACE).ratio() > 0.8


def _passed(name: str, text: str) -> object:
    """A value from Pulumi's text: groups and lists are JSON, all else is text, `123` too; a group that is null is empty."""
    if name in GROUPS and not text:
        return None
    if text[:1] in ("{", "["):
        with contextlib.suppress(ValueError):
            value: object = json.loads(text)
            return value
    return text


def _set(values: dict[str, Any], item: str, parse: Any) -> None:
    key, sign, text = item.partition("=")
    if not sign or not key:
        raise BadConfig(f"--set {item}: write KEY=VALUE", way_out=EXAMPLE)
    at: Any = values
    *path, last = key.removeprefix(f"{NAMESPACE}:").split(".")
    for part in path:
        at = at.setdefault(part, {})
        if not isinstance(at, dict):
            raise BadConfig(f"--set {item}: {part} is not a group of keys")
    at[last] = parse(text)


def _validate(shape: type[Settings], values: Mapping[str, object], prefix: str) -> Any:
    try:
        return check(shape, values, f"{NAMESPACE}:{prefix}")
    except Wrong as wrong:
        raise BadConfig(str(wrong)) from wrong
