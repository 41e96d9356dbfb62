"""What is kept on purpose, as documents and lines show it. Pure."""

from __future__ import annotations

from infra.targets.protocol import Billable

HOURS_A_MONTH = 730


def thing(found: Billable) -> dict[str, object]:
    """A thing of the inventory as a document has it."""
    return {"kind": found.kind, "name": found.name, "where": found.where, "price_per_hour": found.price_per_hour}


def kept(found: Billable) -> dict[str, object]:
    """The same of one that is kept: what it costs a month, and why."""
    return {**thing(found), "price_per_month": month(found.price_per_hour), "why": found.kept}


def where(found: Billable) -> str:
    """`repository fs-1 in us-east-2`."""
    return f"{found.kind} {found.name} in {found.where}"


def line(found: Billable) -> str:
    """The same with its price a month, and why it is kept."""
    cost = month(found.price_per_hour)
    price = "price unknown" if cost is None else "under $0.01 a month" if (found.price_per_hour or 0) > 0 and cost < 0.01 else ""
    return f"{where(found)}, {price or f'${cost:,.2f} a month'}: {found.kept} (down --purge deletes it)"


def month(per_hour: float | None) -> float | None:
    """Dollars a month; None when the price is unknown."""
    return None if per_hour is None else round(per_hour * HOURS_A_MONTH, 2)
