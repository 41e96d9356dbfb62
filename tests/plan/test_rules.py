"""Every rule by name: what breaks it, its exit code, its way out, and going past it."""

import pytest

from catalog.loader import Catalog
from infra.plan import make_plan
from infra.rules.every import all_rules
from infra.targets.ec2_spot import rules as ec2_spot
from infra.targets.sagemaker import rules as sagemaker
from verdict.errors import BadConfig, Refused
from verdict.exit_codes import ExitCode

BROKEN = [
    ("secret-value", "secret.name=hf_abcdefghijkl", "flexserve secret put"),
    ("secret-value", "model.revision=hf_abcdefghijkl", "flexserve secret put"),
    ("secret-value", 'serving.environment={"VLLM_X": "hf_abcdefghijkl"}', "flexserve secret put"),
    ("secret-value", 'serving.extra_args={"hf-token": "hf_abcdefghijkl"}', "flexserve secret put"),
    ("token-in-environment", "serving.environment={HF_TOKEN: abc}", "flexserve:secret.name"),
    ("placeholder", "target.project=your-project", "stacks/Pulumi.tpu-v6e.yaml"),
    ("placeholder", 'access.members=["user:you@example.com"]', "stacks/Pulumi.tpu-v6e.yaml"),
    ("ingress-open", "access.source_ranges=[0.0.0.0/0]", "35.235.240.0/20"),
    ("ingress-open", "access.source_ranges=['::/0']", "35.235.240.0/20"),
    ("ingress-open", "access.source_ranges=[35.235.240.0/20, 10.0.0.0/8]", "35.235.240.0/20"),
    ("member-not-named", "access.members=[allUsers]", "user:"),
    ("member-not-named", "access.members=['user:ops@acme.test', allAuthenticatedUsers]", "user:"),
    ("member-not-named", "access.members=['domain:acme.test']", "user:"),
    ("member-not-named", "access.members=[ops@acme.test]", "user:"),
    ("member-not-named", "access.members=['user:']", "user:"),
    ("no-way-out", "egress=existing", "target.network"),
    ("unknown-machine-type", "target.machine_type=ct6e-standard-2t", "ct6e-standard"),
    ("unknown-model", "model.name=google/gemma-4-E2B-ti", "google/gemma-4-E2B-it"),
    ("unknown-image", "image.name=vllm/vllm-openai:v0.27.0", "vllm/vllm-tpu:v0.27.0"),
    ("unknown-zone", "target.zones=[europe-west4-a, europe-west4-b]", "europe-west4-a"),
    ("window-bounds", "window=9m", "flexserve:window"),
    ("window-bounds", "window=169h", "flexserve:window"),
    ("window-bounds", "window=10m", "flexserve:window to 23m or more"),
    ("window-bounds", "window=1373", "flexserve:window to 23m or more"),
    ("quantization-unsupported", "model.name=google/gemma-4-E2B-it-qat", "google/gemma-4-E2B-it"),
    ("dtype-unsupported", "serving.dtype=float16", "bfloat16"),
    ("kv-dtype-unsupported", "serving.kv_cache_dtype=nvfp4", "fp8"),
    ("over-context", "serving.max_model_len=131073", "131072"),
    ("length-does-not-fit", "serving.gpu_memory_utilization=0.3", "serving.max_model_len"),
    ("disk-too-small", "target.disk_gb=44", "45"),
    ("disk-too-large", "target.disk_gb=65537", "target.disk_gb"),
    ("disk-type-unsupported", "target.disk_type=pd-standard", "hyperdisk-balanced"),
]
# In test_rules_g5g.py and test_rules_sagemaker.py.
SAGEMAKER = {rule.id for rule in sagemaker.RULES} | {"machine-of-another-service"}
ELSEWHERE = {
    "zone-without-size",
    "unknown-builder",
    "attention-backend-unsupported",
    "group-too-large",
    "vllm-too-old",
    "build-too-long",
    *(rule.id for rule in ec2_spot.RULES),
}


@pytest.mark.parametrize(("rule", "setting", "way_out"), BROKEN)
def test_a_broken_rule_refuses_by_name(tpu_v6e, rule, setting, way_out):
    with pytest.raises(Refused) as error:
        make_plan(tpu_v6e(setting), Catalog.load())
    assert error.value.rule == rule
    assert way_out in error.value.way_out
    assert error.value.exit_code is ExitCode.REFUSED
    assert set(error.value.as_dict()["refused"]) == {"rule", "why", "way_out"}


def test_every_rule_is_broken_by_a_case():
    assert {rule for rule, _, _ in BROKEN} | ELSEWHERE | SAGEMAKER == {rule.id for rule in all_rules()}


@pytest.mark.parametrize(("rule", "setting", "way_out"), BROKEN)
def test_allow_goes_past_a_rule_that_is_not_final(tpu_v6e, rule, setting, way_out):
    final = next(r.final for r in all_rules() if r.id == rule)
    if final:
        with pytest.raises(Refused):
            make_plan(tpu_v6e(setting), Catalog.load(), [rule])
    else:
        assert make_plan(tpu_v6e(setting), Catalog.load(), [rule]).allowed == (rule,)


def test_allow_in_the_stack_file_counts_and_an_unbroken_rule_is_not_listed(tpu_v6e):
    plan = make_plan(tpu_v6e("window=9m", "allow=[window-bounds, disk-too-small]"), Catalog.load())
    assert plan.allowed == ("window-bounds",)


@pytest.mark.parametrize(
    "setting", ["window=1374", "window=7d", "target.disk_gb=45", "target.disk_gb=65536", "serving.max_model_len=131072"]
)
def test_the_bounds_themselves_are_allowed(tpu_v6e, setting):
    assert make_plan(tpu_v6e(setting), Catalog.load()).allowed == ()


@pytest.mark.parametrize("member", ["group:g@acme.test", "serviceAccount:a@p.test", "principal://iam.test/p/subject/s"])
def test_named_members_are_allowed(tpu_v6e, member):
    assert make_plan(tpu_v6e(f"access.members=['{member}']"), Catalog.load()).allowed == ()


def test_a_rule_that_there_is_not_cannot_be_allowed(tpu_v6e):
    with pytest.raises(BadConfig, match="did you mean window-bounds"):
        make_plan(tpu_v6e(), Catalog.load(), ["window-bound"])
    with pytest.raises(BadConfig, match="no rule 'xyzzy' to allow"):
        make_plan(tpu_v6e("allow=[xyzzy]"), Catalog.load())


@pytest.mark.parametrize(
    ("setting", "says"),
    [
        ("serving.extra_args={max-model-len: 999999}", "set flexserve:serving.max_model_len"),
        ("serving.extra_args={kv_cache_dtype: nvfp4}", "set flexserve:serving.kv_cache_dtype"),
        ("serving.extra_args={port: 9000}", "leave it out"),
        ("serving.extra_args={model: other}", "leave it out"),
        ("serving.environment={VLLM_API_KEY: sesame}", "only the tunnel comes in"),
    ],
)
def test_no_setting_goes_around_the_rules(tpu_v6e, setting, says):
    with pytest.raises(BadConfig) as error:
        make_plan(tpu_v6e(setting), Catalog.load())
    assert says in str(error.value) and "sesame" not in str(error.value)
