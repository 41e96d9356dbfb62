"""Before a machine is made by the program: the build that it would wait for."""

import pytest
from msgspec.structs import replace

from catalog.loader import Catalog
from infra.built import NoBuild, check
from infra.settle import settle
from infra.targets.protocol import KeptBuild
from tests.infra.test_settle import TODAY, answers, at
from verdict.errors import NoAccess
from verdict.exit_codes import ExitCode

PINS = {"target.host_image": "ami-0f5e1e5e000000001", "target.bucket": "fs-earlier", "model": "b" * 40}
KEPT = KeptBuild("s3://fs-earlier/builds/key/", 1, {})
BY_MACHINE = ("target.build.where=machine", "target.machine_type=g5g.4xlarge")


class Asked:
    """A bucket that may be looked into, or not."""

    key = "key"

    def __init__(self, kept=None, error=None):
        self.looks, self._kept, self._error = 0, kept, error

    def kept(self):
        self.looks += 1
        if self._error:
            raise self._error
        return self._kept


@pytest.fixture
def look(g5g_spot):
    """(bucket, stack file, circumstances) -> (what was warned, how often the bucket was looked into)."""

    def run(bucket, *sets, live=False, preview=False, replaces=()):
        settled = replace(settle(g5g_spot(*sets), Catalog.load(), None, at(), answers(PINS)), replaces=replaces)
        said = []
        check(settled, live=live, preview=preview, warn=said.append, builds=bucket)
        return said, bucket.looks

    return run


def test_a_machine_that_would_wait_is_refused_with_the_way_out(look):
    with pytest.raises(NoBuild) as refused:
        look(Asked())
    assert refused.value.exit_code is ExitCode.REFUSED
    assert refused.value.way_out == "`flexserve build -s g5g-spot` makes it, once"
    with pytest.raises(NoBuild, match="there is no build key yet") as refused:
        look(Asked(), "target.build.where=by_hand")
    assert "docs/operator/g5g-spot.md" in refused.value.way_out


def test_a_preview_says_so_and_goes_on(look):
    (word,), _ = look(Asked(), preview=True)
    assert word.startswith("an update would be refused: there is no build key yet") and "flexserve build -s g5g-spot" in word


@pytest.mark.parametrize(
    ("bucket", "sets", "how", "looks"),
    [
        pytest.param(Asked(KEPT), (), {}, 1, id="the build is there"),
        pytest.param(Asked(), (), {"live": True}, 0, id="a live machine that stays"),
        pytest.param(Asked(KEPT), (), {"live": True, "replaces": ("target.machine_type",)}, 1, id="one that is given up"),
        pytest.param(Asked(), BY_MACHINE, {}, 0, id="the machine makes it"),
    ],
)
def test_what_goes_on(look, bucket, sets, how, looks):
    assert look(bucket, *sets, **how) == ([], looks)


def test_a_live_machine_that_is_given_up_needs_a_build_for_the_next(look):
    with pytest.raises(NoBuild):
        look(Asked(), live=True, replaces=("target.machine_type",))


def test_a_bucket_that_may_not_be_looked_into_stops_nothing(look):
    said, _ = look(Asked(error=NoAccess("the role may not do this")))
    assert said == ["whether the build is there cannot be seen: the role may not do this"]


def test_a_target_that_serves_from_an_image_waits_for_no_build(tpu_v6e):
    settled = settle(tpu_v6e(), Catalog.load(), None, at(), answers(TODAY))
    check(settled, live=False, preview=False, warn=pytest.fail)
