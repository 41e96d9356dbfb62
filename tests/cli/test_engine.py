"""The real engine under `PulumiEngine`: changes, errors, the log, and Ctrl-C once and twice while something is being created."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from pulumi.automation.errors import CommandError

from flexserve.lifecycle import engine as lifecycle
from flexserve.lifecycle.engine import Command, PulumiEngine
from flexserve.lifecycle.lock import Locked
from flexserve.lifecycle.logfile import KEPT, LogFile, remove_old
from flexserve.lifecycle.parts import EngineFailed
from flexserve.project import Project, check_backend, find
from tests.cli.site import LIMIT_S
from tests.cli.slow_provider import SlowProvider, serve
from verdict.errors import Interrupted, NoAccess

PROGRAM = """
import pulumi
kept = pulumi.Stash("kept", input={"id": "id1", "started": 5})
pulumi.CustomResource("slow:index:Thing", "thing", {"size": 1}, pulumi.ResourceOptions(depends_on=[kept]))
pulumi.export("id", "id1")
"""
real_engine = pytest.mark.skipif(shutil.which("pulumi") is None, reason="pulumi is not on PATH; `make setup` puts it there")


@pytest.fixture
def provider(monkeypatch: pytest.MonkeyPatch) -> Iterator[SlowProvider]:
    slow = SlowProvider()
    port, stop = serve(slow)
    monkeypatch.setenv("PULUMI_DEBUG_PROVIDERS", f"slow:{port}")
    yield slow
    slow.release.set()
    stop()


@pytest.fixture
def small(project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    (project / "infra").mkdir()
    (project / "infra" / "__main__.py").write_text(PROGRAM, encoding="utf-8")
    (tmp_path / "state").mkdir()
    monkeypatch.setenv("PULUMI_BACKEND_URL", f"file://{tmp_path / 'state'}")
    monkeypatch.setenv("PULUMI_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PULUMI_CONFIG_PASSPHRASE", "test")
    return find()


def engine(project: Project, said: list[str]) -> PulumiEngine:
    return PulumiEngine(project, "tpu-v6e", said.append)


def press(provider: SlowProvider, said: list[str], times: int) -> threading.Thread:
    """Ctrl-C once a create is running; the second follows when the first has been taken. Then let the create end."""

    def go() -> None:
        assert provider.entered.wait(LIMIT_S)
        os.kill(os.getpid(), signal.SIGINT)
        while not any("once more" in line for line in said):
            threading.Event().wait(0.05)
        if times == 2:
            os.kill(os.getpid(), signal.SIGINT)
        else:
            provider.release.set()

    thread = threading.Thread(target=go, daemon=True)
    thread.start()
    return thread


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What the engine is told to do, in the order that it is."""
    told: list[str] = []
    run = Command.run

    def telling(self, args, *more, **named):
        told.append(" ".join(word for word in args[:2] if not word.startswith("-")))
        return run(self, args, *more, **named)

    monkeypatch.setattr(Command, "run", telling)
    return told


@real_engine
def test_life_of_a_stack(small, provider, ran):
    provider.release.set()
    said: list[str] = []
    assert small.outputs("tpu-v6e") is None and not small.bare("tpu-v6e")
    run = engine(small, said)
    assert run.preview().total == 3 and "would create index thing" in said
    assert small.outputs("tpu-v6e") == {}
    assert run.up().counts["create"] == 3 and "creating index thing" in said
    assert small.outputs("tpu-v6e") == {"id": "id1"} and not small.bare("tpu-v6e")
    assert small.state("tpu-v6e").kept == {"id": "id1", "started": 5}
    assert run.preview().total == 0
    assert run.destroy().counts["delete"] >= 2
    assert small.outputs("tpu-v6e") == {} and small.bare("tpu-v6e")
    assert ran == ["stack select", "stack init", "preview", "up", "preview", "destroy"]  # it is selected only while it is not there
    assert not any("default" in line or "kept" in line for line in said)


@real_engine
def test_the_version_is_asked_for_once_for_each_file_and_sdk(tmp_path, monkeypatch):
    monkeypatch.setenv("FLEXSERVE_CACHE", str(tmp_path / "cache"))
    (tmp_path / "bin").mkdir()
    file = Path(shutil.copy(os.path.realpath(shutil.which("pulumi")), tmp_path / "bin" / "pulumi"))
    asked: list[object] = []
    ask = subprocess.check_output
    monkeypatch.setattr(subprocess, "check_output", lambda words, **named: asked.append(words) or ask(words, **named))

    def version():
        lifecycle._asked.cache_clear()  # as another process
        return lifecycle.command(str(file)).version

    assert version() == version() is not None and len(asked) == 1
    os.utime(file, (1, 1))  # another one in its place
    assert version() == version() and len(asked) == 2
    monkeypatch.setattr(lifecycle, "sdk", "0.0.1")
    assert version() and len(asked) == 3
    lifecycle._asked.cache_clear()


@pytest.mark.parametrize("file", ["pulumi", "mise"])
def test_the_version_of_what_may_start_another_pulumi_is_not_kept(tmp_path, file):
    (tmp_path / file).write_text("#!/bin/sh\necho 3.1.0\n" if file == "pulumi" else "a program", encoding="utf-8")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "pulumi").symlink_to(tmp_path / file)
    assert lifecycle._place(str(tmp_path / "bin" / "pulumi")) is None
    assert lifecycle._place(str(tmp_path / "none")) is None


@real_engine
def test_a_failed_create_keeps_diagnostics_log_and_id(small, provider):
    provider.refusal = "the zone has no such thing"
    provider.release.set()
    with pytest.raises(EngineFailed) as caught:
        engine(small, []).up()
    assert any("the zone has no such thing" in text for text in caught.value.diagnostics)
    assert "the zone has no such thing" in Path(caught.value.log).read_text(encoding="utf-8")
    assert small.state("tpu-v6e").kept["id"] == "id1"


@real_engine
def test_the_first_ctrl_c_lets_the_engine_finish_and_record(small, provider):
    said: list[str] = []
    thread = press(provider, said, 1)
    with pytest.raises(Interrupted, match="recorded it"):
        engine(small, said).up()
    thread.join(LIMIT_S)
    state = (small.root.parent / "state").rglob("tpu-v6e.json")
    assert "slow:index:Thing" in next(state).read_text(encoding="utf-8")
    provider.release.set()
    assert engine(small, said).destroy().counts["delete"] >= 2


@real_engine
def test_the_second_ctrl_c_ends_it_and_says_what_may_be_lost(small, provider):
    said: list[str] = []
    thread = press(provider, said, 2)
    with pytest.raises(Interrupted, match="ended in the middle") as caught:
        engine(small, said).up()
    thread.join(LIMIT_S)
    assert "may exist and bill" in caught.value.why and "by its id" in caught.value.way_out
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@real_engine
def test_after_kill_9_up_says_what_holds_the_lock_and_down_removes_it(small, provider):
    said: list[str] = []
    run = engine(small, said)

    def kill() -> None:
        assert provider.entered.wait(LIMIT_S) and run._command.process is not None
        run._command.process.kill()

    threading.Thread(target=kill, daemon=True).start()
    with pytest.raises(EngineFailed):
        run.up()
    provider.release.set()
    with pytest.raises(Locked, match="locked by a pulumi that is gone") as locked:
        run.up()
    assert f"on {socket.gethostname()}" in locked.value.why and "flexserve down -s tpu-v6e" in locked.value.way_out
    run.destroy()
    assert any("removes the lock of a pulumi that was killed" in line for line in said)
    assert small.state("tpu-v6e") == ({}, {}, 1)  # the create that it had begun: Pulumi keeps it as pending


@real_engine
def test_ctrl_c_between_two_runs_of_the_engine_starts_no_further_one(small, provider, monkeypatch):
    """The SDK runs pulumi several times for one `up`; in between there is nobody whom a signal could be passed on to."""
    run = Command.run

    def pressed(self, args, *more, **named):
        if args[0] == "up":
            os.kill(os.getpid(), signal.SIGINT)
        return run(self, args, *more, **named)

    monkeypatch.setattr(Command, "run", pressed)
    provider.release.set()
    with pytest.raises(Interrupted, match="before the engine changed anything"):
        engine(small, []).up()
    assert not provider.entered.is_set() and small.state("tpu-v6e") == ({}, {}, 0)
    monkeypatch.setattr(Command, "run", run)
    assert engine(small, []).up().counts["create"] == 3


def test_a_signal_just_before_the_engine_was_started_reaches_it(small, monkeypatch):
    """It comes after the look whether there was one, and before the process is known."""
    command, popen = Command(), subprocess.Popen

    def start(*args, **named):
        command.send(signal.SIGTERM)
        return popen(*args, **named)

    command.command = shutil.which("sleep")
    monkeypatch.setattr(subprocess, "Popen", lambda args, **named: start(["sleep", "60"], **named))
    with pytest.raises(CommandError):
        command.run(["60"], str(small.root), {})


@real_engine
def test_what_nohup_has_the_process_ignore_stays_ignored(small, provider):
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    said: list[str] = []

    def hang_up():
        assert provider.entered.wait(LIMIT_S)
        os.kill(os.getpid(), signal.SIGHUP)
        provider.release.set()

    thread = threading.Thread(target=hang_up, daemon=True)
    thread.start()
    try:
        assert engine(small, said).up().counts["create"] == 3
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)
    thread.join(LIMIT_S)
    assert not any("once more" in line for line in said)


@real_engine
def test_without_a_place_for_its_log_the_engine_runs(small, provider):
    provider.release.set()
    (small.root / ".flexserve").write_text("no folder", encoding="utf-8")
    said: list[str] = []
    assert engine(small, said).up().counts["create"] == 3
    assert any(line.startswith("no log of this is kept: ") for line in said)


def test_a_log_that_cannot_go_on_is_said_once(tmp_path):
    said: list[str] = []
    with LogFile(lambda: tmp_path, "s", "up", said.append) as log:
        log.keep("first")
        assert Path(log.path).read_text(encoding="utf-8") == "first\n"
        log._file = open("/dev/full", "wb", buffering=0)  # noqa: SIM115, PTH123
        log.keep("second")
        log.keep("third")
    assert said == ["the log ends here: No space left on device"]


def test_a_stacks_logs_are_not_those_of_another_with_a_longer_name(tmp_path):
    for stack in ("gpu", "gpu-ab", "gpu-ab-2"):
        for number in range(KEPT + 5):
            (tmp_path / f"{stack}-20260102T0304{number:02}Z-7-up.log").touch()
    (tmp_path / "gpu-notes.log").touch()
    remove_old(tmp_path, "gpu")
    remove_old(tmp_path, "gpu-ab")
    left = {stack: len(list(tmp_path.glob(f"{stack}-2026*.log"))) for stack in ("gpu", "gpu-ab", "gpu-ab-2")}
    assert left == {"gpu": KEPT - 1, "gpu-ab": KEPT - 1, "gpu-ab-2": KEPT + 5}
    assert (tmp_path / "gpu-notes.log").exists() and not (tmp_path / "gpu-20260102T030400Z-7-up.log").exists()


def test_no_backend_says_how_to_choose_one(tmp_path, monkeypatch):
    for name in ("PULUMI_BACKEND_URL", "PULUMI_ACCESS_TOKEN", "PULUMI_CONFIG_PASSPHRASE"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(NoAccess) as caught:
        check_backend(home=tmp_path)
    assert "pulumi login" in caught.value.way_out and "PULUMI_BACKEND_URL" in caught.value.way_out


@pytest.mark.parametrize(
    ("backend", "stack_file", "passphrase", "fine"),
    [
        ("file:///state", "config: {}\n", None, False),
        ("gs://bucket", "config: {}\n", None, False),
        ("gs://bucket", "config: {}\n", "", True),
        ("gs://bucket", "secretsprovider: gcpkms://key\nconfig: {}\n", None, True),
        ("gs://bucket", "secretsprovider: passphrase\nconfig: {}\n", None, False),
        ("https://api.pulumi.com", "config: {}\n", None, True),
    ],
)
def test_the_passphrase_rule(tmp_path, monkeypatch, backend, stack_file, passphrase, fine):
    monkeypatch.setenv("PULUMI_BACKEND_URL", backend)
    for name in ("PULUMI_CONFIG_PASSPHRASE", "PULUMI_CONFIG_PASSPHRASE_FILE"):
        monkeypatch.delenv(name, raising=False)
    if passphrase is not None:
        monkeypatch.setenv("PULUMI_CONFIG_PASSPHRASE", passphrase)
    file = tmp_path / "Pulumi.s.yaml"
    file.write_text(stack_file, encoding="utf-8")
    if fine:
        check_backend(stack_file=file, home=tmp_path)
        return
    with pytest.raises(NoAccess, match="passphrase") as caught:
        check_backend(stack_file=file, home=tmp_path)
    assert "empty counts, unset does not" in caught.value.way_out


def test_without_pulumi_the_way_out_is_make_setup(project, monkeypatch, flexserve, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("sys.executable", str(tmp_path / "python"))
    code, _, err = flexserve("status", "-s", "tpu-v6e")
    assert code == 1 and "pulumi is not on PATH" in err and "make setup" in err


@real_engine
def test_the_engine_is_found_beside_this_python_when_path_has_none(small, provider, monkeypatch):
    """`python -m flexserve` without the environment's bin on PATH."""
    if not Path(sys.executable).with_name("pulumi").exists():
        pytest.skip("pulumi is not beside this Python; `make setup` puts it there")
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    assert shutil.which("pulumi") is None
    provider.release.set()
    assert engine(small, []).preview().total == 3
