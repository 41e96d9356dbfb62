"""All rules, in the order in which they are checked."""

from __future__ import annotations

from collections.abc import Iterable

from infra.rules.common import COMMON
from infra.rules.rule import Rule
from infra.rules.serving import SERVING
from infra.targets import registry


def rules(kinds: Iterable[str]) -> tuple[Rule, ...]:
    """Those that hold for these kinds of target.

    First what nobody can allow, then the targets' own (their words are nearer to the matter), then what holds for all.
    """
    return (
        *(rule for rule in COMMON if rule.final),
        *(rule for kind in kinds for rule in registry.rules(kind)),
        *(rule for rule in COMMON if not rule.final),
        *SERVING,
    )


def all_rules() -> tuple[Rule, ...]:
    """Those of every target there is."""
    return rules(registry.kinds())
