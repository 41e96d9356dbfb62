"""`flexserve build`: what a stack serves from, made once and kept."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from flexserve.commands.plan import load, once
from flexserve.lifecycle import show
from flexserve.lifecycle.build import builder_note, builds_of
from flexserve.lifecycle.builder import Made, Surroundings, Wanted, build
from flexserve.output import Output, dollars, table
from flexserve.project import Project, find
from infra.built import BY_HAND, NoBuild, waits
from infra.duration import words
from verdict.errors import BadConfig, FlexserveError, NoAccess
from verdict.exit_codes import ExitCode

if TYPE_CHECKING:
    from flexserve.lifecycle.parts import Parts
    from infra.building import Building
    from infra.plan import Plan
    from infra.targets.protocol import Builds

EASY = "{build} makes it, once ({takes}); or `flexserve up -s {stack} --build`"


def run(stack: str, output: Output, *, yes: bool, allow: Sequence[str]) -> ExitCode:
    """Make the build where there is none, or raise what stopped it."""
    project = find()
    plan = load(project, stack, allow=allow)
    if plan.building is None:
        raise BadConfig(
            f"{stack} has no build that a builder makes",
            why="it serves from an image" if plan.deployment.image else "flexserve:target.build.where says who makes it",
            way_out="" if plan.deployment.image else "set target.build.where: builder",
        )
    if not yes and not sys.stdin.isatty():
        raise BadConfig("build asks before it spends money, and there is no terminal to ask on", way_out="add --yes")
    made = make(project, plan, output, yes=yes)
    output.result(made.as_dict(), text(made))
    return ExitCode.DONE


def make(project: Project, plan: Plan, output: Output, *, yes: bool) -> Made:
    """Plan and price first, then the builder, with each of its phases as it comes."""
    assert plan.building is not None
    stack, builds = plan.deployment.stack, builds_of(project, plan)
    assert builds is not None

    def consent() -> None:
        assert plan.building is not None
        output.say(page(plan, plan.building, _now(plan.building, builds)))
        if not yes:
            _ask(f"Make it for {once(plan.building)}? [Y/n] ")

    return build(
        Surroundings(builds, builder_note(project, stack)),
        Wanted(stack, None if plan.building.cost.unknown else plan.building.cost.per_hour),
        consent=consent,
        report=show.Progress(output),
        say=output.say,
    )


def before_up(project: Project, plan: Plan, surroundings: Parts, output: Output, *, yes: bool, wanted: bool) -> None:
    """Without a build nothing is created that waits for one: say so, or make it where that is `wanted` or agreed to.

    A machine that is there already has it, or its boot says what is missing. A bucket that may not be looked into is left to it.
    """
    builds = builds_of(project, plan) if waits(plan) else None
    if builds is None:
        return
    ref = surroundings.read()
    if ref is not None and surroundings.live(ref).find(ref) is not None:
        return
    try:
        if builds.kept() is not None:
            return
    except NoAccess as error:
        output.say(f"whether the build is there cannot be seen: {error.what}")
        return
    stack = plan.deployment.stack
    if plan.building is not None and (wanted or (not yes and _agreed(plan.building))):
        output.say(text(make(project, plan, output, yes=True)))
        return
    takes = once(plan.building) if plan.building else ""
    way_out = EASY.format(build=f"flexserve build -s {stack}", takes=takes, stack=stack) if plan.building else BY_HAND
    raise NoBuild(builds.key, way_out)


def page(plan: Plan, building: Building, now: float | None) -> str:
    """What would be made, where, and what it costs."""
    target, cost = plan.deployment.target, building.cost
    build = plan.as_dict()["build"]
    assert isinstance(build, dict)
    rows = [
        ("build", str(build["key"])),
        ("builder", f"{building.machine_type}, {building.provisioning.replace('_', '-')}, in {', '.join(zones(target.places))}"),
        ("takes", "nobody has measured it" if building.minutes is None else f"about {building.minutes:.0f} minutes, scaled from a "
         "measured run"),
        ("costs", once(building)),
        *([("", f"EC2 says {dollars(now, '/h')} for the machine now")] if now is not None else []),
        *([("", f"unknown: {', '.join(cost.unknown)}")] if cost.unknown else []),
    ]  # fmt: skip
    return f"{plan.deployment.stack}\n" + table([(f"  {name}", words_) for name, words_ in rows])


def zones(places: Sequence[str]) -> list[str]:
    """The zones of places, each once."""
    return list(dict.fromkeys(place.partition("/")[0] for place in places))


def text(made: Made) -> str:
    """How it ended, and the next command."""
    size = f"{made.kept.size / 1e9:.1f} GB" if made.kept.size >= 1e8 else f"{made.kept.size / 1e6:.1f} MB"
    if not made.made:
        return f"{made.stack}: the build is kept already, {size} in {made.kept.place}"
    took = words(made.seconds) if made.seconds is not None else "unknown time"
    cost = "at a price that is unknown" if made.cost is None else dollars(made.cost)
    head = f"{made.stack}: the build is made and kept, {size} in {made.kept.place} ({took}, {cost})"
    return f"{head}\n  next      flexserve up -s {made.stack}"


def _now(building: Building, builds: Builds) -> float | None:
    if building.provisioning != "spot" or not building.cost.unknown:
        return None
    try:
        return builds.price_now()
    except FlexserveError:  # a price is worth no failure
        return None


def _agreed(building: Building) -> bool:
    """On a terminal the operator is asked; elsewhere nobody agrees."""
    if not sys.stdin.isatty():
        return False
    print(f"There is no build yet. Make it first, {once(building)}? [Y/n] ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in ("", "y", "yes")


def _ask(question: str) -> None:
    print(question, end="", file=sys.stderr, flush=True)
    answer = sys.stdin.readline()
    if not answer or answer.strip().lower() not in ("", "y", "yes"):
        raise FlexserveError("not confirmed; nothing was created")
