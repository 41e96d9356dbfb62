"""A phase's own time: what it took without what stand-ins held on purpose. Both are rounded, so held can come out larger."""

import pytest

from flexserve.commands.rehearse import phase_line
from rehearsal.run import with_held


@pytest.mark.parametrize(
    ("seconds", "held", "told"),
    [(2.0, 2.1, 2.0), (2.0, 1.5, 1.5), (2, 0.0, 0.0), (0.0, 0.1, 0.0), (None, 0.1, 0.1)],
)
def test_a_phase_never_holds_longer_than_it_took(seconds: float | None, held: float, told: float) -> None:
    (phase,) = with_held([{"name": "compile", "seconds": seconds}], {"compile": held})
    assert phase["held_s"] == told


@pytest.mark.parametrize("seconds", [2.0, 0.0, None])
def test_the_page_shows_no_negative_time(seconds: float | None) -> None:
    assert "-" not in phase_line({"name": "compile", "result": "done", "seconds": seconds, "held_s": 2.1})
