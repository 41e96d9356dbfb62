"""A state that is read while it is written: the engine's own words for it, and that a reader asks again."""

from __future__ import annotations

import json
import stat
import sys
import threading
from pathlib import Path

import pulumi.runtime
import pytest

from flexserve.project import Project
from infra import halfread, program
from infra.state import STACK_TYPE
from verdict.errors import FlexserveError

EXPORT = {"deployment": {"resources": [{"type": STACK_TYPE, "outputs": {"zone": "z"}}]}}
LOAD = "invoke of pulumi:pulumi:readStackResourceOutputs failed: failed to load checkpoint: "


class Answer:
    value = {"outputs": {}}


@pytest.mark.parametrize("end", ["EOF", "unexpected EOF", "unmarshal: unexpected end of JSON input"])
def test_a_half_written_state_is_known_by_its_words(end: str):
    assert halfread.half_written(LOAD + end)


@pytest.mark.parametrize("other", ["permission denied", "no stack named 'geof' found", "GEOFENCE", ""])
def test_other_refusals_are_not(other: str):
    assert not halfread.half_written(LOAD + other)


def test_the_program_asks_again(monkeypatch: pytest.MonkeyPatch):
    refusals = [Exception(LOAD + "EOF")] * 3

    def invoke(*_: object) -> Answer:
        if refusals:
            raise refusals.pop()
        return Answer()

    monkeypatch.setattr(pulumi.runtime, "invoke", invoke)
    assert program.recorded("a-stack", "gce_flex") == program.Recorded(None, live=False)


@pytest.mark.parametrize(("words", "asked"), [("EOF", len(halfread.WAITS_S) + 1), ("permission denied", 1)])
def test_the_program_gives_up_after_the_last_wait_and_at_once_for_another_reason(words, asked, monkeypatch: pytest.MonkeyPatch):
    times: list[int] = []

    def invoke(*_: object) -> Answer:
        times.append(1)
        raise Exception(LOAD + words)

    monkeypatch.setattr(pulumi.runtime, "invoke", invoke)
    monkeypatch.setattr("infra.halfread.time.sleep", lambda _: None)
    with pytest.raises(FlexserveError, match="does not tell the program"):
        program.recorded("a-stack", "gce_flex")
    assert len(times) == asked


def test_a_command_asks_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    fake = tmp_path / "bin" / "pulumi"
    fake.parent.mkdir()
    fake.write_text(
        f"#!{sys.executable}\nimport pathlib, sys\nseen = pathlib.Path({str(tmp_path / 'seen')!r})\n"
        f"if seen.exists():\n    print({json.dumps(EXPORT)!r})\n"
        "else:\n    seen.touch()\n    sys.exit('error: failed to load checkpoint: EOF')\n"
    )
    fake.chmod(fake.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setattr("flexserve.project.pulumi", lambda: str(fake))
    assert Project(tmp_path).outputs("a-stack") == {"zone": "z"}


def test_a_reader_beside_a_writer_reads_the_whole(tmp_path: Path):
    """The backend's own way of writing, create then encode: the reader comes in between, and asks again."""
    file, begun, seen = tmp_path / "stack.json.attrs", threading.Event(), threading.Event()

    def write() -> None:
        with file.open("w") as out:
            begun.set()
            seen.wait(60)
            out.write("whole")

    def early(text: str) -> bool:
        if text == "":
            seen.set()
        return text == ""

    writer = threading.Thread(target=write)
    writer.start()
    begun.wait(60)
    try:
        assert halfread.settled(file.read_text, early, (0.01,) * 6000) == "whole"
        assert seen.is_set()
    finally:
        seen.set()
        writer.join()
