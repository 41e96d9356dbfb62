"""Reads the engine's events: what to show, which errors there were, what changed. Its printed text is never parsed."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from flexserve.lifecycle.parts import Changes

if TYPE_CHECKING:
    from pulumi.automation.events import EngineEvent, StepEventMetadata

_COLOUR = re.compile(r"<\{%.*?%\}>|\x1b\[[0-9;]*m")
_DOING = {  # operation -> (while it happens, in a preview)
    "create": ("creating", "would create"),
    "update": ("updating", "would update"),
    "delete": ("deleting", "would delete"),
    "replace": ("replacing", "would replace"),
    "create-replacement": ("creating the new", "would create the new"),
    "delete-replaced": ("deleting the old", "would delete the old"),
}
_LEAVING = ("leaving {} in the cloud", "would leave {} in the cloud")  # what the engine calls a delete, and only forgets
_OWN = "pulumi:"  # the engine's own: the stack, default providers, what the program keeps in the state


class Events:
    """Folds the events of one run. `show` gets lines for people as they happen."""

    def __init__(self, show: Callable[[str], None]) -> None:
        self._show = show
        self._started: dict[str, int] = {}
        self._left: set[str] = set()
        self.changes = Changes()
        self.made: list[str] = []  # by this run, and not taken away again by it
        self.errors: list[str] = []
        self.warnings: list[str] = []

    def __call__(self, event: EngineEvent) -> None:
        """One event. Called in a thread of the Automation API."""
        if event.resource_pre_event:
            self._pre(event.resource_pre_event.metadata, event.timestamp, bool(event.resource_pre_event.planning))
        elif event.res_outputs_event and not event.res_outputs_event.planning:
            self._done(event.res_outputs_event.metadata, event.timestamp)
        elif event.diagnostic_event:
            self._diagnostic(event.diagnostic_event.severity, event.diagnostic_event.message)
        elif event.summary_event:
            counts = {str(getattr(op, "value", op)): n for op, n in event.summary_event.resource_changes.items()}
            self.changes = Changes(without(counts, len(self._left)))

    def _pre(self, step: StepEventMetadata, at: int, planning: bool) -> None:
        operation = str(getattr(step.op, "value", step.op))
        if operation in _DOING and not step.type.startswith(_OWN):
            self._started[step.urn] = at
            stays = operation.startswith("delete") and step.old is not None and bool(step.old.retain_on_delete)
            if stays and operation == "delete":
                self._left.add(step.urn)
            doing = _LEAVING[planning] if stays else f"{_DOING[operation][planning]} {{}}"
            self._show(doing.format(title(step)))

    def _done(self, step: StepEventMetadata, at: int) -> None:
        operation = str(getattr(step.op, "value", step.op))
        if operation.startswith("create") and step.type.count(":") > 1 and not step.type.startswith(_OWN):
            self.made.append(title(step))
        elif operation.startswith("delete") and title(step) in self.made:
            self.made.remove(title(step))
        started = self._started.pop(step.urn, None)
        if started is not None and at - started >= 5:
            self._show(f"  {title(step)} took {at - started} s")

    def _diagnostic(self, severity: str, message: str) -> None:
        """Errors have severity `error`; `info#err` is the program's stderr, mostly a traceback."""
        text = plain(message)
        if severity == "error" and text and text not in self.errors:
            self.errors.append(text)
        elif severity == "warning" and text and text not in self.warnings:
            self.warnings.append(text)
            self._show(f"warning: {text}")


def without(counts: Mapping[str, int], left: int) -> dict[str, int]:
    """What changed, where so many that count as deleted were left in the cloud: they are `left`."""
    gone = counts.get("delete", 0) - left
    return {**counts, "delete": gone, "left": left} if left and gone >= 0 else dict(counts)


def title(step: StepEventMetadata) -> str:
    """`compute/instance serve` of a step's URN and type."""
    kind = step.type.partition(":")[2].rpartition(":")[0] or step.type
    return f"{kind} {step.urn.rpartition('::')[2]}"


def plain(message: str) -> str:
    """A message without the engine's colour marks."""
    return _COLOUR.sub("", message).strip()
