"""How Google writes names: what it would refuse, seen before anything is created. Pure.

Each check returns the text as it is, or raises `ValueError` with what to write. What looks like a secret's value goes through:
the rule about secrets has better words, and repeats nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from verdict.errors import BadConfig
from verdict.secrets import SECRET_VALUE

_NAME = r"[a-z](?:[a-z0-9-]{0,61}[a-z0-9])?"
_PROJECT_ID = r"[a-z][a-z0-9-]{4,28}[a-z0-9]"
_DOMAIN = r"[a-z0-9-]+(?:\.[a-z0-9-]+)+"
_PROJECT = rf"(?:{_DOMAIN}:)?{_PROJECT_ID}"
_SITE = r"(?:https://[\w.-]+/compute/v1/)?"

SMALLEST, LARGEST = 29, 4  # prefix lengths
RESERVED = (
    "0.0.0.0/8", "127.0.0.0/8", "169.254.0.0/16", "224.0.0.0/4", "255.255.255.255/32", "199.36.153.4/30", "199.36.153.8/30",
)  # fmt: skip
"""Ranges that no subnetwork may touch. Source: VPC documentation, subnets, prohibited IPv4 subnet ranges."""
DOCKERS = "172.17.0.0/16"
"""The range of Docker's own bridge: a machine with an address in it does not reach its neighbours."""


def _check(pattern: str, words: str) -> Callable[[str], str]:
    def check(text: str) -> str:
        if not re.fullmatch(pattern, text, re.ASCII) and not SECRET_VALUE.search(text):
            raise ValueError(words)
        return text

    return check


project = _check(_PROJECT, "a project id has 6 to 30 lower-case letters, digits and hyphens, a letter first, no hyphen last")
"""Source: Resource Manager v3, Project.projectId. A domain-scoped project (`example.com:acme-1`) is one too."""

zone = _check(r"[a-z]+-[a-z]+[0-9]+-[a-z0-9]+", "write a zone as europe-west4-a")

short_name = _check(_NAME, "write lower-case letters, digits and hyphens, a letter first, at most 63")
"""RFC 1035, as Compute Engine asks of every name."""

network = _check(
    rf"{_NAME}|{_SITE}projects/{_PROJECT}/global/networks/{_NAME}",
    "write the network's name (lower-case letters, digits and hyphens, at most 63), or projects/P/global/networks/N",
)

subnetwork = _check(
    rf"{_NAME}|{_SITE}projects/{_PROJECT}/regions/[a-z0-9-]+/subnetworks/{_NAME}",
    "write the subnetwork's name (lower-case letters, digits and hyphens, at most 63), or projects/P/regions/R/subnetworks/S",
)

host_image = _check(
    rf"{_SITE}projects/{_PROJECT}/global/images/(?:family/)?{_NAME}",
    "write projects/P/global/images/NAME, or projects/P/global/images/family/FAMILY",
)

service_account = _check(
    rf"own|[a-z][a-z0-9-]{{4,28}}[a-z0-9]@{_PROJECT_ID}(?:\.{_DOMAIN})?\.iam\.gserviceaccount\.com"
    rf"|[0-9]+-compute@developer\.gserviceaccount\.com|{_PROJECT_ID}@appspot\.gserviceaccount\.com",
    "write own, or the account's e-mail: NAME@PROJECT.iam.gserviceaccount.com, NAME with 6 to 30 characters",
)
"""Source: IAM v1, CreateServiceAccountRequest.accountId; the two default accounts have addresses of their own."""

secret_id = _check(r"[A-Za-z0-9_-]{1,255}", "a secret's name has at most 255 letters, digits, hyphens and underscores")
"""Source: Secret Manager v1, projects.secrets.create, secretId."""


def require_secret_id(name: str, where: str) -> None:
    """Raise `BadConfig` for a name that Secret Manager does not take; `where` is the key or argument that holds it."""
    try:
        secret_id(name)
    except ValueError as error:
        raise BadConfig(f"{where}: {error} (got {name!r})") from error


def subnet_range(text: str) -> str:
    """An IPv4 range that Google gives to a subnetwork. Source: VPC documentation, valid IPv4 ranges."""
    if SECRET_VALUE.search(text):
        return text
    import ipaddress  # most stack files leave the range as it is

    try:
        network = ipaddress.IPv4Network(text, strict=False)
    except ValueError:
        raise ValueError("write an IPv4 range such as 10.9.0.0/24") from None
    if "/" not in text or not LARGEST <= network.prefixlen <= SMALLEST:
        raise ValueError(f"a subnetwork's range ends in /{LARGEST} (the largest) to /{SMALLEST} (the smallest)")
    if str(network) != text:
        raise ValueError(f"the range is {network}: its address part must be its first address")
    for taken, why in (*((r, "Google gives it to no subnetwork") for r in RESERVED), (DOCKERS, "Docker on the machine uses it")):
        if network.overlaps(ipaddress.IPv4Network(taken)):
            raise ValueError(f"the range touches {taken}: {why}; 10.9.0.0/24 is free in a network of its own")
    return text
