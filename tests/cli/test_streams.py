"""Streams that cannot be written: full, closed, gone. A sentence and an exit code, never a traceback."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

COMMANDS = [
    ["--help"],
    ["--version"],
    ["plan", "--help"],
    ["plan", "-s", "tpu-v6e"],
    ["plan", "-s", "tpu-v6e", "--json"],
    ["plan", "-s", "tpu-v6e", "--manifest"],
    ["render", "-s", "tpu-v6e"],
    ["rehearse", "--faults"],
    ["rehearse", "--faults", "--json"],
]


def run(project, root, words, shell):
    """The command in a shell that redirects it."""
    env = {**os.environ, "PYTHONPATH": str(root)}
    argv = ["bash", "-c", f'set -o pipefail; "$@" {shell}', "-", sys.executable, "-m", "flexserve", *words]
    return subprocess.run(argv, cwd=project, env=env, capture_output=True, text=True, timeout=120, check=False)


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full on this system")  # noqa: PTH110
@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_a_full_stdout_is_said(project, root, words):
    done = run(project, root, words, "> /dev/full")
    assert done.returncode == 1
    assert done.stderr.startswith("error: the output could not be written\n  why: No space left on device\n")
    assert "unexpected" not in done.stderr and "Exception" not in done.stderr and "Traceback" not in done.stderr


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full on this system")  # noqa: PTH110
def test_a_full_stderr_keeps_the_exit_code(project, root):
    done = run(project, root, ["plan", "-s", "tpu-v6e", "--set", "window=5m"], "2> /dev/full")
    assert (done.returncode, done.stdout, done.stderr) == (3, "", "")


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_a_reader_that_has_gone_is_no_news(project, root, words):
    done = run(project, root, words, "| true")
    assert done.returncode in (0, 1), "0 where all fitted into the pipe before the reader went"
    assert "error" not in done.stderr and "Traceback" not in done.stderr and "Exception" not in done.stderr


def test_a_place_that_cannot_be_read_is_named(project, root):
    (project / "stacks" / "Pulumi.tpu-v6e.yaml").rename(project / "elsewhere")
    (project / "stacks" / "Pulumi.tpu-v6e.yaml").symlink_to(project / "stacks" / "Pulumi.tpu-v6e.yaml")
    done = run(project, root, ["plan", "-s", "tpu-v6e"], "")
    assert done.returncode in (1, 2) and "Traceback" not in done.stderr and done.stderr.startswith("error: ")


def test_an_unknown_stack_where_there_is_none(project, root):
    (project / "stacks" / "Pulumi.tpu-v6e.yaml").unlink()
    done = run(project, root, ["plan", "-s", "tpu-v6e"], "")
    assert done.returncode == 2 and "one of" not in done.stderr
    assert "way out: write Pulumi.tpu-v6e.yaml into stacks/" in done.stderr
