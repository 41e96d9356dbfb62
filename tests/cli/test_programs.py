"""A program of others that the way in needs is looked for before money is spent."""

from __future__ import annotations

import io
from types import SimpleNamespace

import pytest

from flexserve.commands import up
from flexserve.output import Output
from flexserve.programs import require
from infra.access import Program
from infra.targets import registry
from verdict.errors import MissingProgram

PLAN = SimpleNamespace(deployment=SimpleNamespace(target=SimpleNamespace(kind="ec2_spot", ways=("spot",))))


@pytest.fixture
def path(tmp_path, monkeypatch):
    """A PATH with nothing on it."""
    monkeypatch.setenv("PATH", str(tmp_path))
    return tmp_path


def test_a_program_is_found_or_named_with_a_way_out(path):
    wanted = Program("carrier", "it carries", "get one")
    with pytest.raises(MissingProgram) as caught:
        require([wanted])
    assert (caught.value.what, caught.value.why, caught.value.way_out) == ("carrier is not on PATH", "it carries", "get one")
    (path / "carrier").write_text("#!/bin/sh\n")
    (path / "carrier").chmod(0o755)
    require([wanted])


def test_every_target_says_what_its_way_in_needs():
    assert [p.name for p in registry.programs("ec2_spot")] == ["session-manager-plugin"]
    assert registry.programs("gce_flex") == ()
    assert all(p.about and p.way_out for kind in registry.kinds() for p in registry.programs(kind))


@pytest.mark.parametrize("wait", [True, False])
def test_up_looks_before_anything_is_asked_of_the_engine(path, monkeypatch, wait):
    class Reached(Exception):
        """The engine's turn."""

    def reached(*_args, **_more):
        raise Reached

    monkeypatch.setattr(up, "find", lambda: None)
    monkeypatch.setattr(up, "load", lambda *_args, **_more: PLAN)
    monkeypatch.setattr(up, "where", lambda *_args: ())
    monkeypatch.setattr(up, "page", lambda *_args: "")
    monkeypatch.setattr(up, "parts", reached)
    with pytest.raises(MissingProgram if wait else Reached):
        up.run("s", Output(out=io.StringIO(), err=io.StringIO()), yes=True, allow=(), wait=wait, timeout="1m", replace=False)
