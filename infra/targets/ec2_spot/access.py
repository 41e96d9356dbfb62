"""How localhost reaches the machine, as data."""

from __future__ import annotations

from collections.abc import Mapping

from infra.access import SESSION_MANAGER_PLUGIN, Ssm, from_output
from verdict.errors import BadConfig

PROGRAMS = (SESSION_MANAGER_PLUGIN,)
"""What the way in needs on the operator's PATH."""


def access(outputs: Mapping[str, object]) -> Ssm:
    """A port-forwarding session of Session Manager to the machine of these outputs. Raises `BadConfig` for outputs without it."""
    value = outputs.get("access")
    if not isinstance(value, Mapping):
        raise BadConfig("the stack has no access output", way_out="`flexserve up` first")
    found = from_output(value)
    if not isinstance(found, Ssm):
        raise BadConfig(f"an ec2_spot stack is reached by ssm, not {found.kind}")
    return found
