"""vLLM's arguments: every spelling means the same, and what vLLM's parser would refuse is refused."""

import json

import pytest
from hypothesis import HealthCheck, given, settings
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


WORDS = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=12)
JSON = st.booleans() | st.integers() | WORDS | st.dictionaries(WORDS, WORDS, max_size=2)
EXTRA = st.fixed_dictionaries(
    {},
    optional={
        "chat_template": WORDS | st.sampled_from(["true", "False", "", "[1, 2]", '{"a": 1} {"b": 2}', "{}"]),
        "cudagraph-capture-sizes": st.lists(st.integers(1, 512), max_size=4),
        "lora_modules": st.lists(WORDS | st.dictionaries(WORDS, WORDS, max_size=2), max_size=3),
        "hf_overrides": st.dictionaries(WORDS, JSON, max_size=3),
        "enable-prefix-caching": st.booleans(),
        "seed": st.integers(0, 10) | st.just(None),
    },
)
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
    extra=EXTRA,
)


def from_sagemaker(environment):
    """The container's documented rules: true is a bare flag, false and an empty list nothing, a JSON list a word an item, JSON
    objects in a row a word each, everything else one word as it is."""
    words = []
    for key, value in environment.items():
        if key == "SM_VLLM_MODEL" or value.strip().lower() == "false":
            continue
        flag, plain = "--" + key.removeprefix("SM_VLLM_").lower().replace("_", "-"), value.strip()
        if plain.lower() == "true" or not value:
            words.append(flag)
        elif plain.startswith("[") and plain.endswith("]"):
            items = json.loads(value)
            words += [flag, *(i if isinstance(i, str) else json.dumps(i, separators=(",", ":")) for i in items)] if items else []
        else:
            words += [flag, value]
    return (environment["SM_VLLM_MODEL"], *words)


def either(spell, args):
    """The words, or that it is refused."""
    try:
        return spell(args)
    except BadConfig as error:
        return error.what


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])  # a machine that does much else draws slowly
@given(ARGS)
def test_both_spellings_mean_the_same(args):
    """Read back by the container's rules it is what the command line says; what could not be is refused, and nothing else."""
    environment = either(sagemaker_environment, args)
    if isinstance(environment, str):
        assert environment.startswith("AWS's container would not hand") or environment == either(cli_argv, args)
        return
    assert from_sagemaker(environment) == cli_argv(args)


@pytest.mark.parametrize("value", ["true", "False", " ", "", "[1]", '{"a": 1} {"b": 2}', [], [None]])
def test_a_value_that_the_container_would_read_otherwise_is_refused(value):
    with pytest.raises(BadConfig, match="would not hand"):
        sagemaker_environment(VllmArgs(model="m", extra={"lora_modules" if isinstance(value, list) else "chat_template": value}))
