"""`python3 -m startup.endpoint.arch CAPABILITY`: whether this Python's torch holds code for a card. Run while the image is built.

torch's own build flags are read, which needs no card: `torch.cuda.get_arch_list()` is empty without one.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence


def runs(flags: Sequence[str], capability: str) -> bool:
    """Whether one of `flags` (`sm_75 sm_80 …`) is code for the card.

    Exact for Turing, which the patch was proved for; from Ampere on, code of the same generation and not of a newer member runs.
    Source: CUDA C++ programming guide, binary compatibility.
    """
    major, minor = (int(part) for part in capability.split("."))
    wanted = [f"sm_{major}{lower}" for lower in range(minor + 1)] if major >= 8 else [f"sm_{major}{minor}"]
    return bool(set(wanted) & set(flags))


def main(words: Sequence[str]) -> int:
    """0 it does, 1 it does not."""
    import torch

    flags = (torch._C._cuda_getArchFlags() or "").split()  # nothing where torch was built without CUDA
    print(f"torch {torch.__version__}: {' '.join(flags) or 'no CUDA code'}", flush=True)
    if runs(flags, words[0]):
        return 0
    # On stdout: docker colours the other, and who reads the log looks for lines that begin so.
    print(f"flexserve: torch holds no code for compute capability {words[0]}: this image cannot serve on that card", flush=True)
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
