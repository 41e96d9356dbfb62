"""How localhost reaches the server, as data: the stack exports it, the tunnel dials it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from msgspec import Struct
from msgspec.structs import asdict

from verdict.errors import BadConfig

SERVER_PORT = 8000
SSH_PORT = 22


class Program(Struct, frozen=True):
    """A program of others on the operator's machine that a way in needs: looked for on PATH."""

    name: str
    about: str
    way_out: str


SESSION_MANAGER_PLUGIN = Program(
    "session-manager-plugin",
    "AWS's plugin carries the tunnel's session",
    "install AWS's Session Manager plugin "
    "(https://docs.aws.amazon.com/systems-manager/latest/userguide/session-manager-working-with-install-plugin.html), "
    "or build it here: python3 -m tools.setup session-manager-plugin",
)


class Iap(Struct, frozen=True):
    """A Compute Engine machine behind Identity-Aware Proxy's TCP relay."""

    kind: ClassVar[str] = "iap"
    project: str
    zone: str
    instance: str
    port: int = SERVER_PORT
    interface: str = "nic0"


class Ssm(Struct, frozen=True):
    """An EC2 machine behind a Session Manager port-forwarding session."""

    kind: ClassVar[str] = "ssm"
    region: str
    instance_id: str
    port: int = SERVER_PORT


class SageMaker(Struct, frozen=True):
    """A SageMaker endpoint; every request is signed with the operator's credentials."""

    kind: ClassVar[str] = "sagemaker"
    region: str
    endpoint: str
    model: str


Access = Iap | Ssm | SageMaker
_KINDS: dict[str, type[Iap] | type[Ssm] | type[SageMaker]] = {c.kind: c for c in (Iap, Ssm, SageMaker)}


def to_output(access: Access) -> dict[str, object]:
    """The mapping that a stack exports as `access`."""
    return {"kind": access.kind, **asdict(access)}


def from_output(value: Mapping[str, object]) -> Access:
    """Read what `to_output` made (Pulumi returns ints as floats). Raises `BadConfig` for another kind or missing keys."""
    kind = str(value.get("kind"))
    if kind not in _KINDS:
        raise BadConfig(f"unknown access kind {kind!r}", way_out=f"one of {', '.join(sorted(_KINDS))}")
    fields = {k: int(v) if isinstance(v, float) else v for k, v in value.items() if k != "kind"}
    try:
        return _KINDS[kind](**fields)  # type: ignore[arg-type]
    except TypeError as error:
        raise BadConfig(f"the stack's access output does not fit {kind}", why=str(error)) from error
