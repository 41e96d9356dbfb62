"""All steps, in the order in which they are shown. Adding one is one row in its module."""

from __future__ import annotations

from tools.setup.step import GROUPS, Step
from tools.setup.steps import apt, machine, plugin, pulumi, venv

STEPS: tuple[Step, ...] = (*venv.STEPS, *pulumi.STEPS, *apt.STEPS, *machine.STEPS, *plugin.STEPS)


def names(group: str) -> list[str]:
    """The steps of a group and of those before it."""
    wanted = GROUPS[: GROUPS.index(group) + 1]
    return [step.name for step in STEPS if step.group in wanted]
