"""How localhost reaches the VM, as data."""

from __future__ import annotations

from collections.abc import Mapping

from infra.access import Iap, from_output
from verdict.errors import BadConfig

PROGRAMS = ()
"""What the way in needs on the operator's PATH: nothing, the relay's client is our own."""


def access(outputs: Mapping[str, object]) -> Iap:
    """Identity-Aware Proxy's TCP relay to the VM of these stack outputs. Raises `BadConfig` for outputs without it."""
    value = outputs.get("access")
    if not isinstance(value, Mapping):
        raise BadConfig("the stack has no access output", way_out="`flexserve up` first")
    found = from_output(value)
    if not isinstance(found, Iap):
        raise BadConfig(f"a gce_flex stack is reached by iap, not {found.kind}")
    return found
