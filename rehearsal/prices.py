"""The ledger's prices: the catalog's, so that the local cloud bills what the plan says."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from catalog.loader import Catalog

Price = Callable[[str, Mapping[str, object]], float | None]
HOURS_A_MONTH = 730.0
FREE = {"gp3": (3000, 125)}
"""IOPS and MiB/s that a type of volume has without paying for them."""
GIB = 1024.0**3


def catalog_price(catalog: Catalog) -> Price:
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


def aws_catalog_price(catalog: Catalog) -> Price:
    """The same for the local AWS, by the kinds and attributes of its `billing`. One unknown part makes the whole unknown."""

    def per_month(units: Mapping[str, float], region: str) -> float | None:
        total = 0.0
        for item, count in units.items():
            row = catalog.price(item, region=region)
            if count and row is None:
                return None
            total += count * row.usd if row else 0.0
        return total / HOURS_A_MONTH

    def price(kind: str, attributes: Mapping[str, Any]) -> float | None:
        region = str(attributes.get("region", ""))
        if kind == "instance":
            row = catalog.price(str(attributes["machine_type"]), region=region, provisioning=str(attributes["provisioning_model"]))
            return row.usd if row else None
        if kind == "endpoint_instance":
            row = catalog.price(str(attributes["machine_type"]), region=region, provisioning="on_demand")
            return row.usd if row else None
        if kind == "repository":
            return per_month({"ecr-storage": attributes["bytes"] / GIB}, region)
        if kind == "volume":
            name, (iops, throughput) = str(attributes["disk_type"]), FREE.get(str(attributes["disk_type"]), (0, 0))
            above = {"iops": attributes["iops"] - iops, "throughput": attributes["throughput"] - throughput}
            parts = {f"{name}-{part}": max(0.0, float(count)) for part, count in above.items()}
            return per_month({name: float(attributes["size_gb"]), **parts}, region)
        if kind == "bucket":
            return per_month({"s3-standard": attributes["bytes"] / GIB}, region)
        row = catalog.price({"address": "aws-external-address", "nat": "aws-nat-gateway"}.get(kind, ""), region=region)
        return row.usd if row else None

    return price
