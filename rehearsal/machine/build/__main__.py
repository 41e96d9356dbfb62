"""`python -m rehearsal.machine.build PART [--into DIR] [--key]`: build one part, or print the key that names it."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from rehearsal.machine.assets import cache_folder
from rehearsal.machine.build import arm64, images, recipe, repo, sources, tool
from rehearsal.machine.build import root as root_part
from verdict.errors import FlexserveError


def main(argv: list[str] | None = None) -> int:
    """Exit 0 when built or there already, 1 with a sentence when not."""
    parser = argparse.ArgumentParser(prog="python -m rehearsal.machine.build", description=__doc__)
    parser.add_argument("part", choices=[*recipe.PARTS, *recipe.OPTIONAL, "all"])
    parser.add_argument("--into", type=Path, help="folder to fill (default: the part's folder in the cache)")
    parser.add_argument("--root", type=Path, help="for repo: the root it completes (default: the one in the cache)")
    parser.add_argument("--key", action="store_true", help="print the key of the inputs and build nothing")
    args = parser.parse_args(argv)
    if args.part == "all" and (args.into or args.key):
        parser.error("--into and --key take one part")
    try:
        found = sources.read()
        if args.key:
            print(recipe.key(args.part, found.codename))
            return 0
        for part in recipe.PARTS if args.part == "all" else (args.part,):
            _build(part, args.into or cache_folder(part, found.codename), args.root, found)
    except FlexserveError as error:
        print(error, file=sys.stderr)
        return int(error.exit_code)
    return 0


def _build(part: str, into: Path, root: Path | None, found: sources.Sources) -> None:
    if into.exists() and any(into.iterdir()):
        print(f"{part}: there already, {into}", file=sys.stderr)
        return
    began = time.monotonic()
    if part == "root":
        tool.into_place(into, lambda folder: root_part.build(folder, found))
    elif part == "arm64":
        tool.into_place(into, lambda folder: arm64.build(folder, found))
    elif part == "images":
        tool.into_place(into, lambda folder: images.build(folder, found))
    else:
        base = root or cache_folder("root", found.codename)
        if not (base / "var/lib/dpkg/status").is_file():
            raise FlexserveError("the package repository needs the root file system first", way_out="build root first")
        tool.into_place(into, lambda folder: repo.build(folder, found, base))
    print(f"{part}: built in {time.monotonic() - began:.0f} s, {into}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
