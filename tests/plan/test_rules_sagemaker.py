"""Rules about SageMaker, its cards and its images, by name; prices from the fewest to the most machines."""

from __future__ import annotations

import json

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from catalog.loader import Catalog
from flexserve.commands.plan import image_says, price_table, unresolved
from infra.image_facts import ImageFacts
from infra.plan import make_plan
from infra.rules.every import all_rules
from infra.targets.sagemaker import rules
from infra.targets.sagemaker.config import LOG_DAYS, Config
from verdict.errors import BadConfig, Refused
from verdict.exit_codes import ExitCode

EMB4 = "xbill9/gemma-4-{}-it-qat-q4_0-w4a16-ct-text-emb4"
AWS = "763104351884.dkr.ecr.us-east-2.amazonaws.com/vllm"
CU13, CU12 = "0.30.0-gpu-py312-cu130-ubuntu24.04-sagemaker-v1.3", "0.29.0-gpu-py312-cu129-ubuntu22.04-sagemaker-v1.0"
ON_CU12 = [f"image.name={AWS}:{CU12}", "allow=[unknown-image]"]
HOST13, HOST12 = "al2023-ami-sagemaker-inference-gpu-4-1", "al2-ami-sagemaker-inference-gpu-3-1"
BIG = "x" * 1020
BY_USE = ("data in and out", "log")

# A rule, what breaks it on the T4 stack, and what its way out says.
BROKEN = [
    ("cuda-driver-mismatch", [f"target.host_image={HOST12}"], HOST13),
    ("cuda-driver-mismatch", ["target.host_image=al2-ami-sagemaker-inference-gpu-2"], HOST13),
    ("cuda-driver-mismatch", ["target.host_image=al2-ami-sagemaker-inference-neuron-2"], HOST13),
    ("cuda-driver-mismatch", [*ON_CU12, f"target.host_image={HOST13}"], HOST12),
    ("host-image-unknown", ["target.host_image=al2023-ami-sagemaker-inference-gpu-4-2"], HOST13),
    ("turing-unpatched", ["target.image_source=aws"], "patched"),
    ("image-not-in-ecr", ["image.name=vllm/vllm-openai:v0.30.0"], f"{AWS}:{CU13}"),
    ("image-not-in-ecr", ["image.name=public.ecr.aws/deep-learning-containers/vllm:server-sagemaker-cuda"], AWS),
    ("image-of-another-region", [f"image.name={AWS.replace('us-east-2', 'us-east-1')}:{CU13}"], f"{AWS}:{CU13}"),
    ("image-of-another-region", ["target.region=us-west-2"], "763104351884.dkr.ecr.us-west-2.amazonaws.com"),
    ("machine-of-another-service", ["target.machine_type=g5g.xlarge"], "ml.g"),
    ("unknown-machine-type", ["target.machine_type=ml.g5g.xlarge"], "ml.g"),
    ("secret-value", ["secret.name=hf_abcdefghijkl"], "flexserve secret put"),
    ("secret-value", ["serving.environment={VLLM_X: hf_abcdefghijkl}"], "flexserve secret put"),
    ("token-in-environment", ["serving.environment={HF_TOKEN: abc}"], "flexserve:secret.name"),
    ("token-in-environment", ["serving.environment={HUGGING_FACE_HUB_TOKEN: abc}"], "flexserve:secret.name"),
    ("token-in-environment", ["serving.extra_args={hf-token: abc}"], "flexserve:secret.name"),
    ("environment-too-large", [f"serving.environment={{VLLM_LOGGING_PREFIX: {'y' * 1025}}}"], "serving.environment"),
    ("timeout-bounds", ["target.start_timeout=59"], "within"),
    ("window-bounds", ["window=9m"], "within"),
    ("window-bounds", ["window=35m"], "flexserve:window to 36m or more"),
    ("timeout-bounds", ["target.start_timeout=3601"], "within"),
    ("timeout-bounds", ["target.download_timeout=59"], "within"),
    ("timeout-bounds", ["target.download_timeout=2h"], "within"),
    ("dtype-unsupported", ["serving.dtype=bfloat16"], "float16"),
    ("kv-dtype-unsupported", ["serving.kv_cache_dtype=bfloat16"], "auto"),
    ("length-does-not-fit", ["model.name=google/gemma-4-26B-A4B-it"], "smaller model"),
    ("length-does-not-fit", [f"model.name={EMB4.format('26B-A4B')}"], "smaller model"),
    ("length-does-not-fit", ["model.name=google/gemma-4-E4B-it"], EMB4.format("E4B")),
    ("length-does-not-fit", ["model.name=google/gemma-4-12B-it"], EMB4.format("12B")),
    ("length-does-not-fit", ["serving.max_model_len=131072"], "serving.max_model_len"),
    ("unknown-zone", ["target.region=eu-west-1", f"image.name={AWS.replace('us-east-2', 'eu-west-1')}:{CU13}"], "us-"),
    ("unknown-image", [f"image.name={AWS}:{CU12}"], CU13),
]  # fmt: skip


@pytest.mark.parametrize(("rule", "sets", "way_out"), BROKEN, ids=[f"{rule}-{sets[0][:60]}" for rule, sets, _ in BROKEN])
def test_a_broken_rule_refuses_by_name(sagemaker_t4, rule, sets, way_out):
    with pytest.raises(Refused) as error:
        make_plan(sagemaker_t4(*sets), Catalog.load())
    assert error.value.rule == rule and way_out in error.value.way_out and error.value.why
    assert error.value.exit_code is ExitCode.REFUSED


PINNED = f"image.name={AWS}@sha256:{'a' * 64}"
OWN = ["target.image_source=own", "image.name=123456789012.dkr.ecr.us-east-2.amazonaws.com/mine:x"]
OURS = {"cuda": "13.0.2", "checked": ("7.5",), "turing": "1", "secret": True}

# A rule, what the T4's stack file says, what the image's own config says, and what the way out says.
READ = [
    ("cuda-driver-mismatch", [*ON_CU12, f"target.host_image={HOST12}"], {"cuda": "13.0.2"}, HOST13),
    ("cuda-driver-mismatch", [PINNED, f"target.host_image={HOST13}"], {"cuda": "12.9.1"}, HOST12),
    ("cuda-driver-mismatch", [f"target.host_image={HOST13}"], {"cuda": "12.9.1"}, HOST12),  # also where the catalog has another
    ("host-image-unknown", [PINNED], {}, "target.host_image"),
    ("host-image-unknown", [PINNED], {"cuda": "11.8.0"}, "target.host_image"),
    ("image-lacks-card", [], {"cuda": "13.0.2", "cards": ("8.0", "9.0")}, f"{AWS}:{CU13}"),
    ("image-of-another-processor", [], {"processors": ("arm64",)}, "amd64"),
    ("image-of-another-processor", [], {"processors": ()}, "amd64"),
    ("image-not-ours", OWN, {"cuda": "13.0.2"}, "image_source to patched"),
    ("turing-unpatched", [*OWN, "allow=[image-not-ours]"], {"cuda": "13.0.2"}, "patched"),
    ("turing-unpatched", OWN, {**OURS, "turing": ""}, "patched"),
    ("image-lacks-card", OWN, {**OURS, "cards": ("8.0",), "checked": ("9.0",)}, AWS),
    ("secret-needs-patched", [*OWN, "secret.name=hf-token"], {**OURS, "secret": False}, "flexserve built"),
]  # fmt: skip


def facts(**said):
    return ImageFacts(**{"digest": "sha256:1", "processors": ("amd64",), **said})


@pytest.mark.parametrize(("rule", "sets", "said", "way_out"), READ, ids=[f"{i}-{row[0]}" for i, row in enumerate(READ)])
def test_what_the_image_itself_says_is_held_against_the_same_rules(sagemaker_t4, rule, sets, said, way_out):
    with pytest.raises(Refused) as error:
        make_plan(sagemaker_t4(*sets), Catalog.load(), read=facts(**said))
    assert error.value.rule == rule and way_out in error.value.way_out and error.value.why


@pytest.mark.parametrize(
    ("sets", "said", "host", "cuda", "cards"),
    [
        ([], {"cuda": "12.9.1"}, HOST12, ("12.9.1", "its own config"), "the catalog"),
        (ON_CU12, {"cuda": "13.0.2", "cards": ("7.5",)}, HOST13, ("13.0.2", "its own config"), "its own config"),
        ([], {}, HOST13, ("13.0", "the catalog"), "the catalog"),
        (ON_CU12, {}, HOST12, ("12.9", "its tag"), ""),
        ([*OWN, "secret.name=hf-token"], OURS, HOST13, ("13.0.2", "its own config"), ""),
        (OWN, {**OURS, "cards": ("8.0",)}, HOST13, ("13.0.2", "its own config"), "its own config"),  # torch was looked at
    ],
)
def test_the_host_image_goes_by_what_the_image_says_and_what_it_does_not_say_stays(sagemaker_t4, sets, said, host, cuda, cards):
    plan = make_plan(sagemaker_t4(*sets), Catalog.load(), read=facts(**said))
    assert (plan.host_image, plan.cuda, plan.cards[1], plan.allowed) == (host, cuda, cards, plan.deployment.common.allow)
    assert plan.as_dict()["image"]["read"] is True and "at up" not in " ".join(text for _, text in image_says(plan))


def test_a_plan_says_what_nobody_has_read_yet(sagemaker_l4):
    """A digest has no facts but its own: not those of the repository's newest image."""
    pinned = make_plan(sagemaker_l4(PINNED), Catalog.load())
    assert (pinned.host_image, pinned.cuda, pinned.cards) == ("auto", ("", ""), ((), "")) and pinned.image is not None
    assert [text for _, text in image_says(pinned)] == ["unread until up"] * 2 and "image config" in unresolved(pinned)
    document = pinned.as_dict()["image"]
    assert (document["cuda"], document["cards"], document["read"]) == (None, None, False)
    catalogued = make_plan(sagemaker_l4(), Catalog.load())
    assert catalogued.as_dict()["image"]["cuda_by"] == "the catalog"
    assert all(text.endswith("its own config is read at up") for _, text in image_says(catalogued))
    odd = make_plan(sagemaker_l4(f"image.name={AWS}:latest", "allow=[unknown-image]"), Catalog.load())
    assert odd.host_image == "auto" and image_says(odd)[0][1] == "unread until up"


def test_an_own_build_needs_no_row_of_the_catalog_and_is_looked_at_at_up(sagemaker_t4):
    plan = make_plan(sagemaker_t4(*OWN, "secret.name=hf-token"), Catalog.load())
    assert plan.allowed == () and plan.image is None and not plan.boot.sagemaker.built and "image config" in unresolved(plan)


def test_a_wrong_host_image_goes_past_on_the_operators_word(sagemaker_t4):
    plan = make_plan(sagemaker_t4(f"target.host_image={HOST12}"), Catalog.load(), ["cuda-driver-mismatch"])
    assert plan.host_image == HOST12 and plan.allowed == ("cuda-driver-mismatch",)


def test_a_secret_needs_the_built_image(sagemaker_l4):
    with pytest.raises(Refused) as error:
        make_plan(sagemaker_l4("secret.name=hf-token"), Catalog.load())
    assert error.value.rule == "secret-needs-patched" and "target.image_source" in error.value.way_out
    assert make_plan(sagemaker_l4("secret.name=hf-token", "target.image_source=patched"), Catalog.load()).boot.sagemaker.built


@pytest.mark.parametrize(("dtype", "fits"), [("half", True), ("float", True), ("float16", True), ("bfloat16", False)])
def test_vllms_other_words_for_a_number_format_are_the_same_formats(sagemaker_t4, dtype, fits):
    if fits:
        assert make_plan(sagemaker_t4(f"serving.dtype={dtype}"), Catalog.load()).vllm.dtype == dtype
        return
    with pytest.raises(Refused, match="dtype-unsupported"):
        make_plan(sagemaker_t4(f"serving.dtype={dtype}"), Catalog.load())


@pytest.mark.parametrize(
    ("kernels", "fits"), [(["8.0", "8.6", "9.0"], False), (["7.5"], True), ([], True), (["7.0", "8.0"], False)]
)
def test_an_image_without_kernels_for_the_card_is_refused(sagemaker_t4, kernels, fits):
    shipped = Catalog.load()
    images = tuple(msgspec.structs.replace(i, kernels=tuple(kernels)) for i in shipped.images)
    catalog = structs.replace(shipped, images=images)
    if fits:
        assert make_plan(sagemaker_t4(), catalog).allowed == ()
        return
    with pytest.raises(Refused) as error:
        make_plan(sagemaker_t4(), catalog)
    assert error.value.rule == "image-lacks-card" and "7.5" in error.value.why


def test_shipped_stacks_break_none_and_their_host_image_is_told(sagemaker_t4, sagemaker_l4):
    for stack in (sagemaker_t4, sagemaker_l4):
        plan = make_plan(stack(), Catalog.load())
        assert plan.allowed == () and plan.host_image == HOST13 and plan.as_dict()["host_image"] == HOST13
        assert plan.as_dict()["egress"] is None and plan.cost.unknown == BY_USE
    assert make_plan(sagemaker_t4(*ON_CU12, "target.machine_type=ml.g4dn.xlarge"), Catalog.load()).host_image == HOST12


def test_the_window_holds_the_recorded_start_and_some_use_of_it(sagemaker_t4, sagemaker_l4):
    """The build of a patched image passes inside the window as well."""
    for stack, window in ((sagemaker_t4, "36m"), (sagemaker_l4, "24m")):
        assert make_plan(stack(f"window={window}"), Catalog.load()).allowed == ()
    with pytest.raises(Refused, match="window-bounds") as error:
        make_plan(sagemaker_l4("window=23m"), Catalog.load())
    assert "13m12s for its boot" in error.value.why and "image" not in error.value.why
    with pytest.raises(Refused, match="12m36s for its image and 13m12s for its boot"):
        make_plan(sagemaker_t4("window=23m"), Catalog.load())


def test_too_many_entries_or_bytes_are_refused(sagemaker_t4):
    """vLLM's own variables are not that many: the rule is given the settings as they are."""
    many = {f"VLLM_X{n}": "1" for n in range(100)}
    large = {f"VLLM_X{n}": BIG for n in range(33)}
    for environment, says in ((many, "100"), (large, "32,768")):
        with pytest.raises(Refused, match="environment-too-large") as error:
            make_plan(sagemaker_t4(f"serving.environment={json.dumps(environment)}"), Catalog.load())
        assert says in error.value.why


@pytest.mark.parametrize(
    ("sets", "says"),
    [
        (["egress=nat"], "flexserve:egress: a sagemaker target has none"),
        (["egress=address"], "flexserve:egress: a sagemaker target has none"),
        (['access.members=["user:ops@acme.test"]'], "flexserve:access: a sagemaker target has none"),
        (["target.count={min: 3, max: 2}"], "max 2 is less than min 3"),
        (["target.count.min=0"], "must be 1 or more"),
        (["target.log_days=2"], "must be one of"),
        (["target.alarm={usd: 100}"], "target.alarm.mail: missing"),
        (["target.alarm={usd: 0.001, mail: ops@acme.test}"], "target.alarm.usd: must be 0.01 or more"),
        (["target.scaling.target=1e300"], "target.scaling.target: must be 1000000 or less"),
        (["target.execution_role=mine"], "write own, or a role's ARN"),
        (["target.repository=Mine"], "write own, or an ECR repository's name"),
        (["target.image_source=docker"], "must be aws, patched or own"),
        (["secret.name=hf-token-AbCdEf"], "must not end in a hyphen"),
        (["serving.extra_args={port: 1}"], "flexserve decides it"),
    ],
)
def test_what_the_stack_file_may_not_say(sagemaker_t4, sets, says):
    with pytest.raises(BadConfig, match=says.replace("(", r"\(")):
        make_plan(sagemaker_t4(*sets), Catalog.load())


MEASURED = [
    ("t4", EMB4.format("E2B"), 660_033), ("t4", EMB4.format("E4B"), 194_336), ("t4", EMB4.format("12B"), 20_354),
    ("l4", EMB4.format("E2B"), 1_209_977), ("l4", EMB4.format("E4B"), 376_156), ("l4", EMB4.format("12B"), 52_541),
    ("l4", EMB4.format("26B-A4B"), 30_456), ("l4", "google/gemma-4-E2B-it", 723_484),
    ("l4", "google/gemma-4-E2B-it-qat-w4a16-ct", 867_999), ("l4", "google/gemma-4-E4B-it", 94_853),
    ("l4", "google/gemma-4-E4B-it-qat-w4a16-ct", 200_972), ("l4", "google/gemma-4-12B-it-qat-w4a16-ct", 41_651),
]  # fmt: skip


@pytest.mark.parametrize(("card", "model", "tokens"), MEASURED)
def test_the_planned_cache_is_what_public_runs_measured(sagemaker_t4, sagemaker_l4, card, model, tokens):
    plan = make_plan({"t4": sagemaker_t4, "l4": sagemaker_l4}[card](f"model.name={model}"), Catalog.load())
    assert plan.kv.tokens == pytest.approx(tokens, rel=0.005)


def test_the_price_goes_from_the_fewest_machines_to_the_most(sagemaker_t4):
    plan = make_plan(sagemaker_t4("target.count={min: 2, max: 5}"), Catalog.load())
    document = plan.as_dict()
    assert document["price"]["per_hour"] == pytest.approx(2 * 0.736)
    assert document["price"]["most"] == {"per_hour": pytest.approx(5 * 0.736), "window": pytest.approx(5 * 0.736 * 4)}
    assert document["machines"] == {"min": 2, "max": 5}
    assert make_plan(sagemaker_t4(), Catalog.load()).as_dict()["price"]["most"] is None


@settings(deadline=None, max_examples=30)
@given(st.integers(1, 100), st.integers(1, 100))
def test_the_price_is_that_of_each_machine(one, other):
    from infra.deployment import from_stack_text
    from tests.conftest import ROOT

    least, most = sorted((one, other))
    text = (ROOT / "stacks" / "Pulumi.sagemaker-l4.yaml").read_text(encoding="utf-8")
    plan = make_plan(from_stack_text("sagemaker-l4", text, [f"target.count={{min: {least}, max: {most}}}"]), Catalog.load())
    assert plan.cost.per_hour == pytest.approx(1.1267 * least, abs=1e-5)
    assert (plan.most is None) == (least == most)
    assert plan.most is None or plan.most.per_hour == pytest.approx(1.1267 * most, abs=1e-5)


@settings(deadline=None)
@given(st.sampled_from(["12.2", "12.9", "13.0", "13.2", "11.8", ""]))
def test_the_host_image_that_is_chosen_never_breaks_the_rule_about_it(cuda):
    catalog = Catalog.load()
    chosen = Config(region="us-east-2").host(cuda, catalog.host_images)
    row = next((r for r in catalog.host_images if r.family == chosen), None)
    assert (row is None) == (cuda[:2] not in ("12", "13"))
    assert row is None or row.cuda[:2] == cuda[:2]


def test_a_place_is_a_region_and_ecr_is_told_from_other_registries():
    c = Config(region="us-east-2")
    assert c.places == ("us-east-2",) and c.region_of("us-east-2") == "us-east-2"
    assert rules.ecr(AWS)["region"] == "us-east-2" and rules.ecr("public.ecr.aws/x/vllm") is None
    assert 14 in LOG_DAYS


@pytest.mark.parametrize("region", ["us-east-1", "us-west-2"])
def test_a_region_whose_price_nobody_gave_has_none(sagemaker_l4, region):
    """No price for free, and not another region's; why, it says."""
    plan = make_plan(
        sagemaker_l4(f"target.region={region}", f"image.name={AWS.replace('us-east-2', region)}:{CU13}"), Catalog.load()
    )
    assert (plan.cost.per_hour, plan.cost.window, plan.cost.unknown) == (None, None, ("ml.g6.xlarge, on-demand", *BY_USE))
    why = f"the catalog has no price of ml.g6.xlarge in {region}, only in us-east-2"
    assert plan.cost.parts[0].why == why and why in price_table(plan)
    assert plan.as_dict()["price"]["parts"][0]["why"] == why
    assert plan.as_dict()["price"]["per_hour"] is None and "all of it unknown" in " ".join(price_table(plan).split())
    assert "$0/h, $0" not in price_table(plan)


def test_every_rule_of_its_own_is_broken_by_a_case():
    ours = {rule.id for rule in rules.RULES}
    assert ours <= {rule for rule, _, _ in BROKEN} | {rule for rule, _, _, _ in READ}
    assert ours <= {rule.id for rule in all_rules()}


def test_other_targets_know_none_of_this(tpu_v6e, g5g_spot):
    for deployment in (tpu_v6e(), g5g_spot()):
        plan = make_plan(deployment, Catalog.load())
        assert plan.most is None and plan.as_dict()["machines"] == {"min": 1, "max": 1} and plan.as_dict()["egress"] == "address"
    with pytest.raises(BadConfig, match=r"such as g5g\.xlarge"):
        make_plan(g5g_spot("target.machine_type=ml.g4dn.xlarge"), Catalog.load())


@pytest.mark.parametrize(
    ("setting", "why"),
    [
        ("target.machine_type=ml.g6.16xlarge", "the catalog has no price of ml.g6.16xlarge"),
        ("target.count={min: 1, max: 3}", ""),
    ],
)
def test_a_price_that_no_source_gave_is_told_by_its_machine(sagemaker_l4, setting, why):
    plan = make_plan(sagemaker_l4(setting), Catalog.load())
    assert plan.cost.parts[0].why == why and (plan.cost.per_hour is None) == bool(why)
    unknown = ", ".join(("ml.g6.16xlarge, on-demand", *BY_USE))
    assert (f"not counted, price unknown: {unknown}\n    {why}" in price_table(plan)) == bool(why)


def test_what_is_paid_once_and_what_stays_is_told_beside_the_sum(sagemaker_t4, sagemaker_l4):
    plan = make_plan(sagemaker_t4("secret.name=hf-token"), Catalog.load())
    price = plan.as_dict()["price"]
    assert [(p["name"], p["usd"]) for p in price["once"]] == [("the image's build, 12m36s", 0.252)]
    assert [(s["name"], s["per_month"]) for s in price["stays"]] == [("the built image, 8.3 GiB", 0.83), ("secret hf-token", 0.4)]
    assert price["unknown"] == list(BY_USE) and (price["per_hour"], price["window"]) == (0.736, 2.944)
    page = " ".join(price_table(plan).split())
    assert "stays after down: the built image, 8.3 GiB $0.83 a month" in page and "where it is not there yet $0.252 once" in page
    as_it_is = make_plan(sagemaker_l4(), Catalog.load()).as_dict()["price"]
    assert (as_it_is["once"], as_it_is["stays"]) == ([], [])


def test_what_stays_of_a_size_or_a_price_that_nobody_knows_is_unknown(sagemaker_t4, tpu_v6e):
    sets = [f"image.name={AWS}:latest", "allow=[unknown-image]"]
    (image,) = make_plan(sagemaker_t4(*sets), Catalog.load()).stays
    assert (image.name, image.per_month, image.why) == ("the built image", None, "its size is not known")
    (secret,) = make_plan(tpu_v6e(), Catalog.load()).stays
    assert (secret.name, secret.per_month, secret.why) == ("secret hf-token", None, "the catalog has no price of gce-secret")
