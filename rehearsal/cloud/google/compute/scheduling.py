"""Google's rules for an instance's scheduling block."""

from __future__ import annotations

from rehearsal.cloud.google.call import Json
from rehearsal.cloud.google.errors import invalid
from rehearsal.cloud.google.inventory import MachineType

SHORTEST_RUN_S = 600
LONGEST_RUN_S = 604_800
"""Flex-start runs ten minutes to seven days. Source: Create an AI-optimized instance, 2026-04-06."""

FIELD = "resource.scheduling"


def checked(given: Json, machine: MachineType) -> Json:
    """The block with Google's defaults. Raises compute's 400 where the fields contradict each other."""
    value: Json = {"provisioningModel": "STANDARD", "automaticRestart": True, "preemptible": False} | given
    value.setdefault("onHostMaintenance", "MIGRATE")
    if machine.tpu and value["onHostMaintenance"] != "TERMINATE":
        raise invalid(f"{FIELD}.onHostMaintenance", value["onHostMaintenance"], "TPU machine types must use TERMINATE.")
    model, run = value["provisioningModel"], int(value.get("maxRunDuration", {}).get("seconds", 0))
    if model in ("SPOT", "FLEX_START") and value["automaticRestart"]:
        raise invalid(
            f"{FIELD}.automaticRestart",
            "true",
            f"Scheduling must have automaticRestart be false when provisioning model is {model}.",
        )
    if value.get("instanceTerminationAction") and model == "STANDARD" and not run:
        text = "A termination action cannot be specified for the standard provisioning model without a run duration."
        raise invalid(f"{FIELD}.instanceTerminationAction", value["instanceTerminationAction"], text)
    if run and not value.get("instanceTerminationAction"):
        raise invalid(f"{FIELD}.instanceTerminationAction", "", "A termination action must be specified with maxRunDuration.")
    if model == "FLEX_START":
        _flex_start(value, run)
    return value


def _flex_start(value: Json, run: int) -> None:
    if not run:
        raise invalid(f"{FIELD}.maxRunDuration", "", "FLEX_START instances must specify maxRunDuration.")
    if not SHORTEST_RUN_S <= run <= LONGEST_RUN_S:
        raise invalid(f"{FIELD}.maxRunDuration", f"{run}s", f"Must be between {SHORTEST_RUN_S} and {LONGEST_RUN_S} seconds.")
    if value.get("instanceTerminationAction") != "DELETE":
        action = value.get("instanceTerminationAction", "")
        raise invalid(f"{FIELD}.instanceTerminationAction", action, "FLEX_START instances must use the termination action DELETE.")


def run_seconds(value: Json) -> int | None:
    """The length of the window, in seconds; None without one."""
    seconds = int(value.get("maxRunDuration", {}).get("seconds", 0))
    return seconds or None
