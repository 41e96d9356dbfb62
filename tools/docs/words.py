"""What the shell may complete, written down so that completing imports neither the rules nor the rehearsal."""

from __future__ import annotations

import json

from infra.deployment import Common
from infra.rules.every import all_rules
from infra.targets import registry
from rehearsal.faults import FAULTS
from tools.docs.stack_file import leaves


def page() -> str:
    """flexserve/words.json: option -> word -> what it means."""
    keys = {name: field.description or "" for name, field in leaves("", Common)}
    for kind in registry.kinds():
        shape = registry.module(kind, "config").Config
        keys |= {name: field.description or "" for name, field in leaves("target.", shape)}
    words = {
        "allow": {rule.id: rule.about for rule in all_rules() if not rule.final},
        "fault": {fault.name: fault.about for fault in sorted(FAULTS.values(), key=lambda f: f.name)},
        "set": {f"{name}=": about.replace("`", "") for name, about in sorted(keys.items())},
    }
    return json.dumps(words, indent=1, ensure_ascii=False) + "\n"
