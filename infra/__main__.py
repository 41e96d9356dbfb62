"""The Pulumi program: what the stack file asks for, what was kept, and the target's resources."""

import atexit
import gc
import sys
from pathlib import Path

gc.set_threshold(50_000, 20, 20)  # imports make many objects and no garbage
atexit.register(gc.freeze)  # half a second of the end of a run went into looking through them once more
here = Path(__file__).resolve().parent
sys.path[:] = [str(here.parent), *(p for p in sys.path if Path(p).resolve() != here)]  # modules have one name: `infra.plan`

import pulumi  # noqa: E402

from catalog.loader import Catalog  # noqa: E402
from infra import built, program  # noqa: E402
from infra.deployment import from_pulumi  # noqa: E402
from infra.settle import settle  # noqa: E402
from infra.state import STASH  # noqa: E402
from infra.targets import registry  # noqa: E402
from startup.render import render  # noqa: E402

with program.sentences_not_tracebacks():
    deployment = from_pulumi(pulumi.get_stack(), program.configuration())
    state = program.recorded(pulumi.get_stack(), deployment.target.kind)
    at = program.circumstances(program.alive(state, deployment), deployment)
    settled = settle(deployment, Catalog.load(), state.kept, at, program.resolve)
    for word in settled.words:
        pulumi.log.warn(word)
    program.check(settled)
    built.check(settled, live=at.live, preview=pulumi.runtime.is_dry_run(), warn=pulumi.log.warn)
    pulumi.Stash(STASH, input=settled.kept.as_state())
    component = registry.module(deployment.target.kind, "component")
    stack = component.Stack("serve", settled.plan, settled.kept, render(settled.plan.boot), replace=bool(settled.replaces))
    for name, value in stack.outputs().items():
        pulumi.export(name, value)
