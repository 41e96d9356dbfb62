"""How many compilers a machine takes at a time. The plan asks too, for a machine that is not there yet."""

from __future__ import annotations

JOB_GIB = 4  # what one of nvcc's jobs is given (public runs: 4 GB and more each)
GIB = 1 << 30


def jobs(memory: int, swap: int, cores: int) -> int:
    """Compilers at a time, from bytes of memory and swap: 4 GiB each, at most as many as cores, at least 1.

    Swap counts for a quarter, and never lets more run than the memory alone is meant for: a compiler that swaps is slow.
    """
    meant = round(memory / GIB) // JOB_GIB  # the kernel keeps some of what the machine has
    return max(1, min(cores, meant, int((memory + swap / 4) / GIB) // JOB_GIB))
