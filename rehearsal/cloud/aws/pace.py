"""How long things take on the cloud's clock."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Hosting:
    """Seconds of an endpoint's way up, from CreateEndpoint or UpdateEndpoint; what is real is said.

    Recorded: 379 until the container's start failed by its driver, 793 until InService, about 1800 until no capacity, and with a
    window of 1800 in all 2190 until a crashing container was given up.
    """

    instance: float = 120.0
    """Until the instances are there, and bill."""
    container: float = 379.0
    """Until `docker run`, and the log stream."""
    life: float = 60.0
    """From one start of a container that crashes to the next."""
    in_service: float = 793.0
    no_capacity: float = 1800.0
    window: float = 1800.0
    """The health check's, where the configuration does not say."""
    verdict: float = 11.0
    """From its end to Failed."""
    roll_back: float = 60.0
    """From an update that failed until InService again. At 0 nobody sees RollingBack, nor a reason afterwards."""
    deleting: float = 30.0
    empty: float = 2.0
    """The same without instances."""
    again: float = 300.0
    """Between two attempts to free instances without the role."""
    patience: float = 120.0
    """Real seconds in which a container must come up or die."""
    drain: float = 30.0
    """Real seconds that running requests are given before their container goes."""
    readers: float = 0.0
    """Real seconds that the clock stands still after the third crash, for somebody who reads the log."""
    turn: float = 0.0
    """Seconds that one DescribeEndpoint of an operator turns the clock by, while nobody else turns it."""


@dataclass(frozen=True)
class Pace:
    """Seconds. A client that turns the clock while it waits does not notice."""

    pending: float = 3.0
    """From RunInstances to running."""
    stopping: float = 3.0
    """From TerminateInstances to terminated, and from StopInstances to stopped."""
    iam: float = 4.0
    """From a change of a role, policy or profile until the other services act by it."""
    forgotten: float = 3600.0
    """How long a terminated instance is still described."""
    config: float = 0.0
    """From CreateEndpointConfig until CreateEndpoint sees it."""
    provisioning: float = 20.0
    """From StartBuild until a build reads its source: assumed."""
    build: float = 780.0
    """A whole run of CodeBuild: 191 s to build and 565 s to push were recorded, 24 s for the rest are assumed."""
    hosting: Hosting = field(default_factory=Hosting)


AT_ONCE = Pace(pending=0.0, stopping=0.0, iam=0.0)
"""Nothing waits (but what an event on the clock does is still an event: it runs at the next turn)."""
