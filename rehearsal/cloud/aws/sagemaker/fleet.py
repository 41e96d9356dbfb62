"""The instances that one configuration makes, and their way up on the clock.

Recorded seconds pass on the turned clock; where a real container must start, the clock stands still until it did, or died.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from rehearsal.cloud.aws import billing, side
from rehearsal.cloud.aws.call import Json
from rehearsal.cloud.aws.sagemaker import images
from rehearsal.cloud.aws.sagemaker.keeper import Keeper
from rehearsal.cloud.aws.state import State, new_id
from rehearsal.sagemaker.contracts import ContainerSpec

SERVICE = "sagemaker.amazonaws.com"
NO_CAPACITY = (
    "Unable to provision requested ML compute capacity due to InsufficientInstanceCapacity error. Please retry using a different ML"
    " instance type or after some time."
)
CRASHES = 3
"""After so many restarts nothing new is learnt: the clock is held once more, so that a watch can say so."""


@dataclass
class Instance:
    """One machine with one container. `busy` counts the requests that it is answering."""

    id: str
    side: side.RoleSide
    keeper: Keeper | None = None
    busy: int = 0


@dataclass
class Fleet:
    """The instances of one variant of one configuration."""

    endpoint: str
    config: str
    variant: Json
    container: Json
    role: str
    since: float
    instances: list[Instance] = field(default_factory=list)
    idle: threading.Condition = field(default_factory=threading.Condition)
    stopped: bool = False

    @property
    def group(self) -> str:
        """The log group."""
        return f"/aws/sagemaker/Endpoints/{self.endpoint}"

    def keepers(self) -> list[Keeper]:
        """Those whose container was started."""
        return [i.keeper for i in self.instances if i.keeper is not None]

    def stream(self, instance: Instance) -> str:
        """The log stream of an instance."""
        return f"{self.variant['VariantName']}/{instance.id}"


Done = Callable[[str], None]
"""Told when a fleet serves (empty), or why it never will. Called without the lock."""


class Ascent:
    """A fleet on its way up. Each step is an event on the clock."""

    def __init__(self, state: State, fleet: Fleet, count: int, done: Done) -> None:
        self._state, self._fleet, self._count, self._done = state, fleet, count, done
        self._pace = state.pace.hosting

    def begin(self) -> None:
        """Called under the lock."""
        kind, without = self._fleet.variant["InstanceType"], self._state.sagemaker.without
        if {kind, "*"} & without:
            self._at(self._pace.no_capacity, lambda: self._done(NO_CAPACITY))
        else:
            self._at(self._pace.instance, self._instances)

    def _at(self, seconds: float, step: Callable[[], None]) -> None:
        def run() -> None:
            if not self._fleet.stopped:
                step()

        self._state.clock.at(self._fleet.since + seconds, run)

    def _instances(self) -> None:
        with self._state.lock:
            for _ in range(self._count):
                name = new_id("i")
                view = side.RoleSide(self._state, self._state.front, self._fleet.role, SERVICE, name)
                self._fleet.instances.append(Instance(name, view))
            billing.settle(self._state)
        self._at(self._pace.container, self._containers)

    def _containers(self) -> None:
        fleet, variant = self._fleet, self._fleet.variant["VariantName"]
        with self._state.lock:
            why = images.pullable(self._state, fleet.container["Image"], side.assumed(self._state, fleet.role, SERVICE))
            mismatch = images.mismatch(self._state, fleet.container["Image"], fleet.variant)
        if why:
            return self._done(_cannot_pull(fleet, why))
        if mismatch:
            return self._done(
                f"CannotStartContainerError. Please ensure the model container for variant {variant} starts correctly when invoked"
                " with 'docker run <image> serve'."
            )
        started = [self._keeper(instance) for instance in fleet.instances if instance.keeper is None]
        for keeper in started:
            keeper.start()
        self._at(self._pace.container + self._pace.life, lambda: self._first_look(started))

    def _keeper(self, instance: Instance) -> Keeper:
        fleet, make = self._fleet, self._state.sagemaker.host
        if make is None:
            raise RuntimeError("the local cloud was given nothing that runs containers")
        environment = {"SAGEMAKER_CONTAINER_LOG_LEVEL": "20", **fleet.container.get("Environment", {})}
        spec = ContainerSpec(instance.id, fleet.container["Image"], environment, instance.side, fleet.variant["InstanceType"])
        instance.keeper = Keeper(make(spec), lambda lines: _write(self._state, fleet, instance, lines))
        return instance.keeper

    def _first_look(self, keepers: list[Keeper]) -> None:
        """A container that lives so long is on its way; one that died will die again."""
        for keeper in keepers:
            keeper.wait(Keeper.settled, self._pace.patience)
        broken = next((k for k in keepers if k.state in ("cannot-pull", "cannot-start")), None)
        if broken is not None and broken.state == "cannot-pull":
            return self._done(_cannot_pull(self._fleet, broken.why))
        if broken is not None:
            variant = self._fleet.variant["VariantName"]
            return self._done(
                f"CannotStartContainerError. Please ensure the model container for variant {variant} starts correctly when invoked"
                f" with 'docker run <image> serve'. {broken.why}"
            )
        if all(k.healthy for k in keepers):
            return self._at(self._pace.in_service, lambda: self._done(""))
        crashing = next((k for k in keepers if k.restarts), None)
        if crashing is not None:
            self._at(self._pace.container + 2 * self._pace.life, lambda: self._crash(crashing, 2))
        window = float(self._fleet.variant.get("ContainerStartupHealthCheckTimeoutInSeconds", self._pace.window))
        self._at(self._pace.container + window + self._pace.verdict, lambda: self._give_up(keepers))

    def _crash(self, keeper: Keeper, number: int) -> None:
        """The clock waits for each of the first deaths, and after the last for somebody who reads the log."""
        keeper.wait(lambda k: k.restarts >= number or k.healthy or k.state == "stopped", self._pace.patience)
        keeper.pump()
        if number < CRASHES:
            self._at(self._pace.container + (number + 1) * self._pace.life, lambda: self._crash(keeper, number + 1))
        else:
            self._state.readers.wait(self._pace.readers)

    def _give_up(self, keepers: list[Keeper]) -> None:
        if all(k.healthy for k in keepers):
            return self._done("")
        variant = self._fleet.variant["VariantName"]
        self._done(
            f"The primary container for production variant {variant} did not pass the ping health check. Please check CloudWatch"
            " logs for this endpoint."
        )


def _cannot_pull(fleet: Fleet, why: str) -> str:
    variant = fleet.variant["VariantName"]
    return (
        f"Failed to pull the container image of variant {variant}: please make sure all images exist and the execution role can"
        f" access them. {why}"
    )


def _write(state: State, fleet: Fleet, instance: Instance, lines: Sequence[str]) -> None:
    """SageMaker writes the log with the execution role: what that may not is not written."""
    group, stream = fleet.group, fleet.stream(instance)
    arn = state.arn("logs", f"log-group:{group}")
    with state.lock:
        role = side.assumed(state, fleet.role, SERVICE)
        needed = ["logs:CreateLogStream", "logs:PutLogEvents"] + ([] if group in state.logs.groups else ["logs:CreateLogGroup"])
        names = (arn, f"{arn}:*", f"{arn}:log-stream:{stream}")
        if not all(any(state.may(role, action, name) for name in names) for action in needed):
            return
        if group not in state.logs.groups:
            state.internal("logs", "CreateLogGroup", {"logGroupName": group})
        state.logs.write(group, stream, lines, int(state.clock.now() * 1000))


def drain(fleet: Fleet, seconds: float, only: Sequence[Instance] | None = None) -> None:
    """Let running requests end, for so many real seconds at most, then stop every container. Without the lock."""
    going = list(fleet.instances if only is None else only)
    with fleet.idle:
        fleet.idle.wait_for(lambda: not any(i.busy for i in going), seconds)
    if only is None:
        fleet.stopped = True
    for instance in going:
        if instance.keeper is not None:
            instance.keeper.stop()
        instance.side.end()
