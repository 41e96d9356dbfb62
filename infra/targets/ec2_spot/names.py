"""Names and tags by which everything of a deployment is found again."""

from __future__ import annotations

from msgspec import Struct

from infra.clouds.aws.marks import PREFIX

BUILDS = "builds/"


class Names(Struct, frozen=True):
    """Everything is tagged with the random id; what is looked for by name (roles, schedules, buckets) has it in the name."""

    id: str

    @property
    def base(self) -> str:
        """The name of the machine, its role, profile, group, schedule and own bucket."""
        return f"{PREFIX}{self.id}"

    @property
    def clock(self) -> str:
        """The role with which the schedule ends the machine."""
        return f"{self.base}-clock"

    @property
    def script_key(self) -> str:
        """The object that holds the boot script."""
        return f"{self.id}/script"


def provisioning(lifecycle: object) -> str:
    """EC2's instance life cycle in the catalog's words; it names none for a machine at the usual price."""
    return "spot" if lifecycle == "spot" else "on_demand"
