"""`python3 -m tools.setup.clean [--cache]`: says what `make clean` leaves, or removes the cache as `make distclean` does."""

from __future__ import annotations

import sys
from pathlib import Path

from tools.setup.cache import remove
from tools.setup.disk import folder_mb, size
from tools.setup.host import Host
from tools.setup.step import StepFailed


def main(argv: list[str], host: Host) -> int:
    """Print what goes and what stays, with its size. 1 when the cache cannot be removed."""
    if "--cache" in argv:
        taken = folder_mb(host.cache)
        try:
            remove(host.cache)
        except StepFailed as error:
            print(f"{error.what}\n  way out: {error.way_out}", file=sys.stderr)
            return 1
        print(f"removed: {host.cache} ({size(taken)})")
    elif host.cache.is_dir():
        print(f"kept: {host.cache} ({size(folder_mb(host.cache))}; make distclean removes it)")
    for name, folder, how in others(host):
        if folder.is_dir():
            print(f"kept: {folder} ({size(folder_mb(folder))}): {name}'s own, shared with other projects; {how} empties it")
    return 0


def others(host: Host) -> list[tuple[str, Path, str]]:
    """Caches that other tools keep for all projects of this user: name, folder, and how it is emptied."""
    home = Path(host.environ.get("HOME") or "/nonexistent")
    shared = Path(host.environ.get("XDG_CACHE_HOME") or home / ".cache")
    found = [("uv", Path(host.environ.get("UV_CACHE_DIR") or shared / "uv"), "`uv cache clean`")]
    for variable, how in (("GOMODCACHE", "`go clean -modcache`"), ("GOCACHE", "`go clean -cache`")):
        if place := host.environ.get(variable):
            found.append(("Go", Path(place), how))
    return found


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], Host.here(Path(__file__).resolve().parents[2])))
