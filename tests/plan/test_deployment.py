"""Reading a stack file: wrong keys and types are exit 2 and name the nearest key."""

import json
import re

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from infra.deployment import from_pulumi, from_stack_file, from_stack_text, from_values
from infra.duration import parse_seconds, words
from infra.settings import Image
from verdict.errors import BadConfig
from verdict.exit_codes import ExitCode

DIGEST = "sha256:" + "ab" * 32


@pytest.mark.parametrize(
    ("setting", "says"),
    [
        ("target.zonez=[a]", "flexserve:target.zonez: no such key; did you mean zones?"),
        ("target.kind=gce_flux", "did you mean gce_flex?"),
        ("serving.max_model_length=5", "flexserve:serving.max_model_length: no such key; did you mean max_model_len?"),
        ("serving.max_model_len=abc", "flexserve:serving.max_model_len"),
        ("serving.max_model_len=0", "flexserve:serving.max_model_len"),
        ("serving.gpu_memory_utilization=1.5", "flexserve:serving.gpu_memory_utilization"),
        ("modle=3", "flexserve:modle: no such key; did you mean model?"),
        ("window=never", "write 4h, 90m, 1d or seconds"),
        ("window=-4h", "is not a duration"),
        ("egress=open", "flexserve:egress"),
        ("target.zones=[]", "flexserve:target.zones"),
        ("target.zones=europe-west4-a", "flexserve:target.zones"),
        ("access.members=7", "flexserve:access.members"),
        ("model.name", "write KEY=VALUE"),
        ("model.name.x=3", "is not a group of keys"),
        ("target.zones=[", "the value is not YAML"),
        ("target.zones=!!python/object:os.system x", "the value is not YAML"),
        ("serving.extra_args={seed: {a: 2024-01-01}}", "flexserve:serving.extra_args"),
        ("image.name=vllm/vllm-tpu@sha256:ab", "64 hexadecimal digits"),
        ("image.name=vllm/vllm-tpu@", "REPOSITORY:TAG"),
        ("image.name=vllm/vllm tpu:v1", "REPOSITORY:TAG"),
    ],
)
def test_bad_input_is_exit_2_and_names_the_key(tpu_v6e, setting, says):
    with pytest.raises(BadConfig) as error:
        tpu_v6e(setting)
    assert says in str(error.value)
    assert error.value.exit_code is ExitCode.USAGE


def test_a_missing_part_is_named():
    with pytest.raises(BadConfig, match="flexserve:model: missing"):
        from_stack_text("s", "config: {'flexserve:target': {kind: gce_flex, project: acme-1, zones: [us-east5-b]}}")
    with pytest.raises(BadConfig, match="flexserve:target needs a kind"):
        from_values("s", {})
    with pytest.raises(BadConfig, match="not YAML"):
        from_stack_text("s", "a: [")


@pytest.mark.parametrize("text", ["- a", "hello", "config: [a]", "config: hello", "config: {1: 2}"])
def test_another_document_is_not_a_stack_file(text):
    with pytest.raises(BadConfig, match="is not a stack file"):
        from_stack_text("s", text)


def test_a_file_that_is_no_text_is_bad_config(tmp_path):
    (tmp_path / "stacks").mkdir()
    (tmp_path / "stacks" / "Pulumi.s.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(BadConfig, match="cannot be read"):
        from_stack_file(tmp_path, "s")


@pytest.mark.parametrize(
    "setting",
    ["secret=hf_abcdefghijkl", "secret.name=[hf_abcdefghijkl]", "target.disk_gb=hf_abcdefghijkl", "window=hf_abcdefghijkl"],
)
def test_a_secrets_value_in_a_wrong_place_is_not_printed(tpu_v6e, setting):
    with pytest.raises(BadConfig) as error:
        tpu_v6e(setting)
    assert "abcdefghijkl" not in str(error.value)
    assert "looks like a secret's value" in str(error.value)


def test_pulumi_and_the_file_read_the_same(root, tpu_v6e):
    document = yaml.safe_load((root / "stacks" / "Pulumi.tpu-v6e.yaml").read_text(encoding="utf-8"))["config"]
    document["flexserve:target"]["project"] = "acme-1"
    document["flexserve:access"]["members"] = ["user:ops@acme.test"]
    passed = {k: v if isinstance(v, str) else json.dumps(v) for k, v in document.items()} | {"gcp:project": "acme-1"}
    assert from_pulumi("tpu-v6e", passed) == tpu_v6e()


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("4h", 14400),
        ("90m", 5400),
        ("1d", 86400),
        ("1h30m", 5400),
        ("14400", 14400),
        ("14400s", 14400),
        (600, 600),
        (" 4H ", 14400),
    ],
)
def test_durations(text, seconds):
    assert parse_seconds(text) == seconds


@given(st.integers(1, 10**7))
def test_a_duration_survives_words(seconds):
    assert parse_seconds(words(seconds)) == seconds


@pytest.mark.parametrize(
    ("name", "repository", "tag", "digest"),
    [
        ("vllm/vllm-tpu:v0.27.0", "vllm/vllm-tpu", "v0.27.0", None),
        ("vllm/vllm-tpu", "vllm/vllm-tpu", None, None),
        (f"vllm/vllm-tpu@{DIGEST}", "vllm/vllm-tpu", None, DIGEST),
        (f"vllm/vllm-tpu:v1@{DIGEST}", "vllm/vllm-tpu", "v1", DIGEST),
        ("host.test:5000/a/b", "host.test:5000/a/b", None, None),
        ("host.test:5000/a/b:c", "host.test:5000/a/b", "c", None),
    ],
)
def test_image_names(name, repository, tag, digest):
    image = Image(name=name)
    assert (image.repository, image.tag, image.digest) == (repository, tag, digest)


@pytest.mark.parametrize("stack", ["g5g-spot", "sagemaker-t4", "sagemaker-l4"])
@pytest.mark.parametrize("says", ["", "  aws:region: us-west-2\n"])
def test_a_provider_of_another_region_is_refused_and_a_word_of_the_command_line_is_not(root, stack, says):
    text = (root / "stacks" / f"Pulumi.{stack}.yaml").read_text(encoding="utf-8")
    elsewhere = re.sub(r"^  aws:region: .*\n", says, text, flags=re.MULTILINE)
    assert elsewhere != text
    with pytest.raises(BadConfig, match=r"aws:region is (missing|us-west-2)") as error:
        from_stack_text(stack, elsewhere)
    assert "write aws:region: us-east-" in error.value.way_out
    with pytest.raises(BadConfig, match="aws:region"):
        from_stack_text(stack, elsewhere, ["serving.max_num_seqs=3"])
    sets = ["target.region=us-west-2", *(["target.zones=[us-west-2a]"] if stack == "g5g-spot" else [])]
    like = from_stack_text(stack, text, sets)
    assert like.target.region == "us-west-2"  # what such a stack file would be like, and what else it has to say
    assert like.notes == ("with this the stack file has to say aws:region: us-west-2 as well",)
    assert from_stack_text(stack, text, [*sets, "aws:region=us-west-2"]).notes == ()
    for wrong in (["aws:region=us-west-2"], [*sets, "aws:region=eu-west-1"]):
        with pytest.raises(BadConfig, match="aws:region is "):
            from_stack_text(stack, text, wrong)
    with pytest.raises(BadConfig, match="--set aws:profile: nothing here reads it") as error:
        from_stack_text(stack, text, ["aws:profile=mine"])
    assert "aws:region" in error.value.way_out
    passed = {key: value if isinstance(value, str) else json.dumps(value) for key, value in yaml.safe_load(text)["config"].items()}
    with pytest.raises(BadConfig, match="aws:region"):
        from_pulumi(stack, {**passed, "aws:region": "eu-west-1"})
