"""The patch itself, on bytes: in, out, and what state a file is in. Knows no file system and no vLLM."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass

from startup.turing.limits import SMALLEST_TILE, WIDE_HEAD
from startup.turing.place import RULE, find
from verdict.errors import Refused

VERSION = 1
_BEGIN = "# >>> flexserve turing tile"
_END = "# <<< flexserve turing tile"
# The head size is asked first: narrow heads pay nothing. `is_cuda`: other platforms count capabilities in their own way.
_LINES = (
    "if triton.next_power_of_2(head_size) >= {wide} and current_platform.is_cuda():",
    "    _capability = current_platform.get_device_capability()",
    "    if _capability is not None and tuple(_capability) < (8, 0):",
    "        TILE_SIZE_PREFILL = min(TILE_SIZE_PREFILL, {tile})",
    "        TILE_SIZE_DECODE = min(TILE_SIZE_DECODE, {tile})",
)
_BLOCK = re.compile(
    rb"^[ \t]*"
    + _BEGIN.encode()
    + rb" v(?P<version>\d+) of (?P<digest>[0-9a-f]{64})\r?\n(?:.*\n)*?[ \t]*"
    + _END.encode()
    + rb"\r?\n",
    re.MULTILINE,
)


@dataclass(frozen=True)
class State:
    """`name`: patched, unpatched or unknown; `version` of the patch that is in, 0 for none; `why` it is unknown."""

    name: str
    version: int = 0
    why: str = ""


def apply(content: bytes) -> bytes:
    """The patched file. A file with this version is returned as it is; another version is taken out first.

    Raises `Refused` (rule `turing-unknown-tree`) for code of another shape, and for a patch that was edited by hand.
    """
    original = revert(content)
    patched = _insert(original)
    return content if patched == content else patched


def revert(content: bytes) -> bytes:
    """The file as it was, byte for byte, held against the digest that the patch recorded. Raises `Refused` otherwise."""
    found = list(_BLOCK.finditer(content))
    if not found:
        if _BEGIN.encode() in content or _END.encode() in content:
            raise _broken("a whole block between its two marks", "a part of one")
        return content
    if len(found) > 1:
        raise _broken("one block", f"{len(found)}")
    start, end = found[0].span()
    original = content[:start] + content[end:]
    if _BEGIN.encode() in original or _END.encode() in original:
        raise _broken("one block", "a second mark")
    if hashlib.sha256(original).hexdigest() != found[0]["digest"].decode():
        raise _broken("the file that the patch was made for", "one that was changed since")
    return original


def check(content: bytes) -> State:
    """What state the file is in; never raises for what the file holds."""
    try:
        original = revert(content)
        patched = _insert(original)
    except Refused as refused:
        return State("unknown", why=refused.why)
    if original == content:
        return State("unpatched")
    found = _BLOCK.search(content)
    version = int(found["version"]) if found else 0
    if version == VERSION and patched != content:
        return State("unknown", version, f"looked for version {VERSION} of the patch; found: one that was edited")
    return State("patched", version)


def _insert(original: bytes) -> bytes:
    try:
        source = original.decode("utf-8")
    except UnicodeDecodeError as error:
        raise _broken("a Python module in UTF-8", str(error)) from None
    newline = "\r\n" if "\r\n" in source else "\n"
    if any(mark in line for line in source.split(newline) for mark in "\r\n"):
        raise _broken("one kind of line ending", "several")
    place = find(source.replace("\r\n", "\n"))
    digest = hashlib.sha256(original).hexdigest()
    block = [f"{_BEGIN} v{VERSION} of {digest}", *(line.format(wide=WIDE_HEAD, tile=SMALLEST_TILE) for line in _LINES), _END]
    lines = source.split(newline)
    return newline.join([*lines[: place.after], *(place.indent + line for line in block), *lines[place.after :]]).encode("utf-8")


def _broken(looked_for: str, found: str) -> Refused:
    return Refused(RULE, why=f"looked for {looked_for}; found: {found}", way_out="install vLLM again and apply the patch to it")
