"""vLLM's arguments: every spelling means the same, and what vLLM's parser would refuse is refused."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from startup.vllm import VllmArgs, check_environment, cli_argv, known_options, sagemaker_environment, vllm_version
from verdict.errors import BadConfig


@pytest.mark.parametrize(
    ("extra", "says"),
    [
        ({"max-modl-len": 3}, "--max-model-len"),
        ({"kv-cache-dtype": "int3"}, "one of"),
        ({"max-num-seqs": True}, "needs a value"),
        ({"no_such_thing_at_all": 1}, "has no option"),
    ],
)
def test_what_vllm_would_refuse_is_refused(extra, says):
    with pytest.raises(BadConfig) as error:
        cli_argv(VllmArgs(model="m", extra=extra))
    assert says in str(error.value)
    assert vllm_version() in str(error.value) or "vLLM's" in str(error.value)


def test_the_environment_is_checked_too():
    check_environment(["VLLM_XLA_CACHE_PATH"])
    with pytest.raises(BadConfig, match="VLLM_LOGGING_LEVEL"):
        check_environment(["VLLM_LOGING_LEVEL"])
    with pytest.raises(BadConfig, match="does not read VLLM_ATTENTION_BACKEND"):
        check_environment(["VLLM_ATTENTION_BACKEND"])


def test_every_field_is_an_option_of_vllm():
    options = known_options()
    for name in VllmArgs.__struct_fields__:
        assert name in ("model", "extra") or f"--{name.replace('_', '-')}" in options, name


ARGS = st.builds(
    VllmArgs,
    model=st.just("google/gemma-4-E2B-it"),
    dtype=st.sampled_from([None, "auto", "float16", "bfloat16"]),
    max_model_len=st.none() | st.integers(1, 131072),
    gpu_memory_utilization=st.none() | st.sampled_from([0.5, 0.9, 0.92]),
    max_num_seqs=st.none() | st.integers(1, 512),
    enable_auto_tool_choice=st.booleans(),
    tool_call_parser=st.sampled_from([None, "gemma4"]),
    limit_mm_per_prompt=st.none() | st.just({"image": 4, "audio": 1}),
)


def from_sagemaker(environment):
    """The container's documented rules: true is a bare flag, false is left out, a JSON object is one token, an array several."""
    words = []
    for key, value in environment.items():
        if key == "SM_VLLM_MODEL" or value == "false":
            continue
        words.append("--" + key.removeprefix("SM_VLLM_").lower().replace("_", "-"))
        if value == "true":
            continue
        try:
            parsed = json.loads(value)
        except ValueError:
            parsed = value
        words.extend(map(str, parsed) if isinstance(parsed, list) else [value])
    return (environment["SM_VLLM_MODEL"], *words)


@given(ARGS)
def test_both_spellings_mean_the_same(args):
    assert from_sagemaker(sagemaker_environment(args)) == cli_argv(args)
