"""The catalog's rows with their sources, from the TOML files."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from catalog.loader import Catalog
from catalog.rows import Row


def page() -> str:
    """docs/reference/catalog.md."""
    c = Catalog.load()
    lines = [
        "# Catalog",
        "",
        "What flexserve knows, and from where. Evidence: *measured* (seen in a run), *documented* (the vendor says so), *inferred*",
        "(follows from other facts), *claimed* (announced, not reproduced). What is not here is unknown, never guessed.",
    ]
    lines += _section("Accelerators", ("name", "title", "memory_gib", "bandwidth_gb_s", "dtypes"), c.accelerators.values())
    lines += _section("Machine types", ("name", "accelerator", "accelerators", "vcpu", "memory_gib"), c.machine_types.values())
    lines += _section("Machine types to build on", ("name", "cloud", "vcpu", "memory_gib"), c.builder_types.values())
    lines += _section("Disk types", ("name", "max_gb"), c.disk_types.values())
    lines += _section("Models", ("name", "weights_gb", "resident_gib", "context", "quantization"), c.models.values())
    lines += _section("Images", ("repository", "tag", "vllm", "compressed_gib", "unpacked_gib"), c.images)
    lines += _section("Host images", ("project", "family", "has_docker"), c.host_images)
    lines += _section("Zones", ("name", "provisioning", "accelerators"), c.zones)
    lines += _section("Provisioning", ("name", "window_min_s", "window_max_s"), c.provisionings.values())
    lines += _section("Recorded starts", ("target", "part", "seconds"), c.boots)
    lines += _section("Prices (US dollars)", ("item", "provisioning", "regions", "unit", "usd"), c.prices)
    return "\n".join(lines) + "\n"


def _section(title: str, columns: Sequence[str], rows: Iterable[Row]) -> list[str]:
    head = [*columns, "evidence", "date", "source"]
    out = ["", f"## {title}", "", "| " + " | ".join(head) + " |", "|" + " --- |" * len(head)]
    for row in rows:
        cells = [_cell(getattr(row, name)) for name in head]
        out.append("| " + " | ".join(cells) + " |")
    return out


def _cell(value: object) -> str:
    if isinstance(value, tuple):
        return ", ".join(map(str, value))
    return "unknown" if value is None else str(value).replace("|", "\\|")
