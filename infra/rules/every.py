"""All rules, in the order in which they are checked."""

from __future__ import annotations

from collections.abc import Sequence

from infra.rules.common import COMMON
from infra.rules.rule import Rule
from infra.rules.serving import SERVING

RULES: Sequence[Rule] = (*COMMON, *SERVING)
