"""A schedule that does one thing at one time and then deletes itself. Pure."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any


def once(name: str, description: str, at: int, *, action: str, role_arn: object, body: object) -> dict[str, Any]:
    """The provider's arguments. `at`: epoch seconds; `action`: ARN of an API call as the scheduler spells it; `body`: its JSON."""
    when = datetime.fromtimestamp(at, UTC)
    return {
        "name": name,
        "description": description,
        "schedule_expression": f"at({when:%Y-%m-%dT%H:%M:%S})",
        "schedule_expression_timezone": "UTC",
        "flexible_time_window": {"mode": "OFF"},
        "action_after_completion": "DELETE",
        "target": {"arn": action, "role_arn": role_arn, "input": body},
    }
