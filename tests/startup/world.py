"""A machine's outside for the boot script: namespaces of its own, stand-in commands first on PATH, Google and the Hub on loopback.

Nothing of the product knows: real names reach the stand-ins by the world's own hosts file, network and certificates.
All of it ends with the world's first process; nothing is written outside the world's folder.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from startup.phases import BootStatus, parse
from startup.render import render
from startup.spec import BootSpec

HERE = Path(__file__).parent / "fakes"
TOKEN = "hf_" + "SENTINELsentinel42"
AWS = ("s3.us-east-1.amazonaws.com", "secretsmanager.us-east-1.amazonaws.com")
MAKING = ("uname", "git", "cuobjdump", "rustup")  # what a build is made with; the toolkit comes by apt-get
SPOT = ("nvidia-smi", "swapon", "mkswap", "fallocate", "iptables")
BUILDS = ("developer.download.nvidia.com", "sh.rustup.rs")
NAMES = ("metadata.google.internal", "secretmanager.googleapis.com", "huggingface.co", "cdn.huggingface.test", *AWS, *BUILDS)
HOSTS = """127.0.0.1 localhost
169.254.169.254 metadata.google.internal
127.0.0.2 secretmanager.googleapis.com
127.0.0.3 huggingface.co
127.0.0.4 cdn.huggingface.test
127.0.0.6 s3.us-east-1.amazonaws.com
127.0.0.7 secretsmanager.us-east-1.amazonaws.com
127.0.0.8 developer.download.nvidia.com
127.0.0.9 sh.rustup.rs
"""
ENTER = r"""
set -e
W=$1 PYTHON=$2 FAKES=$3 ROOT=$4
R="$W/over/root"
if [ -n "$ROOT" ]; then # another system's files, before a folder that they may lie in is covered
  mount -t tmpfs tmpfs "$W/over"
  mkdir "$W/over/upper" "$W/over/work" "$R"
  mount -t overlay overlay -o "lowerdir=$ROOT,upperdir=$W/over/upper,workdir=$W/over/work" "$R"
fi
ip link set lo up
ip addr add 169.254.169.254/32 dev lo
mount --bind "$W/hosts" /etc/hosts
mount --bind "$W/tls/ca.crt" "$(readlink -f /etc/ssl/certs/ca-certificates.crt)"
if [ -e /dev/console ]; then mount --bind "$W/console" /dev/console; fi
if [ -d /etc/systemd/system ]; then mount --bind "$W/units" /etc/systemd/system; fi
mount -t tmpfs tmpfs /var/lib
mkdir /var/lib/flexserve
mount --bind "$W/state" /var/lib/flexserve
mount -t tmpfs tmpfs /run
mkdir /run/flexserve
mount --bind "$W/run" /run/flexserve
mount -t tmpfs tmpfs /opt
mount -t tmpfs tmpfs /usr/local
mkdir -p /usr/local/bin /usr/local/sbin
mount --bind "$W/home" /root
mkdir -p "$W/none"
for folder in /usr/local/bin /usr/local/sbin /usr/sbin; do mount --bind "$W/none" $folder; done # no engine of this host's
if [ -n "$ROOT" ]; then # the same outside for it
  mkdir -p "$R$W" "$R/opt" "$R/usr/local" "$R/root"
  mount --bind "$W" "$R$W"
  for place in /proc /dev /var/lib /run /opt /usr/local /root; do mount --rbind $place "$R$place"; done
  mount --bind "$W/hosts" "$R/etc/hosts"
  mount --bind "$W/tls/ca.crt" "$R/etc/ssl/certs/ca-certificates.crt"
  mount --bind "$W/units" "$R/etc/systemd/system"
fi
PYTHONDONTWRITEBYTECODE= "$PYTHON" -S "$FAKES/cloud.py" "$W" >"$W/cloud.log" 2>&1 &
read -r _ || true # until the test is over
"""


def available() -> str:
    """Why no world can be made here; empty when one can."""
    probe = subprocess.run([*_unshare(), "true"], capture_output=True, text=True, check=False)
    return "" if probe.returncode == 0 else f"no namespaces here: {probe.stderr.strip()}"


def _unshare() -> list[str]:
    return ["unshare", "--mount", "--net", "--pid", "--fork", "--kill-child", "--mount-proc", *(["-r"] if os.geteuid() else [])]


class World:
    """One machine's outside. `faults` may change at any time; see the stand-ins for what they know.

    `root`: the machine's own files, where they are not this host's.
    """

    def __init__(self, folder: Path, tls: Path, root: Path | None = None) -> None:
        self.folder, self._root = folder, root
        for name in ("state", "run", "units", "docker", "bin", "metadata", "held", "none", "home", "over"):
            (folder / name).mkdir(parents=True)
        (folder / "hosts").write_text(HOSTS)
        (folder / "console").touch()
        (folder / "secret").write_text(TOKEN)
        shutil.copytree(tls, folder / "tls")
        self.faults()
        for name in ("apt-get", "apt-mark", "dpkg", "dpkg-query", "systemctl", "journalctl", *SPOT, *MAKING):
            self.command(name, (HERE / "client.sh").read_text().replace("@WORLD@", str(folder)))
        record = f"""#!/bin/bash\n{{ printf '%q ' "$0" "$@"; export -p; }} >>{folder}/calls.raw"""
        self.command("curl", f'{record}\nexec /usr/bin/curl "$@"\n')
        self.command("sync", (HERE / "client.sh").read_text().replace("@WORLD@", str(folder)))
        self.command("sleep", f"{record}\nexec /usr/bin/sleep 0.05\n")
        self._process = subprocess.Popen(
            [*_unshare(), "bash", "-c", ENTER, "world", folder, os.path.realpath("/usr/bin/python3"), HERE, root or ""],
            stdin=subprocess.PIPE,
            stderr=(folder / "enter.log").open("w"),
        )
        self._inside = ""
        wait_for(lambda: (folder / "ready").exists() or self._process.poll() is not None)
        if self._process.poll() is not None:
            raise RuntimeError((folder / "enter.log").read_text())
        children = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children").read_text().split()
        self._inside = children[0]

    def close(self) -> None:
        """Everything in it ends."""
        self._process.kill()
        self._process.wait()

    def command(self, name: str, does: str) -> None:
        """Put a stand-in on PATH."""
        target = self.folder / "bin" / name
        target.write_text(does)
        target.chmod(0o755)

    def faults(self, **faults: Any) -> None:
        """From now on."""
        fresh = self.folder / "faults.new"
        fresh.write_text(json.dumps(faults))
        fresh.replace(self.folder / "faults.json")

    def metadata(self, script: bytes) -> None:
        """What the machine's metadata holds from now on."""
        fresh = self.folder / "metadata.new"
        fresh.write_bytes(script)
        fresh.replace(self.folder / "metadata" / "flexserve-script")

    def start(self, *words: str) -> subprocess.Popen[str]:
        """The stub, as the cloud's script runner starts it: almost no environment, no terminal."""
        return self._start("env", "-i", f"PATH={self.folder}/bin", "/bin/bash", str(self.folder / "stub"), *words)

    def _start(self, *argv: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [*self._enter(), *argv], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd="/"
        )

    def _enter(self) -> list[str]:
        """How a command gets in; before `env` and others are looked up."""
        argv = ["nsenter", "-t", self._inside, "-m", "-n", "-p"]
        root = f"/proc/{self._inside}/root{self.folder}/over/root"
        return [*argv, f"--root={root}", f"--wd={root}"] if self._root else argv

    def boot(self, spec: BootSpec, seconds: float = 240) -> Boot:
        """Run the boot to its end."""
        self.install(spec)
        process = self.start()
        out, _ = process.communicate(timeout=seconds)
        return Boot(process.returncode, out, self.status(), self.reported())

    def phase(self, spec: BootSpec, name: str, seconds: float = 240) -> Phase:
        """One phase of the script alone, as a boot starts it. A boot of this spec was here before: it wrote the Python part."""
        self.install(spec)
        cause = self.folder / "run" / "cause-alone"
        cause.unlink(missing_ok=True)
        process = self.start_phase(spec, name)
        out, _ = process.communicate(timeout=seconds)
        return Phase(process.returncode, out, cause.read_text() if cause.exists() else "")

    def start_phase(self, spec: BootSpec, name: str) -> subprocess.Popen[str]:
        """The same, begun: what is installed is run."""
        limit = f"FLEXSERVE_LIMIT={spec.phase_limits[name]}"
        environment = (f"PATH={self.folder}/bin", "FLEXSERVE_CAUSE=/run/flexserve/cause-alone", limit)
        script = str(self.folder / "metadata" / "flexserve-script")
        return self._start("env", "-i", *environment, "/bin/bash", script, "phase", name)

    def anew(self) -> None:
        """Another machine, in every place that a boot leaves something; only the script's Python part stays."""
        self.faults()
        self.inside("sh", "-c", "rm -rf /opt/* /usr/local/cuda*")
        for name in ("state", "run", "units", "docker", "held", "home", "guest", "bucket"):
            for path in (self.folder / name).glob("*"):
                if path != self.folder / "run" / "lib":
                    shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
        for name in ("count.*", "calls.*", "requests.jsonl", "swap-is-on", "venv"):
            for path in self.folder.glob(name):
                path.unlink()

    def install(self, spec: BootSpec) -> str:
        """Put stub and script in place; the script's hash."""
        rendered = render(spec)
        (self.folder / "stub").write_bytes(rendered.stub)
        self.metadata(rendered.script)
        return rendered.sha256

    def status(self) -> BootStatus | None:
        """As the machine's files have it."""
        return parse(
            {
                path.name: path.read_text()
                for path in (self.folder / "state").iterdir()
                if path.is_file() and path.name.startswith(("state", "phase-"))
            }
        )

    def reported(self) -> BootStatus | None:
        """As the cloud's guest attributes have it."""
        folder = self.folder / "guest"
        return parse({path.name: path.read_text() for path in folder.iterdir()}) if folder.exists() else None

    def calls(self, *start: str) -> list[Mapping[str, Any]]:
        """Commands that were started with these first words."""
        file = self.folder / "calls.jsonl"
        rows = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
        return [row for row in rows if tuple(row["argv"][: len(start)]) == start]

    def asked(self, host: str = "", path: str = "") -> list[Mapping[str, Any]]:
        """Requests that the stand-ins got."""
        file = self.folder / "requests.jsonl"
        rows = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
        return [row for row in rows if host in row["host"] and path in row["path"]]

    def containers(self) -> list[Mapping[str, Any]]:
        """What the engine has."""
        return [json.loads(path.read_text()) for path in sorted((self.folder / "docker").glob("*.container"))]

    def keep(self, container: Mapping[str, Any]) -> None:
        """Change what the engine has."""
        fresh = self.folder / "container.new"
        fresh.write_text(json.dumps(container))
        fresh.replace(self.folder / "docker" / "flexserve-vllm.container")

    def hold(self, what: str) -> None:
        """The next time `what` is asked of a stand-in it waits."""
        (self.folder / "held" / what).touch()

    def release(self, what: str) -> None:
        """And goes on."""
        (self.folder / "held" / what).unlink(missing_ok=True)

    def held(self, what: str) -> bool:
        """Whether it waits now."""
        return (self.folder / "held" / f"{what}.reached").exists()

    def inside(self, *argv: str) -> str:
        """Run a command in the world; its output."""
        return subprocess.run([*self._enter(), *argv], capture_output=True, text=True, check=False).stdout

    def processes(self, mark: str = "") -> dict[int, str]:
        """Pid (outside) and command line of what runs in the world, except its own first process and stand-ins."""
        found = {}
        here = Path(f"/proc/{self._inside}/ns/pid").readlink()
        for entry in Path("/proc").iterdir():
            with suppress(OSError):
                if entry.name.isdigit() and entry.name != self._inside and (entry / "ns/pid").readlink() == here:
                    line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                    if "cloud.py" not in line and mark in line:
                        found[int(entry.name)] = line
        return found

    def kill(self, mark: str = "") -> None:
        """SIGKILL; without a mark a power cut: everything at once."""
        for pid in self.processes(mark):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        if not mark:
            wait_for(lambda: not self.processes())

    def files(self) -> Iterator[Path]:
        """Every file that the machine has written, on its disk and in its memory."""
        for name in ("state", "run", "units", "console", "guest"):
            top = self.folder / name
            yield from [top] if top.is_file() else (path for path in top.rglob("*") if path.is_file())


class Boot:
    """How a run of the stub ended."""

    def __init__(self, code: int, out: str, status: BootStatus | None, reported: BootStatus | None) -> None:
        self.code, self.out, self.reported = code, out, reported
        assert status is not None, out
        self.status = status

    def results(self) -> dict[str, str]:
        """Phase -> result."""
        return {phase.name: phase.result for phase in self.status.phases}

    def cause(self) -> str:
        """The id of the cause."""
        return self.status.cause.partition(":")[0]


@dataclass(frozen=True)
class Phase:
    """How a phase alone ended: its exit status, what it printed, and why, as the boot would report it."""

    code: int
    out: str
    why: str

    def cause(self) -> str:
        """The id of the cause."""
        return self.why.partition(":")[0]


def wait_for(check: Callable[[], object], seconds: float = 120) -> object:
    """The first true value; TimeoutError when none comes."""
    until = time.monotonic() + seconds
    while not (value := check()):
        if time.monotonic() > until:
            raise TimeoutError(f"never came true: {check}")
        time.sleep(0.02)
    return value


def served(world: World, runs: int) -> None:
    """Exactly one container, running, started so many times in all."""
    containers = world.containers()
    assert [(one["name"], one["status"]) for one in containers] == [("flexserve-vllm", "running")]
    assert len(world.calls("docker", "run")) == runs


def words(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """The command lines, for messages."""
    return [" ".join(row["argv"]) for row in rows]
