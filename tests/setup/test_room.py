"""What the set-up takes: said before, refused by name where there is no room, counted by what Go will compile, and gone again."""

import io
import os
import pty
import subprocess
import threading
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tools.setup import clean, golang
from tools.setup.cache import digest
from tools.setup.disk import Disks, folder_mb, size
from tools.setup.report import Lines, live
from tools.setup.run import run_steps
from tools.setup.step import Result, Step, StepFailed
from tools.setup.table import STEPS
from tools.setup.work import Work

ROOT = Path(__file__).resolve().parents[2]


@given(st.integers(0, 100), st.lists(st.integers(0, 50), max_size=8))
def test_steps_never_claim_more_than_was_free(free, takes):
    asked, disks, granted = [], None, 0
    disks = Disks(lambda place: asked.append(place) or free)
    for number, takes_mb in enumerate(takes):
        try:
            disks.claim(f"step-{number}", Path("/nowhere/at/all"), takes_mb)
            granted += takes_mb
        except StepFailed as error:
            assert granted + takes_mb > free
            assert f"step-{number} takes about {takes_mb} MB, and the file system of / has" in error.what
    assert granted <= free and len(asked) <= 1  # what the first steps have written meanwhile is not counted twice


def test_a_step_without_room_fails_by_name_before_it_begins(host, tmp_path, monkeypatch):
    def never(_host, _work):
        raise AssertionError("it ran")

    monkeypatch.setattr("tools.setup.run.Disks", lambda: Disks(lambda _: 5))
    out = io.StringIO()
    step = Step("large", "what it is for", lambda _: digest("x"), lambda _: None, never, takes_mb=4000)
    (outcome,) = run_steps([step], host, Lines(out, terminal=False), threading.Event())
    assert outcome.result is Result.FAILED and "large takes about 4.0 GB" in outcome.words
    assert "FLEXSERVE_CACHE" in outcome.way_out and "5 MB left" in out.getvalue()


def test_what_builds_says_what_it_takes():
    build = {"venv", "pulumi", "language-python", "session-manager-plugin", "machine-root", "machine-images", "machine-repo"}
    assert {s.name for s in STEPS if s.takes_mb} == build


@pytest.mark.parametrize("terminal", [True, False])
def test_what_a_step_is_for_is_said_when_it_begins(terminal, work):
    out = io.StringIO()
    lines = Lines(out, terminal=terminal)
    lines.started(Step("large", "what it is for", digest, lambda _: None, lambda *_: "", takes_mb=600), work)
    lines.tick()
    assert "what it is for, takes about 600 MB" in out.getvalue()


def test_a_terminal_of_no_width_still_shows_the_live_line(work):
    """A new pseudo-terminal and many a serial console say that they have 0 columns."""
    ours, theirs = pty.openpty()
    with os.fdopen(theirs, "w") as out:
        assert os.get_terminal_size(theirs).columns == 0
        lines = Lines(out, terminal=True)
        lines.started(Step("large", "what it is for", digest, lambda _: None, lambda *_: ""), work)
        os.read(ours, 4096)
        lines.tick()
        assert b"large" in os.read(ours, 4096)
    os.close(ours)


def test_a_bar_says_what_it_counts(tmp_path):
    work = Work(tmp_path / "log", threading.Event(), 0.0, doing="compiles 4 Go packages", fraction=0.5)
    assert live("pulumi", 3, work) == "pulumi compiles 4 Go packages [######......] 3 s"


GO = """
case "$1" in
  env) echo go1.26.8 ;;
  list) echo "go: downloading example.com/a v1" >&2; printf 'internal/abi\\nfmt\\nexample.com/a\\nexample.com/a/cmd\\n' ;;
  build) printf 'internal/abi\\nfmt\\nexample.com/a\\nexample.com/a/cmd\\n' >&2; echo "$GOMODCACHE $GOCACHE" > "$TMP_SEEN" ;;
esac
echo "$@" >> "$TMP_SEEN.words"
"""


@pytest.mark.parametrize("named", [False, True])
def test_the_bar_counts_what_go_says_it_will_compile_and_our_cache_keeps_it(host, work, command, tmp_path, named):
    command("go", GO)
    seen = tmp_path / "seen"
    places = {"GOMODCACHE": "/m", "GOCACHE": "/b"} if named else {}
    environ = {**host.environ, "PATH": f"{host.environ['PATH']}:/usr/bin:/bin", "TMP_SEEN": str(seen), **places}
    counts = []
    original = Work.command

    def watched(self, argv, **more):
        counts.append(more.get("count"))
        return original(self, argv, **more)

    Work.command = watched
    try:
        golang.build(replace(host, environ=environ), work, "pulumi", "example.com/a/cmd", tmp_path / "out", "-s")
    finally:
        Work.command = original
    listed, built = counts
    assert listed is None and built.total == 4
    assert work.doing == "compiles 4 Go packages" and work.fraction in (None, 0.99)
    assert seen.read_text().split() == (
        ["/m", "/b"] if named else [str(host.cache / "go" / "mod"), str(host.cache / "go" / "build")]
    )
    how = [line.split()[1:] for line in Path(f"{seen}.words").read_text().splitlines() if line.split()[0] in ("list", "build")]
    same = ["-trimpath", "-tags", "disable_grpc_modules", "-gcflags", "all=-dwarf=false", "-ldflags"]
    assert all(
        words[words.index("-trimpath") :][: len(same)] == same for words in how
    )  # else nothing of one is there for the other


def test_clean_says_what_stays_and_distclean_what_goes(host, capsys):
    kept = host.cache / "pulumi-1"
    uv = Path(host.environ["HOME"]) / ".cache" / "uv"
    for folder in (kept, uv):
        folder.mkdir(parents=True)
        (folder / "file").write_bytes(os.urandom(3_000_000))
    assert clean.main([], host) == 0
    said = capsys.readouterr().out
    assert (
        f"kept: {host.cache} (3 MB; make distclean removes it)" in said
        and f"kept: {uv} (3 MB)" in said
        and "uv cache clean" in said
    )
    assert clean.main(["--cache"], host) == 0
    said = capsys.readouterr().out
    assert f"removed: {host.cache} (3 MB)" in said and f"kept: {host.cache}" not in said and f"kept: {uv}" in said
    assert not host.cache.exists() and uv.is_dir()


def test_a_folder_counts_a_file_with_two_names_once(tmp_path):
    (tmp_path / "a").write_bytes(os.urandom(2_000_000))
    (tmp_path / "b").hardlink_to(tmp_path / "a")
    (tmp_path / "gone").symlink_to(tmp_path / "nowhere")
    assert folder_mb(tmp_path) == 2 and folder_mb(tmp_path / "nothing") == 0
    assert [size(n) for n in (5, 999, 1000, 4500)] == ["5 MB", "999 MB", "1.0 GB", "4.5 GB"]


def test_distclean_does_not_first_say_that_the_cache_is_kept():
    said = subprocess.run(["make", "-n", "distclean"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert said.count("tools.setup.clean") == 1 and "tools.setup.clean --cache" in said
