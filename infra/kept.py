"""What was chosen when the machine was created, and what happens when the stack file says something else later.

The choices live in Pulumi's state, in the engine's own `Stash` resource named `kept`. A live accelerator is never replaced by
surprise: a difference is followed in place, ignored with a word, or refused, unless the operator consents to replacing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from infra.state import STASH
from verdict.errors import FlexserveError, Refused

CONSENT = "FLEXSERVE_REPLACE"
PLACE = "FLEXSERVE_PLACE"
FACTS = "image.config"
"""What the image's own config says, as a choice: asked by the image's digest, so that it is read once for each image."""
ALLOW = "FLEXSERVE_ALLOW"
RERUN = "FLEXSERVE_RERUN"
RULE = "live-machine-would-be-replaced"


class OnChange(StrEnum):
    """What a changed key of the stack file does to a live machine."""

    FOLLOW = "follow"  # reaches it in place
    IGNORE = "ignore"  # kept as it was while the machine lives, with a word
    NEVER = "never"  # kept as it was until the stack is destroyed, with a word
    REFUSE = "refuse"  # stops before anything is changed


class Choice(Struct, frozen=True):
    """What the stack file asked for at create, and what it became (a tag's digest, the zone that had capacity)."""

    asked: str
    value: str


class Wanted(Struct, frozen=True):
    """What the stack file asks for now. `value` is None where it has to be resolved first.

    `fits`: values that satisfy it besides `value`, for a list to choose from.
    """

    asked: str
    value: str | None
    on_change: OnChange
    fits: tuple[str, ...] = ()

    def satisfied_by(self, choice: Choice) -> bool:
        """Whether what was chosen at create is still what is asked for."""
        if self.fits:
            return choice.value in self.fits
        return choice.asked == self.asked or choice.value == self.value


class Kept(Struct, frozen=True):
    """The kept state of a deployment. `started`: epoch seconds (UTC) at which its present machine was asked for.

    `attempt`: how often the operator had the boot run again on that machine. `prices`: since when (epoch seconds) it was to have
    which price, in dollars an hour, None where that is unknown; the oldest first.
    """

    id: str
    started: int
    choices: Mapping[str, Choice] = field(default_factory=dict)
    attempt: int = 0
    prices: tuple[tuple[int, float | None], ...] = ()

    def value(self, key: str) -> str:
        """What was chosen for a key."""
        return self.choices[key].value

    def as_state(self) -> dict[str, object]:
        """The form that the state keeps."""
        return {
            "id": self.id,
            "started": self.started,
            "choices": {k: {"asked": c.asked, "value": c.value} for k, c in sorted(self.choices.items())},
            **({"attempt": self.attempt} if self.attempt else {}),
            **({"prices": [list(row) for row in self.prices]} if self.prices else {}),
        }

    def priced(self, per_hour: float | None, now: Callable[[], int]) -> Kept:
        """The same from `now` on at this price: itself where it has that already."""
        if self.prices and self.prices[-1][1] == per_hour:
            return self
        since = now() if self.prices else self.started
        return replace(self, prices=(*self.prices, (since, per_hour)))


class Verdict(Struct, frozen=True):
    """What holds for each key: a choice, or None where it has to be resolved anew. `replaces`: keys that cost the machine."""

    choices: Mapping[str, Choice | None]
    words: tuple[str, ...]
    replaces: tuple[str, ...]


def reconcile(kept: Kept | None, wanted: Mapping[str, Wanted], *, live: bool, consent: bool, stack: str = "") -> Verdict:
    """Decide between what was chosen at create and what is asked for now.

    `live`: the state records a machine. Without one, or with the operator's consent, what is asked for wins. Raises `Refused`
    with every key that a live machine cannot take. `stack`: for the ways out.
    """
    choices: dict[str, Choice | None] = {}
    words: list[str] = []
    refused: list[str] = []
    replaces: list[str] = []
    for key, want in wanted.items():
        old = kept.choices.get(key) if kept else None
        if old is not None and want.satisfied_by(old):
            choices[key] = old
            continue
        if old is not None and want.on_change is OnChange.NEVER:
            choices[key] = old
            words.append(f"flexserve:{key} stays {old.value}, not {want.asked}; {_down_up(stack)}")
            continue
        fresh = Choice(want.asked, want.value) if want.value is not None else None
        if old is None or want.on_change is OnChange.FOLLOW or not live:
            choices[key] = fresh
        elif consent:
            choices[key] = fresh
            replaces.append(key)
        elif want.on_change is OnChange.IGNORE:
            choices[key] = old
            words.append(f"flexserve:{key} stays {old.value}, as the machine was created with, not {want.asked}; {_way_out(stack)}")
        else:
            refused.append(f"flexserve:{key} is {old.value} on the live machine and {want.asked} in the stack file")
    if refused:
        raise Refused(RULE, why="; ".join(refused), way_out=f"set it back; or {_way_out(stack)}")
    return Verdict(choices, tuple(words), tuple(replaces))


def from_state(value: Mapping[str, Any]) -> Kept:
    """Read what `as_state` made (the engine returns ints as floats). Raises `FlexserveError` for another shape."""
    try:
        choices = {str(k): Choice(str(c["asked"]), str(c["value"])) for k, c in value["choices"].items()}
        prices = tuple((int(at), None if usd is None else float(usd)) for at, usd in value.get("prices", ()))
        return Kept(str(value["id"]), int(value["started"]), choices, int(value.get("attempt", 0)), prices)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise FlexserveError(
            "the stack's kept state cannot be read",
            why=f"the resource {STASH!r} holds another shape ({error})",
            way_out="use the flexserve version that made it, or `pulumi destroy` and begin anew",
        ) from error


def consents(environ: Mapping[str, str]) -> bool:
    """Whether the operator agreed to give up a live machine."""
    return environ.get(CONSENT, "") == "1"


def reruns(environ: Mapping[str, str]) -> bool:
    """Whether the operator wants the boot to run again on the live machine, though nothing else has changed."""
    return environ.get(RERUN, "") == "1"


def _down_up(stack: str) -> str:
    named = f" -s {stack}" if stack else ""
    return f"`flexserve down{named}` and `flexserve up{named}` again"


def _way_out(stack: str) -> str:
    """`flexserve up` has a word of its own for it, and passes over the variable: both are named."""
    named = f" -s {stack}" if stack else ""
    return f"{_down_up(stack)}; or `flexserve up{named} --replace` (plain pulumi: {CONSENT}=1), which gives up the machine"
