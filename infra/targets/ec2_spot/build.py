"""The name under which a built vLLM is kept: everything that it would have to be built anew for."""

from __future__ import annotations

import hashlib

from catalog.loader import Catalog
from infra.targets.ec2_spot.config import MAKING_GB, Config
from startup.spec import Recipe
from startup.turing.patch import VERSION


def build_key(config: Config, capability: str, catalog: Catalog | None = None) -> str:
    """Commit, torch, CUDA, card, Python, version of the Turing patch, host image.

    The image counts by the name that was asked for: a newer one of the same line has the same torch, or the machine, which
    compares the build's manifest with what it finds, refuses it.
    """
    torch, cuda, python = _brings(config, catalog)
    image = hashlib.sha256(config.host_image.encode()).hexdigest()[:8]
    parts = (
        config.build.commit[:12],
        f"torch{torch or 'x'}",
        f"cu{cuda.replace('.', '') or 'x'}",
        f"sm{capability.replace('.', '')}",
        f"py{python.replace('.', '') or 'x'}",
        f"patch{VERSION}",
        image,
    )
    return "-".join(parts)


def recipe(config: Config, catalog: Catalog | None = None) -> Recipe | None:
    """What the machine that serves makes where none is kept; None where it makes none."""
    return made_of(config, catalog) if config.build.where == "machine" else None


def made_of(config: Config, catalog: Catalog | None = None) -> Recipe:
    """What a build is made of, whoever makes it."""
    return Recipe(config.build.vllm, config.build.commit, *_brings(config, catalog), free_gb=MAKING_GB)


def _brings(config: Config, catalog: Catalog | None) -> tuple[str, str, str]:
    """Torch, CUDA and Python of the host image; empty where it is not in the catalog."""
    rows = {row.family: row for row in (catalog or Catalog.load()).host_images}
    host = rows.get(config.host_image)
    return (host.torch, host.cuda, host.python) if host else ("", "", "")
