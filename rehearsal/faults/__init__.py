"""Ways to break a rehearsal, by name.

Every module of this package may hold `FAULTS`, a sequence of `Fault`; adding one is adding a row there. `FAULTS` here is all of
them, by name. A name that two modules claim is an error when the package is loaded.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterable, Mapping, Sequence

from rehearsal.contracts import Fault


def collected(groups: Iterable[tuple[str, Sequence[Fault]]]) -> Mapping[str, Fault]:
    """All faults by name, from (module, faults). Raises ValueError for a name that is taken."""
    found: dict[str, Fault] = {}
    for module, faults in groups:
        for fault in faults:
            if fault.name in found:
                raise ValueError(f"the fault {fault.name} of {module} is registered already")
            found[fault.name] = fault
    return found


def _modules() -> Iterable[tuple[str, Sequence[Fault]]]:
    for info in pkgutil.iter_modules(__path__, prefix=f"{__name__}."):
        yield info.name, getattr(importlib.import_module(info.name), "FAULTS", ())


FAULTS: Mapping[str, Fault] = collected(_modules())


def for_target(kind: str) -> Sequence[Fault]:
    """Those of one kind of target (`gce_flex`), in order of their names."""
    return tuple(sorted((f for f in FAULTS.values() if kind in f.targets), key=lambda f: f.name))
