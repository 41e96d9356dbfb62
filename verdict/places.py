"""Where flexserve keeps what it has built: one rule for the set-up, the commands and the rehearsal. Standard library only."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

CACHE_RULE = "$FLEXSERVE_CACHE, else $XDG_CACHE_HOME/flexserve, else ~/.cache/flexserve"


def cache_root(environ: Mapping[str, str] = os.environ) -> Path:
    """The cache folder, absolute; it need not exist. See `CACHE_RULE`.

    Who has no home (no HOME, and no account of that number) gets a folder of their own below the temporary one.
    """
    if own := environ.get("FLEXSERVE_CACHE"):
        return Path(os.path.abspath(os.path.expanduser(own)))  # noqa: PTH100, PTH111 - no home is no error
    if shared := environ.get("XDG_CACHE_HOME"):
        return Path(os.path.abspath(shared)) / "flexserve"  # noqa: PTH100
    home = environ.get("HOME") or os.path.expanduser("~")  # noqa: PTH111
    if not os.path.isabs(home):  # noqa: PTH117
        return Path(environ.get("TMPDIR") or "/tmp") / f"flexserve-{os.getuid()}"
    return Path(home) / ".cache" / "flexserve"
