"""Everything that bills, from create to delete on the cloud's clock."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from rehearsal.contracts import Clock, LedgerItem

Price = Callable[[str, Mapping[str, object]], float | None]
"""US dollars an hour of a kind with these attributes; None when it is not known (never a guess)."""

SECONDS_PER_HOUR = 3600.0


def unknown_price(kind: str, attributes: Mapping[str, object]) -> float | None:  # noqa: ARG001
    """The price list that knows nothing."""
    return None


@dataclass(frozen=True)
class _Key:
    kind: str
    name: str
    where: str


class BillLedger:
    """A `rehearsal.contracts.Ledger`.

    Thread-safe. One key is (kind, name, where); it may bill again after it was deleted.
    """

    def __init__(self, clock: Clock, price: Price = unknown_price) -> None:
        self._clock = clock
        self._price = price
        self._items: list[LedgerItem] = []
        self._open: dict[_Key, int] = {}
        self._lock = threading.Lock()

    def created(
        self,
        kind: str,
        name: str,
        where: str,
        attributes: Mapping[str, object] | None = None,
        labels: Mapping[str, str] | None = None,
    ) -> None:
        """It bills from now on. Raises ValueError when it bills already: the cloud's own books must not be wrong."""
        key = _Key(kind, name, where)
        price = self._price(kind, {"where": where, **(attributes or {})})
        with self._lock:
            if key in self._open:
                raise ValueError(f"{kind} {name} in {where} bills already")
            self._open[key] = len(self._items)
            self._items.append(LedgerItem(kind, name, where, self._clock.now(), None, price, dict(labels or {})))

    def deleted(self, kind: str, name: str, where: str) -> None:
        """It bills no more. What never billed, or ended before, is no error."""
        with self._lock:
            index = self._open.pop(_Key(kind, name, where), None)
            if index is not None:
                self._items[index] = replace(self._items[index], deleted_at=self._clock.now())

    def relabelled(self, kind: str, name: str, where: str, labels: Mapping[str, str]) -> None:
        """Its labels changed while it bills."""
        with self._lock:
            index = self._open.get(_Key(kind, name, where))
            if index is not None:
                self._items[index] = replace(self._items[index], labels=dict(labels))

    def items(self) -> Sequence[LedgerItem]:
        """All items ever, in order of creation."""
        with self._lock:
            return tuple(self._items)

    def left(self) -> Sequence[LedgerItem]:
        """What still bills."""
        return tuple(item for item in self.items() if item.deleted_at is None)

    def total(self) -> float:
        """US dollars so far, of the items whose price is known."""
        now = self._clock.now()
        return sum(cost(item, now) or 0.0 for item in self.items())


def cost(item: LedgerItem, now: float) -> float | None:
    """US dollars of one item until it was deleted, or until `now`; None when its price is not known."""
    if item.price_per_hour is None:
        return None
    end = now if item.deleted_at is None else item.deleted_at
    return max(0.0, end - item.created_at) / SECONDS_PER_HOUR * item.price_per_hour
