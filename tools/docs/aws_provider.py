"""What the stand-in AWS provider knows, and what it takes the official one to do, from its own tables."""

from __future__ import annotations

import tomllib
from pathlib import Path

from rehearsal.providers.aws.config import SERVICES
from rehearsal.providers.aws.functions import FUNCTIONS
from rehearsal.providers.aws.resources import RESOURCES
from tools.docs.google_provider import replacing

ASSUMPTIONS = Path(__file__).resolve().parents[2] / "rehearsal" / "providers" / "aws" / "assumptions.toml"


def page() -> str:
    """docs/reference/aws-provider.md."""
    rows = tomllib.loads(ASSUMPTIONS.read_text(encoding="utf-8"))["assumption"]
    lines = [
        "# What the stand-in AWS provider knows",
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
        f"Services whose addresses it takes from `aws:endpoints`: {', '.join(f'`{name}`' for name in SERVICES)}.",
        "",
        "## What it takes the official provider to do",
        "",
        "There are no recordings of the official provider. Each row says where it is known from and how surely: read in its",
        "code (`source`), `documented`, `reported` by its users, `inferred`; or known to be otherwise (`deviation`).",
        "",
        "| of | assumed | evidence | source | held by |",
        "| --- | --- | --- | --- | --- |",
        *(
            f"| {row['about']} | {row['what']} | {row['evidence']} | {row['source']} | `{row['held_by'].partition('::')[2]}` |"
            for row in rows
        ),
    ]
    return "\n".join(lines) + "\n"
