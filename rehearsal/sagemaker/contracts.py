"""What the local AWS asks of the parts that run containers, build images and keep them, and what those ask of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from rehearsal.contracts import Ec2Answer


class CannotPull(Exception):
    """The image is not there, or the role may not have it. The text is docker's own."""


class CannotStart(Exception):
    """`docker run` itself failed. The text is docker's own."""


class CloudSide(Protocol):
    """AWS as a container or a build sees it. Called from the machine's fakes, maybe in another thread."""

    def service(self, host: str, method: str, path: str, headers: Mapping[str, str], body: bytes) -> Ec2Answer:
        """The cloud's API under its real name, with the signature that the caller made. `path` holds the query."""

    def credentials(self) -> Mapping[str, str]:
        """Keys of the role: AccessKeyId, SecretAccessKey, Token, Expiration, RoleArn. Raises LookupError while there are none."""


@dataclass(frozen=True)
class ContainerSpec:
    """One container of an endpoint. `name` is its instance's (`i-…`); `gpu` the instance type, whose card is pretended."""

    name: str
    image: str
    environment: Mapping[str, str]
    cloud: CloudSide
    gpu: str = ""


class ContainerHost(Protocol):
    """A container that is started again whenever it exits, as SageMaker does it."""

    def start(self) -> None:
        """`docker run IMAGE serve`; returns when it was started once. Raises CannotPull, CannotStart."""

    def logs(self) -> str:
        """Standard output and error so far, over all its lives; also after `stop`."""

    def restarts(self) -> int:
        """How often its server was started again: the container, or the server in it by a supervisor of its own."""

    def connect(self, port: int = 8080, timeout: float = 5.0) -> int:
        """A connected TCP socket's file descriptor. Raises ConnectionRefusedError."""

    def stop(self) -> None:
        """Gone. Already gone is success."""


HostFactory = Callable[[ContainerSpec], ContainerHost]


@dataclass(frozen=True)
class BuildSpec:
    """One run of a CodeBuild project. `source` is the zip's bytes."""

    name: str
    buildspec: str
    source: bytes
    environment: Mapping[str, str]
    cloud: CloudSide


@dataclass(frozen=True)
class BuildPhase:
    """A phase of a build (`PRE_BUILD`), how it ended (`SUCCEEDED`, `FAILED`), and why where it failed."""

    name: str
    status: str
    seconds: float
    message: str = ""


@dataclass(frozen=True)
class Build:
    """How a build went."""

    succeeded: bool
    phases: Sequence[BuildPhase]
    log: str


ImageBuilder = Callable[[BuildSpec], Build]
"""Runs a build to its end."""


@dataclass(frozen=True)
class Manifest:
    """An image in the registry. `size` is bytes of its layers, compressed; `pushed_at` epoch seconds."""

    digest: str
    media_type: str
    body: bytes
    tags: tuple[str, ...]
    pushed_at: float
    size: int


class Images(Protocol):
    """The registry, as ECR's API reads it. `account` is the one that owns the repository."""

    def manifests(self, repository: str, account: str) -> Sequence[Manifest]:
        """The images of a repository; none for one that nothing was pushed to."""

    def blob(self, digest: str) -> bytes | None:
        """A layer or a configuration."""

    def drop(self, repository: str, account: str, digest: str, tag: str = "") -> None:
        """Take an image away, or only its tag."""


class RegistryGate(Protocol):
    """What the registry asks the cloud at each request."""

    def may(self, authorization: str, account: str, repository: str, push: bool) -> str:
        """Empty when he may, else why not (403). Raises PermissionError without a good login (401), LookupError without the
        repository (404).
        """

    def immutable(self, account: str, repository: str) -> bool:
        """Whether a tag cannot be pushed twice."""
