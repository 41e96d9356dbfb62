"""How soon an endpoint that will never serve is told, and by what: `python -m benchmarks.sagemaker_verdicts [--json]`.

The product's own watch, plan and clients against the local AWS, over HTTP, on a clock that stands still unless it is turned: two
seconds between two looks, as `up` looks. SageMaker's times are those that were recorded in public runs
(`rehearsal/cloud/aws/pace.py`); no account was asked, and a container is a thread that ends by that clock. Every run prints the
same. Exit 1 when a figure is not met:

- wrong host image: refused by the plan; let through, the right verdict within 60 s of the first evidence;
- crash loop: a verdict with the log's line once the server was started again three times, and long before the health check ends.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from catalog.loader import Catalog
from flexserve.lifecycle.watched import LOOK_S
from infra.clouds.aws.session import Session
from infra.deployment import from_stack_file
from infra.plan import make_plan
from infra.targets.sagemaker.config import Config
from infra.targets.sagemaker.verdicts import RESTARTS
from rehearsal.cloud.aws import LocalAwsCloud, Pace
from rehearsal.cloud.aws.pace import Hosting
from rehearsal.cloud.clock import TurnedClock
from rehearsal.sagemaker.contracts import ContainerSpec
from tests.cloud_aws.containers import Cluster
from tests.infra.sagemaker_scene import HOST12, REGION, Builder, EndpointScene, Images
from verdict.errors import FlexserveError, Refused

ROOT = Path(__file__).resolve().parents[1]
STACK = "sagemaker-t4"
RULE = "cuda-driver-mismatch"
LIMIT_S = 60.0
HOSTING = Hosting(patience=10.0, drain=2.0)
LAST_WORDS = "ValueError: the checkpoint has no layer 35"
REPORTED_S = 36.5 * 60  # until a public run's crash loop was given up by SageMaker itself


@dataclass(frozen=True)
class Figure:
    """Seconds of the cloud's clock since CreateEndpoint. `evidence`: when it was first there; `alone`: SageMaker's own verdict."""

    what: str
    kind: str
    says: str
    evidence: float
    verdict: float
    alone: float
    met: bool

    @property
    def after(self) -> float:
        """From the evidence to the verdict."""
        return round(self.verdict - self.evidence, 1)


class Dying:
    """A container whose server ends after each `life` seconds, and is started again, as the supervisor in AWS's container does."""

    def __init__(self, clock: TurnedClock, life: float) -> None:
        self._clock, self._began, self._life, self._over = clock, clock.now(), life, False

    def start(self) -> None:
        """Nothing: it began when it was made."""

    def restarts(self) -> int:
        """How often it ended."""
        return int((self._clock.now() - self._began + 1e-3) / self._life)

    def logs(self) -> str:
        """Each life's lines, in the supervisor's and vLLM's own words."""
        lives = [f"INFO vLLM API server version 0.30.0\n{LAST_WORDS}\nWARN exited: app (exit status 1; not expected)\n"]
        return "".join(lives * self.restarts())

    def connect(self, port: int = 8080, timeout: float = 5.0) -> int:  # noqa: ARG002
        """Nobody listens."""
        raise ConnectionRefusedError

    def stop(self) -> None:
        """Nothing is to be stopped."""


class Dyings(Cluster):
    """Makes them."""

    def __init__(self, clock: TurnedClock) -> None:
        super().__init__()
        self._clock = clock

    def __call__(self, spec: ContainerSpec) -> Dying:  # type: ignore[override]  # noqa: ARG002
        """One more."""
        return Dying(self._clock, HOSTING.life)


@contextmanager
def scene(*, dying: bool = False) -> Iterator[EndpointScene]:
    """An account with everything but the endpoint."""
    standing = time.time()
    clock = TurnedClock(real=lambda: standing)
    before = dict(os.environ)
    with LocalAwsCloud(clock=clock, region=REGION, pace=Pace(iam=0.0, hosting=HOSTING)) as cloud:
        os.environ.update(cloud.environment())
        try:
            images = Images()
            cluster = Dyings(clock) if dying else Cluster()
            cloud.serve_containers(cluster, Builder(images), images)
            yield EndpointScene(cloud, Session(REGION, sleep=clock.sleep), cluster, images, Builder(images))
        finally:
            os.environ.clear()
            os.environ.update(before)


def watched(there: EndpointScene, limit: float) -> tuple[FlexserveError | None, float]:
    """Look as `up` does until something is found: what, and the seconds since the create."""
    clock, began = there.cloud.clock, there.cloud.clock.now()
    watch = there.live.watch(there.ref, new=True)
    while clock.now() - began < limit:
        found = watch.look()
        if found is not None:
            return found, round(clock.now() - began, 1)
        clock.advance(LOOK_S)
    return None, limit


def wrong_host_image() -> Figure:
    """An image of CUDA 13 on a host image with a driver for CUDA 12."""
    with scene() as there:
        there.begin(host=HOST12)
        found, at = watched(there, 3600.0)
        told = next(iter(there.cloud.state.sagemaker.endpoints.values()))
        evidence = round(told.modified.timestamp() - told.created.timestamp(), 1)
    kind = found.kind if found is not None else ""
    met = kind == "driver-mismatch" and refused() and at - evidence <= LIMIT_S
    return Figure("wrong host image", kind, found.why if found else "", evidence, at, evidence, met)


def refused() -> bool:
    """Whether the plan refuses it by name, and lets it through on the operator's word."""
    deployment = from_stack_file(ROOT, STACK, (f"target.host_image={HOST12}",))
    try:
        make_plan(deployment, Catalog.load())
    except Refused as error:
        return error.rule == RULE and make_plan(deployment, Catalog.load(), [RULE]).allowed == (RULE,)
    return False


def crash_loop() -> Figure:
    """A server that ends while it loads, again and again. The evidence is its third end."""
    target = from_stack_file(ROOT, STACK, ()).target
    assert isinstance(target, Config)
    alone = HOSTING.container + target.start_timeout + HOSTING.verdict
    with scene(dying=True) as there:
        there.begin()
        found, at = watched(there, alone)
    evidence = HOSTING.container + RESTARTS * HOSTING.life
    kind = found.kind if found is not None else ""
    why = found.why if found is not None else ""
    met = kind == "crash-loop" and LAST_WORDS in why and evidence <= at <= evidence + LIMIT_S and at < alone
    return Figure("crash loop", kind, why, evidence, at, alone, met)


def main() -> int:
    """Run, print, judge."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="one JSON document")
    options = parser.parse_args()
    figures = [wrong_host_image(), crash_loop()]
    if options.json:
        print(json.dumps({"against": "local stand-in", "figures": [{**asdict(f), "after": f.after} for f in figures]}, indent=2))
    else:
        print(f"against a local stand-in on a turned clock; a look every {LOOK_S:g} s; seconds since CreateEndpoint")
        for f in figures:
            said = (
                f"{f.kind or 'no verdict'} at {f.verdict:g} s, {f.after:g} s after its evidence (SageMaker itself: {f.alone:g} s)"
            )
            print(f"{f.what:<17} {said}   {'met' if f.met else 'NOT MET'}\n    {' '.join(f.says.split())[:150]}")
        print(f"the limit is {LIMIT_S:g} s after the evidence; a public run waited {REPORTED_S:g} s for its crash loop's end")
    return 0 if all(f.met for f in figures) else 1


if __name__ == "__main__":
    sys.exit(main())
