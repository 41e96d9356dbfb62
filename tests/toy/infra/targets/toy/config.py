"""What a stack file may say about a toy machine."""

from __future__ import annotations

from typing import ClassVar, Literal

from infra.shape import Field
from infra.targets.base import TargetSettings


class Config(TargetSettings):
    """`flexserve:target` with `kind: toy`."""

    cloud: ClassVar[str] = "toyland"
    provisioning: ClassVar[str] = "playtime"

    kind: Literal["toy"] = "toy"
    folder: str = Field("", description="Which toy cloud.")
    rooms: tuple[str, ...] = Field(("north-room",), description="Rooms to ask, in this order.")
    machine_type: str = Field("toy-1", description="Toy machine type.")
    disk_gb: int = Field(100, description="Disk in GB.")
    disk_type: str = Field("toy-disk", description="Disk type.")
    host_image: str = Field("wood", description="What it is made of.")

    @property
    def places(self) -> tuple[str, ...]:
        """Where it may stand."""
        return self.rooms

    @staticmethod
    def region_of(place: str) -> str:
        """The side of the house."""
        return place.partition("-")[0]
