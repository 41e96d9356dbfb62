"""The turned clock, the ledger on it, and the registry of faults."""

import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rehearsal.cloud.clock import TurnedClock
from rehearsal.cloud.ledger import BillLedger, cost
from rehearsal.contracts import Fault
from rehearsal.faults import FAULTS, collected, for_target


class Still:
    """Real time that stands still, so that only turning moves the clock."""

    def __call__(self) -> float:
        return 1_000_000.0


def test_events_run_in_order_and_at_their_time() -> None:
    clock, seen = TurnedClock(Still()), []
    for after in (30, 10, 20, 10):
        clock.after(after, lambda after=after: seen.append((after, clock.now() - 1_000_000)))  # type: ignore[misc]
    clock.advance(25)
    assert seen == [(10, 10), (10, 10), (20, 20)] and clock.now() == 1_000_025
    clock.sleep(5)
    assert seen[-1] == (30, 30)


def test_an_event_may_put_another_that_falls_due_on_the_same_turn() -> None:
    clock, seen = TurnedClock(Still()), []
    clock.after(10, lambda: clock.after(10, lambda: seen.append(clock.now() - 1_000_000)))
    clock.advance(60)
    assert seen == [20]


def test_an_event_may_turn_the_clock_itself() -> None:
    clock, seen = TurnedClock(Still()), []
    clock.after(1, lambda: clock.advance(100))
    clock.after(50, lambda: seen.append("inner"))
    clock.advance(2)
    assert seen == ["inner"] and clock.now() == 1_000_101


def test_cancelled_events_do_not_run_and_the_clock_is_not_turned_back() -> None:
    clock, seen = TurnedClock(Still()), []
    clock.after(1, lambda: seen.append(1)).cancel()
    clock.advance(2)
    assert seen == []
    with pytest.raises(ValueError, match="turned back"):
        clock.advance(-1)


def test_real_time_reaches_events_while_started() -> None:
    clock, reached = TurnedClock(), threading.Event()
    clock.start()
    try:
        clock.after(0.01, reached.set)
        assert reached.wait(20)
    finally:
        clock.stop()
        clock.stop()


@given(st.lists(st.integers(0, 1000), max_size=20), st.lists(st.integers(0, 300), min_size=1, max_size=10))
def test_every_due_event_runs_once_and_none_early(events: list[int], turns: list[int]) -> None:
    clock, seen = TurnedClock(Still()), []
    for when in events:
        clock.at(1_000_000 + when, lambda when=when: seen.append(when))  # type: ignore[misc]
    for turn in turns:
        clock.advance(turn)
    due = sorted(when for when in events if 1_000_000 + when <= clock.now())
    assert seen == due


def test_threads_that_turn_at_once_all_count() -> None:
    clock = TurnedClock(Still())
    ran: list[int] = []
    for second in range(100):
        clock.after(second, lambda second=second: ran.append(second))  # type: ignore[misc]
    threads = [threading.Thread(target=clock.advance, args=(25,)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert clock.now() == 1_000_200 and ran == list(range(100))


def test_the_ledger_counts_from_create_to_delete() -> None:
    clock = TurnedClock(Still())
    ledger = BillLedger(clock, lambda kind, attributes: 2.0 if kind == "instance" and attributes["where"] == "z" else None)
    ledger.created("instance", "vm", "z", {"machine_type": "t"}, {"a": "b"})
    ledger.created("disk", "vm", "z")
    clock.advance(1800)
    assert ledger.total() == 1.0 and len(ledger.left()) == 2
    ledger.deleted("instance", "vm", "z")
    ledger.deleted("instance", "vm", "z")
    clock.advance(3600)
    assert ledger.total() == 1.0 and [i.kind for i in ledger.left()] == ["disk"]
    assert cost(ledger.left()[0], clock.now()) is None  # an unknown price is unknown
    ledger.created("instance", "vm", "z")
    assert len(ledger.items()) == 3


def test_the_ledger_refuses_to_bill_one_thing_twice() -> None:
    ledger = BillLedger(TurnedClock(Still()))
    ledger.created("disk", "d", "z")
    with pytest.raises(ValueError, match="bills already"):
        ledger.created("disk", "d", "z")


def test_faults_are_registered_once() -> None:
    fault = Fault("same", ("toy",), "", lambda _: None, 0)
    with pytest.raises(ValueError, match="registered already"):
        collected([("one", [fault]), ("two", [fault])])
    assert {"stock-out", "quota", "planted-disk", "late-iam"} <= {f.name for f in for_target("gce_flex")}
    assert all(FAULTS[f.name] is f for f in for_target("gce_flex")) and for_target("nothing") == ()
