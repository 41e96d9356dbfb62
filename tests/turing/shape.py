"""A module of the shape of vLLM's `triton_unified_attention.py`, far smaller, and a tree around it."""

from __future__ import annotations

from pathlib import Path

from startup.turing.tree import MODULE

SOURCE = '''"""Imitates the shape that matters: who chooses the tile, where, and what is launched with it."""
import torch

from vllm.platforms import current_platform
from vllm.triton_utils import tl, triton


@triton.jit
def kernel_unified_attention(q, TILE_SIZE: tl.constexpr, BLOCK_M: tl.constexpr, IS_3D: tl.constexpr):
    pass


@triton.jit
def reduce_segments(q, TILE_SIZE: tl.constexpr):
    pass


def _get_tile_size(head_size, is_prefill):
    return 32 if is_prefill else 16


def unified_attention(q, k, v, max_seqlen_q, softmax_segm_output=None, use_td=False, **others):
    """The wrapper."""
    head_size = q.shape[2]
    BLOCK_M = max(16, q.shape[1] // k.shape[2])
    if isinstance(v, torch.Tensor):
        block_size = v.shape[1]

    TILE_SIZE_PREFILL = _get_tile_size(head_size, True)
    TILE_SIZE_DECODE = _get_tile_size(head_size, False)
    if use_td:
        TILE_SIZE_PREFILL = min(TILE_SIZE_PREFILL, block_size)
        TILE_SIZE_DECODE = min(TILE_SIZE_DECODE, block_size)

    # A word before the next statement.
    use_3d = softmax_segm_output is not None and max_seqlen_q == 1
    if use_3d:
        tile_size = TILE_SIZE_DECODE
    else:
        tile_size = TILE_SIZE_PREFILL
    kernel_unified_attention[(1,)](q=q, TILE_SIZE=tile_size, BLOCK_M=BLOCK_M, IS_3D=use_3d)
    if use_3d:
        reduce_segments[(1,)](q=q, TILE_SIZE=TILE_SIZE_DECODE)
'''
LAST_ASSIGNMENT = "        TILE_SIZE_DECODE = min(TILE_SIZE_DECODE, block_size)\n"


def plant(folder: Path, source: str | bytes = SOURCE) -> Path:
    """A tree like site-packages with such a vLLM; importing that vLLM fails. Returns the module's file."""
    file = folder / "vllm" / MODULE
    file.parent.mkdir(parents=True)
    (folder / "vllm" / "__init__.py").write_text("raise RuntimeError('vLLM was imported')\n")
    (file.parent / "triton_attention_helpers.py").write_text('"""None needed."""\n')
    file.write_bytes(source if isinstance(source, bytes) else source.encode())
    return file
