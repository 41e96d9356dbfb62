"""All steps, in the order in which they are shown. Adding one is one row in its module."""

from __future__ import annotations

from tools.setup.step import ACCOUNT, REHEARSAL, Step
from tools.setup.steps import apt, machine, pulumi, venv

STEPS: tuple[Step, ...] = (*venv.STEPS, *pulumi.STEPS, *apt.STEPS, *machine.STEPS)


def names(group: str) -> list[str]:
    """The steps of a group; the rehearsal needs all of them."""
    return [step.name for step in STEPS if group == REHEARSAL or step.group == ACCOUNT]
