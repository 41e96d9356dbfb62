"""What a stack file may say about a flex-start VM on Compute Engine."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from infra.settings import Settings


class ExistingNetwork(Settings):
    """A network of yours. flexserve adds two rules for its own tag: IAP may enter, everybody else may not."""

    name: str = Field(description="Network name, or `projects/P/global/networks/N` for a shared one.")
    subnetwork: str = Field(description="Subnetwork in the machine's region.")


class Config(Settings):
    """`flexserve:target` with `kind: gce_flex`."""

    cloud: ClassVar[str] = "gce"
    provisioning: ClassVar[str] = "flex_start"

    kind: Literal["gce_flex"] = "gce_flex"
    project: str = Field(description="Google Cloud project id.")
    zones: tuple[str, ...] = Field(min_length=1, description="Zones to ask, in this order.")
    machine_type: str = Field("ct6e-standard-1t", description="Compute Engine machine type, as in the catalog.")
    disk_gb: int = Field(200, ge=10, description="Boot disk in GB; it holds image and weights.")
    disk_type: str = Field("hyperdisk-balanced", description="Boot disk type.")
    host_image: str = Field(
        "projects/ubuntu-os-accelerator-images/global/images/family/ubuntu-accel-2204-amd64-tpu-v5e-v5p-v6e",
        description="Machine image or family; a family is resolved at create and kept.",
    )
    network: Literal["own"] | ExistingNetwork = Field("own", description="`own`, or an existing network and subnetwork.")
    service_account: str = Field("own", description="`own`, or the e-mail of an existing service account.")
    subnet_range: str = Field("10.9.0.0/24", description="Address range of the own subnetwork.")

    @property
    def places(self) -> tuple[str, ...]:
        """Where it may run, in order of preference."""
        return self.zones

    @staticmethod
    def region(place: str) -> str:
        """The region of a zone."""
        return place.rpartition("-")[0]
