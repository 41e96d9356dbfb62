"""What a change of a live endpoint must not lose: the machines that it has by now, and its scaling.

SageMaker moves an endpoint to the number of machines in its new configuration, not to the number that scaling had come to
(`RetainAllVariantProperties` of UpdateEndpoint, which the provider does not set: terraform-provider-aws issue 48990). And it
refuses another machine type for a variant that is registered with Application Auto Scaling (SageMaker, "Update endpoints that use
auto scaling").
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

from infra.clouds.aws.session import NotThere
from infra.targets.sagemaker import reports, sweep
from verdict.errors import FlexserveError

if TYPE_CHECKING:
    from infra.clouds.aws.session import Session
    from infra.targets.sagemaker.names import Names


@dataclass(frozen=True)
class Serving:
    """A live endpoint: the name and the variant of its configuration, how many machines SageMaker wants, whether that scales.

    `at`: when that was seen, by the cloud's clock.
    """

    config: str
    variant: Mapping[str, Any] = field(default_factory=dict)
    machines: int = 0
    scales: bool = False
    at: datetime | None = None

    def moves_scaled(self, machine_type: str) -> bool:
        """Whether it scales, and would have machines of another type: what SageMaker refuses."""
        return self.scales and self.variant.get("InstanceType") != machine_type


def serving(session: Session, names: Names) -> Serving | None:
    """The endpoint as it is; None without one. What cannot be asked about scaling counts as none: whoever may not, set up none."""
    found = reports.describe(session, names)
    if found is None:
        return None
    config = str(found["EndpointConfigName"])
    try:
        variants = session.call("sagemaker", "describe_endpoint_config", EndpointConfigName=config)["ProductionVariants"]
    except NotThere:
        variants = []
    shown: Mapping[str, Any] = next(iter(found.get("ProductionVariants") or ()), {})
    machines = int(shown.get("DesiredInstanceCount") or shown.get("CurrentInstanceCount") or 0)
    try:
        scales = bool(sweep.scalable(session, names))
    except FlexserveError:
        scales = False
    return Serving(config, next(iter(variants), {}), machines, scales, session.date)


def make_ready(session: Session, names: Names, machine_type: str) -> None:
    """Return when SageMaker takes an update to this machine type: scaling is off where it must be, and nothing moves any more.

    Raises `TimedOut` for an endpoint that moves for longer than any does.
    """
    now = serving(session, names)
    if now is None:
        return
    if now.moves_scaled(machine_type):
        for target in sweep.scalable(session, names):
            sweep.unscale(session, target)
    sweep.settle(session, names.base)
