"""Images, instance types and where they are offered: moto's captured lists, and images of ours."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from moto.ec2.models.amis import Ami
from moto.ec2.models.instance_types import INSTANCE_TYPE_OFFERINGS, INSTANCE_TYPES
from moto.utilities.utils import load_resource

from rehearsal.cloud.aws.call import Call, Json, Result
from rehearsal.cloud.aws.inventory import Image
from rehearsal.cloud.aws.state import State

OWNER = "898082745236"
"""The account that owns the deep-learning images."""


class PublicImage(Ami):
    """An image of Amazon's whose root volume has the size that it has; moto's have 15 GB each."""

    def __init__(self, backend: Any, image: Image) -> None:
        self.root_gb = image.root_gb
        super().__init__(
            backend,
            image.id,
            name=image.name,
            description=image.name,
            owner_id=OWNER,
            owner_alias="amazon",
            public=True,
            virtualization_type="hvm",
            architecture=image.architecture,
            image_location=f"amazon/{image.name}",
            hypervisor="xen",
            root_device_type="ebs",
            root_device_name="/dev/sda1",
            region_name=f"{backend.region_name}a",
            creation_date=datetime.strptime(image.name.rsplit(" ", 1)[-1], "%Y%m%d"),
        )

    @property
    def block_device_mappings(self) -> list[dict[str, Any]]:
        """The root volume."""
        ebs = {
            "SnapshotId": self.ebs_snapshot.id,
            "VolumeSize": self.root_gb,
            "DeleteOnTermination": True,
            "VolumeType": "gp3",
            "Iops": 3000,
            "Throughput": 125,
            "Encrypted": False,
        }
        return [{"DeviceName": self.root_device_name, "Ebs": ebs}]


def add_images(state: State) -> None:
    """What is published is there. Called under the lock."""
    backend = state.ec2
    for image in state.inventory.images:
        if image.id in state.published and image.id not in backend.amis:
            with state.moto.at_its_time():
                backend.amis[image.id] = PublicImage(backend, image)


_KEPT: set[str] = set()


def keep_region(region: str) -> None:
    """Let go of the lists of regions that no cloud here is in, which moto reads as a whole: about 100 MB."""
    _KEPT.add(region)
    for kind, table in INSTANCE_TYPE_OFFERINGS.items():
        for other in set(table) - _KEPT:
            del table[other]
        if region not in table:
            rows = load_resource(f"ec2/resources/instance_type_offerings/{kind}/{region}.json")
            table[region] = [{**row, "LocationType": kind} for row in rows]


def instance_type(name: str) -> Json | None:
    """AWS's description of a type; None for one that is none."""
    found = INSTANCE_TYPES.get(name)
    return dict(found) if found else None


def types(prefix: str) -> list[str]:
    """Instance types whose names begin so."""
    return sorted(name for name in INSTANCE_TYPES if name.startswith(prefix))


def vcpus(name: str) -> int:
    """VCPUs of a type; 0 for one that is none."""
    return int((instance_type(name) or {}).get("VCpuInfo", {}).get("DefaultVCpus", 0))


def zones_of(state: State, name: str) -> list[str]:
    """Zones that offer the type."""
    rows = INSTANCE_TYPE_OFFERINGS["availability-zone"].get(state.region, [])
    found = sorted(row["Location"] for row in rows if row["InstanceType"] == name)
    return [zone for zone in found if (zone, name) not in state.without_type]


def type_offerings(state: State, call: Call) -> Result:
    """DescribeInstanceTypeOfferings: moto's, less what the zone does not offer after all."""
    answer = call.moto(None)
    kept = [
        row
        for row in answer.parsed.get("InstanceTypeOfferings", [])
        if (row.get("Location"), row.get("InstanceType")) not in state.without_type
    ]
    return {"InstanceTypeOfferings": kept}
