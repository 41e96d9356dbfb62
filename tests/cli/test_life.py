"""One stack's life as an operator lives it: the product's commands, the real engine, the local cloud.

A run of the engine takes some ten seconds, so the steps share one stack; each says what it leaves for the next.
"""

from __future__ import annotations

import shutil
import sys

import pytest

from rehearsal.cloud.google import troubles
from tests.cli.site import site

pytestmark = [
    pytest.mark.timeout(1800),
    pytest.mark.skipif(shutil.which("pulumi") is None, reason="pulumi is not on PATH; `make setup` puts it there"),
]


@pytest.fixture(scope="module")
def here(tmp_path_factory):
    with site(tmp_path_factory.mktemp("site")) as running:
        yield running
        assert running.cloud.own_errors() == ()


def instances(here):
    return list(here.cloud.machines())


def bills(here):
    """What the ledger says is left, but for the operator's own secret."""
    return [item.name for item in here.cloud.ledger.left() if not item.name.startswith("hf-token/")]


def test_before_the_first_up_it_is_absent(here):
    assert here.run("status", code=0)[0]["state"] == "absent"
    here.run("logs", code=1)
    here.run("smoke", code=1)


def test_up_without_a_terminal_and_without_yes_asks_nobody(here):
    error = here.run("up", code=2)[0]["error"]
    assert "--yes" in error["way_out"] and not here.cloud.requests()


def test_a_refusal_comes_before_the_engine(here):
    here.change("window=5m")
    refused = here.run("up", "--yes", code=3)[0]["refused"]
    here.change("window=4h")
    assert refused["rule"] == "window-bounds" and not here.cloud.requests()


def test_a_stock_out_exits_4_and_leaves_nothing_that_bills(here):
    here.cloud.arm(troubles.stock_out())
    error = here.run("up", "--yes", code=4)[0]["error"]
    here.cloud.disarm()
    assert error["kind"] == "no-capacity" and instances(here) == []
    status = here.run("status", code=1)[0]
    assert status["state"] == "failed" and "ZONE_RESOURCE_POOL_EXHAUSTED" in status["cause"]


def test_up_serves(here):
    up, progress = here.run("up", "--yes", code=0)
    assert up["state"] == "serving" and up["answer"]["nonce"] in up["answer"]["text"]
    assert up["script"]["running"] == up["script"]["wanted"] != ""
    assert [p["name"] for p in up["phases"]] == ["docker", "serving"]
    assert "creating compute/instance" in progress and "price" in progress
    assert len(instances(here)) == 1


def test_up_again_says_so(here):
    text = here.text("up", "--yes")
    assert "serves already and nothing changed" in text and len(instances(here)) == 1


def test_status_logs_smoke_tunnel(here):
    status = here.run("status", "--boot", code=0)[0]
    assert status["state"] == "serving" and status["seconds_left"] > 0 and status["cost_so_far"] is not None
    assert status["zone"] == "europe-west4-a" and [p["result"] for p in status["phases"]] == ["done", "done"]
    assert "docker" in here.text("status", "--boot")
    assert "flexserve: serving" in here.run("logs", code=0)[0]["text"]
    assert here.run("smoke", code=0)[0]["checks"][0]["outcome"] == "pass"
    asks = f"{sys.executable} -m rehearsal.ask word-1"
    assert '"answer": "word-1"' in here.text("tunnel", "--port", "0", "--exec", asks)
    assert here.text("render", "--live").startswith("#!")


def test_a_changed_flag_reaches_the_same_machine_and_a_phase_that_fails_exits_1_with_its_cause(here):
    """One that serves after it: `tests/rehearsal/test_life.py`."""
    before = here.run("status", code=0)[0]
    here.behaviour.fails_in, here.behaviour.cause = "token", "secret hf-token is empty"
    here.change("serving.text_only=true")
    document, progress = here.run("up", "--yes", code=1)
    here.behaviour.fails_in = here.behaviour.cause = ""
    error = document["error"]
    assert (error["phase"], error["cause"], error["log_tail"]) == ("token", "secret hf-token is empty", "the last line")
    assert "would update compute/instance" in progress
    status = here.run("status", code=1)[0]
    assert status["state"] == "failed" and status["id"] == before["id"]
    assert status["script"]["running"] == status["script"]["wanted"] != before["script"]["wanted"]


def test_what_will_not_go_exits_7_and_is_named(here):
    """The engine reports the machine as deleted: a delete whose operation ends in an error."""
    here.cloud.arm(troubles.delete_fails(times=None))
    down, _ = here.run("down", "--yes", code=7)
    here.cloud.disarm()
    assert "instance" in [thing["kind"] for thing in down["left_behind"]]
    assert down["receipt"]["cost"] is not None and down["receipt"]["seconds"] > 0 and down["receipt"]["tokens"] == 1500


def test_the_next_down_deletes_it_by_id_and_empties_the_state(here):
    down, progress = here.run("down", "--yes", code=0)
    assert "instance" in [d["kind"] for d in down["deleted"] if d["by"] == "id"], progress
    assert down["left_behind"] == []
    assert bills(here) == []
    assert here.run("status", code=0)[0]["state"] == "absent"


def test_after_the_window_it_is_expired_and_down_is_clean(here):
    here.run("up", "--yes", "--no-wait", code=0)
    here.cloud.clock.advance(5 * 3600)
    status = here.run("status", code=8)[0]
    assert status["state"] == "expired" and status["seconds_left"] == 0
    assert here.run("smoke", code=8)[0]["error"]["kind"] == "gone"
    assert here.run("tunnel", "--port", "0", code=8)[0]["event"] == "expired"
    assert here.run("down", "--yes", code=0)[0]["left_behind"] == []
    assert bills(here) == []


def test_no_secret_value_is_in_a_log(here):
    logs = list((here.project / ".flexserve" / "logs").iterdir())
    assert logs and not any("hf_sentinel" in log.read_text(encoding="utf-8") for log in logs)
