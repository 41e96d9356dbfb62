"""What the parts of the rehearsal promise each other.

`LocalCloud` is a cloud on loopback: it answers the cloud's own API, keeps a ledger on a clock that can be turned, and boots a
`Machine` for every instance that is created in it. `Guest` is the cloud as one machine sees it from inside.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol


class Clock(Protocol):
    """The local cloud's time. Turned, not waited for: `sleep` advances it and costs nothing."""

    def now(self) -> float:
        """Epoch seconds, UTC."""

    def sleep(self, seconds: float) -> None:
        """Let `seconds` of cloud time pass (recorded waits); returns at once."""

    def advance(self, seconds: float) -> None:
        """Turn the clock forward and run what falls due on the way (a window that closes) before it returns."""


@dataclass(frozen=True)
class LedgerItem:
    """Something that bills, from create to delete on the cloud's clock. `deleted_at` is None while it bills."""

    kind: str
    name: str
    where: str
    created_at: float
    deleted_at: float | None
    price_per_hour: float | None
    labels: Mapping[str, str] = field(default_factory=dict)


class Ledger(Protocol):
    """Everything that bills. 'Nothing left' is read here, never from the product's own sweep."""

    def items(self) -> Sequence[LedgerItem]:
        """All items ever, in order of creation."""

    def left(self) -> Sequence[LedgerItem]:
        """What still bills."""

    def total(self) -> float:
        """US dollars so far, of the items whose price is known."""


class Guest(Protocol):
    """The cloud as one machine sees it. Called from the machine's fakes, maybe in another thread; never blocks on the machine."""

    def metadata(self) -> Mapping[str, object]:
        """The metadata tree below `/computeMetadata/v1/` (`instance`, `project`), as nested mappings of strings."""

    def wait_for_change(self, etag: str, timeout: float) -> str:
        """Block until the metadata's etag differs from `etag` or `timeout` real seconds passed; the current etag."""

    def set_guest_attribute(self, namespace: str, key: str, value: str) -> None:
        """Store what the guest reports. Raises ValueError when the instance has not enabled guest attributes."""

    def access_token(self, scopes: Sequence[str]) -> tuple[str, int]:
        """A token of the machine's own service account and its lifetime in seconds. Raises LookupError without an account."""

    def access_secret(self, bearer: str, resource: str) -> tuple[int, Mapping[str, object]]:
        """Status and body of Secret Manager's `access` for `projects/P/secrets/S/versions/V` with that token."""

    def powered_off(self) -> None:
        """The machine turned itself off (a real shutdown inside)."""


class Ec2Guest(Protocol):
    """EC2 as one instance sees it. Called from the machine's fakes, maybe in another thread; never blocks on the machine."""

    def user_data(self) -> bytes:
        """What the instance was created with, decoded."""

    def metadata(self) -> Mapping[str, object]:
        """The tree below `/latest/` (`meta-data`, `dynamic`), as nested mappings of strings. A key that is not there is a 404:
        `meta-data/spot/instance-action` before a notice, `meta-data/iam/security-credentials` without a profile.
        """

    def service(self, host: str, method: str, path: str, headers: Mapping[str, str], body: bytes) -> Ec2Answer:
        """The cloud's own API under its real name (`s3.us-east-1.amazonaws.com`), with the signature that the machine made.
        `path` holds the query.
        """

    def powered_off(self) -> None:
        """The machine turned itself off (a real shutdown inside): terminated, where that is its shutdown behaviour."""


class ContainerGuest(Protocol):
    """AWS as a machine sees it that nobody reaches by its own name: it runs endpoints' containers, or builds an image.

    Called from the machine's fakes, maybe in another thread; never blocks on the machine.
    """

    def credentials(self, name: str) -> Mapping[str, str]:
        """What the container credential provider answers to the container or build `name`. Raises LookupError while there is
        nothing.
        """

    def service(self, host: str, method: str, path: str, headers: Mapping[str, str], body: bytes) -> Ec2Answer:
        """As `Ec2Guest.service`."""

    def may(self, authorization: str, account: str, repository: str, push: bool) -> tuple[int, str]:
        """Whether a registry's request goes on: 200, or 401, 403, 404 and why not."""

    def immutable(self, account: str, repository: str) -> bool:
        """Whether a tag of the repository cannot be pushed twice."""

    def powered_off(self) -> None:
        """The machine turned itself off."""


@dataclass(frozen=True)
class Ec2Answer:
    """One HTTP answer."""

    status: int
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True)
class MachineSpec:
    """What the cloud tells the machine part when an instance is created. The guest's kind goes with the flavour."""

    name: str
    guest: Guest | Ec2Guest | ContainerGuest
    disk_gb: int
    flavour: str = "gce"  # gce: guest agent and script runner; ec2: cloud-init; container: a running dockerd and nothing else
    egress: bool = True  # whether it may reach anything outside; without, every fake but the metadata server is cut off
    private_google_access: bool = True  # Google APIs reachable without egress


@dataclass(frozen=True)
class Completed:
    """A command that ran in the machine."""

    returncode: int
    stdout: str
    stderr: str


@dataclass(frozen=True)
class HostInventory:
    """What one machine has on this host right now, as the kernel tells it."""

    processes: Sequence[int] = ()
    mounts: Sequence[str] = ()
    loop_devices: Sequence[str] = ()
    namespaces: Sequence[str] = ()
    cgroups: Sequence[str] = ()

    def empty(self) -> bool:
        """Nothing is left."""
        return not any((self.processes, self.mounts, self.loop_devices, self.namespaces, self.cgroups))


class Machine(Protocol):
    """One machine: really booted, or a sandbox with stand-in commands. `kind` says which, for the verdict."""

    kind: str  # "booted" or "sandbox"

    def start(self) -> None:
        """Power on; returns once the launcher runs (not when it is up)."""

    def power_cut(self) -> None:
        """Gone at once, the disk as it was; returns when every process is dead. Start again boots the same disk."""

    def reboot(self) -> None:
        """An orderly reboot, as the guest would do it; returns when it is on its way up again."""

    def exec(self, argv: Sequence[str], timeout: float = 20.0) -> Completed:
        """Run a command inside, as root, bounded. Raises TimeoutError; RuntimeError when the machine is off."""

    def connect(self, port: int, timeout: float = 5.0) -> int:
        """A connected TCP socket's file descriptor to `port` on the machine's own network. Raises ConnectionRefusedError."""

    def log(self) -> str:
        """The serial console so far (journal of the boot)."""

    def running(self) -> bool:
        """Whether it is powered on."""

    def delete(self) -> None:
        """Power cut, then remove disk and folders. Already gone is success."""

    def inventory(self) -> HostInventory:
        """What it has on this host."""


MachineFactory = Callable[[MachineSpec], Machine]


class LocalCloud(Protocol):
    """A cloud on loopback."""

    @property
    def clock(self) -> Clock:
        """Its time."""

    @property
    def ledger(self) -> Ledger:
        """What bills in it."""

    def start(self) -> None:
        """Listen on free loopback ports; returns when it answers."""

    def stop(self) -> None:
        """Delete every machine and stop listening. Safe to call twice."""

    def environment(self) -> Mapping[str, str]:
        """Variables that point the product's own clients (and the real CLIs) at this cloud."""

    def stack_config(self) -> Mapping[str, str]:
        """Provider configuration (`gcp:computeCustomEndpoint`, …) that points Pulumi's providers at it."""

    def machines(self) -> Mapping[str, Machine]:
        """The machines that exist, by instance name."""

    def put_secret(self, name: str, value: str) -> None:
        """What the operator did beforehand: a secret with one version."""

    def requests(self) -> Sequence[Mapping[str, object]]:
        """Every request so far: method, path, query, body, status, and whether the discovery document accepted it."""


@dataclass(frozen=True)
class Fault:
    """A way to break the rehearsal, by name. `apply` arms it before the run; `expect_exit` is the product's own code.

    `targets` are the kinds of target that it breaks, `sets` the stack file's `KEY=VALUE` without which it breaks nothing, `allows`
    the rules that would refuse it before. `build`: it breaks the making of a build, so that none is kept beforehand.
    """

    name: str
    targets: tuple[str, ...]
    about: str
    apply: Callable[[Any], None]  # is given the stage (`rehearsal.stage.Stage`)
    expect_exit: int
    expect_text: str = ""
    sets: tuple[str, ...] = ()
    build: bool = False
    allows: tuple[str, ...] = ()
