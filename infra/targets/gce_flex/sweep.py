"""The kinds of things that a deployment makes, how each is found by the id, and what it costs an hour."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from infra.targets.gce_flex.names import ID_LABEL, Names, account_email, provisioning, resource_path

if TYPE_CHECKING:
    from infra.clouds.google.session import Session

HOURS_A_MONTH = 730


@dataclass(frozen=True)
class Kind:
    """One kind of thing. `scope`: aggregated (zones and regions), global, or account. `costs`: dollars an hour, None unknown."""

    name: str
    collection: str
    scope: str = "aggregated"
    labelled: bool = False
    costs: Callable[[Mapping[str, Any]], float | None] = lambda _: 0.0
    api: str = "compute"

    def path(self, project: str, where: str, name: str) -> str:
        """Where the API has one of them."""
        if self.scope == "account":
            return f"v1/projects/{project}/serviceAccounts/{name}"
        place = "global" if where == "global" else f"zones/{where}" if where.count("-") > 1 else f"regions/{where}"
        return f"projects/{project}/{place}/{self.collection}/{name}"


def _machine(item: Mapping[str, Any]) -> float | None:
    """A VM by its catalog row; one that is off costs nothing itself (its disk does)."""
    from catalog.loader import Catalog

    catalog = Catalog.load()
    row = catalog.machine_types.get(str(item.get("machineType", "")).rpartition("/")[2])
    if item.get("status") == "TERMINATED":
        return 0.0
    given = provisioning(str((item.get("scheduling") or {}).get("provisioningModel", "")))
    found = catalog.price(row.accelerator, region=_region(item), provisioning=given) if row else None
    return round(found.usd * row.accelerators, 6) if row and found else None


def _disk(item: Mapping[str, Any]) -> float | None:
    from catalog.loader import Catalog

    found = Catalog.load().price(str(item.get("type", "")).rpartition("/")[2], region=_region(item))
    return round(found.usd * float(item.get("sizeGb", 0)) / HOURS_A_MONTH, 6) if found else None


def _address(item: Mapping[str, Any]) -> float | None:
    return _listed("gce-external-address", item) if item.get("addressType", "EXTERNAL") == "EXTERNAL" else 0.0


def _router(item: Mapping[str, Any]) -> float | None:
    return _listed("gce-nat-address", item) if item.get("nats") else 0.0


KINDS = (
    Kind("instance", "instances", labelled=True, costs=_machine),
    Kind("disk", "disks", labelled=True, costs=_disk),
    Kind("address", "addresses", costs=_address),
    Kind("router", "routers", costs=_router),
    Kind("firewall", "firewalls", scope="global"),
    Kind("subnetwork", "subnetworks"),
    Kind("network", "networks", scope="global"),
    Kind("service-account", "serviceAccounts", scope="account", api="iam"),
)
"""In the order in which they can be deleted."""


def found(session: Session, project: str, kind: Kind, names: Names) -> Iterator[dict[str, Any]]:
    """The things of a kind that carry the id: by label where the kind has labels, and by name."""
    if kind.scope == "account":
        yield from _account(session, project, kind, names)
        return
    filters = [f"name eq {names.base}.*", *([f"labels.{ID_LABEL} = {names.id}"] if kind.labelled else [])]
    place = "aggregated" if kind.scope == "aggregated" else "global"
    items: dict[str, dict[str, Any]] = {}
    for wanted in filters:  # one field a request: the API does not combine a regular expression with anything
        for page in session.pages("compute", f"projects/{project}/{place}/{kind.collection}", filter=wanted):
            scopes = page.get("items") or {}
            groups = [scopes] if isinstance(scopes, list) else [s.get(kind.collection) or [] for s in scopes.values()]
            items.update({str(item["selfLink"]): item for group in groups for item in group if ours(item, names)})
    yield from items.values()


def ours(item: Mapping[str, Any], names: Names) -> bool:
    """Whether a thing carries the id: as its label, or as its whole name or the beginning of it up to a dash."""
    name, labels = str(item["name"]), item.get("labels") or {}
    return name == names.base or name.startswith(f"{names.base}-") or labels.get(ID_LABEL) == names.id


def price(kind: Kind, item: Mapping[str, Any]) -> float | None:
    """Dollars an hour; 0 for what is free, None where the catalog does not know."""
    return kind.costs(item)


def location(item: Mapping[str, Any]) -> str:
    """Zone, region or `global`."""
    for key in ("zone", "region"):
        if item.get(key):
            return str(item[key]).rpartition("/")[2]
    path = resource_path(str(item.get("selfLink", "")))
    return path.get("zones") or path.get("regions") or "global"


def _account(session: Session, project: str, kind: Kind, names: Names) -> Iterator[dict[str, Any]]:
    from infra.clouds.google.session import NotThere

    email = account_email(project, names.base)
    try:
        session.call("iam", "GET", kind.path(project, "global", email))
    except NotThere:
        return
    yield {"name": email}


def _listed(item_name: str, item: Mapping[str, Any]) -> float | None:
    from catalog.loader import Catalog

    found = Catalog.load().price(item_name, region=_region(item))
    return found.usd if found else None


def _region(item: Mapping[str, Any]) -> str:
    place = location(item)
    return place.rpartition("-")[0] if place.count("-") > 1 else place
