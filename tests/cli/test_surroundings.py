"""Commands in odd surroundings: no HOME, one that cannot be written, no account, no terminal, no colour, a dumb terminal."""

from __future__ import annotations

import os
import pty
import pwd
import subprocess
import sys

import pytest

from flexserve import project as projects
from rehearsal.folders import new_folder
from verdict.errors import BadConfig, FlexserveError
from verdict.places import below_home, cache_root

PLAN = ["plan", "-s", "tpu-v6e"]
RENDER = ["render", "-s", "tpu-v6e"]
HOMES = {"none": None, "not there": "/nonexistent", "read-only": "/proc", "empty": "", "relative": "here"}


def environ(root, home, **more):
    kept = {k: v for k, v in os.environ.items() if k not in ("HOME", "FLEXSERVE_CACHE", "XDG_CACHE_HOME", "FLEXSERVE_STATE")}
    return {**kept, "PYTHONPATH": str(root), **({"HOME": home} if home is not None else {}), **more}


@pytest.mark.parametrize("home", HOMES.values(), ids=HOMES)
@pytest.mark.parametrize("words", [PLAN, RENDER], ids=["plan", "render"])
def test_a_command_needs_no_home(project, root, tmp_path, home, words):
    argv = [sys.executable, "-m", "flexserve", *words]
    surroundings = environ(root, home, TMPDIR=str(tmp_path))
    done = subprocess.run(argv, cwd=project, env=surroundings, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0 and done.stdout and "Traceback" not in done.stderr
    assert not (project / "~").exists() and not (project / "here").exists()


def test_a_rehearsal_without_a_place_for_its_files_says_which_and_how_to_name_one(monkeypatch):
    monkeypatch.setenv("FLEXSERVE_STATE", "/proc/nothing")
    with pytest.raises(FlexserveError, match="no place for its files") as error:
        new_folder("x")
    assert "/proc/nothing" in error.value.why and "FLEXSERVE_STATE" in error.value.way_out


def test_the_set_up_without_a_place_for_its_cache_says_so(root):
    argv = [sys.executable, "-m", "tools.setup", "apt"]
    done = subprocess.run(argv, cwd=root, env=environ(root, "/proc"), capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1 and "/proc/.cache/flexserve cannot be made" in done.stderr and "FLEXSERVE_CACHE" in done.stderr
    assert "Error" not in done.stderr


def test_a_number_without_an_account_has_a_login_and_a_cache(monkeypatch, tmp_path):
    def nobody(_uid):
        raise KeyError

    monkeypatch.setattr(pwd, "getpwuid", nobody)
    monkeypatch.delenv("PULUMI_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert projects._homes() == [tmp_path / ".pulumi"]
    assert below_home({"HOME": "~", "TMPDIR": "/t"}, "x").parent.parent.as_posix() == "/t"
    assert cache_root({"HOME": "~", "TMPDIR": "/t"}).is_absolute()


@pytest.mark.parametrize(
    ("more", "coloured"),
    [({"TERM": "xterm"}, True), ({"TERM": "xterm", "NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False), ({"TERM": ""}, True)],
)
@pytest.mark.parametrize("words", [PLAN, [*PLAN, "--set", "window=5m"]], ids=["plan", "refused"])
def test_colour_is_for_terminals_that_want_it(project, root, more, coloured, words):
    """On a real terminal, as a process: what is written to it."""
    surroundings = {k: v for k, v in environ(root, "/nonexistent").items() if k not in ("NO_COLOR", "TERM")}
    ours, theirs = pty.openpty()
    argv = [sys.executable, "-m", "flexserve", *words]
    with subprocess.Popen(argv, cwd=project, env={**surroundings, **more}, stdin=theirs, stdout=theirs, stderr=theirs) as process:
        os.close(theirs)
        said = b""
        while True:
            try:
                said += os.read(ours, 65536)
            except OSError:  # everybody has closed the other end
                break
    os.close(ours)
    assert process.returncode in (0, 3) and (b"\033[" in said) == coloured and b"Traceback" not in said


def test_a_working_folder_that_is_no_longer_there_is_told(tmp_path, monkeypatch):
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    with pytest.raises(BadConfig, match="no longer there"):
        projects.find()
