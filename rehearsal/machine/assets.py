"""Where the built parts of a machine are kept."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from rehearsal.machine.build import recipe, sources
from verdict.errors import FlexserveError
from verdict.places import cache_root


@dataclass(frozen=True)
class Assets:
    """Folders of the built parts: the root file system, the image layer, the apt repository."""

    root: Path
    images: Path
    repo: Path


def cache_folder(part: str, codename: str) -> Path:
    """The folder of one build of `part` in the cache: `machine-PART-KEY`."""
    return cache_root() / f"machine-{part}-{recipe.key(part, codename)}"


def locate() -> Assets:
    """The built parts of this checkout's recipe. Raises `FlexserveError` naming what is not built."""
    codename = sources.read().codename
    folders = {part: cache_folder(part, codename) for part in recipe.PARTS}
    missing = [part for part, folder in folders.items() if not folder.is_dir()]
    if missing:
        raise FlexserveError(
            f"the rehearsal's machine is not built: {', '.join(missing)}",
            why=f"looked in {cache_root()}",
            way_out="python -m rehearsal.machine.build all",
        )
    return Assets(**folders)
