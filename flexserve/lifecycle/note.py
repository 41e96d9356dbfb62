"""Which deployment a `down` has begun to delete: a file, kept until nothing of it is left.

The engine's state can be empty while a machine still bills (a delete that fails is reported as done). Its id would be lost then.
"""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path

from infra.targets.protocol import DeploymentRef


class Note:
    """One stack's note. It holds the id and the stack's outputs; no secret is among them."""

    def __init__(self, path: Path, stack: str) -> None:
        self._path, self._stack = path, stack

    def read(self) -> DeploymentRef | None:
        """The deployment that may not be gone yet; None when all is."""
        try:
            value = json.loads(self._path.read_text(encoding="utf-8"))
            return DeploymentRef(self._stack, str(value["id"]), dict(value["outputs"]))
        except (OSError, ValueError, LookupError, TypeError):
            return None

    def write(self, ref: DeploymentRef) -> None:
        """Before anything is deleted. Whoever reads at that moment sees the old one or the new one. Raises `OSError`."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        fresh = self._path.with_name(f"{self._path.name}.{os.getpid()}")
        try:
            fresh.write_text(json.dumps({"id": ref.id, "outputs": dict(ref.outputs)}), encoding="utf-8")
            fresh.replace(self._path)
        finally:
            fresh.unlink(missing_ok=True)

    def remove(self) -> None:
        """Once nothing is left. One that cannot be removed does no harm: the next look finds nothing of its deployment."""
        with contextlib.suppress(OSError):
            self._path.unlink(missing_ok=True)
