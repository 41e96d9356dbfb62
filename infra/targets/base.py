"""What every target's config has, with the values of the usual case: a cloud machine that serves from a container image."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, ClassVar, Protocol

from infra.shape import Settings

if TYPE_CHECKING:
    from catalog.rows import BuilderType, HostImage, MachineType


class _Provisioned(Protocol):
    @property
    def provisioning(self) -> str:
        """How machines are asked for."""

    def region_of(self, place: str) -> str:
        """The region of a place."""


class _Hosted(Protocol):
    @property
    def host_image(self) -> str:
        """Machine image or family."""


class TargetSettings(Settings):
    """The parent of each `targets/KIND/config.py`'s `Config`; a target overrides what is otherwise there."""

    without: ClassVar[Mapping[str, str]] = MappingProxyType({})
    """Parts of the stack file (`image`, `access`, `egress`) that this kind of target has not, and why not."""
    service: ClassVar[str] = ""
    """Which of the cloud's services rents out the machines, as in the catalog; empty for the one for plain machines."""
    optional: ClassVar[frozenset[str]] = frozenset()
    """Parts of the stack file that this kind of target may have or not."""
    reads_image: ClassVar[bool] = False
    """Whether an image's own config is read before anything is asked for: by `flexserve up`, and by the program."""
    server_host: ClassVar[str | None] = None
    """The address that the server listens on, where the tunnel ends on the machine itself."""

    server_port: ClassVar[int | None] = 8000
    """The port that the server is told to listen on; None where its container has one of its own."""

    @property
    def provider(self) -> Mapping[str, str]:
        """Keys of the provider's own in the stack file that have to say the same, and what they have to say."""
        return {}

    @property
    def catalogued(self) -> bool:
        """Whether the container image has to be one of the catalog's."""
        return True

    @property
    def ways(self: _Provisioned) -> tuple[str, ...]:
        """How a machine of this stack may have been asked for, in the catalog's words."""
        return (self.provisioning,)

    def zone(self, place: str) -> str:
        """The zone of a place."""
        return place

    def size(self, place: str) -> str:  # noqa: ARG002 - a target may need it
        """The machine type of a place; empty where it is the same everywhere."""
        return ""

    def quota_of(self: _Provisioned, place: str) -> str:
        """Which quota a place counts against: one a region is the usual case."""
        return self.region_of(place)

    @property
    def machines(self) -> tuple[int, int]:
        """The fewest and the most machines that bill."""
        return (1, 1)

    def host(self: _Hosted, cuda: str, rows: Iterable[HostImage]) -> str:  # noqa: ARG002 - a target may need them
        """The host image to begin with, for a container image of that CUDA version (empty where none is known)."""
        return self.host_image

    @property
    def server_version(self) -> str:
        """The vLLM release that is built, where there is no image that tells; empty otherwise."""
        return ""

    def beside_gb(self, memory_gib: float) -> float:  # noqa: ARG002 - a target may need it
        """GB on the boot disk beside image and weights, on a machine of that much memory."""
        return 0.0

    @property
    def builder(self) -> str:
        """The machine type that makes the server's build, on a machine of its own; empty where none does."""
        return ""

    @property
    def builder_way(self) -> str:
        """How that machine is asked for first, in the catalog's words."""
        return ""

    @property
    def builder_gb(self) -> int:
        """That machine's disk, in GB."""
        return 0

    def making_minutes(self, machine: MachineType | BuilderType, images: Iterable[HostImage]) -> float | None:  # noqa: ARG002
        """Minutes that the machine compiles a server; None where it does not, or nobody knows."""
        return None

    @property
    def firsts(self) -> tuple[tuple[str, str, str], ...]:
        """What is paid for once, where it is not there yet: a name, the price item, the part of a start that it is paid for."""
        return ()

    def stays(self, image_gib: float | None) -> tuple[tuple[str, str, float | None], ...]:  # noqa: ARG002 - a target may need it
        """What stays after `down`, on purpose: a name, the price item, how many units of it a month; None is unknown."""
        return ()

    @property
    def starts(self) -> tuple[str, ...]:
        """The parts of a start that pass inside the window, one after another, as the catalog's boots name them."""
        return ("boot",)

    @property
    def overlap_s(self) -> int | None:
        """Seconds that the machines of before stay once new ones serve; None where a change reaches the machine that is there."""
        return None

    @property
    def billed(self) -> tuple[tuple[str, str, float], ...]:
        """What else bills: a name, the price item, and how many units of it an hour."""
        return ()
