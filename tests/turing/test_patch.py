"""In, out, twice, by another version, by hand: on bytes."""

from __future__ import annotations

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from startup.turing import patch
from tests.turing.shape import SOURCE
from verdict.errors import Refused

ORIGINAL = SOURCE.encode()
ENDINGS = (b"\n", b"\r\n")


@given(st.sampled_from(ENDINGS), st.text("ab #é\n", max_size=30), st.booleans())
def test_there_and_back_again_byte_for_byte(ending, tail, last_line_ends):
    text = SOURCE + "".join(f"# {line}\n" for line in tail.split("\n"))
    original = (text if last_line_ends else text.rstrip("\n")).encode().replace(b"\n", ending)
    patched = patch.apply(original)
    assert patched != original
    assert patch.apply(patched) == patched
    assert patch.revert(patched) == original
    assert [patch.check(c).name for c in (original, patched)] == ["unpatched", "patched"]


def test_what_is_not_patched_reverts_to_itself():
    assert patch.revert(ORIGINAL) == ORIGINAL


def of_version(number):
    """The same place, another version's text."""
    new = patch.apply(ORIGINAL)
    return new.replace(b"tile v%d of" % patch.VERSION, b"tile v%d of" % number).replace(b"PREFILL, 16)", b"PREFILL, 8)")


def test_another_version_is_replaced():
    old = of_version(patch.VERSION + 1)
    assert patch.check(old) == patch.State("patched", patch.VERSION + 1)
    assert patch.apply(old) == patch.apply(ORIGINAL)
    assert patch.revert(old) == ORIGINAL


def test_a_patch_edited_by_hand_is_seen_and_put_right():
    edited = of_version(patch.VERSION)
    assert patch.check(edited).name == "unknown"
    assert patch.apply(edited) == patch.apply(ORIGINAL)


PATCHED = patch.apply(ORIGINAL)
BLOCK = PATCHED[PATCHED.index(b"    # >>> ") : PATCHED.index(b"\n    # A word")]
BROKEN = {
    "a file changed after the patch": PATCHED + b"# more\n",
    "no end": PATCHED.replace(b"# <<< flexserve turing tile", b"#"),
    "no beginning": PATCHED.replace(b"# >>> flexserve turing tile", b"#"),
    "twice": PATCHED.replace(BLOCK, BLOCK + BLOCK),
    "mixed line endings": ORIGINAL.replace(b"\n", b"\r\n", 3),
    "not UTF-8": ORIGINAL + b"# \xff\n",
    "a byte order mark": b"\xef\xbb\xbf" + ORIGINAL,
    "empty": b"",
}


@pytest.mark.parametrize("content", BROKEN.values(), ids=BROKEN)
def test_a_broken_file_is_unknown_and_refused(content):
    assert patch.check(content).name == "unknown"
    assert patch.check(content).why
    with pytest.raises(Refused):
        patch.apply(content)


def test_the_digest_is_the_originals():
    assert hashlib.sha256(ORIGINAL).hexdigest().encode() in PATCHED
