"""Rules about the T4G and EC2, by name; and values that EC2 would refuse, refused before."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from catalog.loader import Catalog
from infra.checker import check
from infra.image_facts import ImageFacts, of_config
from infra.plan import make_plan
from infra.rules import backends
from infra.rules.every import all_rules
from infra.targets.ec2_spot.config import Config
from startup.turing import limits
from tests.conftest import COMMIT
from tests.plan.test_rules import ELSEWHERE
from verdict.errors import BadConfig, Refused

JAKARTA = ["target.region=ap-southeast-3", "target.zones=[ap-southeast-3a]"]
BROKEN = [
    ("placeholder", ["target.build.commit=your-vllm-commit"], "stacks/Pulumi.g5g-spot.yaml"),
    ("placeholder", ["target.bucket=your-builds-bucket"], "stacks/Pulumi.g5g-spot.yaml"),
    ("secret-value", ["secret.name=hf_abcdefghijkl"], "flexserve secret put"),
    ("unknown-machine-type", ["target.machine_type=g5g.small"], "g5g."),
    ("unknown-zone", ["target.zones=[us-east-1a, us-east-1e]"], "did you mean us-east-1"),
    ("unknown-zone", ["target.region=us-east-2", "target.zones=[us-east-2a]"], "did you mean us-"),
    ("zone-without-size", JAKARTA, "g5g.metal"),
    ("zone-without-size", [*JAKARTA, "target.machine_type=g5g.metal", "target.larger=[g5g.8xlarge]"], "g5g.metal"),
    ("window-bounds", ["window=9m"], "flexserve:window"),
    ("window-bounds", ["window=8d"], "flexserve:window"),
    ("window-bounds", ["window=33m"], "flexserve:window to 34m or more"),
    ("no-way-out", ["egress=existing"], "target.network"),
    ("spot-persistent", ["target.spot_instance_type=persistent"], "one-time"),
    ("spot-persistent", ["target.spot_instance_type=persistent", "target.interruption_behavior=terminate"], "one-time"),
    ("spot-persistent", ["target.spot_instance_type=persistent", "target.interruption_behavior=stop"], "one-time"),
    ("interruption-unsupported", ["target.interruption_behavior=hibernate"], "terminate"),
    ("interruption-unsupported", ["target.interruption_behavior=stop"], "terminate"),
    ("image-not-run", ["image.name=vllm/vllm-openai:v0.32.0"], "target.build"),
    ("dtype-unsupported", ["serving.dtype=bfloat16"], "float16"),
    ("kv-dtype-unsupported", ["serving.kv_cache_dtype=fp8"], "auto"),
    ("kv-dtype-unsupported", ["serving.kv_cache_dtype=fp8_e5m2"], "auto"),
    ("kv-dtype-unsupported", ["serving.kv_cache_dtype=bfloat16"], "auto"),
    ("attention-backend-unsupported", ["serving.extra_args={attention-backend: FLASH_ATTN}"], "TRITON_ATTN"),
    ("attention-backend-unsupported", ["serving.extra_args={attention_backend: FLASHINFER}"], "TRITON_ATTN"),
    ("attention-backend-unsupported", ["serving.extra_args={attention-backend: FLEX_ATTENTION}"], "TRITON_ATTN"),
    ("attention-backend-unsupported", ["serving.extra_args={attention_config: {backend: FLASHINFER}}"], "TRITON_ATTN"),
    ("attention-backend-unsupported", ['serving.extra_args={attention-config: \'{"backend": "FLASH_ATTN"}\'}'], "TRITON_ATTN"),
    ("attention-backend-unsupported", ["serving.extra_args.attention_config.backend=flashinfer"], "TRITON_ATTN"),
    (
        "attention-backend-unsupported",
        ["serving.extra_args={attention_config: {backend_per_kind: {a: FLASH_ATTN}}}"],
        "TRITON_ATTN",
    ),
    ("attention-backend-unsupported", ["serving.extra_args={attention_config: {backend: TRITON_ATTN}}"], "attention_config"),
    ("attention-backend-unsupported", ["serving.extra_args={mm-encoder-attn-backend: FLASH_ATTN}"], "TORCH_SDPA"),
    ("attention-backend-unsupported", ["serving.extra_args={mm_encoder_attn_backend: FLASHINFER}"], "TORCH_SDPA"),
    ("vllm-too-old", ["target.build.vllm=0.27.1"], "0.27.2rc0"),
    ("vllm-too-old", ["target.build.vllm=0.26.0"], "0.27.2rc0"),
    ("unknown-builder", ["target.build.machine_type=m7i.8xlarge"], "did you mean m7g.8xlarge"),
    ("unknown-builder", ["target.build.machine_type=g5g.4xlarge"], "m7g.4xlarge"),
    ("build-too-long", ["target.build.where=machine"], "g5g.4xlarge"),
    ("build-too-long", ["target.build.where=machine", "target.machine_type=g5g.4xlarge", "window=1h"], "target.build.where"),
    ("over-context", ["serving.max_model_len=131073"], "131072"),
    ("length-does-not-fit", ["model.name=google/gemma-4-26B-A4B-it"], "smaller model"),
    ("length-does-not-fit", ["serving.gpu_memory_utilization=0.72", "serving.max_model_len=131072"], "serving.max_model_len"),
    ("disk-too-small", ["target.disk_gb=34"], "35"),
    ("disk-type-unsupported", ["target.disk_type=gp2"], "gp3"),
]


@pytest.mark.parametrize(("rule", "settings", "way_out"), BROKEN)
def test_a_broken_rule_refuses_by_name(g5g_spot, rule, settings, way_out):
    with pytest.raises(Refused) as error:
        make_plan(g5g_spot(*settings), Catalog.load())
    assert error.value.rule == rule and way_out in error.value.way_out
    assert error.value.exit_code == 3


@pytest.mark.parametrize(
    "extra",
    [
        "{attention-backend: triton_attn}",
        "{attention_config: {use_prefill_decode_attention: true}}",
        "{mm_encoder_attn_backend: torch_sdpa}",
    ],
)
def test_what_works_on_the_card_is_planned_in_each_spelling(g5g_spot, extra):
    assert make_plan(g5g_spot(f"serving.extra_args={extra}"), Catalog.load()).allowed == ()


def test_an_attention_config_that_nests_without_end_names_no_backend():
    assert backends.in_config({"attention_config": '{"a":' * 100_000}) == ()


def test_each_kind_of_bad_input_is_refused_by_a_rule_of_its_own_name():
    """What a T4G, a spot request or the build can not do, and nothing of it left to a boot that is paid for."""
    told = {
        "a bfloat16 or fp8 KV cache": "kv-dtype-unsupported",
        "bfloat16": "dtype-unsupported",
        "an image for another processor": "image-processor",
        "an image without code for the card": "image-without-card",
        "FlashAttention, FlashInfer": "attention-backend-unsupported",
        "a model or a length that does not fit": "length-does-not-fit",
        "query groups over 16 at head 512": "group-too-large",
        "persistent with terminate": "spot-persistent",
        "hibernate": "interruption-unsupported",
        "a zone without the size": "zone-without-size",
        "vLLM below 0.27.2rc0": "vllm-too-old",
    }
    broken_elsewhere_here = {"image-processor", "image-without-card", "group-too-large"}
    assert set(told.values()) <= {rule for rule, _, _ in BROKEN} | broken_elsewhere_here
    assert set(told.values()) <= {rule.id for rule in all_rules()}


@pytest.mark.parametrize(
    ("settings", "minutes"),
    [
        ([], None),
        (["target.machine_type=g5g.4xlarge"], 115),
        (["target.machine_type=g5g.4xlarge", "target.on_demand=only"], 115),
        (["target.machine_type=g5g.8xlarge", "target.on_demand=only"], 54),
    ],
)
def test_a_build_on_the_machine_says_what_it_takes(g5g_spot, settings, minutes):
    """Scaled by compilers at a time from the measured 67 minutes with 12. An unknown price, as that of spot, stays unknown."""
    where = ["target.build.where=machine"] if settings else []
    plan = make_plan(g5g_spot(*where, *settings), Catalog.load())
    build = plan.as_dict()["build"]
    assert (build["where"], build.get("making_minutes")) == ("machine" if minutes else "builder", minutes)
    known = minutes and not plan.cost.unknown
    assert build.get("making_usd") == (round(plan.cost.per_hour * plan.making_minutes / 60, 2) if known else None)
    assert bool(known) == ("target.on_demand=only" in settings)
    assert plan.boot.ec2.may_build is bool(minutes) and plan.boot.phase_limits["build"] == (7200 if minutes else 1800)
    if minutes:
        assert plan.boot.ec2.recipe.words[:2] == ("0.27.2rc0", COMMIT)


def test_the_shipped_stack_breaks_none_once_it_is_filled_in(g5g_spot):
    assert make_plan(g5g_spot(), Catalog.load()).allowed == ()


@pytest.mark.parametrize(
    ("settings", "minutes", "usd", "at_most"),
    [
        ([], 27, None, 0.59),
        (["target.build.on_demand=only"], 27, 0.59, 0.59),
        (["target.build.on_demand=fall_back"], 27, None, 0.59),
        (["target.build.machine_type=m7g.4xlarge"], 54, None, 0.60),
        (["target.build.machine_type=c7g.16xlarge", "target.build.on_demand=only"], 27, 1.04, 1.04),
        (["target.region=us-west-2", "target.zones=[us-west-2a]"], 27, None, None),
        (["target.host_image=ami-07a66fa2acbcfea88"], None, None, None),
    ],
)
def test_a_builder_says_what_it_takes_once(g5g_spot, settings, minutes, usd, at_most):
    """Minutes scaled as above; the price is not the window's; one that is unknown stays unknown, bounded by the usual one."""
    plan = make_plan(g5g_spot(*settings), Catalog.load())
    builder = plan.as_dict()["build"]["builder"]
    assert (builder["minutes"], builder["usd"], builder["usd_at_most"]) == (minutes, usd, at_most)
    assert bool(builder["unknown"]) == (usd is None and minutes is not None) or minutes is None
    assert (
        not plan.boot.ec2.may_build
        and plan.cost == make_plan(g5g_spot(*settings, "target.build.where=by_hand"), Catalog.load()).cost
    )


@pytest.mark.parametrize("release", ["0.27.2rc0", "0.27.2", "0.33.0"])
def test_a_release_from_the_oldest_on_is_fine(g5g_spot, release):
    assert make_plan(g5g_spot(f"target.build.vllm={release}"), Catalog.load()).allowed == ()


@pytest.mark.parametrize("settings", [["serving.extra_args={attention-backend: TRITON_ATTN}"], ["serving.dtype=float32"]])
def test_what_works_on_the_card_is_allowed(g5g_spot, settings):
    assert make_plan(g5g_spot(*settings), Catalog.load()).allowed == ()


def catalog_with(query_heads: int) -> Catalog:
    shipped = Catalog.load()
    name = "google/gemma-4-E2B-it"
    changed = msgspec.structs.replace(shipped.models[name], query_heads=query_heads)
    return structs.replace(shipped, models={**shipped.models, name: changed})


@pytest.mark.parametrize(("heads", "fits"), [(8, True), (16, True), (17, False), (32, False)])
def test_a_group_that_the_patched_kernel_has_no_memory_for_is_refused(g5g_spot, heads, fits):
    if fits:
        assert make_plan(g5g_spot(), catalog_with(heads)).allowed == ()
        return
    with pytest.raises(Refused) as error:
        make_plan(g5g_spot(), catalog_with(heads))
    assert error.value.rule == "group-too-large" and "16" in error.value.way_out and "65,536" in error.value.why


def test_a_tpu_knows_no_such_limit(tpu_v6e):
    assert make_plan(tpu_v6e(), catalog_with(32)).allowed == ()


@given(st.integers(1, 64))
def test_the_rule_is_the_kernels_own_arithmetic(heads):
    """Refused exactly when the widest layer's block asks for more than the card has."""
    rule = next(r for r in all_rules() if r.id == "group-too-large")
    shipped = catalog_with(heads)
    model = shipped.models["google/gemma-4-E2B-it"]

    class Situation:
        accelerator = shipped.accelerators["t4g"]

    Situation.model = model
    asked = max(limits.shared_bytes(k.head_dim, heads, limits.patched_tile(k.head_dim)) for k in model.kv_layers)
    assert (rule.check(Situation) is not None) == (asked > limits.SHARED_BYTES)


OF_ARM = {"architecture": "arm64", "config": {"Env": ["CUDA_VERSION=13.0.1", "TORCH_CUDA_ARCH_LIST=7.5 8.0+PTX"]}}
X86 = {**OF_ARM, "architecture": "amd64"}
OTHER_CARDS = {"architecture": "arm64", "config": {"Env": ["TORCH_CUDA_ARCH_LIST=8.0;8.6;9.0a+PTX"]}}
SILENT = {"architecture": "arm64", "config": {}}


@pytest.mark.parametrize(
    ("facts", "rule", "says"),
    [
        (of_config("sha256:1", X86), "image-processor", "is for amd64, g5g.xlarge is arm64"),
        (ImageFacts("sha256:1", ("amd64", "s390x")), "image-processor", "is for amd64, s390x"),
        (of_config("sha256:1", OTHER_CARDS), "image-without-card", "code for 8.0, 8.6, 9.0a, NVIDIA T4G (Turing) is 7.5"),
        (of_config("sha256:1", SILENT), "image-without-card", "does not say for which cards"),
        (of_config("sha256:1", OF_ARM), "image-not-run", "from a build"),
    ],
)
def test_an_image_is_refused_by_what_its_own_config_says(g5g_spot, facts, rule, says):
    """Whatever its tag says: all have the same here."""
    deployment = g5g_spot("image.name=acme/vllm:arm64-sm75")
    with pytest.raises(Refused) as error:
        make_plan(deployment, Catalog.load(), read=facts)
    assert error.value.rule == rule and says in error.value.why and error.value.way_out and error.value.exit_code == 3


def test_a_tpu_stack_has_no_such_rules(tpu_v6e):
    assert make_plan(tpu_v6e(), Catalog.load(), read=of_config("sha256:1", SILENT)).allowed == ()


def test_an_existing_network_may_have_its_own_way_out(g5g_spot):
    network = "target.network={vpc: vpc-12345678, subnets: {us-east-1a: subnet-12345678}}"
    assert make_plan(g5g_spot("egress=existing", network, "target.zones=[us-east-1a]"), Catalog.load()).allowed == ()


@pytest.mark.parametrize(
    ("config", "cards", "cuda"),
    [
        (OF_ARM, ("7.5", "8.0"), "13.0.1"),
        ({"config": {"Labels": {"flexserve.cuda-arch-list": "7.5"}}}, ("7.5",), ""),
        ({"config": {"Env": ["TORCH_CUDA_ARCH_LIST="], "Labels": {"flexserve.cuda-arch-list": "7.5"}}}, ("7.5",), ""),
        ({"config": {"Env": None, "Labels": None}}, (), ""),
        ({}, (), ""),
    ],
)
def test_what_an_images_config_tells(config, cards, cuda):
    facts = of_config("sha256:1", config)
    assert (facts.cards, facts.cuda) == (cards, cuda) and facts.processors == (config.get("architecture", "unknown"),)


def test_rules_that_no_tpu_stack_can_break_are_broken_here():
    assert {rule for rule, _, _ in BROKEN} | {"group-too-large", "image-processor", "image-without-card"} >= ELSEWHERE


BAD = [
    ("target.spot_instance_type=block", "one-time or persistent"),
    ("target.interruption_behavior=suspend", "terminate, stop or hibernate"),
    ("target.hibernate=true", "no such key"),
    ("target.persistent=true", "no such key"),
    ("target.zone=us-east-1a", "did you mean zones?"),
    ('access.members=["user:ops@acme.test"]', "ssm:StartSession"),
    ("target.region=US", "us-east-1"),
    ("target.zones=[use1-az1]", "us-east-1a"),
    ("target.zones=[us-west-2a]", "us-west-2a is not in us-east-1"),
    ("target.zones=[]", "target.zones"),
    ("target.machine_type=xlarge", "g5g.xlarge"),
    ("target.host_image=ubuntu", "ami-"),
    ("target.bucket=My_Bucket", "bucket"),
    ("target.bucket=a..b", "two dots"),
    ("target.instance_profile=arn:aws:iam::1:instance-profile/x", "not its ARN"),
    ("target.subnet_range=10.9.0.0/28", "/16 to /24"),
    ("target.subnet_range=8.8.8.0/24", "private"),
    ("target.subnet_range=10.9.0.7/24", "10.9.0.0/24"),
    ("target.network={vpc: mine, subnets: {us-east-1a: subnet-12345678}}", "vpc-"),
    ("target.network={vpc: vpc-12345678, subnets: {us-east-1a: subnet-12345678}}", "us-east-1b"),
    ("target.build.commit=main", "40 hexadecimal"),
    ("target.build.vllm=newest", "0.27.2rc0"),
    ("target.build.where=laptop", "by_hand"),
    ("target.build.on_demand=always", "fall_back"),
    ("target.build.machine_type=m7g", "m7g"),
    ("target.disk_iops=1000", "disk_iops"),
    ("target.disk_throughput=2000", "disk_throughput"),
    ("target.max_price_per_hour=0", "max_price_per_hour"),
    ("target.on_demand=maybe", "on_demand"),
]


@pytest.mark.parametrize(("setting", "says"), BAD)
def test_what_ec2_would_refuse_is_refused_before(g5g_spot, setting, says):
    with pytest.raises(BadConfig) as error:
        make_plan(g5g_spot(setting), Catalog.load())
    assert says in str(error.value), str(error.value)


@pytest.mark.parametrize("name", ["a secret", "my-secret", "x" * 513])
def test_a_secrets_name_that_secrets_manager_does_not_find_is_refused(g5g_spot, name):
    with pytest.raises(BadConfig, match=r"flexserve:secret\.name"):
        make_plan(g5g_spot(f"secret.name={name}"), Catalog.load())


def config(**keys: object) -> Config:
    return check(Config, {"zones": ["us-east-1a", "us-east-1b"], "build": {"commit": COMMIT}, **keys}, "flexserve:target.")


def test_places_are_all_zones_before_the_next_size_and_the_usual_price_last():
    places = config(larger=["g5g.2xlarge"], on_demand="fall_back").places
    spot = ("us-east-1a", "us-east-1b", "us-east-1a/g5g.2xlarge", "us-east-1b/g5g.2xlarge")
    assert places == (*spot, *(f"{place}/on-demand" for place in spot))
    assert config(on_demand="only").places == ("us-east-1a/on-demand", "us-east-1b/on-demand")


SIZES = st.lists(st.sampled_from(["g5g.2xlarge", "g5g.4xlarge", "g5g.metal"]), unique=True, max_size=3)


@given(larger=SIZES, on_demand=st.sampled_from(["never", "fall_back", "only"]))
def test_a_place_says_zone_size_and_price_and_no_two_are_the_same(larger, on_demand):
    c = config(larger=larger, on_demand=on_demand)
    told = [(c.zone(p), c.size(p), c.given(p)) for p in c.places]
    assert len(set(c.places)) == len(set(told)) == len(c.places)
    assert {zone for zone, _, _ in told} == set(c.zones) and {size for _, size, _ in told} == {c.machine_type, *larger}
    ways = {"never": {"spot"}, "only": {"on_demand"}, "fall_back": {"spot", "on_demand"}}[on_demand]
    assert {way for _, _, way in told} == ways
