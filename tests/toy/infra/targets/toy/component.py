"""Registers a toy machine."""

from __future__ import annotations

from typing import Any

import pulumi
from infra.targets.toy import resources as r


class Machine(pulumi.CustomResource):
    """The toy provider's one resource."""

    born: pulumi.Output[float]

    def __init__(self, name: str, properties: dict[str, object], opts: pulumi.ResourceOptions) -> None:
        super().__init__(r.MACHINE_TYPE, name, {"born": None, **properties}, opts)


class Stack(pulumi.ComponentResource):
    """One machine."""

    def __init__(self, name: str, plan: Any, kept: Any, boot: Any, *, replace: bool = False) -> None:
        super().__init__("flexserve:toy:Stack", name)
        self._facts = r.outputs(plan, kept, boot)
        self.machine = Machine("machine", r.machine(plan, boot), pulumi.ResourceOptions(parent=self))
        self.register_outputs({})

    def outputs(self) -> dict[str, Any]:
        """What the stack exports."""
        return {**self._facts, "expires_at": self.machine.born.apply(r.expires_at)}
