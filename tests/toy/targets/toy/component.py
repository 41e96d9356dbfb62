"""Registers a toy machine."""

from __future__ import annotations

from typing import Any

import pulumi
from infra.targets.toy import resources as r


class Stack(pulumi.ComponentResource):
    """A machine that is a component: it needs no provider."""

    def __init__(self, name: str, plan: Any, kept: Any, boot: Any, *, replace: bool = False) -> None:
        self._facts = {"target": "toy", "id": kept.id, **r.machine(plan, boot)}
        super().__init__(r.MACHINE_TYPE, name, props=self._facts)
        self.register_outputs(self._facts)

    def outputs(self) -> dict[str, Any]:
        """What the stack exports."""
        return self._facts
