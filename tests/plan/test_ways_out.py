"""What a refusal tells the operator to take instead is taken: the same rule then passes."""

import re

import pytest

from catalog.loader import Catalog
from infra.plan import make_plan
from verdict.errors import Refused

WEIGHTS = ["google/gemma-4-E2B-it", "google/gemma-4-E4B-it", "google/gemma-4-12B-it", "google/gemma-4-26B-A4B-it"]
STACKS = ["g5g_spot", "sagemaker_t4", "sagemaker_l4"]


def refusal(make, settings):
    """The refusal for weights that do not fit, or None; another rule's refusal says that these do."""
    try:
        make_plan(make(*settings), Catalog.load())
    except Refused as error:
        return error if error.rule == "length-does-not-fit" and "weights" in str(error.why) else None
    return None


def ways(text):
    """Settings for each way that is told, but the last resort."""
    for way in re.split(r"; (?:or )?", text.partition("; or on your own word")[0]):
        if raised := re.fullmatch(r"raise serving\.gpu_memory_utilization to (\S+)", way):
            yield [f"serving.gpu_memory_utilization={raised[1]}"]
        elif pair := re.fullmatch(r"take (\S+/\S+) on (\S+)", way):
            yield [f"model.name={pair[1]}", f"target.machine_type={pair[2]}"]
        elif model := re.fullmatch(r"take (\S+/\S+), which fits", way):
            yield [f"model.name={model[1]}"]
        elif machine := re.fullmatch(r"take (\S+)", way):
            yield [f"target.machine_type={machine[1]}"]
        else:
            assert way == "take a smaller model", way


@pytest.mark.parametrize("stack", STACKS)
@pytest.mark.parametrize("model", WEIGHTS)
@pytest.mark.parametrize("utilization", [0.3, 0.5, 0.9])
def test_every_way_out_of_weights_that_do_not_fit_is_one(request, stack, model, utilization):
    make = request.getfixturevalue(stack)
    small = [f"model.name={model}", f"serving.gpu_memory_utilization={utilization}", "serving.max_model_len=2048"]
    if (error := refusal(make, small)) is None:
        return
    for settings in ways(error.way_out):
        kept = [s for s in small if s.partition("=")[0] not in {w.partition("=")[0] for w in settings}]
        assert refusal(make, [*kept, *settings]) is None, settings


def test_the_largest_on_one_card_names_a_larger_machine_and_smaller_weights(sagemaker_t4, g5g_spot):
    told = refusal(sagemaker_t4, ["model.name=google/gemma-4-12B-it"]).way_out
    assert "ml.g4dn.12xlarge" in told and "xbill9/gemma-4-12B-it-qat-q4_0-w4a16-ct-text-emb4, which fits" in told
    assert "g5g.16xlarge" in refusal(g5g_spot, ["model.name=google/gemma-4-26B-A4B-it"]).way_out


def test_an_image_that_is_unknown_is_told_the_one_of_its_own_region(sagemaker_l4):
    with pytest.raises(Refused) as error:
        make_plan(sagemaker_l4("image.name=763104351884.dkr.ecr.us-east-2.amazonaws.com/vllm:9-gpu-cu130"), Catalog.load())
    assert "{" not in error.value.way_out and "us-east-2" in error.value.way_out
