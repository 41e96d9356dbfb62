"""What SageMaker thinks of an image: is it ECR's and of this region, is it there, may the role have it, which CUDA does it want."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rehearsal.cloud.aws import ecr
from rehearsal.cloud.aws.call import Caller
from rehearsal.cloud.aws.errors import AwsError
from rehearsal.cloud.aws.inventory import HostImage
from rehearsal.cloud.aws.roles import Role
from rehearsal.cloud.aws.state import State
from rehearsal.sagemaker.contracts import Manifest

URI = re.compile(
    r"(?P<account>\d{12})\.dkr\.ecr\.(?P<region>[a-z0-9-]+)\.amazonaws\.com/(?P<name>[a-z0-9._/-]+)"
    r"(?::(?P<tag>[\w.-]+))?(?:@(?P<digest>sha256:[0-9a-f]{64}))?"
)
WANTED = "application/vnd.docker.distribution.manifest.v2+json"
CARDS = re.compile(r"ml\.(g\d|p\d)")
"""Types with an NVIDIA card."""


@dataclass(frozen=True)
class Image:
    """A reference, taken apart."""

    uri: str
    account: str
    name: str
    tag: str
    digest: str


def read(state: State, uri: str) -> Image:
    """Raises AwsError for what is no image in ECR of this region."""
    found = URI.fullmatch(uri)
    if found is None:
        raise AwsError("ValidationException", f'Using non-ECR image "{uri}" without Vpc repository access mode is not supported.')
    if found["region"] != state.region:
        raise AwsError(
            "ValidationException",
            f"The image '{uri}' is in region {found['region']}: it must be in ECR of the region {state.region}.",
        )
    return Image(uri, found["account"], found["name"], found["tag"] or "", found["digest"] or "")


def find(state: State, image: Image) -> Manifest | None:
    """The image in the registry. None without it."""
    return ecr.pick(state.ecr.manifests(image.name, image.account), image.digest, image.tag or ("" if image.digest else "latest"))


def check(state: State, uri: str) -> None:
    """What CreateModel looks at. Without a registry nothing but the name. Raises AwsError."""
    image = read(state, uri)
    if state.ecr.images is None:
        return
    manifest = find(state, image)
    if manifest is None:
        raise AwsError("ValidationException", f"Requested image {uri} not found.")
    if manifest.media_type != WANTED:
        raise AwsError(
            "ValidationException",
            f"Unsupported manifest media type {manifest.media_type} for image {uri}. Please ensure that valid manifest media type"
            " is used for specified image.",
        )


def pullable(state: State, uri: str, role: Role | None) -> str:
    """Empty where the execution role may pull it, else why not."""
    image = read(state, uri)
    if role is None:
        return "the execution role cannot be assumed"
    if state.ecr.images is not None and find(state, image) is None:
        return f"{uri} does not exist"
    caller = Caller(role.arn, role.id, role.name)
    for action in ("ecr:BatchGetImage", "ecr:GetDownloadUrlForLayer", "ecr:BatchCheckLayerAvailability"):
        if why := ecr.refused(state, caller, image.account, image.name, action):
            return why
    if not state.may(role, "ecr:GetAuthorizationToken", "*"):
        return f"User: {role.arn} is not authorized to perform: ecr:GetAuthorizationToken on resource: *"
    return ""


def cuda(state: State, uri: str) -> str:
    """The CUDA that an image wants (`13.0`): as NVIDIA's images say it, else by its tag; empty for one that says nothing."""
    image = read(state, uri)
    environment = _environment(state, image)
    if found := re.search(r"cuda>=(\d+\.\d+)", environment.get("NVIDIA_REQUIRE_CUDA", "")):
        return found.group(1)
    if found := re.match(r"\d+\.\d+", environment.get("CUDA_VERSION", "")):
        return found.group(0)
    found = re.search(r"-cu(\d\d)(\d)(?:-|$)", image.tag)
    return f"{found.group(1)}.{found.group(2)}" if found else ""


def _environment(state: State, image: Image) -> Mapping[str, str]:
    """The variables of an image's configuration."""
    manifest = find(state, image)
    if manifest is None or state.ecr.images is None:
        return {}
    body: Any = json.loads(manifest.body)
    raw = state.ecr.images.blob(str(body.get("config", {}).get("digest", "")))
    config: Any = json.loads(raw) if raw else {}
    return dict(pair.split("=", 1) for pair in config.get("config", {}).get("Env") or [] if "=" in pair)


def host_image(state: State, variant: Mapping[str, Any]) -> HostImage | None:
    """The host image of a variant; None for a type without a card."""
    if CARDS.match(str(variant["InstanceType"])) is None:
        return None
    wanted = str(variant.get("InferenceAmiVersion", ""))
    return next(row for row in state.inventory.host_images if row.name == wanted)


def mismatch(state: State, uri: str, variant: Mapping[str, Any]) -> bool:
    """Whether the host's driver and the image's CUDA are of another generation: the container does not start."""
    host, wanted = host_image(state, variant), cuda(state, uri)
    return host is not None and bool(wanted) and host.cuda.split(".")[0] != wanted.split(".")[0]
