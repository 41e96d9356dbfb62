"""Stack file, kept state and circumstances -> a plan with nothing open."""

import pytest
from msgspec.structs import replace

from catalog.loader import Catalog
from infra.image_facts import ImageFacts
from infra.kept import FACTS, Choice, from_state
from infra.settle import Circumstances, image_facts, settle
from verdict.errors import BadConfig, FlexserveError, Refused

TODAY = {"image": "sha256:" + "a" * 64, "model": "b" * 40, "target.host_image": "projects/acme-1/global/images/today"}
TOMORROW = {"image": "sha256:" + "c" * 64, "model": "d" * 40, "target.host_image": "projects/acme-1/global/images/tomorrow"}
TWO_ZONES = "target.zones=[europe-west4-a, us-east5-b]"


def at(now=1000, **changes):
    return Circumstances(**{"live": False, "consent": False, "now": lambda: now, "new_id": "0123456789", "login": "me", **changes})


def answers(table, asked=None):
    def resolve(key, deployment):
        if asked is not None:
            asked.append(key)
        return table[key]

    return resolve


@pytest.fixture
def first(tpu_v6e):
    return settle(tpu_v6e(), Catalog.load(), None, at(), answers(TODAY))


def again(tpu_v6e, first, *sets, table=TOMORROW, asked=None, **circumstances):
    changed = at(**{"live": True, "now": 99999, "new_id": "ffffffffff", "login": "somebody", **circumstances})
    return settle(tpu_v6e(*sets), Catalog.load(), first.kept, changed, answers(table, asked))


def test_at_create_everything_open_is_resolved_and_written_down(first):
    boot = first.plan.boot
    assert boot.resolved and boot.deployment_id == first.kept.id == "0123456789"
    assert (boot.image_digest, boot.model_revision) == (TODAY["image"], TODAY["model"])
    assert first.plan.deployment.target.host_image == TODAY["target.host_image"]
    assert first.kept.value("owner") == "me" and first.kept.started == 1000 and first.words == ()


def test_a_day_later_nothing_changes_and_nobody_is_asked(tpu_v6e, first):
    asked = []
    later = again(tpu_v6e, first, asked=asked)
    assert (later.plan, later.kept, later.words, asked) == (first.plan, first.kept, (), [])


def test_a_rerun_changes_the_attempt_and_nothing_else(tpu_v6e, first):
    second = again(tpu_v6e, first, rerun=True)
    assert (second.kept.attempt, second.plan.boot.attempt) == (1, 1)
    assert replace(second.kept, attempt=0) == first.kept
    assert replace(second.plan.boot, attempt=0) == first.plan.boot
    assert from_state(second.kept.as_state()) == second.kept and "attempt" not in first.kept.as_state()
    assert again(tpu_v6e, second).plan == second.plan  # it stays what it is at the next plain `pulumi up`
    assert again(tpu_v6e, second, rerun=True).kept.attempt == 2


def test_another_machine_begins_with_the_first_attempt(tpu_v6e, first):
    second = again(tpu_v6e, first, rerun=True)
    assert again(tpu_v6e, second, live=False).kept.attempt == 0
    assert again(tpu_v6e, second, live=False, rerun=True).kept.attempt == 0


def test_a_resolver_that_fails_does_not_matter_once_it_is_kept(tpu_v6e, first):
    assert again(tpu_v6e, first, table={}).plan == first.plan


def test_a_changed_flag_changes_the_script_only(tpu_v6e, first):
    later = again(tpu_v6e, first, "serving.text_only=true")
    assert later.kept == first.kept
    assert later.plan.boot.vllm_options != first.plan.boot.vllm_options


@pytest.mark.parametrize(
    ("setting", "word"),
    [
        ("window=6h", "flexserve:window stays 4h"),
        ("target.zones=[us-east5-b]", "flexserve:target.zones stays europe-west4-a"),
        (
            "target.host_image=projects/acme-1/global/images/mine",
            "flexserve:target.host_image stays projects/acme-1/global/images/today",
        ),
        ("target.disk_gb=300", "flexserve:target.disk_gb stays 200"),
    ],
)
def test_what_a_live_machine_ignores_leaves_the_plan_as_it_was(tpu_v6e, first, setting, word):
    later = again(tpu_v6e, first, setting)
    assert (later.plan, later.kept) == (first.plan, first.kept)
    assert len(later.words) == 1 and later.words[0].startswith(word) and "FLEXSERVE_REPLACE=1" in later.words[0]


@pytest.mark.parametrize(
    ("setting", "named"),
    [
        ("target.machine_type=ct6e-standard-4t", "flexserve:target.machine_type is ct6e-standard-1t"),
        ("target.service_account=vllm-box@acme-1.iam.gserviceaccount.com", "flexserve:target.service_account is own"),
        ("target.network={name: mine, subnetwork: mine}", "flexserve:target.network is own"),
        ("target.project=acme-2", "flexserve:target.project is acme-1"),
    ],
)
def test_what_a_live_machine_cannot_take_is_refused_by_name(tpu_v6e, first, setting, named):
    with pytest.raises(Refused) as error:
        again(tpu_v6e, first, setting)
    assert named in error.value.why


def test_the_address_range_stays_until_the_stack_is_gone(tpu_v6e, first):
    later = again(tpu_v6e, first, "target.subnet_range=10.8.0.0/24", live=False, consent=True)
    assert later.plan.deployment.target.subnet_range == "10.9.0.0/24" and len(later.words) == 1


def test_with_consent_it_is_a_new_machine(tpu_v6e, first):
    later = again(tpu_v6e, first, "target.machine_type=ct6e-standard-4t", "window=6h", consent=True)
    assert later.plan.machine.name == "ct6e-standard-4t" and later.plan.deployment.common.window == 21600
    assert later.kept.id == first.kept.id and later.kept.started == 99999
    assert later.replaces == ("window", "target.machine_type")


def test_consent_alone_changes_nothing(tpu_v6e, first):
    later = again(tpu_v6e, first, "owner=colleague", "serving.text_only=true", consent=True)
    assert later.kept.started == first.kept.started and later.replaces == ()


def test_another_image_is_resolved_and_reaches_the_live_machine(tpu_v6e, first):
    later = again(tpu_v6e, first, "image.name=vllm/vllm-tpu:nightly")
    assert later.plan.boot.image_digest == TOMORROW["image"] and later.kept.started == first.kept.started


def test_after_a_stock_out_the_next_zone_is_asked_and_then_kept(tpu_v6e):
    catalog = Catalog.load()
    one = settle(tpu_v6e(TWO_ZONES), catalog, None, at(), answers(TODAY))
    two = settle(tpu_v6e(TWO_ZONES), catalog, one.kept, at(place="us-east5-b", now=2000), answers(TOMORROW))
    assert two.plan.deployment.target.zones == ("us-east5-b",) and two.plan.region == "us-east5"
    assert two.kept.id == one.kept.id and two.kept.value("image") == TODAY["image"]
    plain = settle(tpu_v6e(TWO_ZONES), catalog, two.kept, at(live=True), answers({}))
    assert (plain.kept, plain.words) == (two.kept, ())


def test_a_place_that_the_stack_file_does_not_list_is_an_error(tpu_v6e):
    with pytest.raises(BadConfig, match="us-east5-b is not among the places"):
        settle(tpu_v6e(), Catalog.load(), None, at(place="us-east5-b"), answers(TODAY))


def test_a_machine_that_expired_comes_back_as_it_was_with_a_new_window(tpu_v6e, first):
    later = again(tpu_v6e, first, live=False)
    assert later.kept.choices == first.kept.choices and later.kept.started == 99999


def test_another_operator_does_not_take_the_machine_over_by_running_up(tpu_v6e, first):
    assert again(tpu_v6e, first, login="colleague").kept.value("owner") == "me"
    assert again(tpu_v6e, first, "owner=colleague").kept.value("owner") == "colleague"


def test_a_refusal_comes_before_anybody_is_asked(tpu_v6e):
    asked = []
    with pytest.raises(Refused, match="window-bounds"):
        settle(tpu_v6e("window=5m"), Catalog.load(), None, at(), answers(TODAY, asked))
    allowed = settle(tpu_v6e("window=5m"), Catalog.load(), None, at(allow=("window-bounds",)), answers(TODAY, asked))
    assert allowed.plan.allowed == ("window-bounds",) and asked == ["image", "model", "target.host_image"]
    assert allowed.words == ("rule window-bounds is passed, on your word",)  # plain pulumi shows it too


def test_what_cannot_be_resolved_at_create_stops_the_create(tpu_v6e):
    def fails(key, deployment):
        raise FlexserveError(f"no answer for {key}")

    with pytest.raises(FlexserveError, match="no answer for image"):
        settle(tpu_v6e(), Catalog.load(), None, at(), fails)


def test_what_the_stack_file_pins_is_never_asked(tpu_v6e):
    asked = []
    pins = (
        f"image.name=vllm/vllm-tpu@{TODAY['image']}",
        f"model.revision={TODAY['model']}",
        "target.host_image=projects/acme-1/global/images/mine",
    )
    settled = settle(tpu_v6e(*pins), Catalog.load(), None, at(), answers({}, asked))
    assert asked == [] and settled.plan.boot.resolved


NAMED = "image.name=vllm/vllm-tpu:v0.27.0"
FACTS_OF_TODAY = ImageFacts("sha256:" + "a" * 64, ("amd64",), "12.9", ("7.5",))


def told(deployment, kept):
    """What a look before `settle` says of the image, and by which name it asked."""
    asked = []

    def read(deployment):
        asked.append(deployment.image.name)
        return ImageFacts(deployment.image.digest or "sha256:newest", ("arm64",))

    return image_facts(deployment, kept, read), asked


def test_before_the_first_create_the_image_is_read_by_the_name_of_the_stack_file(tpu_v6e):
    facts, asked = told(tpu_v6e(NAMED), None)
    assert (facts.digest, asked) == ("sha256:newest", ["vllm/vllm-tpu:v0.27.0"])


def test_a_tag_that_has_moved_does_not_name_the_image_that_runs(tpu_v6e):
    kept = settle(tpu_v6e(NAMED), Catalog.load(), None, at(), answers(TODAY)).kept
    facts, asked = told(tpu_v6e(NAMED), kept)  # of a state without its config: read by its digest
    assert (facts.digest, asked) == (TODAY["image"], [f"vllm/vllm-tpu:v0.27.0@{TODAY['image']}"])
    known = replace(kept, choices={**kept.choices, FACTS: Choice(TODAY["image"], FACTS_OF_TODAY.text())})
    assert told(tpu_v6e(NAMED), known) == (FACTS_OF_TODAY, [])


def test_another_image_in_the_stack_file_is_read_anew(tpu_v6e):
    kept = settle(tpu_v6e(NAMED), Catalog.load(), None, at(), answers(TODAY)).kept
    known = replace(kept, choices={**kept.choices, FACTS: Choice(TODAY["image"], FACTS_OF_TODAY.text())})
    assert told(tpu_v6e("image.name=vllm/vllm-tpu:nightly"), known)[1] == ["vllm/vllm-tpu:nightly"]
