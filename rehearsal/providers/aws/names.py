"""Names that are made from a prefix, and where two properties share one name."""

from __future__ import annotations

import random
import time
from collections.abc import Mapping
from typing import Any, Final

from rehearsal.providers.schema import Fields, text

NAMED: Final[Fields] = {
    "name": text(autoname=True, computed=True, replace=True),
    "namePrefix": text(computed=True, replace=True),
}


def name_of(planned: Mapping[str, Any], key: str = "name") -> str:
    """The name to create: the planned one, or the prefix and 26 digits, time first, as Terraform draws them."""
    if planned.get(key):
        return str(planned[key])
    stamp = time.strftime("%Y%m%d%H%M%S", time.gmtime())
    return f"{planned.get(f'{key}Prefix') or 'terraform-'}{stamp}{random.randrange(10**12):012d}"


def told_name(name: str, before: Mapping[str, Any], key: str = "name") -> Mapping[str, str]:
    """Name and prefix after a look at the cloud."""
    return {key: name, f"{key}Prefix": str(before.get(f"{key}Prefix") or "")}
