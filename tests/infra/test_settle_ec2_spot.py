"""What a live spot machine ignores and what it cannot take, also where the failover made it."""

import pytest

from catalog.loader import Catalog
from infra.settle import settle
from tests.infra.test_settle import answers, at
from verdict.errors import Refused

TODAY = {"target.host_image": "ami-07a66fa2acbcfea88", "target.bucket": "own", "model": "b" * 40}
ZONES = "target.zones=[us-east-1a, us-east-1b]"


@pytest.fixture
def live(g5g_spot):
    """(settings) -> the plan of a machine that lives in the second zone, its first having had none; nobody may be asked."""
    first = settle(g5g_spot(ZONES), Catalog.load(), None, at(), answers(TODAY))
    second = settle(g5g_spot(ZONES), Catalog.load(), first.kept, at(place="us-east-1b", now=2000), answers({}))

    def run(*sets):
        return second, settle(g5g_spot(ZONES, *sets), Catalog.load(), second.kept, at(live=True, now=5000), answers({}))

    return run


def test_the_id_of_the_first_try_is_kept_and_a_newer_image_is_not_asked_for(live):
    second, later = live()
    assert second.kept.id == later.kept.id == "0123456789" and (later.kept, later.words) == (second.kept, ())
    assert later.kept.value("target.host_image") == TODAY["target.host_image"]


@pytest.mark.parametrize(
    ("setting", "word"),
    [("window=6h", "flexserve:window stays 4h"), ("target.zones=[us-east-1d]", "flexserve:target.zones stays us-east-1b")],
)
def test_what_would_replace_it_is_ignored_with_a_word(live, setting, word):
    second, later = live(setting)
    assert (later.plan, later.kept) == (second.plan, second.kept)
    assert len(later.words) == 1 and later.words[0].startswith(word)


def test_what_it_cannot_take_is_refused_by_rule(live):
    with pytest.raises(Refused) as refused:
        live("target.machine_type=g5g.2xlarge")
    text = str(refused.value)
    assert "live-machine-would-be-replaced" in text and "target.machine_type is g5g.xlarge on the live machine" in text
