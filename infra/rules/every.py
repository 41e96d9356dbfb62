"""All rules, in the order in which they are checked."""

from __future__ import annotations

from collections.abc import Sequence

from infra.rules.common import COMMON
from infra.rules.rule import Rule
from infra.rules.serving import SERVING
from infra.targets import registry

RULES: Sequence[Rule] = (
    *(rule for rule in COMMON if rule.final),
    *registry.rules(),
    *(rule for rule in COMMON if not rule.final),
    *SERVING,
)
"""First what nobody can allow, then the targets' own (their words are nearer to the matter), then what holds for all."""
