"""A project folder as an operator has it, with the shipped stack filled in."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from flexserve import cli
from tests.conftest import FILLED_IN

FILL = [word for item in FILLED_IN for word in ("--set", item)]


@pytest.fixture
def project(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the shipped stack file with its placeholders filled in; the working folder."""
    folder = tmp_path / "project"
    (folder / "stacks").mkdir(parents=True)
    (folder / "Pulumi.yaml").write_text((root / "Pulumi.yaml").read_text(encoding="utf-8"), encoding="utf-8")
    text = (root / "stacks" / "Pulumi.tpu-v6e.yaml").read_text(encoding="utf-8")
    text = text.replace("your-project", "acme-1").replace("user:you@example.com", "user:ops@acme.test")
    (folder / "stacks" / "Pulumi.tpu-v6e.yaml").write_text(text, encoding="utf-8")
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def flexserve(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    """Run a command in this process: exit code, stdout, stderr."""

    def call(*words: str) -> tuple[int, str, str]:
        code = cli.main(words)
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call


def document(text: str) -> dict[str, object]:
    """The one JSON document on stdout."""
    value = json.loads(text)
    assert isinstance(value, dict)
    return value
