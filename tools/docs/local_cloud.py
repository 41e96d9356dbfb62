"""What the local Google cloud answers, from its own tables."""

from __future__ import annotations

from rehearsal.cloud.google import inventory
from rehearsal.cloud.google.identity import ROLES
from rehearsal.cloud.google.schema import TOLERATED, TOLERATED_QUERY
from rehearsal.cloud.google.table import handlers


def page() -> str:
    """docs/reference/local-cloud.md."""
    groups: dict[str, list[str]] = {}
    for method in sorted(handlers()):
        collection, _, verb = method.rpartition(".")
        groups.setdefault(collection, []).append(verb)
    stock = inventory.load()
    lines = [
        "# What the local Google cloud answers",
        "",
        "Every other method that Google has is answered 501 here and said to be missing.",
        "",
        "| collection | methods |",
        "| --- | --- |",
        *(f"| `{collection}` | {', '.join(verbs)} |" for collection, verbs in groups.items()),
        "",
        "## Taken although Google's documents lack it",
        "",
        "| where | what | why |",
        "| --- | --- | --- |",
        *(f"| body, `{schema}` | `{field}` (empty) | {why} |" for (schema, field), why in TOLERATED.items()),
        *(f"| query, `{api}` | `{name}` | {why} |" for (api, name), why in TOLERATED_QUERY.items()),
        "",
        "## What a machine's service account may do with a role",
        "",
        "| role | methods |",
        "| --- | --- |",
        *(f"| `{role}` | {', '.join(f'`{p}`' for p in patterns)} |" for role, patterns in ROLES.items()),
        "",
        "## What can be asked for",
        "",
        f"Zones: {', '.join(stock.zones)}.",
        "",
        f"Machine types: {', '.join(m.name for m in stock.machine_types)}.",
        "",
        f"Image families: {', '.join(dict.fromkeys(f'{i.project}/{i.family}' for i in stock.images))}.",
    ]
    return "\n".join(lines) + "\n"
