"""Which deployment a `down` has begun to delete: a file, kept until nothing of it is left.

The engine's state can be empty while a machine still bills (a delete that fails is reported as done). Its id would be lost then.
"""

from __future__ import annotations

import json
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
        """Before anything is deleted."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._path.write_text(json.dumps({"id": ref.id, "outputs": dict(ref.outputs)}), encoding="utf-8")

    def remove(self) -> None:
        """Once nothing is left."""
        self._path.unlink(missing_ok=True)
