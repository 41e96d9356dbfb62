"""Which of what an endpoint shows is about this run: its descriptions in, one after another; what they tell of the run out. Pure.

SageMaker keeps the reason of a failed update while the endpoint serves on (aws-controllers-k8s/sagemaker-controller pull 7), may
as well leave it empty (terraform-provider-aws issue 48997), and moves an endpoint for other reasons too: scaling, and maintenance
of its own. So an update has failed in this run when the endpoint was seen to move to another configuration than it had before, and
then has the one that it had. All times are the cloud's. A description older than one that was seen is a late answer, and no news.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

from infra.targets.sagemaker.verdicts import MOVING

Shown = Mapping[str, Any]
"""What DescribeEndpoint answers."""
ENDED_BADLY = frozenset({"Failed", "UpdateRollbackFailed"})


class Stage(StrEnum):
    """How far a run has come with the endpoint."""

    NOTHING = "nothing"  # it has not touched it, or what is seen is of before
    MADE = "made"  # it was made in this run: all of its life counts
    MOVES = "moves"  # to another configuration
    MOVED = "moved"
    FAILED = "failed"  # it goes back, or has gone back, to what it had


@dataclass(frozen=True)
class Move:
    """What one description tells. `config`: what the run moves it to; empty where that was never seen. `since`: the begin."""

    stage: Stage
    config: str = ""
    since: datetime | None = None


NOTHING = Move(Stage.NOTHING)


class Run:
    """One run. `before`: the endpoint before it, None where there was none; `began`: the cloud's time then."""

    def __init__(self, before: Shown | None, began: datetime) -> None:
        self._before, self._began = before, began
        self._newest = before["LastModifiedTime"] if before is not None else began
        self._theirs = before is not None and _status(before) in MOVING  # a move that began earlier, and goes on
        self._earlier = deployment(before) if before is not None else ("", None)
        self._to: str = ""
        self._since: datetime = began

    def sees(self, now: Shown) -> Move:
        """What the next description tells."""
        before = self._before
        if before is None or now["CreationTime"] > before["CreationTime"]:
            return Move(Stage.MADE, str(now["EndpointConfigName"]), now["CreationTime"].astimezone(UTC))
        if now["LastModifiedTime"] < self._newest:
            return NOTHING
        self._newest = now["LastModifiedTime"]
        if self._theirs:
            if _status(now) in MOVING and not self._begins(now):
                return NOTHING
            self._theirs, self._before, before = False, now, now
        return self._moves(now, before) if _status(now) in MOVING else self._stands(now, before)

    def _begins(self, now: Shown) -> bool:
        """Whether a move that began earlier is over unseen, and the next one under way."""
        to, at = deployment(now)
        return _status(now) != "RollingBack" and to not in ("", now["EndpointConfigName"]) and (to, at) != self._earlier

    def _moves(self, now: Shown, before: Shown) -> Move:
        """While SageMaker changes it."""
        if _status(now) == "RollingBack":  # also of scaling, which is none of this run's doing
            told = self._to and now.get("FailureReason")
            return Move(Stage.FAILED, self._to, self._since) if told else NOTHING
        to, at = deployment(now)
        to = to or str(now["EndpointConfigName"])
        if to == before["EndpointConfigName"]:
            return NOTHING
        if to != self._to:
            self._to, self._since = to, (at or now["LastModifiedTime"]).astimezone(UTC)
        return Move(Stage.MOVES, to, self._since)

    def _stands(self, now: Shown, before: Shown) -> Move:
        """Once it moves no more."""
        status, has = _status(now), now["EndpointConfigName"]
        if status in ENDED_BADLY and status != _status(before):
            return Move(Stage.FAILED, self._to, self._since)
        if status not in ("InService", *ENDED_BADLY):
            return NOTHING
        if has != before["EndpointConfigName"]:
            return Move(Stage.MOVED, str(has), self._since)
        return Move(Stage.FAILED, self._to, self._since) if self._to else NOTHING


def deployment(shown: Shown) -> tuple[str, datetime | None]:
    """The configuration that it moves to, and since when; empty where SageMaker tells of none."""
    pending = shown.get("PendingDeploymentSummary") or {}
    return str(pending.get("EndpointConfigName") or ""), pending.get("StartTime")


def _status(shown: Shown) -> str:
    return str(shown["EndpointStatus"])
