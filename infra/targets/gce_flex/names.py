"""Names and labels by which everything of a deployment is found again."""

from __future__ import annotations

import re

from msgspec import Struct

PREFIX = "fs-"
ID_LABEL = "flexserve-id"


class Names(Struct, frozen=True):
    """Every name begins with the random id: networks, rules, routers and service accounts have no labels to find them by."""

    id: str

    @property
    def base(self) -> str:
        """The name of the machine, its network, its account: 6 to 30 characters, a letter first (service account rule)."""
        return f"{PREFIX}{self.id}"

    def regional(self, region: str) -> str:
        """The name of what goes with a region, network included.

        A machine that moves to another region gets its new network, with the same address range, before the old one is deleted.
        """
        return f"{self.base}-{region}"


def account_email(project: str, base: str) -> str:
    """Address of an own service account; a domain-scoped project is written the other way round."""
    domain, _, name = project.rpartition(":")
    return f"{base}@{name}.{domain}.iam.gserviceaccount.com" if domain else f"{base}@{name}.iam.gserviceaccount.com"


def resource_path(path: str) -> dict[str, str]:
    """`projects/P/zones/Z/…` as a mapping; a full address works too, and a bare name gives nothing."""
    words = path[path.find("projects/") :].split("/") if "projects/" in path else []
    return dict(zip(words[::2], words[1::2], strict=False))


def provisioning(model: str) -> str:
    """Compute Engine's provisioning model in the catalog's words; empty where it is not told."""
    return {"STANDARD": "on_demand"}.get(model, model.lower())


def label(text: str) -> str:
    """The nearest label value: lower case, digits, `_`, `-`, at most 63 (Compute Engine's rule)."""
    return re.sub(r"[^a-z0-9_-]", "-", text.lower())[:63].strip("-") or "unknown"
