"""`python -m startup.turing` as a machine would run it: files, exit codes, no vLLM imported, nothing installed needed."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from startup.turing.__main__ import main
from tests.turing.shape import SOURCE, plant


def run(root, *words, path=""):
    """Without site-packages: what is here must be enough."""
    program = "import sys; sys.path[:0] = [p for p in sys.argv.pop(1).split(':') if p]; " + (
        "from startup.turing.__main__ import main; sys.exit(main(sys.argv[1:]))"
    )
    argv = [sys.executable, "-I", "-S", "-c", program, f"{root}:{path}", *words]
    return subprocess.run(argv, capture_output=True, text=True, timeout=120)


def test_the_installed_vllm_is_found_and_not_imported(root, tmp_path):
    file = plant(tmp_path)
    applied = run(root, "apply", "--json", path=tmp_path)
    assert applied.returncode == 0, applied.stderr
    assert json.loads(applied.stdout) == {"state": "patched", "version": 1, "changed": True, "file": str(file)}
    assert run(root, "check", path=tmp_path).returncode == 0


def test_no_vllm_is_refused(root, tmp_path):
    ended = run(root, "apply", path=tmp_path)
    assert ended.returncode == 3
    assert "package vllm" in ended.stderr and "Traceback" not in ended.stderr


def test_one_life(tmp_path, capsys):
    file = plant(tmp_path)
    file.chmod(0o640)
    linked = tmp_path / "cache"
    linked.hardlink_to(file)
    tree = ("--tree", str(tmp_path))
    codes = [main([command, *tree]) for command in ("check", "apply", "check")]
    assert codes == [1, 0, 0]
    patched, stamp = file.read_bytes(), file.stat()
    assert main(["apply", *tree]) == 0
    assert (file.stat().st_ino, file.stat().st_mtime_ns) == (stamp.st_ino, stamp.st_mtime_ns)
    assert file.read_bytes() == patched != SOURCE.encode()
    assert linked.read_text() == SOURCE, "an installer's cache was changed"
    assert stamp.st_mode & 0o777 == 0o640
    assert [main([command, *tree]) for command in ("revert", "revert", "check")] == [0, 0, 1]
    assert file.read_text() == SOURCE
    assert sorted(p.name for p in file.parent.iterdir()) == ["triton_attention_helpers.py", file.name]
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("command", ["apply", "check"])
def test_an_unknown_tree_is_refused_and_left_alone(tmp_path, capsys, command):
    file = plant(tmp_path, SOURCE.replace("TILE_SIZE_DECODE", "TILE"))
    before = file.read_bytes()
    assert main([command, "--tree", str(tmp_path), "--json"]) == 3
    refused = json.loads(capsys.readouterr().out)["refused"]
    assert refused["rule"] == "turing-unknown-tree"
    assert "TILE_SIZE_DECODE" in refused["why"]
    assert file.read_bytes() == before


def test_a_file_that_cannot_be_read_is_a_sentence(tmp_path, capsys):
    file = plant(tmp_path)
    file.unlink()
    file.mkdir()
    assert main(["apply", "--tree", str(tmp_path)]) == 3
    assert "no such file" in capsys.readouterr().err


def test_a_release_that_is_not_pinned_is_a_usage_error(capsys):
    assert main(["prove", "--release", "0.1.0"]) == 2
    assert "0.1.0" in capsys.readouterr().err
