"""Any value survives the shell."""

import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from startup.quote import q
from verdict.errors import BadConfig

TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=60)


@settings(max_examples=60, deadline=None)
@given(st.lists(TEXT, min_size=1, max_size=20))
def test_round_trip_through_bash(values):
    script = f"for word in {' '.join(q(value) for value in values)}; do printf '%s\\0' \"$word\"; done"
    assert "\r" not in script and "\n" not in script
    done = subprocess.run(["env", "-i", "LC_ALL=C.UTF-8", "bash", "-c", script], capture_output=True, check=True)
    assert done.stdout.split(b"\0")[:-1] == [value.encode() for value in values]


@pytest.mark.parametrize("value", ["a\0b", "\ud800", None, True, ["a"], object()])
def test_what_no_word_can_hold(value):
    with pytest.raises(BadConfig):
        q(value)


def test_numbers_are_words():
    assert (q(8000), q(0.9), q("")) == ("8000", "0.9", "''")
