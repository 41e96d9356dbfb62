"""What the shell may complete, written down so that completing imports neither the rules nor the rehearsal."""

from __future__ import annotations

import json

from infra.deployment import Common
from infra.rules.every import all_rules
from infra.shape import Settings
from infra.targets import registry
from rehearsal.faults import FAULTS
from tools.docs.stack_file import leaves


def _keys(prefix: str, shape: type[Settings]) -> dict[str, str]:
    """Keys with a `=` behind them, and what they mean."""
    found = sorted((name, field.description or "") for name, field in leaves(prefix, shape))
    return {f"{name}=": about.replace("`", "") for name, about in found}


def page() -> str:
    """flexserve/words.json: option -> word -> what it means; `set KIND` are the keys of one kind of target."""
    words = {
        "allow": {rule.id: rule.about for rule in all_rules() if not rule.final},
        "fault": {fault.name: fault.about for fault in sorted(FAULTS.values(), key=lambda f: f.name)},
        "set": _keys("", Common),
        **{f"set {kind}": _keys("target.", registry.module(kind, "config").Config) for kind in registry.kinds()},
    }
    return json.dumps(words, indent=1, ensure_ascii=False) + "\n"
