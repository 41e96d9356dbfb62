"""How long: `4h`, `90m`, `1d`, `3h30m`, `14400` or `14400s`."""

from __future__ import annotations

import re

_NOT = "is not a duration; write 4h, 90m, 1d or seconds"
_UNITS = {"d": 86400, "h": 3600, "m": 60, "s": 1}
_SHAPE = re.compile(r"(?:(\d{1,12})d)?(?:(\d{1,12})h)?(?:(\d{1,12})m)?(?:(\d{1,12})s?)?", re.ASCII)


def parse_seconds(value: object) -> int:
    """Seconds of a duration. Raises ValueError with the accepted forms; there is no 'never'."""
    if not isinstance(value, int | str) or isinstance(value, bool):
        raise ValueError(_NOT)
    text = str(value).strip().lower()
    match = _SHAPE.fullmatch(text)
    if not text or match is None or not any(match.groups()):
        raise ValueError(_NOT)
    return sum(int(n) * _UNITS[u] for n, u in zip(match.groups(), "dhms", strict=True) if n)


def words(seconds: int) -> str:
    """The same for people: `4h`, `1h30m`, `45s`."""
    parts, rest = [], seconds
    for unit, size in _UNITS.items():
        count, rest = divmod(rest, size)
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts) or "0s"
