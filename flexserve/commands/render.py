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


def run(
    stack: str, sets: Sequence[str], allow: Sequence[str], output: Output, *, stub: bool = False, live: bool = False
) -> ExitCode:
    """Print the script (or the stub) byte for byte; with --json its hash and whether everything in it is pinned."""
    from startup.render import render

    project = find()
    plan = load(project, stack, sets, allow)
    if live:
        state = project.state(stack)
        if state is None or not state.outputs:
            raise FlexserveError(f"{stack} is not up, so nothing was resolved", way_out="render it without --live")
        plan = as_kept(plan.deployment, state.kept, allow)
    rendered = render(plan.boot)
    text = (rendered.stub if stub else rendered.script).decode()
    if output.as_json:
        pinned = plan.boot.resolved
        document = {"stack": stack, "sha256": rendered.sha256, "resolved": pinned, "bytes": len(text.encode()), "text": text}
        output.result(document, "")
        return ExitCode.DONE
    output.exact(text)
    if not plan.boot.resolved:
        output.say(f"unresolved: {', '.join(unresolved(plan))} (pinned at up); this is what would be rendered around that")
    return ExitCode.DONE


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
