"""What a stack file may say about a spot machine on EC2.

The keys for a persistent request and for hibernation are known, to be refused by name (`rules.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from infra.clouds.aws import shapes
from infra.shape import AfterValidator, Field, Settings
from infra.targets.base import TargetSettings
from startup.onboard.jobs import GIB, jobs

if TYPE_CHECKING:
    from catalog.rows import BuilderType, HostImage, MachineType

_Region = Annotated[str, AfterValidator(shapes.region)]
_Zone = Annotated[str, AfterValidator(shapes.zone)]
_Type = Annotated[str, AfterValidator(shapes.machine_type)]
_HostImage = Annotated[str, AfterValidator(shapes.host_image)]
_Range = Annotated[str, AfterValidator(shapes.subnet_range)]
_Vpc = Annotated[str, AfterValidator(shapes.vpc)]
_Subnet = Annotated[str, AfterValidator(shapes.subnet)]
_Profile = Annotated[str, AfterValidator(shapes.instance_profile)]
_Bucket = Annotated[str, AfterValidator(shapes.bucket)]
_Commit = Annotated[str, AfterValidator(shapes.commit)]
_Release = Annotated[str, AfterValidator(shapes.release)]

ON_DEMAND = "on-demand"
SMALL_GIB = 16  # up to this much memory the weights are not mapped without swap (measured with 8 GiB)
SWAP_GB = 16
BUILDER_GB = 100  # the builder's disk: the host image's own 60 and what making takes, with room
MAKING_GB = 30  # toolkit, source, what is compiled, and the archive: our estimate, nobody has measured it
USABLE = 0.96  # of a machine's memory, beside what the kernel keeps
FREE_IOPS, FREE_THROUGHPUT = 3000, 125  # what a gp3 volume has without paying more


class ExistingNetwork(Settings):
    """A network of yours. flexserve adds one security group without any ingress rule."""

    vpc: _Vpc = Field(description="The network's id, `vpc-…`.")
    subnets: dict[_Zone, _Subnet] = Field(min_length=1, description="Zone and subnetwork in it; every zone asked needs one.")


class Build(Settings):
    """Which vLLM serves. No published build has both aarch64 and this card, so it is built once and kept in the bucket.

    By a machine without a card, which is gone afterwards; by the first machine that finds none, on its own paid time; or by hand.
    """

    vllm: _Release = Field("0.27.2rc0", description="Its release.")
    commit: _Commit = Field(description="The release's full commit; a part of the name under which the build is kept.")
    where: Literal["builder", "machine", "by_hand"] = Field(
        "builder",
        description="Who makes it where the bucket holds none: a machine of its own, by `flexserve build`; the machine that "
        "serves, which bills while it compiles; or you.",
    )
    machine_type: _Type = Field("m7g.8xlarge", description="EC2 instance type of the builder, as in the catalog: arm64, no card.")
    on_demand: Literal["never", "fall_back", "only"] = Field(
        "never", description="Whether the builder may cost the usual price: never, when no zone has it at spot, or always."
    )


class Config(TargetSettings):
    """`flexserve:target` with `kind: ec2_spot`."""

    cloud: ClassVar[str] = "aws"
    without: ClassVar[Mapping[str, str]] = {
        "access": "who may open the tunnel is who has the right ssm:StartSession on the machine",
    }
    optional: ClassVar[frozenset[str]] = frozenset({"image"})  # known and refused, by what it is (`rules.py`)
    reads_image: ClassVar[bool] = True
    server_host: ClassVar[str | None] = "127.0.0.1"

    kind: Literal["ec2_spot"] = "ec2_spot"
    region: _Region = Field("us-east-1", description="Region; `aws:region` of the stack file must say the same.")
    zones: tuple[_Zone, ...] = Field(
        min_length=1, description="Zones to ask, in this order; with `placement_scores` the likelier first."
    )
    machine_type: _Type = Field("g5g.xlarge", description="EC2 instance type, as in the catalog; asked for in all zones first.")
    larger: tuple[_Type, ...] = Field((), description="Further types to ask for, in this order, when no zone has the first.")
    on_demand: Literal["never", "fall_back", "only"] = Field(
        "never", description="Whether the usual price may be paid: never, when no place has spot, or always."
    )
    placement_scores: bool = Field(
        True, description="Whether `flexserve up` asks EC2 which zone is likelier to have spot capacity, and goes there first."
    )
    spot_instance_type: Literal["one-time", "persistent"] = Field(
        "one-time", description="EC2's key of that name. `persistent` is refused: it makes another machine, unseen."
    )
    interruption_behavior: Literal["terminate", "stop", "hibernate"] = Field(
        "terminate", description="EC2's key of that name. What else there is is refused: no such machine stops or hibernates."
    )
    max_price_per_hour: float | None = Field(
        None, gt=0.001, description="Dollars an hour; the on-demand price when unset. A low one is interrupted more often."
    )
    disk_gb: int = Field(100, ge=8, le=16384, description="Root volume in GB: the host's own files, swap, build and weights.")
    disk_type: str = Field("gp3", description="Root volume's type.")
    disk_iops: int = Field(6000, ge=FREE_IOPS, le=16000, description="Operations a second; 3000 are free.")
    disk_throughput: int = Field(500, ge=FREE_THROUGHPUT, le=1000, description="MiB a second; 125 are free, and slow.")
    host_image: _HostImage = Field(
        "/aws/service/deeplearning/ami/arm64/oss-nvidia-driver-gpu-pytorch-2.12-ubuntu-24.04/latest/ami-id",
        description="Machine image, or the public parameter that names the newest; resolved at create, checked and kept.",
    )
    network: Literal["own"] | ExistingNetwork = Field("own", description="`own`, or an existing network and its subnetworks.")
    subnet_range: _Range = Field("10.9.0.0/24", description="Address range of the own network.")
    instance_profile: _Profile = Field("own", description="`own`, or the name of an existing instance profile.")
    bucket: _Bucket = Field("own", description="`own`, or an existing bucket, for the boot script and kept builds.")
    build: Build = Field(description="Which vLLM serves.")

    def together(self) -> None:
        """Zones lie in the region and have a subnetwork; the volume's two figures fit each other."""
        for zone in self.zones:
            if not zone.startswith(self.region):
                raise ValueError(f"zone {zone} is not in {self.region}")
            if self.network != "own" and zone not in self.network.subnets:
                raise ValueError(f"network.subnets names no subnetwork for {zone}")
        if self.disk_throughput * 4 > self.disk_iops:
            raise ValueError(f"disk_throughput {self.disk_throughput} needs disk_iops of at least {self.disk_throughput * 4}")

    @property
    def provider(self) -> Mapping[str, str]:
        """The provider's region: another than ours would tear the stack apart."""
        return {"aws:region": self.region}

    @property
    def provisioning(self) -> str:
        """How the first place is asked for."""
        return "on_demand" if self.on_demand == "only" else "spot"

    @property
    def ways(self) -> tuple[str, ...]:
        """Spot, the usual price, or both."""
        return {"never": ("spot",), "fall_back": ("spot", "on_demand"), "only": ("on_demand",)}[self.on_demand]

    @property
    def places(self) -> tuple[str, ...]:
        """`ZONE`, `ZONE/TYPE` for the further types, and the same with `/on-demand`: all zones before the next type."""
        types = (self.machine_type, *(t for t in self.larger if t != self.machine_type))
        spot = [zone if size == self.machine_type else f"{zone}/{size}" for size in types for zone in self.zones]
        usual = [f"{place}/{ON_DEMAND}" for place in spot]
        return tuple({"never": spot, "fall_back": [*spot, *usual], "only": usual}[self.on_demand])

    def region_of(self, place: str) -> str:  # noqa: ARG002 - one region, whatever the place
        """The region, the same for every place."""
        return self.region

    def zone(self, place: str) -> str:
        """The zone of a place."""
        return place.partition("/")[0]

    def size(self, place: str) -> str:
        """The machine type of a place."""
        words = [word for word in place.split("/")[1:] if word != ON_DEMAND]
        return words[0] if words else self.machine_type

    @staticmethod
    def given(place: str) -> str:
        """How a machine is asked for in a place, in the catalog's words."""
        return "on_demand" if place.endswith(f"/{ON_DEMAND}") else "spot"

    def quota_of(self, place: str) -> str:
        """Spot machines and those at the usual price have quotas of their own, both by region."""
        return f"{self.region} {self.given(place)}"

    @property
    def server_version(self) -> str:
        """The release that is built."""
        return self.build.vllm

    @staticmethod
    def swap_gb(memory_gib: float) -> int:
        """Swap that a machine of that much memory gets: without it E2B's weights are not mapped (measured on g5g.xlarge)."""
        return SWAP_GB if memory_gib <= SMALL_GIB else 0

    def beside_gb(self, memory_gib: float) -> float:
        """Swap, and room to make a build in; what the host image itself takes is looked at when it is resolved."""
        return float(self.swap_gb(memory_gib) + (MAKING_GB if self.build.where == "machine" else 0))

    @property
    def builder(self) -> str:
        """The machine type of the builder; empty where none makes the build."""
        return self.build.machine_type if self.build.where == "builder" else ""

    @property
    def builder_way(self) -> str:
        """How the builder is asked for first."""
        return "on_demand" if self.build.on_demand == "only" else "spot"

    @property
    def builder_gb(self) -> int:
        """The builder's disk."""
        return BUILDER_GB

    def making_minutes(self, machine: MachineType | BuilderType, images: Iterable[HostImage]) -> float | None:
        """How long this machine would compile; None where it does not, or nobody has measured it."""
        makes = machine.name == self.builder if self.builder else self.build.where == "machine"
        row = next((row for row in images if row.family == self.host_image), None)
        if not makes or row is None or not row.build_minutes:
            return None
        swap = self.swap_gb(machine.memory_gib) << 30
        return row.build_minutes * row.build_jobs / jobs(int(machine.memory_gib * USABLE * GIB), swap, machine.vcpu)

    @property
    def billed(self) -> tuple[tuple[str, str, float], ...]:
        """What of the volume is above the free."""
        iops, throughput = self.disk_iops - FREE_IOPS, self.disk_throughput - FREE_THROUGHPUT
        parts = (
            (f"{iops} IOPS above the free", "gp3-iops", iops / 730),
            (f"{throughput} MiB/s above the free", "gp3-throughput", throughput / 730),
        )
        return tuple(part for part in parts if part[2])
