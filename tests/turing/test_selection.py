"""The patched module's own selection, really run: small tiles on Turing, untouched elsewhere."""

from __future__ import annotations

import sys
import types

import pytest

from startup.turing import fetch, measure, patch
from startup.turing.limits import power_of_two
from startup.turing.tree import MODULE
from tests.turing.shape import SOURCE, plant

TRITON = types.SimpleNamespace(jit=lambda f: f, next_power_of_2=power_of_two, cdiv=lambda a, b: -(-a // b))
TL = types.SimpleNamespace(constexpr=object, int32=int, int64=int)


@pytest.fixture(autouse=True)
def _no_stub_outlives_a_test():
    before = dict(sys.modules)
    yield
    for name in set(sys.modules) - set(before):
        del sys.modules[name]
    sys.modules.update(before)


def tile(tree, platform, head, kind, segments=0, group=8):
    module = measure.load(tree, platform, TRITON, TL)
    cell = {"head": head, "group": group, "kind": kind, "segments": segments, "block": 16, "window": 0}
    return measure.select(module, cell)["TILE_SIZE"]


def published():
    for release in fetch.pinned():
        folder = fetch.cache() / f"{release.distribution}-{release.version}-{release.sha256[:12]}"
        if folder.is_dir():
            yield pytest.param(folder, id=str(release))


@pytest.fixture(scope="module", params=["shape", *published()])
def tree(request, tmp_path_factory):
    """A patched tree: the imitation, and each release that is at hand. Patched once for all tests, which only load it."""
    folder = tmp_path_factory.mktemp("tree")
    if request.param == "shape":
        plant(folder, patch.apply(SOURCE.encode()))
        return folder
    file = plant(folder, patch.apply((request.param / "vllm" / MODULE).read_bytes()))
    helpers = file.with_name("triton_attention_helpers.py")
    helpers.write_bytes((request.param / "vllm" / MODULE).with_name(helpers.name).read_bytes())
    return folder


KINDS = (("prefill", 0, 32), ("decode", 0, 32), ("decode", 16, 16))


@pytest.mark.parametrize(("kind", "segments", "usual"), KINDS)
@pytest.mark.parametrize("capability", [(7, 0), (7, 5)])
def test_wide_heads_get_a_tile_of_16_on_turing(tree, capability, kind, segments, usual):
    assert tile(tree, measure.Platform(capability), 512, kind, segments) == 16
    assert tile(tree, measure.Platform(capability), 300, kind, segments) == 16
    assert tile(tree, measure.Platform(capability), 256, kind, segments) == usual


@pytest.mark.parametrize(("kind", "segments", "usual"), KINDS)
@pytest.mark.parametrize("capability", [(8, 0), (8, 9), (9, 0), (12, 0)])
def test_nothing_changes_from_ampere_on(tree, capability, kind, segments, usual):
    platform = measure.Platform(capability)
    assert tile(tree, platform, 512, kind, segments) == usual
    assert platform.asked == 1


class NoCuda(measure.Platform):
    def is_cuda(self):
        return False


class Unsaid(measure.Platform):
    def get_device_capability(self, _device=0):
        return None


@pytest.mark.parametrize("kind", [NoCuda, Unsaid])
def test_nothing_changes_where_there_is_no_card_of_that_maker(tree, kind):
    assert tile(tree, kind((7, 5)), 512, "prefill") == 32


def test_narrow_heads_do_not_ask_for_the_capability(tree):
    platform = measure.Platform((7, 5))
    tile(tree, platform, 256, "prefill")
    assert platform.asked == 0
