"""The recorded program through the real engine, steps 01 to 38 and 93 to 95: requests, states, what is shown, errors.

The steps build on one another: a step that is asked for runs all those before it.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rehearsal.cloud.google import LocalGoogleCloud, troubles
from rehearsal.providers.google import google_provider
from tests.providers import printed, recordings, requests, states
from tests.providers.conftest import INSTANCE
from tests.providers.deviations import MOST_ROWS, Deviation, rows, unexplained
from tests.providers.engine import Engine
from tests.providers.recordings import FOLDER, Step, steps


class Session:
    """One pass through the recorded session."""

    def __init__(self, cloud: LocalGoogleCloud, engine: Engine) -> None:
        self._cloud = cloud
        self._engine = engine
        self._done: dict[str, list[Deviation]] = {}

    def deviations(self, name: str) -> list[Deviation]:
        """A step's deviations; runs it and what comes before it."""
        for step in steps():
            if step.name not in self._done:
                self._done[step.name] = self._run(step)
            if step.name == name:
                return self._done[name]
        raise KeyError(name)

    def all_deviations(self) -> list[Deviation]:
        """Those of every step."""
        return [deviation for step in steps() for deviation in self.deviations(step.name)]

    def _run(self, step: Step) -> list[Deviation]:
        self._engine.configure(step.stack, self._config(step))
        for action in step.do:
            self._do(action)
        self._cloud.log.clear()
        runs = [self._engine.run(step.stack, command) for command in step.run]
        ours = [requests.normal(r.method, r.path, r.query, r.body) for r in self._cloud.log.entries()]
        found = [] if step.only else requests.compare(recordings.requests_of(step.name), ours)
        if step.only != "nothing":
            recorded = recordings.printed()[step.name][: len(runs)]
            found += printed.compare(step.name, recorded, runs, step.program_failed)
        if step.state:
            mine = next(item for item in self._engine.resources(step.stack) if item["type"] == INSTANCE)
            found += states.compare("Instance", recordings.instance(), mine, self._cloud.base)
        return found

    def _config(self, step: Step) -> dict[str, Any]:
        chosen = {"what": step.what, "word": step.word, "zone": step.zone, "over": _with_nulls(step.over)}
        ours = {f"fleet:{key}": value for key, value in chosen.items() if value}
        return {**self._cloud.stack_config(), "gcp:project": "demo", **ours}

    def _do(self, action: dict[str, Any]) -> None:
        match action:
            case {"trouble": name, **arguments}:
                self._cloud.arm(getattr(troubles, name)(**arguments))
            case {"drop": name}:
                self._cloud.reclaim(name)
            case {"account": name}:
                self._cloud.put_account(name)
            case {"edit": name, "set": fields}:
                self._cloud.edit(name, fields)
            case _:
                raise ValueError(f"steps.toml does not know {action}")


def _with_nulls(over: dict[str, Any]) -> dict[str, Any]:
    """TOML has no null; the program deletes what is null."""
    return {key: None if value == "NULL" else value for key, value in over.items()}


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    if shutil.which("pulumi") is None:
        pytest.fail("pulumi is not on PATH")
    folder: Path = tmp_path_factory.mktemp("engine")
    with LocalGoogleCloud() as cloud, google_provider(cloud.clock.sleep) as port:
        yield Session(cloud, Engine(folder, FOLDER / "program.py", port))
        assert cloud.own_errors() == ()


@pytest.mark.parametrize("name", [step.name for step in steps()])
def test_step(session: Session, name: str) -> None:
    left = unexplained(session.deviations(name), rows())
    assert not left, "\n".join(map(str, left))


def test_no_known_difference_is_stale(session: Session) -> None:
    found = session.all_deviations()
    stale = [row.id for row in rows() if row.found_by == "engine" and not any(map(row.covers, found))]
    assert not stale


def test_known_differences_are_few_and_none_is_in_a_compute_request() -> None:
    known = rows()
    assert len(known) <= MOST_ROWS
    assert not [row.id for row in known if row.kind == "request" and "compute" in row.subject]
    assert all(row.why for row in known) and len({row.id for row in known}) == len(known)
