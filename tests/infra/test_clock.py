"""When a window begins: by the cloud's clock, whatever this machine's says."""

import time
from contextlib import ExitStack
from datetime import UTC, datetime
from email.utils import formatdate

import pytest

from infra import program
from infra.clouds import clock
from infra.clouds.aws.session import Session
from infra.clouds.clock import CloudClock, differs
from infra.targets import registry
from rehearsal.cloud.aws import LocalAwsCloud
from rehearsal.cloud.clock import TurnedClock
from rehearsal.cloud.google import LocalGoogleCloud
from verdict.errors import FlexserveError, NoAccess

HOUR = 3600.0
CLOUD = 1_800_000_000.0


def here(ahead=0.0):
    """A clock of a machine that is `ahead` seconds ahead of a cloud that says CLOUD."""
    return CloudClock(wall=lambda: CLOUD + ahead, steady=lambda: 0.0)


@pytest.mark.parametrize(
    ("ahead", "words"),
    [
        (0, ""),
        (119, ""),
        (-119, ""),
        (121, "this machine's clock is 2 min ahead of the cloud's"),
        (HOUR, "this machine's clock is 60 min ahead of the cloud's"),
        (-HOUR, "this machine's clock is 60 min behind the cloud's"),
    ],
)
def test_a_window_begins_by_the_clouds_clock_and_a_wrong_clock_is_told(ahead, words):
    told, ours = [], here(ahead)
    begins = program.window_begins(lambda: ours.hear(formatdate(CLOUD, usegmt=True)), told.append, ours)
    assert begins == CLOUD
    assert told == ([f"{words}: the window counts from the cloud's"] if words else []) and differs(ahead) == words


def test_what_was_heard_before_is_not_asked_again_and_time_goes_on():
    seconds = [10.0]
    ours = CloudClock(wall=lambda: CLOUD, steady=lambda: seconds[0])
    ours.hear(formatdate(CLOUD, usegmt=True))
    seconds[0] = 45.0
    assert program.window_begins(lambda: pytest.fail("asked again"), [].append, ours) == CLOUD + 35


@pytest.mark.parametrize("zone", ["", " -0000"])
def test_a_date_without_a_zone_is_utc_wherever_this_machine_is(monkeypatch, zone):
    monkeypatch.setenv("TZ", "America/New_York")
    time.tzset()
    try:
        assert here().hear(f"Mon, 30 Nov 2026 10:00:00{zone}") == datetime(2026, 11, 30, 10, tzinfo=UTC)
    finally:
        monkeypatch.undo()
        time.tzset()


def test_a_cloud_that_refuses_tells_its_time_as_well():
    ours = here(HOUR)

    def refuses():
        ours.hear(formatdate(CLOUD, usegmt=True))
        raise NoAccess("no")

    assert program.window_begins(refuses, [].append, ours) == CLOUD


@pytest.mark.parametrize("date", [None, "yesterday", "", "Fri, 31 Dec 9999 23:59:59 -1200"])
def test_without_an_answer_our_own_clock_has_to_do_and_that_is_told(date):
    told, ours = [], here(5)

    def answers():
        if date is None:
            raise FlexserveError("no network")
        ours.hear(date)

    assert program.window_begins(answers, told.append, ours) == CLOUD + 5
    assert told == ["the cloud did not tell its time: the window counts from this machine's clock"]


@pytest.mark.parametrize("off", [HOUR, -HOUR], ids=["the cloud is ahead", "the cloud is behind"])
@pytest.mark.parametrize(
    ("cloud", "stack"), [(LocalAwsCloud, "g5g_spot"), (LocalAwsCloud, "sagemaker_t4"), (LocalGoogleCloud, "tpu_v6e")]
)
def test_every_target_asks_its_own_cloud(request, monkeypatch, cloud, stack, off):
    deployment = request.getfixturevalue(stack)()
    with ExitStack() as running:
        local = running.enter_context(cloud(clock=TurnedClock(lambda: time.time() + off)))
        for name, value in local.environment().items():
            monkeypatch.setenv(name, value)
        settings = deployment.target.model_dump() | ({"project": local.project} if cloud is LocalGoogleCloud else {})
        told, before = [], time.time()
        monkeypatch.setattr(clock.CLOUD, "_heard", None)
        begins = program.window_begins(lambda: registry.live(deployment.target.kind, settings).now(), told.append)
        assert before + off - 2 <= begins <= time.time() + off + 1  # a Date has whole seconds
        assert len(told) == 1 and "60 min" in told[0] and ("behind" if off > 0 else "ahead of") in told[0]


def test_credentials_that_a_wrong_clock_makes_useless_are_not_blamed_on_the_credentials(monkeypatch):
    """The local AWS takes this machine's time too, so the refusal is for a key it does not know: the words are the same."""
    with LocalAwsCloud(clock=TurnedClock(lambda: time.time() - HOUR)) as local:
        for name, value in (local.environment() | {"AWS_ACCESS_KEY_ID": "AKIAUNKNOWN000000000"}).items():
            monkeypatch.setenv(name, value)
        with pytest.raises(NoAccess, match="this machine's clock is 60 min ahead of the cloud's") as refused:
            Session("us-east-1").call("ec2", "describe_regions")
        assert "AuthFailure" in refused.value.why and "timedatectl" in refused.value.way_out


@pytest.mark.parametrize("dry", [True, False])
def test_only_an_update_asks_the_cloud_for_the_time(monkeypatch, tpu_v6e, dry):
    asked = []
    monkeypatch.setattr("pulumi.runtime.is_dry_run", lambda: dry)
    monkeypatch.setattr(program, "window_begins", lambda *_: asked.append("the cloud") or CLOUD)
    begins = program.now(tpu_v6e())
    assert (asked, begins == CLOUD) == (([], False) if dry else (["the cloud"], True))
