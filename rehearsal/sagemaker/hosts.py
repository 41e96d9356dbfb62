"""Where endpoints' containers run: one booted machine with a real dockerd, and in it a container for every instance.

SageMaker shows no instance but only its container, so one machine stands for all of them; each container has an address, keys and a
card of its own. It is started like SageMaker does: pulled with the role's login, `docker run IMAGE serve`, again whenever it exits.
"""

from __future__ import annotations

import contextlib
import json
import re
import shlex
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass

from rehearsal.contracts import Ec2Answer, MachineSpec
from rehearsal.machine.booted import BootedMachine
from rehearsal.machine.fakes.container import FOLDER
from rehearsal.machine.room import MachineRoom
from rehearsal.sagemaker.contracts import CannotPull, CannotStart, CloudSide, ContainerSpec, RegistryGate

CARDS = {"g4dn": ("Tesla T4", "7.5", "15360"), "g5": ("NVIDIA A10G", "8.6", "23028"), "g6": ("NVIDIA L4", "8.9", "23034"),
         "g6e": ("NVIDIA L40S", "8.9", "46068")}  # fmt: skip
"""By family of instance types: what the driver calls the card, its compute capability, its MiB."""
NETWORK = "endpoints"
SUBNET = "172.31"
UP_WITHIN_S = 60.0
AUTHORITIES = "/etc/ssl/certs/ca-certificates.crt"
PULL = """\
set -o pipefail
aws ecr get-login-password --region {region} | docker --config {config} login --username AWS --password-stdin {host} >/dev/null &&
  if docker image inspect {image} >/dev/null 2>&1; then # another instance has it, and docker would not ask again
    docker --config {config} manifest inspect {image} >/dev/null
  else
    docker --config {config} pull --quiet {image}
  fi
code=$?
rm -rf {config}
exit $code
"""
SERVER_ENDED = re.compile(r" exited: app \(.*; not expected\)$", re.MULTILINE)
READY = f"""\
until docker version >/dev/null 2>&1; do sleep 0.1; done
docker network create --subnet {SUBNET}.0.0/16 {NETWORK}
"""


class Guests:
    """`rehearsal.contracts.ContainerGuest`: all containers or builds of one machine, each by its name."""

    def __init__(self, gate: RegistryGate) -> None:
        self._gate = gate
        self._lock = threading.Lock()
        self._sides: dict[str, CloudSide] = {}
        self._holders: dict[str, CloudSide] = {}  # by the id of the key that was given

    def add(self, name: str, side: CloudSide) -> None:
        """From now on `name` may ask for keys."""
        with self._lock:
            self._sides[name] = side

    def remove(self, name: str) -> None:
        """No more keys for `name`."""
        with self._lock:
            self._sides.pop(name, None)

    def credentials(self, name: str) -> Mapping[str, str]:
        """The keys of one. Raises LookupError while there are none, and for a stranger."""
        with self._lock:
            side = self._sides[name]
        found = side.credentials()
        with self._lock:
            self._holders[found["AccessKeyId"]] = side
        return found

    def service(self, host: str, method: str, path: str, headers: Mapping[str, str], body: bytes) -> Ec2Answer:
        """The cloud's API, as the one whose key signed; anybody's where none did."""
        said = next((value for name, value in headers.items() if name.lower() == "authorization"), "")
        key = said.partition("Credential=")[2].partition("/")[0]
        with self._lock:
            side = self._holders.get(key) or next(iter(self._sides.values()), None)
        return side.service(host, method, path, headers, body) if side else Ec2Answer(403, {}, b"{}")

    def may(self, authorization: str, account: str, repository: str, push: bool) -> tuple[int, str]:
        """What the cloud says to a registry's request, as a status."""
        try:
            why = self._gate.may(authorization, account, repository, push)
        except PermissionError as error:
            return 401, str(error) or "no basic auth credentials"
        except LookupError as error:
            text = str(error.args[0]) if error.args else ""
            return (404, text) if repository else (200, "")
        return (403, why) if why and repository else (200, "")

    def immutable(self, account: str, repository: str) -> bool:
        """Whether a tag cannot be pushed twice."""
        return self._gate.immutable(account, repository)

    def powered_off(self) -> None:
        """Nobody is told: the cloud owns the machine."""


class DockerMachine:
    """A booted machine whose dockerd answers. `guests` are those that run in it."""

    def __init__(self, room: MachineRoom, name: str, gate: RegistryGate) -> None:
        self.guests = Guests(gate)
        machine = room(MachineSpec(name, self.guests, 100, flavour="container"))
        assert isinstance(machine, BootedMachine)
        self.machine = machine
        self._lock = threading.Lock()
        self._up = False

    def up(self) -> BootedMachine:
        """The machine, once dockerd answers. Raises CannotStart when it does not."""
        with self._lock:
            if not self._up:
                self.machine.start()
                self._await()
                self._up = True
        return self.machine

    def _await(self) -> None:
        until = time.monotonic() + UP_WITHIN_S
        while time.monotonic() < until:
            with contextlib.suppress(RuntimeError, TimeoutError):
                if self.machine.exec(["sh", "-c", READY], timeout=until - time.monotonic()).returncode == 0:
                    return
            time.sleep(0.1)
        raise CannotStart(f"dockerd did not come up in {UP_WITHIN_S:.0f} s: {self.machine.log()[-2000:]}")

    def delete(self) -> None:
        """Power cut, disk away."""
        self.machine.delete()


class Hosts:
    """Makes containers (`hosts(spec)`, a `HostFactory`). The machine boots with the first, or when it is warmed."""

    def __init__(self, room: MachineRoom, gate: RegistryGate) -> None:
        self._room, self._gate = room, gate
        self._lock = threading.Lock()
        self._machine: DockerMachine | None = None
        self._made = 0

    def __call__(self, spec: ContainerSpec) -> DockerContainer:
        """A container that is not started yet."""
        with self._lock:
            self._made += 1
            number = self._made
        return DockerContainer(spec, self.machine(), f"{SUBNET}.{number // 250}.{number % 250 + 2}")

    def machine(self) -> DockerMachine:
        """The machine that all of them run in, not necessarily up."""
        with self._lock:
            if self._machine is None:
                self._machine = DockerMachine(self._room, "sagemaker", self._gate)
            return self._machine

    def warm(self) -> None:
        """Let it boot meanwhile; returns at once. What goes wrong is said to the first who needs it."""

        def boot() -> None:
            with contextlib.suppress(CannotStart, RuntimeError):
                self.machine().up()

        threading.Thread(target=boot, name="containers' machine", daemon=True).start()


@dataclass(frozen=True)
class Reference:
    """`ACCOUNT.dkr.ecr.REGION.amazonaws.com/REPOSITORY@DIGEST`, as far as a login needs it."""

    host: str
    region: str

    @classmethod
    def of(cls, image: str) -> Reference:
        """Raises CannotPull for an image of another registry."""
        host = image.partition("/")[0]
        labels = host.split(".")
        if labels[1:3] != ["dkr", "ecr"] or len(labels) < 6:
            raise CannotPull(f"{image} is not in ECR")
        return cls(host, labels[3])


class DockerContainer:
    """`rehearsal.sagemaker.contracts.ContainerHost`, a real container."""

    def __init__(self, spec: ContainerSpec, machine: DockerMachine, address: str) -> None:
        self.spec = spec
        self._docker, self._address = machine, address
        self._name = f"sm-{spec.name}"
        self._lock = threading.Lock()
        self._kept_log = ""
        self._kept_restarts = 0
        self._over = False
        self._started = False
        self._id = ""

    def start(self) -> None:
        """`docker run IMAGE serve`; returns when it was started once. Raises CannotPull, CannotStart."""
        image = Reference.of(self.spec.image)
        machine = self._docker.up()
        self._docker.guests.add(self.spec.name, self.spec.cloud)
        config = f"/run/login-{self._name}"
        words = {"region": image.region, "host": image.host, "image": self.spec.image}
        script = PULL.format(config=config, **{name: shlex.quote(word) for name, word in words.items()})
        keys = f"AWS_CONTAINER_CREDENTIALS_RELATIVE_URI={FOLDER}{self.spec.name}"
        pulled = machine.exec(["env", keys, "bash", "-c", script], timeout=300)
        if pulled.returncode:
            raise CannotPull((pulled.stderr or pulled.stdout).strip()[-1000:])
        self._write_card(machine)
        started = machine.exec(["docker", "run", "--detach", *self._words(), self.spec.image, "serve"], timeout=60)
        if started.returncode:
            raise CannotStart(started.stderr.strip()[-1000:])
        self._id = started.stdout.strip()
        self._started = True

    def _words(self) -> list[str]:
        region = Reference.of(self.spec.image).region
        given = {
            "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI": f"{FOLDER}{self.spec.name}",
            "AWS_REGION": region,
            "AWS_DEFAULT_REGION": region,
            **self.spec.environment,
        }
        words = ["--name", self._name, "--network", NETWORK, "--ip", self._address, "--restart", "always"]
        words += ["--volume", f"{AUTHORITIES}:{AUTHORITIES}:ro", "--volume", f"/run/card-{self._name}:/usr/bin/nvidia-smi:ro"]
        return [*words, *(word for name, value in given.items() for word in ("--env", f"{name}={value}"))]

    def _write_card(self, machine: BootedMachine) -> None:
        """The container toolkit puts the driver's own program into a container: here a stand-in that knows the card."""
        name, capability, mib = CARDS.get(self.spec.gpu.removeprefix("ml.").partition(".")[0], CARDS["g4dn"])
        text = f"""#!/bin/sh
case "$*" in
  *compute_cap*) echo {capability} ;;
  *) echo "{name}, {capability}, 580.95.05, {mib}" ;;
esac
"""
        place = f"/run/card-{self._name}"
        machine.exec(["sh", "-c", f"printf %s {shlex.quote(text)} >{place} && chmod 755 {place}"])

    def logs(self) -> str:
        """Standard output and error so far, over all its lives; also after `stop`."""
        with self._lock:
            if self._started and not self._over:
                self._look()
            return self._kept_log

    def restarts(self) -> int:
        """How often the server was started again: by dockerd the container, or in it by AWS's supervisor."""
        with self._lock:
            if self._started and not self._over:
                self._look()
            return self._kept_restarts

    def _look(self) -> None:
        """Read docker's own files, which costs no command in the machine; what was seen last stays when it is gone."""
        folder = f"/var/lib/docker/containers/{self._id}"
        with contextlib.suppress(RuntimeError, OSError, ValueError):
            lines = self._docker.machine.file(f"{folder}/{self._id}-json.log").read_text(errors="replace").splitlines(keepends=True)
            self._kept_log = "".join(json.loads(line)["log"] for line in lines if line.endswith("\n"))
            document = json.loads(self._docker.machine.file(f"{folder}/config.v2.json").read_text())
            self._kept_restarts = int(document["RestartCount"]) + len(SERVER_ENDED.findall(self._kept_log))

    def connect(self, port: int = 8080, timeout: float = 5.0) -> int:
        """A connected TCP socket's file descriptor. Raises ConnectionRefusedError."""
        if self._over or not self._started:
            raise ConnectionRefusedError(f"{self.spec.name} does not run")
        try:
            return self._docker.machine.connect(port, timeout, address=self._address)
        except (TimeoutError, OSError) as error:  # between two of its lives it has no address
            raise ConnectionRefusedError(str(error)) from error

    def stop(self) -> None:
        """Gone. Already gone is success."""
        with self._lock:
            if self._over:
                return
            if self._started:
                with contextlib.suppress(RuntimeError, TimeoutError):
                    self._docker.machine.exec(["docker", "stop", "--time", "5", self._name], timeout=30)
                self._look()
                with contextlib.suppress(RuntimeError, TimeoutError):
                    self._docker.machine.exec(["docker", "rm", "--force", "--volumes", self._name], timeout=30)
            self._over = True
            self._docker.guests.remove(self.spec.name)
