"""How localhost reaches the endpoint, as data."""

from __future__ import annotations

from collections.abc import Mapping

from infra.access import SageMaker, from_output
from verdict.errors import BadConfig

PROGRAMS = ()
"""What the way in needs on the operator's PATH: nothing; requests are signed and sent by flexserve itself."""


def access(outputs: Mapping[str, object]) -> SageMaker:
    """The signed way to the endpoint of these outputs. Raises `BadConfig` for outputs without it."""
    value = outputs.get("access")
    if not isinstance(value, Mapping):
        raise BadConfig("the stack has no access output", way_out="`flexserve up` first")
    found = from_output(value)
    if not isinstance(found, SageMaker):
        raise BadConfig(f"a sagemaker stack is reached by sagemaker, not {found.kind}")
    return found
