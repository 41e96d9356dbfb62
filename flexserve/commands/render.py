"""`flexserve render`: the boot script, as the machine would run it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from flexserve.commands.plan import load, unresolved
from flexserve.output import Output
from flexserve.project import find
from verdict.errors import FlexserveError
from verdict.exit_codes import ExitCode

if TYPE_CHECKING:
    from infra.deployment import Deployment
    from infra.plan import Plan
    from startup.spec import BootSpec


def run(
    stack: str, sets: Sequence[str], allow: Sequence[str], output: Output, *, stub: bool = False, live: bool = False
) -> ExitCode:
    """Print the script (or the stub) byte for byte; with --json its hash and whether everything in it is pinned."""
    from startup.render import render

    project, state = find(), None
    plan = load(project, stack, sets, allow)
    if live:
        state = project.state(stack)
        if state is None or not state.outputs:
            raise FlexserveError(f"{stack} is not up, so nothing was resolved", way_out="render it without --live")
        plan = as_kept(plan.deployment, state.kept, allow)
    rendered = render(plan.boot)
    shown = render(as_shown(plan, state.kept)) if live and state is not None else rendered
    text = (shown.stub if stub else shown.script).decode()
    if output.as_json:
        pinned = plan.boot.resolved
        document = {"stack": stack, "sha256": rendered.sha256, "resolved": pinned, "bytes": len(text.encode()), "text": text}
        output.result(document, "")
        return ExitCode.DONE
    output.exact(text)
    if not plan.boot.resolved:
        output.say(f"unresolved: {', '.join(unresolved(plan))} (pinned at up); this is what would be rendered around that")
    return ExitCode.DONE


def as_shown(plan: Plan, state: Mapping[str, object]) -> BootSpec:
    """The boot with names that a target leaves as they are in its script, and resolves beside it (`as_resolved`)."""
    from infra.kept import from_state
    from infra.targets import registry

    resolved = getattr(registry.module(plan.deployment.target.kind, "resources"), "as_resolved", None)
    return resolved(plan.boot, from_state(state)) if resolved is not None else plan.boot


def as_kept(deployment: Deployment, state: Mapping[str, object], allow: Sequence[str] = ()) -> Plan:
    """The plan as the program would make it now, from what the state keeps. What would have to be resolved anew is refused."""
    from catalog.loader import Catalog
    from infra.kept import from_state
    from infra.settle import Circumstances, settle

    def resolve(key: str, _: Deployment) -> str:
        raise FlexserveError(
            f"flexserve:{key} of the stack file is another than the live one's", way_out="`flexserve up` resolves it"
        )

    kept = from_state(state)
    at = Circumstances(live=True, consent=False, now=lambda: kept.started, new_id=kept.id, login="", allow=tuple(allow))
    return settle(deployment, Catalog.load(), kept, at, resolve).plan
