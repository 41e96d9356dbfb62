"""The stage of the tunnel's benchmarks: machine, relay and tunnels, each a process of its own, all on loopback."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import heapq
import itertools
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PATTERN = hashlib.shake_256(b"flexserve tunnel").digest(65_521) * 17
_TICK = os.sysconf("SC_CLK_TCK")


def serve_machine() -> None:
    """The machine's side: `echo`, `send N` (closes right after), `sink N` (answers the digest), `chat ID COUNT RATE`."""
    server = socket.create_server(("127.0.0.1", 0), backlog=512)
    print(server.getsockname()[1], flush=True)
    while True:
        client, _ = server.accept()
        threading.Thread(target=_serve, args=(client,), daemon=True).start()


def _serve(client: socket.socket) -> None:
    client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    try:
        with client, client.makefile("rb") as lines:
            while line := lines.readline().decode().split():
                what, *numbers = line
                if what == "echo":
                    while data := lines.read1(65_536):
                        client.sendall(data)
                elif what == "send":
                    send_pattern(client, int(numbers[0]))
                    return
                elif what == "sink":
                    client.sendall(_digest_of(lines, int(numbers[0])))
                elif what == "hello":
                    client.sendall(b"hello\n")
                elif what == "chat":
                    _chat(client, *map(int, numbers))
                elif what == "slow":
                    time.sleep(int(numbers[1]) / 1000)
                    client.sendall(_digest_of(lines, int(numbers[0])))
    except OSError:
        pass


def send_pattern(client: socket.socket, size: int) -> None:
    sent = 0
    while sent < size:
        start = sent % 65_521
        sent += client.send(memoryview(PATTERN)[start : start + min(1 << 20, size - sent)])


def _digest_of(lines, size: int) -> bytes:
    digest, room = hashlib.sha256(), memoryview(bytearray(256 * 1024))
    while size and (count := lines.readinto1(room[: min(size, len(room))])):
        digest.update(room[:count])
        size -= count
    return digest.hexdigest().encode()


class _Ticker:
    """Sends every chat's tokens in time, from one thread: 64 threads that sleep would hold each other up."""

    def __init__(self) -> None:
        self._due: list[tuple[float, int, Iterator[float]]] = []
        self._changed = threading.Condition()
        self._numbers = itertools.count()
        threading.Thread(target=self._run, daemon=True).start()

    def add(self, when: float, steps: Iterator[float]) -> None:
        """Run `steps` on from `when`; each step gives the time of the next."""
        with self._changed:
            heapq.heappush(self._due, (when, next(self._numbers), steps))
            self._changed.notify()

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._due or (wait := self._due[0][0] - time.monotonic()) > 0:
                    self._changed.wait(wait if self._due else None)
                _, _, steps = heapq.heappop(self._due)
            when = next(steps, None)
            if when is not None:
                self.add(when, steps)


@functools.cache
def _ticker() -> _Ticker:
    return _Ticker()


def _chat(client: socket.socket, ident: int, count: int, rate: int) -> None:
    over = threading.Event()

    def steps() -> Iterator[float]:
        start = time.monotonic()
        try:
            for index in range(count):
                client.sendall(b"%08d %08d %013d\n" % (ident, index, 0))  # 32 bytes
                if index + 1 < count:
                    yield start + (index + 1) / rate
        except OSError:
            pass
        finally:
            over.set()

    _ticker().add(time.monotonic(), steps())
    over.wait()


def prioritise(pid: int | str = "self", nice: int | None = None) -> None:
    """Give a session's processes the priority in `TUNNEL_NICE` (or `nice`): Linux schedules sessions, not only processes."""
    wanted = os.environ.get("TUNNEL_NICE") if nice is None else str(nice)
    if wanted:
        with contextlib.suppress(OSError):  # no autogroups here, or no right
            Path(f"/proc/{pid}/autogroup").write_text(wanted, encoding="ascii")


def real_time() -> bool:
    """Whether this process and what it starts are scheduled before everything else, in turn among themselves.

    Both tools alike: what others do on the same cores then costs neither. Needs the right to it.
    """
    try:
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
    except (AttributeError, OSError):
        return False
    return True


@contextmanager
def process(arguments: list[str], **more) -> Iterator[subprocess.Popen[bytes]]:
    """A child in a group of its own; its whole group is gone afterwards."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **more.pop("env", {})}
    child = subprocess.Popen(
        arguments,
        env=environment,
        cwd=more.pop("cwd", ROOT),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        start_new_session=True,
        **more,
    )
    prioritise(child.pid)
    try:
        yield child
    finally:
        for number in (signal.SIGTERM, signal.SIGKILL):
            try:
                os.killpg(child.pid, number)
                child.wait(10)
            except ProcessLookupError:
                break
            except subprocess.TimeoutExpired:
                continue
        child.wait()
        child.stdout.close()


@contextmanager
def machine() -> Iterator[int]:
    with process([sys.executable, str(Path(__file__).resolve())]) as child:
        yield int(child.stdout.readline())


@dataclass
class RelayProcess:
    """A relay that runs; `log` is written when it stops."""

    url: str
    ca_file: str
    log: Path | None = None


@contextmanager
def relay(machine_port: int, log: Path | None = None) -> Iterator[RelayProcess]:
    extra = ["--log", str(log)] if log else []
    with process([sys.executable, "-m", "rehearsal.relay", "--to", f"127.0.0.1:{machine_port}", *extra]) as child:
        said = json.loads(child.stdout.readline())
        yield RelayProcess(said["url"], said["ca_file"], log)


@dataclass
class Running:
    """A tunnel that listens. `start_s`: from the command's start to the line that says so."""

    port: int
    pid: int
    start_s: float

    def cpu_s(self) -> float:
        """CPU seconds of its process group so far."""
        total = 0
        for stat in Path("/proc").glob("[0-9]*/stat"):
            try:
                fields = stat.read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()
            except OSError:
                continue
            if int(fields[2]) == self.pid:
                total += int(fields[11]) + int(fields[12])
        return total / _TICK

    def rss_mb(self) -> float:
        """Resident memory of the biggest process of the group, MB."""
        biggest = 0
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                if int((folder / "stat").read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()[2]) == self.pid:
                    biggest = max(biggest, int((folder / "statm").read_text(encoding="ascii").split()[1]))
            except OSError:
                continue
        return biggest * os.sysconf("SC_PAGE_SIZE") / 1e6


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


@contextmanager
def gcloud(via: RelayProcess, instance: str, python: str | None = None) -> Iterator[Running]:
    """Gcloud's helper with a new configuration folder; `python`: another interpreter for it (one that has numpy)."""
    folder = Path(tempfile.mkdtemp(prefix="tunnel-gcloud-"))
    (folder / "token").write_text("a-token", encoding="ascii")
    environment = {
        "PYTHONUNBUFFERED": "1",
        "CLOUDSDK_CONFIG": str(folder / "config"),
        "CLOUDSDK_CORE_PROJECT": "demo-project",
        "CLOUDSDK_AUTH_ACCESS_TOKEN_FILE": str(folder / "token"),
        "CLOUDSDK_CORE_DISABLE_PROMPTS": "1",
        "CLOUDSDK_CORE_CHECK_GCE_METADATA": "false",
        "CLOUDSDK_CORE_DISABLE_USAGE_REPORTING": "true",
        "CLOUDSDK_CORE_DISABLE_FILE_LOGGING": "true",
        "CLOUDSDK_COMPONENT_MANAGER_DISABLE_UPDATE_CHECK": "true",
        "CLOUDSDK_CORE_CUSTOM_CA_CERTS_FILE": via.ca_file,
        "PYTHONPATH": "",
    }
    if python:
        environment |= {"CLOUDSDK_PYTHON": python, "CLOUDSDK_PYTHON_SITEPACKAGES": "1"}
    port = free_port()
    command = [
        "gcloud", "compute", "start-iap-tunnel", instance, "8000", "--zone=us-central1-a",
        f"--local-host-port=127.0.0.1:{port}", f"--iap-tunnel-url-override={via.url}",
    ]  # fmt: skip
    try:
        yield from _running(command, environment, b"Listening on port")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def ours(via: RelayProcess, instance: str) -> Iterator[Running]:
    """Our command from a known access; `flexserve tunnel -s STACK` reads it from the stack first."""
    environment = {"FLEXSERVE_IAP_URL": via.url, "SSL_CERT_FILE": via.ca_file, "GOOGLE_OAUTH_ACCESS_TOKEN": "a-token"}
    command = [sys.executable, str(ROOT / "tests" / "tunnel" / "run_tunnel.py"), instance]
    yield from _running(command, environment, b"Listening on http")


@dataclass
class Stack:
    """A project with a stack whose state is on disk: as after `flexserve up`, without a cloud."""

    project: Path
    environment: dict[str, str]


@contextmanager
def stack() -> Iterator[Stack]:
    """`tpu-v6e`, its state written by the real engine from what the stack exports."""
    sys.path.insert(0, str(ROOT))
    from infra.access import Iap, to_output
    from rehearsal.project import private_copy

    folder = Path(tempfile.mkdtemp(prefix="tunnel-stack-"))
    try:
        sets = ("target.project=acme-1", 'access.members=["user:ops@acme.test"]')
        project = private_copy(ROOT, folder, "tpu-v6e", {}, sets)
        (folder / "state").mkdir()
        environment = {
            "PULUMI_BACKEND_URL": f"file://{folder / 'state'}", "PULUMI_HOME": str(folder / "home"),
            "PULUMI_CONFIG_PASSPHRASE": "x", "PULUMI_SKIP_UPDATE_CHECK": "true",
            "PATH": f"{ROOT / '.venv' / 'bin'}:{os.environ['PATH']}",
        }  # fmt: skip
        ends = time.strftime("%Y-%m-%dT%H:%M:%S+00:00", time.gmtime(time.time() + 3600))
        outputs = {"id": "f1e2d3", "target": "gce_flex", "expires_at": ends, "access": to_output(Iap("acme-1", "z", "vm"))}
        kind = "pulumi:pulumi:Stack"
        urn = f"urn:pulumi:tpu-v6e::flexserve::{kind}::flexserve-tpu-v6e"
        resource = {"urn": urn, "custom": False, "type": kind, "outputs": outputs}
        state = {"version": 3, "deployment": {"manifest": {"time": ends, "magic": "", "version": ""}, "resources": [resource]}}
        for words, text in (("init tpu-v6e", ""), ("import -s tpu-v6e", json.dumps(state))):
            subprocess.run(
                ["pulumi", "stack", *words.split(), "--non-interactive"], input=text, text=True, cwd=project, check=True,
                env={**os.environ, **environment}, capture_output=True,
            )  # fmt: skip
        yield Stack(project, environment)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def from_stack_s(via: RelayProcess, prepared: Stack) -> float:
    """Seconds from the start of `flexserve tunnel -s STACK` to the line that says that it listens."""
    environment = {"FLEXSERVE_IAP_URL": via.url, "SSL_CERT_FILE": via.ca_file, "GOOGLE_OAUTH_ACCESS_TOKEN": "a-token"}
    command = [str(ROOT / ".venv" / "bin" / "python"), "-m", "flexserve", "tunnel", "-s", "tpu-v6e", "--port", "0"]
    started = _running(command, {**environment, **prepared.environment}, b"Listening on http", prepared.project)
    with contextlib.contextmanager(lambda: started)() as running:
        return running.start_s


def _running(command: list[str], environment: dict[str, str], ready: bytes, cwd: Path = ROOT) -> Iterator[Running]:
    began = time.perf_counter()
    with process(command, env=environment, cwd=cwd, stderr=subprocess.DEVNULL) as child:
        line = child.stdout.readline()
        took = time.perf_counter() - began
        if not line.startswith(ready):
            raise SystemExit(f"{command[0]} did not come up: {line!r}")
        digits = line.replace(b"]", b"/").replace(b"[", b":").replace(b"127.0.0.1:", b":").split(b":")[-1].split(b"/")[0]
        yield Running(int(digits), child.pid, took)


if __name__ == "__main__":
    serve_machine()
