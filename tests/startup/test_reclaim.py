"""The watcher of a spot machine, against answers of the metadata service in turn."""

import json

import pytest

from startup.onboard import places, reclaim
from startup.onboard.curl import Answer

NOTHING = Answer(404, "", "")
ADVICE = Answer(200, '{"noticeTime": "2026-08-20T10:58:00Z"}', "")
NOTICE = Answer(200, '{"action": "terminate", "time": "2026-08-20T11:02:00Z"}', "")


@pytest.fixture
def watched(monkeypatch, tmp_path):
    """Watch with these answers of each path, one a look, the last of them for ever; what the status said at each look."""

    def watch(notices, advices):
        said, looks = [], []
        answers = {reclaim.NOTICE: list(notices), reclaim.ADVICE: list(advices)}
        state = tmp_path / "state"
        state.write_text('{"state": "serving"}', encoding="utf-8")
        monkeypatch.setattr(places, "STATE", tmp_path)
        monkeypatch.setattr(places, "PID", tmp_path / "pid")
        monkeypatch.setattr(reclaim.aws, "imds", lambda path: answers[path].pop(0) if len(answers[path]) > 1 else answers[path][0])
        monkeypatch.setattr(reclaim, "sleep", lambda _seconds: looks.append(json.loads(state.read_text(encoding="utf-8"))["state"]))
        monkeypatch.setattr(reclaim.Report, "line", lambda _self, text, **_how: said.append(text))
        monkeypatch.setattr(reclaim.subprocess, "run", lambda *_a, **_k: reclaim.subprocess.CompletedProcess((), 0, "", ""))
        reclaim.watch()
        return said, looks, json.loads(state.read_text(encoding="utf-8"))

    return watch


def test_advice_is_noted_once_and_serving_goes_on_until_the_notice(watched):
    said, looks, state = watched([NOTHING, NOTHING, NOTHING, NOTHING, NOTICE], [NOTHING, ADVICE])
    assert [line for line in said if "advises" in line] == [f"flexserve: EC2 advises to move on: {ADVICE.body}"]
    assert looks == ["serving"] * 4
    assert state["state"] == "reclaimed" and state["cause"].startswith("reclaimed at 11:02 UTC")


def test_a_notice_without_advice_is_enough(watched):
    said, looks, state = watched([NOTHING, NOTICE], [NOTHING])
    assert looks == ["serving"] and state["state"] == "reclaimed"
    assert [line for line in said if "advises" in line] == []


def test_a_metadata_service_that_does_not_answer_is_no_notice(watched):
    _, looks, _ = watched([Answer(0, "", "timed out"), Answer(503, "slow down", ""), NOTICE], [Answer(0, "", "")])
    assert looks == ["serving"] * 2
