"""`flexserve up`: plan, consent, the engine, and waiting until it serves."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from flexserve.commands.build import before_up
from flexserve.commands.plan import in_all, load, page
from flexserve.commands.plan import where as all_places
from flexserve.lifecycle import show
from flexserve.lifecycle.build import parts
from flexserve.lifecycle.cleared import cleared
from flexserve.lifecycle.failover import told
from flexserve.lifecycle.parts import Changes, Parts
from flexserve.lifecycle.up import Served, Wanted, up
from flexserve.output import Output, dollars
from flexserve.programs import require
from flexserve.project import Project, find
from infra.duration import parse_seconds, words
from infra.kept import PLACE, from_state
from infra.settle import image_facts
from infra.targets.registry import programs
from verdict.errors import BadConfig, FlexserveError
from verdict.exit_codes import ExitCode

if TYPE_CHECKING:
    from infra.deployment import Deployment
    from infra.image_facts import ImageFacts
    from infra.kept import Kept
    from infra.places import Place
    from infra.plan import Plan


def run(
    stack: str,
    output: Output,
    *,
    yes: bool,
    allow: Sequence[str],
    wait: bool,
    timeout: str,
    replace: bool,
    wait_out: bool = False,
    build: bool = False,
) -> ExitCode:
    """Bring the stack up, or raise what stopped it."""
    seconds = limit(timeout)
    project = find()
    plan = load(project, stack, allow=allow, read=lambda deployment: image_facts(deployment, kept(project, stack), read))
    asked = where(plan, allow)
    if wait:  # it ends with an answer through the tunnel
        require(programs(plan.deployment.target.kind))
    if not yes and not sys.stdin.isatty():
        raise BadConfig("up asks before it spends money, and there is no terminal to ask on", way_out="add --yes")
    variables = {
        "FLEXSERVE_REPLACE": "1" if replace else "0",  # here the word is `--replace`: one that is exported is for plain pulumi
        **({"FLEXSERVE_ALLOW": ",".join(allow)} if allow else {}),
    }

    def consent(changes: Changes | None) -> None:
        if not yes:
            ask(plan, asked, changes, replace=replace)

    surroundings = parts(project, stack, output.say, variables)
    if stays := "" if replace else window_kept(project, surroundings, plan):
        output.say(f"the window stays {stays} while the machine lives; {words(plan.deployment.common.window)} is for the next one")
        facts = plan.facts
        plan = load(project, stack, [f"window={stays}"], allow, (lambda _: facts) if facts is not None else None)
        asked = where(plan, allow)
    output.say(page(plan, Output(out=output.err), asked))
    before_up(project, plan, surroundings, output, yes=yes, wanted=build)
    progress = show.Progress(output)
    make = partial(
        up,
        surroundings,
        Wanted(plan.deployment.target.ways, seconds, wait, asked),
        consent=consent,
        report=progress,
        say=output.say,
    )
    served = cleared(surroundings, make, output.say) if wait_out else make()
    output.result(document(served), text(served, output))
    return ExitCode.DONE


def kept(project: Project, stack: str) -> Kept | None:
    """What the state keeps of the stack, from its first create on."""
    state = project.state(stack)
    return from_state(state.kept) if state is not None and state.kept else None


def window_kept(project: Project, surroundings: Parts, plan: Plan) -> str:
    """The window that a live machine keeps, whatever the stack file says now; empty where the stack file's holds."""
    known = kept(project, surroundings.stack)
    choice = known.choices.get("window") if known is not None else None
    if choice is None or parse_seconds(choice.value) == plan.deployment.common.window:
        return ""
    ref = surroundings.read()
    machine = surroundings.live(ref).find(ref) if ref is not None else None
    return choice.value if machine is not None and not machine.dead else ""


def read(deployment: Deployment) -> ImageFacts:
    """What the stack's image says of itself: asked by the target, where its registry wants a login, else without one."""
    from catalog.loader import Catalog
    from infra.clouds import image_config
    from infra.targets import registry

    asks = getattr(registry.module(deployment.target.kind, "live"), "read_image", None)
    if asks is not None:
        facts: ImageFacts = asks(deployment)
        return facts
    image, machine = deployment.image, Catalog.load().machine_types.get(deployment.target.machine_type)
    assert image is not None
    reference = image.digest or image.tag or "latest"
    return image_config.read(image.repository, reference, machine.processor if machine else "amd64")


def limit(text: str) -> int:
    """Seconds of a `--timeout`. Raises `BadConfig`."""
    try:
        return parse_seconds(text)
    except ValueError as error:
        raise BadConfig(f"--timeout {text}: {error}", way_out="for example --timeout 45m") from error


def where(plan: Plan, allow: Sequence[str]) -> tuple[Place, ...]:
    """The places to ask, with their prices: the stack file's, or the one that the operator names. Raises `Refused`, `BadConfig`."""
    found, named = all_places(plan, allow), os.environ.get(PLACE, "")
    if named and named not in plan.deployment.target.places:
        raise BadConfig(f"{PLACE}: {named} is not among the places of the stack file", way_out=f"one of {_names(found)}")
    return tuple(place for place in found if named in ("", place.name))


def ask(plan: Plan, places: Sequence[Place], changes: Changes | None, *, replace: bool = False) -> None:
    """Y/n on the terminal; Enter is yes, but for a live machine that may be given up (`replace`). Raises when the answer is no.

    It names the highest price that may come of it.
    """
    cost = plan.cost
    price = "a price that is not known" if cost.per_hour is None else in_all(cost)
    price += f", without {', '.join(cost.unknown)}" if cost.unknown and cost.per_hour is not None else ""
    price += "".join(f"; {part.name}, where it is not there yet, {dollars(part.once)}" for part in plan.firsts)
    dearest = max(places, key=lambda place: place.per_hour or 0.0, default=None)
    if dearest is not None and (dearest.per_hour or 0.0) > (cost.per_hour or 0.0):
        price += f"; where it comes to {dearest.name}, {dollars(dearest.per_hour, '/h')}, {dollars(dearest.window)} in all"
    question, agreed = f"Create this for {price}? [Y/n] ", ("", "y", "yes")
    if changes is not None:
        question = f"Apply this to the live machine?{beside(plan)} [Y/n] "
    if changes is not None and replace:
        question = f"Apply this, and give up the live machine and its accelerator where it must be? A new one: {price}. [y/N] "
        agreed = ("y", "yes")
    print(question, end="", file=sys.stderr, flush=True)
    answer = sys.stdin.readline()
    if not answer or answer.strip().lower() not in agreed:
        raise FlexserveError("not confirmed; nothing was changed")


def beside(plan: Plan) -> str:
    """What it costs more while new machines come up beside the old ones; empty for a target that changes the one that is there."""
    from catalog.loader import Catalog

    target = plan.deployment.target
    rows = Catalog.load().boot(target.kind, ("boot",))
    if target.overlap_s is None or not rows:
        return ""
    hours = (sum(row.seconds for row in rows) + target.overlap_s) / 3600
    costs = [cost.per_hour for cost in (plan.cost, plan.most) if cost is not None]
    known = [dollars(round(usd * hours, 2)) for usd in costs if usd is not None]
    more = f"about {' to '.join(known)} more" if known and len(known) == len(costs) else "at a price that is not known"
    return f" Where it takes new machines, both they and the old ones bill for some {hours * 60:.0f} minutes: {more}."


def document(served: Served) -> dict[str, object]:
    """The status document, with what the engine did and the answer that proves it."""
    answer = served.answer
    return {
        **served.status.as_dict(boot=True),
        "changes": dict(served.changes.counts),
        "answer": {"nonce": answer.nonce, "text": answer.text, "model": answer.model, "seconds": round(answer.seconds, 3)}
        if answer
        else None,
        "tries": [t.as_dict() for t in served.tries],
    }


def text(served: Served, output: Output) -> str:
    """How it ended, and the next command."""
    stack = served.status.stack
    if served.answer is None:
        head = f"{stack}: {served.changes.words}; not waited for: flexserve status -s {stack} --wait"
    elif served.already:
        head = f"{stack} serves already and nothing changed: it answered {served.answer.nonce}"
    else:
        head = f"{stack} serves: it answered {served.answer.nonce} in {served.answer.seconds:.1f} s ({served.changes.words})"
    if served.tries:
        head += f"\nasked before, in vain:\n{told(served.tries)}"
    return f"{head}\n{show.page(served.status, output)}\n  next      flexserve tunnel -s {stack}"


def _names(places: Sequence[Place]) -> str:
    return ", ".join(place.name for place in places)
