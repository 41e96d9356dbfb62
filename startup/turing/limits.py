"""How much shared memory the attention kernel asks for on Turing, and which query groups that leaves room for."""

from __future__ import annotations

SHARED_BYTES = 65_536  # a block's shared memory on compute capability 7.5; CUDA C++ Programming Guide, compute capabilities
SMALLEST_TILE = 16  # tl.dot wants at least 16 along each side
WIDE_HEAD = 512  # from this padded head size on, the patch makes the tile SMALLEST_TILE
USUAL_TILE = 32  # what vLLM 0.27 to 0.33 choose for a prefill
_ELEMENT_BYTES = 2  # float16, the only 16-bit type that Turing multiplies


def power_of_two(number: int) -> int:
    """The smallest power of two that is not below `number`."""
    return 1 << max(number - 1, 0).bit_length()


def rows_of_a_block(group: int) -> int:
    """Query rows a block works on, for `group` query heads a KV head: vLLM's own rule."""
    return max(16, power_of_two(group))


def shared_bytes(head_dim: int, group: int, tile: int) -> int:
    """Bytes a block asks for in float16. Read off what Triton compiles for sm_75; `prove` holds every cell against it.

    Beside the query and the output tile (rows x head) lie a key and a value tile (tile x head).
    """
    return 2 * (rows_of_a_block(group) + tile) * power_of_two(head_dim) * _ELEMENT_BYTES


def patched_tile(head_dim: int) -> int:
    """The prefill tile that a patched vLLM takes on Turing."""
    return SMALLEST_TILE if power_of_two(head_dim) >= WIDE_HEAD else USUAL_TILE


def largest_group(head_dim: int) -> int:
    """The most query heads a KV head that fit with the patch, a power of two; 0 when not even one does. 16 at head 512."""
    group, tile = 0, patched_tile(head_dim)
    candidate = 1
    while shared_bytes(head_dim, candidate, tile) <= SHARED_BYTES:
        group, candidate = candidate, candidate * 2
    return group
