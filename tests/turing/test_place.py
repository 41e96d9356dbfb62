"""The place is found by structure; another structure is refused with what was looked for."""

from __future__ import annotations

import ast
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from startup.turing import fetch
from startup.turing.place import find
from startup.turing.tree import MODULE
from tests.turing.shape import LAST_ASSIGNMENT, SOURCE
from verdict.errors import Refused

ANCHORS = ("unified_attention", "current_platform", "triton", "TILE_SIZE_PREFILL", "TILE_SIZE_DECODE", "head_size", "TILE_SIZE")


def line_of(text: str, source: str = SOURCE) -> int:
    return source[: source.index(text)].count("\n") + 1


def test_it_is_after_the_last_assignment():
    place = find(SOURCE)
    assert (place.after, place.indent) == (line_of(LAST_ASSIGNMENT), "    ")


@given(st.sets(st.sampled_from(ANCHORS), min_size=1))
def test_a_renamed_anchor_is_refused(renamed):
    mutated = SOURCE
    for name in renamed:
        mutated = re.sub(rf"\b{name}\b", f"{name}_other", mutated)
    with pytest.raises(Refused) as refused:
        find(mutated)
    assert "looked for" in refused.value.why and "found:" in refused.value.why


REMOVED = (
    ("    head_size = q.shape[2]\n", ""),
    ("    kernel_unified_attention[(1,)](q=q, TILE_SIZE=tile_size, BLOCK_M=BLOCK_M, IS_3D=use_3d)\n", ""),
    ("from vllm.platforms import current_platform\n", ""),
    ("import tl, triton", "import tl"),
    ("        tile_size = TILE_SIZE_PREFILL\n", "        tile_size = 32\n"),
    ("kernel_unified_attention[(1,)]", "kernel_unified_attention.run"),
    (LAST_ASSIGNMENT, LAST_ASSIGNMENT + "    other(TILE_SIZE_DECODE)\n    TILE_SIZE_PREFILL = 32\n"),
    (LAST_ASSIGNMENT, LAST_ASSIGNMENT + "    TILE_SIZE_DECODE = 16; use_3d = False\n"),
    ("    use_3d = soft", "    tile = TILE_SIZE_PREFILL\n    TILE_SIZE_PREFILL = 32\n    use_3d = soft"),
    ('    """The wrapper."""\n', '    """The wrapper."""\n  oops\n'),
    ("import torch", "import torch\x00"),
    ("def _get_tile_size(head_size, is_prefill):", "def unified_attention(head_size, is_prefill):"),
)


@pytest.mark.parametrize(("old", "new"), REMOVED)
def test_a_tree_of_another_shape_is_refused(old, new):
    assert old in SOURCE
    with pytest.raises(Refused) as refused:
        find(SOURCE.replace(old, new, 1))
    assert refused.value.rule == "turing-unknown-tree"


STATEMENT_STARTS = [
    node.lineno for node in next(n for n in ast.parse(SOURCE).body if getattr(n, "name", "") == "unified_attention").body
]


@given(st.lists(st.tuples(st.sampled_from(STATEMENT_STARTS), st.sampled_from(("", "    # a word", "    other = 1"))), max_size=8))
def test_lines_that_move_do_not_matter(inserted):
    lines = SOURCE.split("\n")
    for number, text in sorted(inserted, reverse=True):
        lines.insert(number - 1, text)
    moved = "\n".join(lines)
    assert find(moved).after == line_of(LAST_ASSIGNMENT, moved)


@pytest.mark.parametrize("release", fetch.pinned(), ids=str)
def test_it_is_found_in_a_published_release(release):
    """Those that an earlier proof has fetched; `make prove-turing` fetches all."""
    folder = fetch.cache() / f"{release.distribution}-{release.version}-{release.sha256[:12]}"
    if not folder.is_dir():
        pytest.skip(f"{release} is not in the cache: make prove-turing")
    source = (folder / "vllm" / MODULE).read_text(encoding="utf-8")
    lines = source.split("\n")
    after = find(source).after
    assert "TILE_SIZE_DECODE = min(" in lines[after - 1]
    uses = [n for n, line in enumerate(lines, 1) if re.search(r"tile_size = TILE_SIZE_(PREFILL|DECODE)", line)]
    assert len(uses) == 2 and min(uses) > after
