"""What the stand-in Google provider knows, and how it differs from the recordings, from its own tables."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from pathlib import Path

from rehearsal.providers.google.config import APIS
from rehearsal.providers.google.functions import FUNCTIONS
from rehearsal.providers.google.resources import RESOURCES
from rehearsal.providers.schema import Fields

DIFFERENCES = Path(__file__).resolve().parents[2] / "tests" / "providers" / "differences.toml"


def replacing(fields: Fields, start: str = "") -> Iterator[str]:
    """The inputs whose change replaces the resource, inner ones with their path."""
    for name, prop in fields.items():
        path = f"{start}{name}"
        if prop.replace and not prop.output and not any(replacing(prop.fields)):
            yield path
        yield from replacing(prop.fields, f"{path}.")


def page() -> str:
    """docs/reference/google-provider.md."""
    rows = tomllib.loads(DIFFERENCES.read_text(encoding="utf-8"))["difference"]
    lines = [
        "# What the stand-in Google provider knows",
        "",
        "A resource, a function or an input that is not listed is refused by its name.",
        "",
        "| resource | inputs | a change of these replaces it |",
        "| --- | --- | --- |",
    ]
    for token, resource in sorted(RESOURCES.items()):
        inputs = sum(not prop.output for prop in resource.fields.values())
        lines.append(f"| `{token}` | {inputs} | {', '.join(f'`{path}`' for path in replacing(resource.fields))} |")
    lines += [
        "",
        f"Functions: {', '.join(f'`{token}`' for token in sorted(FUNCTIONS))}.",
        "",
        f"Addresses it takes from the stack's configuration: {', '.join(f'`gcp:{key}`' for key in APIS.values())}.",
        "",
        "## Known differences from the recordings",
        "",
        "| difference | in | why |",
        "| --- | --- | --- |",
        *(f"| {row['id']} | {row['kind']} of {row['subject'].replace('|', ', ')} | {row['why']} |" for row in rows),
    ]
    return "\n".join(lines) + "\n"
