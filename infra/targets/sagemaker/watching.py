"""One run's eyes on an endpoint: why it will not serve, or not change, by what has happened since the run began."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from infra.clouds.aws.session import NotThere
from infra.targets.sagemaker import reports, verdicts
from infra.targets.sagemaker.during import Move, Run, Stage

if TYPE_CHECKING:
    from infra.clouds.aws.session import Session
    from infra.targets.sagemaker.names import Names
    from verdict.errors import FlexserveError

UNMADE = frozenset({"Creating", "Failed"})
UPDATE = re.compile(r"waiting for SageMaker (?:AI )?Endpoint \(\S+\) update: ")
"""How the provider's error begins where it had SageMaker update the endpoint, and that failed."""


class Watching:
    """`Watch` of one run, which begins when this is made. `new`: there was no endpoint then, as its id was not known."""

    def __init__(self, session: Session, names: Names, now: Callable[[], datetime], *, new: bool) -> None:
        self._session, self._names, self._now = session, names, now
        before = None if new else reports.describe(session, names)
        self._began = now()
        self._run = Run(before, self._began)
        self.stands = ""

    def look(self, said: Sequence[str] = ()) -> FlexserveError | None:
        """What has gone wrong in this run. `said`: what the engine has failed with; it may have seen a move that no look did."""
        found = reports.describe(self._session, self._names)
        if found is None:
            return None
        move = self._run.sees(found)
        if move.stage is Stage.NOTHING and any(UPDATE.search(text) for text in said):
            move = Move(Stage.FAILED, self._wanted(found), self._began)
        if move.stage in (Stage.NOTHING, Stage.MOVED) or (move.stage is Stage.MADE and found["EndpointStatus"] not in UNMADE):
            return None
        seen = reports.look(self._session, self._names, found, move)
        error = verdicts.verdict(reports.evidence(seen, self._now()))
        if error is not None and move.stage is not Stage.MADE and reports.machines_of(found):
            self.stands = stands(found, self._has(found))
        return error

    def _wanted(self, found: Mapping[str, Any]) -> str:
        """The newest configuration that the endpoint does not have; empty where there is none."""
        each = self._session.pages("sagemaker", "list_endpoint_configs", "EndpointConfigs", NameContains=self._names.each)
        others = [item for item in each if item["EndpointConfigName"] != found["EndpointConfigName"]]
        return str(max(others, key=lambda item: item["CreationTime"])["EndpointConfigName"]) if others else ""

    def _has(self, found: Mapping[str, Any]) -> Mapping[str, Any]:
        """The variant that serves on; empty where its configuration is gone."""
        try:
            config = self._session.call("sagemaker", "describe_endpoint_config", EndpointConfigName=found["EndpointConfigName"])
        except NotThere:
            return {}
        return next(iter(config["ProductionVariants"]), {})


def stands(found: Mapping[str, Any], variant: Mapping[str, Any]) -> str:
    """What serves on after an update that failed, or will. Pure."""
    machines, kind = reports.machines_of(found), variant.get("InstanceType", "machines of a type that is not known")
    host = variant.get("InferenceAmiVersion", "")
    what = f"{machines} {kind}{f', {host}' if host else ''}, configuration {found['EndpointConfigName']}"
    name, status = found["EndpointName"], str(found["EndpointStatus"])
    back = f"; it is {status} until SageMaker has gone back, and the next `up` waits for that" if status in verdicts.MOVING else ""
    return f"{name} serves on as before ({what}){back}"
