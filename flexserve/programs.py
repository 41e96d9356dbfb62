"""Programs of others on the operator's machine: looked for before they are needed."""

from __future__ import annotations

import shutil
from collections.abc import Sequence

from infra.access import Program
from verdict.errors import MissingProgram


def require(programs: Sequence[Program]) -> None:
    """Raises `MissingProgram` for the first that is not on PATH."""
    for program in programs:
        if shutil.which(program.name) is None:
            raise MissingProgram(f"{program.name} is not on PATH", why=program.about, way_out=program.way_out)
