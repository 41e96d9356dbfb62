"""Names, partial addresses and self links of Google's resources, and when two of them mean one thing."""

from __future__ import annotations

import re
from typing import Final

SCOPES: Final = "https://www.googleapis.com/auth/"
_SCOPE_ALIASES: Final = {
    "bigquery": "bigquery",
    "cloud-platform": "cloud-platform",
    "compute-ro": "compute.readonly",
    "compute-rw": "compute",
    "logging-write": "logging.write",
    "monitoring": "monitoring",
    "monitoring-write": "monitoring.write",
    "service-control": "servicecontrol",
    "service-management": "service.management.readonly",
    "storage-full": "devstorage.full_control",
    "storage-ro": "devstorage.read_only",
    "storage-rw": "devstorage.read_write",
    "userinfo-email": "userinfo.email",
}


def last(link: str) -> str:
    """The name at the end of a link."""
    return link.rstrip("/").rpartition("/")[2]


def relative(link: str) -> str:
    """`projects/…` out of a self link."""
    return re.sub(r"^.*?(?=projects/)", "", link)


def v1(link: str | None) -> str:
    """The link as states hold it: of the stable API."""
    return (link or "").replace("/compute/beta/", "/compute/v1/")


def in_project(project: str, place: str, collection: str, name: str) -> str:
    """A partial address: `projects/P/PLACE/COLLECTION/NAME`, from a short name or any link."""
    return relative(name) if "projects/" in name else f"projects/{project}/{place}/{collection}/{last(name)}"


def same_name(old: str, new: str) -> bool:
    """Whether two links end in one name."""
    return last(old) == last(new)


def same_thing(old: str, new: str) -> bool:
    """Whether a short name or link and a link are one resource."""
    return same_name(old, new) if "/" not in new or "/" not in old else relative(v1(old)) == relative(v1(new))


def same_image(old: str, new: str) -> bool:
    """Whether an image that a disk was made from is the one (or of the family) that is asked for."""
    if same_thing(old, new):
        return True
    family = re.search(r"(?:projects/([^/]+)/global/images/)?family/([^/]+)$", new)
    made_from = re.search(r"projects/([^/]+)/global/images/([^/]+)$", old)
    if not family or not made_from:
        return False
    return family[1] in (None, made_from[1]) and made_from[2].startswith(family[2])


def scope(name: str) -> str:
    """A scope's address, from its alias or itself."""
    return name if name.startswith("https://") else SCOPES + _SCOPE_ALIASES.get(name, name)


def same_scope(old: str, new: str) -> bool:
    """Whether two spellings are one scope."""
    return scope(old) == scope(new)
