"""Where flexserve keeps what it has built: one rule for the set-up, the commands and the rehearsal. Standard library only."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path


def cache_root(environ: Mapping[str, str] = os.environ) -> Path:
    """The cache folder, absolute: `$FLEXSERVE_CACHE`, else `$XDG_CACHE_HOME/flexserve`, else `~/.cache/flexserve`.

    Who has no home gets a folder of their own below the temporary one.
    """
    if own := environ.get("FLEXSERVE_CACHE"):
        return Path(os.path.abspath(os.path.expanduser(own)))  # noqa: PTH100, PTH111 - no home is no error
    if shared := environ.get("XDG_CACHE_HOME"):
        return Path(os.path.abspath(shared)) / "flexserve"  # noqa: PTH100
    return below_home(environ, ".cache") / "flexserve"


def below_home(environ: Mapping[str, str], *path: str) -> Path:
    """A folder in the user's home; without a home (no HOME, no account of that number) one below the temporary folder."""
    home = environ.get("HOME") or os.path.expanduser("~")  # noqa: PTH111
    if not os.path.isabs(home):  # noqa: PTH117
        return Path(environ.get("TMPDIR") or "/tmp", f"home-{os.getuid()}", *path)
    return Path(home, *path)
