"""What fits, as the plan may ask."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalog.loader import Catalog
from startup.turing import limits


@pytest.mark.parametrize(("head", "group"), [(64, 128), (128, 64), (256, 32), (512, 16), (1024, 0)])
def test_the_largest_group(head, group):
    assert limits.largest_group(head) == group


# What Triton 3.9 reported for vLLM 0.32, float16.
@pytest.mark.parametrize(
    ("head", "group", "tile", "size"),
    [
        (256, 8, 32, 49_152),
        (256, 8, 16, 32_768),
        (256, 32, 32, 65_536),
        (512, 8, 32, 98_304),
        (512, 8, 16, 65_536),
        (512, 32, 32, 131_072),
        (512, 32, 16, 98_304),
    ],
)
def test_the_bytes_are_what_the_compiler_said(head, group, tile, size):
    assert limits.shared_bytes(head, group, tile) == size


@given(st.integers(1, 1024), st.integers(1, 256))
def test_a_group_fits_exactly_up_to_the_largest(head, group):
    fits = limits.shared_bytes(head, group, limits.patched_tile(head)) <= limits.SHARED_BYTES
    assert fits == (group <= limits.largest_group(head))


def test_every_head_of_the_catalog_leaves_room_for_16():
    heads = {layer.head_dim for model in Catalog.load().models.values() for layer in model.kv_layers}
    assert {limits.largest_group(head) >= 16 for head in heads} == {True}
