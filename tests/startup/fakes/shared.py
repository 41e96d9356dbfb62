"""What the stand-ins share: the world's folder, its faults, its holds."""

import json
import threading
import time
from pathlib import Path


class Shared:
    def __init__(self, folder):
        self.folder = Path(folder)
        self.counting = threading.Lock()

    def fault(self, name, default=None):
        return json.loads((self.folder / "faults.json").read_text()).get(name, default)

    def count(self, name):
        """How many times this was called before; for faults that pass. Two that ask at once are two."""
        file = self.folder / f"count.{name}"
        with self.counting:
            number = int(file.read_text()) if file.exists() else 0
            file.write_text(str(number + 1))
        return number

    def note(self, file, row):
        with (self.folder / file).open("a") as out:
            out.write(json.dumps(row) + "\n")

    def hold(self, what):
        gate = self.folder / "held" / what
        if gate.exists():
            reached = gate.with_name(gate.name + ".reached")
            reached.touch()
            while gate.exists():
                time.sleep(0.02)
            reached.unlink(missing_ok=True)

    def container(self):
        file = self.folder / "docker" / "flexserve-vllm.container"
        try:
            return json.loads(file.read_text())
        except (OSError, ValueError):
            return None

    def keep(self, container):
        file = self.folder / "docker" / "flexserve-vllm.container"
        fresh = file.with_name(f"new.{threading.get_ident()}")
        fresh.write_text(json.dumps(container))
        fresh.replace(file)

    def log(self, *lines):
        with (self.folder / "docker" / "log").open("a") as out:
            for line in lines:
                out.write(f"{stamp()} {line}\n")


def stamp():
    now = time.time_ns()
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now // 10**9)) + f".{now % 10**9:09d}Z"
