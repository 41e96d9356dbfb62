"""What a stack file may say about a flex-start VM on Compute Engine."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from infra.clouds.google import shapes
from infra.shape import AfterValidator, Field, Settings
from infra.targets.base import TargetSettings

_Project = Annotated[str, AfterValidator(shapes.project)]
_Zone = Annotated[str, AfterValidator(shapes.zone)]
_Name = Annotated[str, AfterValidator(shapes.short_name)]
_Network = Annotated[str, AfterValidator(shapes.network)]
_Subnetwork = Annotated[str, AfterValidator(shapes.subnetwork)]
_Range = Annotated[str, AfterValidator(shapes.subnet_range)]
_HostImage = Annotated[str, AfterValidator(shapes.host_image)]
_Account = Annotated[str, AfterValidator(shapes.service_account)]


class ExistingNetwork(Settings):
    """A network of yours. flexserve adds two rules for its own tag: IAP may enter, everybody else may not."""

    name: _Network = Field(description="Network name, or `projects/P/global/networks/N` for a shared one.")
    subnetwork: _Subnetwork = Field(description="Subnetwork in the machine's region.")


class Config(TargetSettings):
    """`flexserve:target` with `kind: gce_flex`."""

    cloud: ClassVar[str] = "gce"
    provisioning: ClassVar[str] = "flex_start"

    kind: Literal["gce_flex"] = "gce_flex"
    project: _Project = Field(description="Google Cloud project id.")
    zones: tuple[_Zone, ...] = Field(min_length=1, description="Zones to ask, in this order.")
    machine_type: str = Field("ct6e-standard-1t", description="Compute Engine machine type, as in the catalog.")
    disk_gb: int = Field(200, ge=10, description="Boot disk in GB; it holds image and weights.")
    disk_type: _Name = Field("hyperdisk-balanced", description="Boot disk type.")
    host_image: _HostImage = Field(
        "projects/ubuntu-os-accelerator-images/global/images/family/ubuntu-accel-2204-amd64-tpu-v5e-v5p-v6e",
        description="Machine image or family; a family is resolved at create and kept.",
    )
    network: Literal["own"] | ExistingNetwork = Field("own", description="`own`, or an existing network and subnetwork.")
    service_account: _Account = Field("own", description="`own`, or the e-mail of an existing service account.")
    subnet_range: _Range = Field("10.9.0.0/24", description="Address range of the own subnetwork.")

    @property
    def places(self) -> tuple[str, ...]:
        """Where it may run, in order of preference."""
        return self.zones

    @staticmethod
    def region_of(place: str) -> str:
        """The region of a zone."""
        return place.rpartition("-")[0]
