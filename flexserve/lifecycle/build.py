"""Puts the parts of one stack together: the real engine, the live target, the tunnel."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from flexserve.checks.nonce import Answer
from flexserve.checks.nonce import ask as ask_server
from flexserve.lifecycle.note import Note
from flexserve.lifecycle.parts import Engine, Leftover, Parts
from flexserve.project import Project, check_backend
from infra.access import from_output
from infra.state import State
from infra.targets import registry
from infra.targets.protocol import DeploymentRef, LiveTarget
from verdict.errors import FlexserveError, NoAccess

if TYPE_CHECKING:
    from flexserve.lifecycle.making import Making
    from flexserve.tunnel.options import Tunnel
    from infra.plan import Plan
    from infra.targets.protocol import Builds


def parts(project: Project, stack: str, say: Callable[[str], None], variables: Mapping[str, str] | None = None) -> Parts:
    """Everything that the lifecycle of one stack needs. Nothing is asked yet; the engine is imported when it is used."""
    file = project.root / "stacks" / f"Pulumi.{stack}.yaml"

    def engine() -> Engine:
        from flexserve.lifecycle.engine import PulumiEngine
        from flexserve.lifecycle.watched import WatchedEngine

        return WatchedEngine(stack, PulumiEngine(project, stack, say, variables), read, live, say)

    def read() -> DeploymentRef | None:
        return reference(project, stack)

    def live(ref: DeploymentRef | None) -> LiveTarget:
        settings = dict(ref.outputs) if ref is not None else {}
        if file.is_file():
            from infra.deployment import from_stack_file

            target = from_stack_file(project.root, stack).target
            settings = {**target.model_dump(), **settings, "kind": settings.get("target", target.kind)}
        return registry.live(str(settings.get("kind") or settings.get("target")), settings)

    def recalls(ref: DeploymentRef | None) -> LiveTarget | None:
        return live(ref) if ref is not None or file.is_file() else None

    def owner(ref: DeploymentRef | None) -> str:
        from infra.program import login

        named = str(ref.outputs.get("owner") or "") if ref is not None else ""
        if not named and file.is_file():
            from infra.deployment import from_stack_file

            named = from_stack_file(project.root, stack).common.owner
        return named or login()

    def ask(ref: DeploymentRef) -> Answer:
        with tunnel(ref) as opened:
            return ask_server(opened.base_url)

    def builder() -> Leftover | None:
        from infra.program import login

        ref, settings, owner = read(), {}, ""
        if file.is_file():
            from infra.deployment import from_stack_file

            deployment = from_stack_file(project.root, stack)
            settings, owner = deployment.target.model_dump(), deployment.common.owner
        kind = settings.get("kind") or (ref.outputs.get("target") if ref is not None else "")
        module = registry.builder(str(kind)) if kind else None
        if module is None:
            return None
        note = builder_note(project, stack)
        found = module.left_of(stack, {**settings, **(ref.outputs if ref else {})}, owner or login(), note.read())
        return Leftover(*found, note) if found else None

    def making() -> Making | None:
        if not file.is_file():
            return None
        from infra.deployment import from_stack_file

        deployment = from_stack_file(project.root, stack)
        if registry.builder(deployment.target.kind) is None:
            return None
        from catalog.loader import Catalog
        from flexserve.lifecycle.making import look
        from infra.plan import make_plan

        plan = make_plan(deployment, Catalog.load())
        builds = builds_of(project, plan)
        return look(builds, builder, plan.building) if builds is not None else None

    recognise(project, stack)
    return Parts(
        stack,
        known=lambda: project.state(stack) is not None,
        read=read,
        live=live,
        engine=engine,
        ask=ask,
        unfinished=Note(project.root / ".flexserve" / "unfinished" / f"{stack}.json", stack),
        builder=builder,
        making=making,
        bare=lambda: project.bare(stack),
        recalls=recalls,
        owner=owner,
    )


def recognise(project: Project, stack: str) -> None:
    """Raises `BadConfig`, with the nearest name, for a stack that nobody knows: a typing mistake.

    One that is still up may have lost its file. Pulumi is asked about it only where it has a backend that can know it.
    """
    from infra.deployment import known

    if (project.root / "stacks" / f"Pulumi.{stack}.yaml").is_file():
        return
    try:
        check_backend()
        there = bool(project.stacks and project.outputs(stack))
    except NoAccess:
        there = False
    if not there:
        known(project.root, stack)


def builder_note(project: Project, stack: str) -> Note:
    """Which builder of a stack is under way, or left something."""
    return Note(project.root / ".flexserve" / "builder" / f"{stack}.json", stack)


def builds_of(project: Project, plan: Plan) -> Builds | None:
    """What makes the target's server; None where it is no build."""
    module = registry.builder(plan.deployment.target.kind)
    if module is None:
        return None
    from infra.program import login

    stack = plan.deployment.stack
    ref = reference(project, stack)
    builds: Builds = module.connect(plan, ref.outputs if ref else {}, plan.deployment.common.owner or login())
    return builds


def reference(project: Project, stack: str) -> DeploymentRef | None:
    """What the state knows of the stack's deployment; None when there is no stack, or nothing with an id in it."""
    return reference_in(stack, project.state(stack))


def reference_in(stack: str, state: State | None) -> DeploymentRef | None:
    """The same from one look at it.

    After a failed create there are none, only what the program keeps from the start; it is read from there.
    """
    if state is None:
        return None
    outputs = dict(state.outputs) if state.outputs.get("id") else {**state.kept, **state.outputs}
    identity = outputs.get("id")
    return DeploymentRef(stack, str(identity), outputs) if identity else None


@contextmanager
def tunnel(ref: DeploymentRef) -> Iterator[Tunnel]:
    """A tunnel to the deployment on a free port, for the length of the block."""
    from flexserve.tunnel.dial import tunnel as dial

    access = ref.outputs.get("access")
    if not isinstance(access, Mapping):
        raise FlexserveError(f"{ref.stack} has no access among its outputs", way_out=f"flexserve up -s {ref.stack}")
    with dial(from_output(access)) as opened:
        yield opened
