"""The edge of the Pulumi program: the engine's state, the clock, the environment, and how an error is shown."""

from __future__ import annotations

import getpass
import os
import secrets
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

from msgspec import Struct

from infra.clouds.clock import CLOUD, CloudClock, differs
from infra.deployment import Deployment
from infra.halfread import half_written, settled
from infra.kept import ALLOW, PLACE, Kept, consents, from_state, reruns
from infra.settle import Circumstances, Settled
from infra.state import STASH, STASH_TYPE
from infra.targets import registry
from verdict.errors import FlexserveError

environ: Mapping[str, str] = os.environ
ID_BYTES = 5
EXPLAINED = 32  # the language host's own code for "the program has said why": it adds no error of its own
READ_STATE = "pulumi:pulumi:readStackResourceOutputs"


class Recorded(Struct, frozen=True):
    """What the state holds before this run. `live`: it records a machine, which may be gone by now (see `alive`)."""

    kept: Kept | None
    live: bool


def configuration() -> Mapping[str, str]:
    """Every configuration value of the stack, as the language host passed it."""
    from pulumi.runtime.config import CONFIG

    return CONFIG.get()


def recorded(stack: str, kind: str) -> Recorded:
    """Ask the engine for the resources in this stack's own state; the engine answers from the last snapshot, in some 20 ms.

    `kind`: the target of the stack file. Read before anything is registered, so that a refusal leaves no trace. Raises
    `FlexserveError` when the engine cannot.
    """
    from pulumi.runtime import invoke

    def ask() -> Any:
        try:
            return invoke(READ_STATE, {"stackName": stack})
        except Exception as error:
            return error

    answer = settled(ask, lambda given: isinstance(given, Exception) and half_written(str(given)))
    if isinstance(answer, Exception):
        raise FlexserveError(
            "the Pulumi engine does not tell the program what its state holds",
            why=str(answer),
            way_out="use the Pulumi version that `make setup` installs",
        ) from answer
    return read(answer.value["outputs"], kind)


def read(resources: Mapping[str, Any], kind: str) -> Recorded:
    """The kept state and whether a machine is recorded, from the engine's answer: URN -> type and outputs.

    It may be a machine of another target than the stack file's `kind`; those are only loaded when it is none of this one.
    """
    kept = None
    for urn, resource in resources.items():
        if resource["type"] == STASH_TYPE and urn.endswith(f"::{STASH}"):
            kept = from_state(resource["outputs"]["input"])
    types = {resource["type"] for resource in resources.values()}
    kinds = (kind, *(other for other in registry.kinds() if other != kind)) if types else ()
    return Recorded(kept, any(registry.module(one, "resources").MACHINE_TYPE in types for one in kinds))


def alive(state: Recorded, deployment: Deployment) -> bool:
    """Whether a recorded machine is still there: the cloud is asked, by the id. One that cannot be asked about counts as alive.

    Raises `FlexserveError` for one that is recorded and dead: the engine would change it, or take it for alive.
    The refresh that comes before the program does not show in the state that the program reads: the engine writes it later.
    """
    if not state.live or state.kept is None:
        return state.live
    from infra.targets.protocol import DeploymentRef

    chosen = {key.removeprefix("target."): choice.value for key, choice in state.kept.choices.items() if key.startswith("target.")}
    settings = {**deployment.target.model_dump(), **chosen}
    try:
        machine = registry.live(deployment.target.kind, settings).find(DeploymentRef(deployment.stack, state.kept.id))
    except FlexserveError:
        return True
    if machine is not None and machine.dead:
        raise FlexserveError(
            f"{machine.name} has failed and cannot be changed",
            why=machine.dead,
            way_out=f"flexserve up -s {deployment.stack} deletes it and makes it anew",
        )
    return machine is not None


def window_begins(ask: Callable[[], object], warn: Callable[[str], None], cloud: CloudClock = CLOUD) -> int:
    """Epoch seconds from which the window counts: the cloud's, by the `Date` of its last answer; `ask` makes one more call.

    Both clocks that end the machine count from it, and neither is this machine's. Where no answer came, its own clock has to do.
    """
    if cloud.now() is None:
        with suppress(FlexserveError):  # a refusal has a Date as well
            ask()
    now = cloud.now()
    if now is None:
        warn("the cloud did not tell its time: the window counts from this machine's clock")
        return int(cloud.wall())
    if off := differs(cloud.ahead()):
        warn(f"{off}: the window counts from the cloud's")
    return int(now)


def now(deployment: Deployment) -> int:
    """The same, for the cloud of this stack. In a preview no window begins: this machine's clock will do, and nobody is asked."""
    import pulumi

    if pulumi.runtime.is_dry_run():
        return int(CLOUD.wall())
    target = deployment.target
    return window_begins(lambda: registry.live(target.kind, target.model_dump()).now(), pulumi.log.warn)


def circumstances(live: bool, deployment: Deployment) -> Circumstances:
    """What this run brings: clock, login name, a fresh id (used at the first create only), the operator's consent."""
    return Circumstances(
        live=live,
        consent=consents(environ),
        now=lambda: now(deployment),
        new_id=secrets.token_hex(ID_BYTES),
        login=login(),
        place=environ.get(PLACE, ""),
        rerun=reruns(environ),
        allow=tuple(rule for rule in environ.get(ALLOW, "").split(",") if rule),
    )


def resolve(key: str, deployment: Deployment) -> str:
    """What a name means today: an image tag's digest, a model branch's commit, or what the target itself resolves."""
    live = registry.module(deployment.target.kind, "live")
    if key in getattr(live, "RESOLVES", ()):
        return str(live.resolve(key, deployment))
    if key == "image" and deployment.image is not None:
        from infra.clouds.registry import digest

        return digest(deployment.image.repository, deployment.image.tag or "latest")
    if key == "model":
        from infra.clouds.hub import commit

        return commit(deployment.model.name, deployment.model.revision)
    resolved: str = live.resolve(key, deployment)
    return resolved


def check(settled: Settled) -> None:
    """Look up what the stack file names as the operator's own, where the target can (`yours`). A preview does so as well.

    Raises `BadConfig` before anything is made.
    """
    import pulumi

    yours = registry.yours(settled.plan.deployment.target.kind)
    if yours is not None:
        yours.look(settled, pulumi.log.warn)


@contextmanager
def sentences_not_tracebacks() -> Iterator[None]:
    """An error that the operator can understand becomes the program's error, in its own words.

    The engine ends a program by SIGINT when a resource fails; Python would print a traceback about that.
    """
    import pulumi

    signal.signal(signal.SIGINT, lambda *_: os._exit(1))
    try:
        yield
    except FlexserveError as error:
        pulumi.log.error(str(error))
        sys.exit(EXPLAINED)


def login() -> str:
    """The login name of who runs this; `unknown` for a number without an account."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "unknown"
