"""A process, and all that it starts, that no longer waits for the disk: the calls for it succeed and do nothing.

For an installation: dpkg writes its records through hundreds of times, and each time the file system writes all that was unpacked
before. Who uses it waits for the disk once, when all is done, and trusts nothing of it until then. On another kernel or processor
nothing changes.
"""

from __future__ import annotations

import os
import struct
import sys

# Processor: its number for the kernel's filters, and the numbers of fsync, fdatasync, sync_file_range.
CALLS = {"x86_64": (0xC000003E, (74, 75, 277)), "aarch64": (0xC00000B7, (82, 83, 84))}
LOAD, SAME, RETURN = 0x20, 0x15, 0x06  # of the filter's language: load a word, jump if equal, end
NUMBER_AT, PROCESSOR_AT = 0, 4  # in what the filter is shown of a call
ALLOWED, DONE = 0x7FFF0000, 0x00050000  # the call is made; or it is not, and ends with error 0
PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 22, 2


def program(processor: int, calls: tuple[int, ...]) -> bytes:
    """The filter: eight bytes an instruction. Jumps count from the instruction after them."""
    last = len(calls)
    lines = [(LOAD, 0, 0, PROCESSOR_AT), (SAME, 0, last + 1, processor), (LOAD, 0, 0, NUMBER_AT)]
    lines += [(SAME, last - at, 0, number) for at, number in enumerate(calls)]
    lines += [(RETURN, 0, 0, ALLOWED), (RETURN, 0, 0, DONE)]
    return b"".join(struct.pack("=HBBI", *line) for line in lines)


def begin() -> bool:
    """From now on, for this process and those it starts, for ever. False where the kernel does not do it."""
    known = CALLS.get(os.uname().machine)
    if known is None or sys.maxsize < 2**32:
        return False
    try:
        import ctypes
    except ImportError:  # a smaller Python
        return False
    code = ctypes.create_string_buffer(program(*known))
    whole = ctypes.create_string_buffer(struct.pack("@HP", len(code.raw) // 8, ctypes.addressof(code)))
    prctl = ctypes.CDLL(None).prctl
    return bool(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.c_void_p(ctypes.addressof(whole)), 0, 0) == 0)
