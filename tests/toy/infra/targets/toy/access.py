"""How localhost reaches a toy: by a relay, as data."""

from __future__ import annotations

from collections.abc import Mapping

from infra.access import Iap


def relay(room: str, identity: str) -> Iap:
    """A toy borrows Compute Engine's relay."""
    return Iap(project="toyland", zone=room, instance=f"toy-{identity}")


def access(outputs: Mapping[str, object]) -> Iap:
    """The same, from a stack's outputs."""
    return relay(str(outputs["zone"]), str(outputs["id"]))
