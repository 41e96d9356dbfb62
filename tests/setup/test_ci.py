"""`.ci/run` and the make targets, with a stand-in for `make` that tells what it is given."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import tools.lint

ROOT = Path(__file__).resolve().parents[2]
# The tests may run under make themselves; its own variables would make it talk.
ENVIRON = {k: v for k, v in os.environ.items() if k not in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL", "MAKEOVERRIDES")}
TARGETS = ("setup", "rehearse", "test", "lint", "lock", "clean")

MAKE = """#!/bin/sh
echo "asked $*"
for name in HOME XDG_CACHE_HOME FLEXSERVE_CACHE GOPATH GOMODCACHE GOCACHE; do eval "echo $name=\\$$name"; done
find "$HOME" "$XDG_CACHE_HOME" -mindepth 1 -type f | sed 's/^/found /'
read line && echo "stdin is open"
[ -t 1 ] && echo "terminal"
[ -e .venv ] && echo "venv is there"
echo "CI=$CI in $(pwd)"
exit ${MAKE_ENDS:-0}
"""


@pytest.fixture
def project(tmp_path):
    """A small repository that holds the script, and `make` on a PATH before the real one."""
    root = tmp_path / "project"
    (root / ".ci").mkdir(parents=True)
    shutil.copy(ROOT / ".ci" / "run", root / ".ci" / "run")
    git = ["git", "-c", "user.name=t", "-c", "user.email=t@t.test", "-C", str(root)]
    for words in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "one"]):
        subprocess.run([*git, *words], check=True, capture_output=True)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "make").write_text(MAKE)
    (tmp_path / "bin" / "make").chmod(0o755)
    (tmp_path / "scratch").mkdir()
    return root


def ci(project, **more):
    environ = {
        "PATH": f"{project.parent / 'bin'}:{os.environ['PATH']}", "HOME": "/nonexistent", "TMPDIR": str(project.parent / "scratch"),
        "PULUMI_HOME": "/somewhere", **more,
    }  # fmt: skip
    run = subprocess.run(["bash", ".ci/run"], cwd=project, env=environ, capture_output=True, text=True, timeout=60)
    assert list((project.parent / "scratch").iterdir()) == [], "it left its scratch folder"
    return run


def test_ci_runs_the_tests_in_an_empty_home_and_an_empty_cache(project):
    run = ci(project)
    assert run.returncode == 0, run.stderr
    said = run.stdout
    assert "asked test" in said and "CI=true" in said
    given = dict(line.split("=", 1) for line in said.splitlines() if "=" in line and not line.startswith("CI"))
    assert all(str(project.parent / "scratch") in folder for folder in given.values()), given
    for unwanted in ("found ", "stdin is open", "terminal", "venv is there"):
        assert unwanted not in said


def test_an_environment_that_is_there_is_neither_used_nor_touched(project):
    (project / ".venv").mkdir()
    (project / ".venv" / "mine").write_text("kept")
    run = ci(project)
    assert "venv is there" not in run.stdout and f"in {project}\n" not in run.stdout
    assert (project / ".venv" / "mine").read_text() == "kept"


@pytest.mark.parametrize("code", [1, 2, 77])
def test_ci_ends_as_the_tests_do(project, code):
    assert ci(project, MAKE_ENDS=str(code)).returncode == code


def test_ci_has_a_limit(project):
    make = project.parent / "bin" / "make"
    make.write_text("#!/bin/sh\nexec sleep 300\n")
    run = ci(project, CI_LIMIT="1")
    assert run.returncode == 124 and "not finished after 1 s" in run.stdout


@pytest.mark.parametrize("target", TARGETS)
def test_make_has_the_target(target):
    told = subprocess.run(["make", "-n", target], cwd=ROOT, env=ENVIRON, capture_output=True, text=True, timeout=60)
    assert told.returncode == 0 and told.stdout.strip()


def test_make_puts_the_environment_first_on_path():
    told = subprocess.run(
        ["make", "-f", "-", "show"], cwd=ROOT, env=ENVIRON, capture_output=True, text=True, timeout=60,
        input="include Makefile\nshow:\n\t@echo $$PATH\n",
    )  # fmt: skip
    assert told.stdout.split(":")[0] == str(ROOT / ".venv" / "bin")


@pytest.fixture
def lint(monkeypatch):
    """The checks, each replaced by a command that ends as it is told."""

    def with_codes(*codes):
        rows = [
            (f"check-{n}", [sys.executable, "-c", f"print('found by {n}'); raise SystemExit({c})"]) for n, c in enumerate(codes)
        ]
        monkeypatch.setattr(tools.lint, "checks", lambda _files: rows)
        return tools.lint.main

    return with_codes


@pytest.mark.parametrize(
    ("codes", "beside", "ends"),
    [((0, 0), 0, 0), ((0, 1), 0, 1), ((0, 0), 5, 5), ((1, 0), 5, 5), ((0, 2), None, 1), ((0, 0), None, 0)],
)
def test_the_checks_run_beside_the_tests_and_both_must_end_well(lint, capfd, codes, beside, ends):
    words = () if beside is None else ("--beside", sys.executable, "-c", f"print('tests ran'); raise SystemExit({beside})")
    assert lint(*codes)(words) == ends
    said = capfd.readouterr().out
    assert ("tests ran" in said) == (beside is not None)
    assert [n for n in range(2) if f"found by {n}" in said] == [n for n, code in enumerate(codes) if code]
    assert said.count("clean") == codes.count(0) and all(f"check-{n}" in said for n in range(2))
