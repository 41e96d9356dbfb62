"""Every rule, from the rules' own data."""

from __future__ import annotations

from infra.rules.elsewhere import ELSEWHERE
from infra.rules.every import all_rules


def page() -> str:
    """docs/reference/rules.md."""
    lines = [
        "# Rules",
        "",
        "A plan that breaks a rule is refused before anything is created: exit 3, with the rule's name, why, and the way out.",
        "`--allow RULE` (or `flexserve:allow: [RULE]` in the stack file) goes past it on your word; it then stands in the plan and",
        "the manifest. A final rule cannot be passed: there would be nothing to plan with.",
        "",
        "| rule | refuses | final |",
        "| --- | --- | --- |",
        *(f"| `{rule.id}` | {rule.about} | {'yes' if rule.final else ''} |" for rule in all_rules()),
        "",
        "## Refused later",
        "",
        "Exit 3 as well, by what a plan cannot see. None of them can be allowed.",
        "",
        "| name | by | refuses |",
        "| --- | --- | --- |",
        *(f"| `{name}` | {when} | {what} |" for name, (when, what) in ELSEWHERE.items()),
    ]
    return "\n".join(lines) + "\n"
