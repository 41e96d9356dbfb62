"""The ledger's prices: the catalog's, so that the local cloud bills what the plan says."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from catalog.loader import Catalog


def catalog_price(catalog: Catalog) -> Callable[[str, Mapping[str, object]], float | None]:
    """US dollars an hour of a kind with these attributes (`machine_type`, `provisioning_model`, `where`); None is unknown."""

    def price(kind: str, attributes: Mapping[str, object]) -> float | None:
        region = str(attributes.get("where", "")).rpartition("-")[0]
        if kind == "instance":
            machine = catalog.machine_types.get(str(attributes.get("machine_type")))
            if machine is None:
                return None
            model = str(attributes.get("provisioning_model", "")).lower()
            row = catalog.price(machine.accelerator, region=region, provisioning=model)
            return row.usd * machine.accelerators if row else None
        items = {"address": "gce-external-address", "nat": "gce-nat-address"}
        row = catalog.price(items[kind]) if kind in items else None
        return row.usd if row else None

    return price
