"""What is decided at create by asking AWS: the host image, if it will do, and the bucket that holds kept builds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from infra.clouds.aws import marks
from infra.clouds.aws.session import NotThere
from infra.clouds.aws.sweeping import bucket_tags, keys
from infra.targets.ec2_spot.names import BUILDS
from verdict.errors import BadConfig, FlexserveError

if TYPE_CHECKING:
    from infra.clouds.aws.session import Session
    from infra.deployment import Deployment
    from infra.targets.ec2_spot.config import Config

KEY = "flexserve:target.host_image"


def resolve(key: str, deployment: Deployment, session: Session) -> str:
    """The value of an open key. Raises `BadConfig` for a host image that will not do."""
    c = cast("Config", deployment.target)
    if key == "target.host_image":
        return host_image(c, session)
    if key == "target.bucket":
        return bucket(deployment, session)
    raise FlexserveError(f"ec2_spot cannot resolve {key}")


def host_image(c: Config, session: Session) -> str:
    """The image's id: what the parameter names today. It must be for the processor, have a driver, and fit on the disk."""
    image_id = c.host_image
    if not image_id.startswith("ami-"):
        try:
            image_id = str(session.call("ssm", "get_parameter", Name=c.host_image)["Parameter"]["Value"])
        except NotThere as error:
            raise BadConfig(f"{KEY}: {c.region} has no parameter {c.host_image}", way_out="name another, or an image") from error
    try:
        found = session.call("ec2", "describe_images", ImageIds=[image_id]).get("Images") or []
    except NotThere:
        found = []
    if not found:
        raise BadConfig(f"{KEY}: {c.region} has no image {image_id}, or it is not shared with this account", way_out="name another")
    check(c, found[0], architectures(c, session))
    return image_id


def architectures(c: Config, session: Session) -> list[str]:
    """The processors that the machine type has, by EC2's word. Raises `BadConfig` for a type that the region does not know."""
    try:
        types = session.call("ec2", "describe_instance_types", InstanceTypes=[c.machine_type]).get("InstanceTypes") or []
    except NotThere:
        types = []
    if not types:
        raise BadConfig(f"flexserve:target.machine_type: {c.region} has no {c.machine_type}", way_out="another region")
    return [str(a) for a in types[0]["ProcessorInfo"]["SupportedArchitectures"]]


def check(c: Config, image: dict[str, Any], architectures: list[str]) -> None:
    """Raises `BadConfig` with what is wrong about the image."""
    id_, name = image["ImageId"], str(image.get("Name", ""))
    if image.get("State", "available") != "available":
        raise BadConfig(f"{KEY}: {id_} is {image['State']}", way_out="name another image")
    if image.get("Architecture") not in architectures:
        wanted = " or ".join(architectures)
        raise BadConfig(
            f"{KEY}: {id_} is for {image.get('Architecture')}, {c.machine_type} is {wanted}",
            why=name,
            way_out=f"take an {wanted} image, such as the default",
        )
    if image.get("ImageOwnerAlias") == "amazon" and "nvidia driver" not in name.lower():
        raise BadConfig(
            f"{KEY}: {id_} has no NVIDIA driver by its name", why=name, way_out="take one with `Nvidia Driver` in its name"
        )
    root = image.get("RootDeviceName")
    disks = [m.get("Ebs") or {} for m in image.get("BlockDeviceMappings") or [] if m.get("DeviceName") == root]
    size = max((int(d.get("VolumeSize") or 0) for d in disks), default=0)
    if size > c.disk_gb:
        raise BadConfig(
            f"flexserve:target.disk_gb: {id_} alone has {size} GB, the disk {c.disk_gb}",
            way_out="set it higher: swap, build and weights need some 35 GB more",
        )


def bucket(deployment: Deployment, session: Session) -> str:
    """The bucket that an earlier deployment of this stack and owner left with builds in it, else `own`: a new one is made."""
    for item in session.call("s3", "list_buckets").get("Buckets") or []:
        name = str(item["Name"])
        if not name.startswith(marks.PREFIX):
            continue
        tags = bucket_tags(session, name)
        ours = marks.left_by(tags, deployment.common.owner, deployment.stack)
        if ours and _region(session, name) == session.region and keys(session, name, BUILDS):
            return name
    return "own"


def _region(session: Session, name: str) -> str:
    """Where a bucket is; the oldest region answers with nothing."""
    answer = session.call("s3", "get_bucket_location", Bucket=name)
    return str(answer.get("LocationConstraint") or "us-east-1")
