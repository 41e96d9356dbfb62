"""CodeBuild's machine: a booted one with a real dockerd for every build, in which the buildspec's own commands run."""

from __future__ import annotations

import io
import json
import threading
import zipfile
from pathlib import Path
from typing import Any

import yaml

from rehearsal.machine.booted import BootedMachine
from rehearsal.machine.fakes.container import FOLDER
from rehearsal.machine.room import MachineRoom
from rehearsal.sagemaker.contracts import Build, BuildPhase, BuildSpec, CannotStart, RegistryGate
from rehearsal.sagemaker.hosts import DockerMachine

LONGEST_S = 540.0
PROGRAM = "/usr/local/lib/rehearsal/codebuild.py"


class Builder:
    """Runs builds (`builder(spec)`, an `ImageBuilder`). `machines` are those of the builds that run now, by the build's name.

    With `shared` they run in that machine, which spares a boot and a pull of the base: what was built is taken out of it again, so
    that an endpoint really pulls it. Without, each has a machine of its own; cutting its power kills the build.
    """

    def __init__(self, room: MachineRoom, gate: RegistryGate, shared: DockerMachine | None = None) -> None:
        self._room, self._gate, self._shared = room, gate, shared
        self._lock = threading.Lock()
        self._number = 0
        self.machines: dict[str, DockerMachine] = {}

    def __call__(self, spec: BuildSpec) -> Build:
        """Run a build to its end; one whose machine dies has failed."""
        try:
            wanted = _phases(spec.buildspec)
        except (ValueError, yaml.YAMLError) as error:
            return _failed("DOWNLOAD_SOURCE", f"YAML_FILE_ERROR: {error}")
        with self._lock:
            self._number += 1
            name = f"codebuild-{self._number}"
            machine = self._shared or DockerMachine(self._room, name, self._gate)
            self.machines[spec.name] = machine
        folder = machine.machine.folder / "out" / name  # the machine's /out
        try:
            return _run(machine, folder, spec, wanted)
        except (CannotStart, RuntimeError, TimeoutError) as error:
            return _failed("BUILD", f"CLIENT_ERROR: the build's machine is gone: {error}", _log(folder))
        finally:
            with self._lock:
                self.machines.pop(spec.name, None)
            machine.guests.remove(name)
            if machine is not self._shared:
                machine.delete()


def _run(machine: DockerMachine, folder: Path, spec: BuildSpec, wanted: dict[str, Any]) -> Build:
    machine.guests.add(folder.name, spec.cloud)
    (folder / "src").mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(io.BytesIO(spec.source)) as packed:
        packed.extractall(folder / "src")
    (folder / "build.json").write_text(json.dumps(wanted))
    booted = machine.up()
    given = {
        "HOME": f"/run/{folder.name}",
        "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI": f"{FOLDER}{folder.name}",
        "CODEBUILD_SRC_DIR": f"/out/{folder.name}/src",
        **wanted["variables"],
        **spec.environment,
    }
    before = _images(booted)
    variables = (f"{name}={value}" for name, value in given.items())
    booted.exec(["env", *variables, "python3", "-B", PROGRAM, f"/out/{folder.name}"], timeout=LONGEST_S)
    if made := _images(booted) - before:
        booted.exec(["docker", "image", "rm", "--force", *made], timeout=60)
    booted.exec(["rm", "-rf", given["HOME"]])  # the registries' passwords
    result = folder / "result.json"
    if not result.exists():
        raise RuntimeError("its agent ended without a result")
    phases = [BuildPhase("DOWNLOAD_SOURCE", "SUCCEEDED", 0.0), *(BuildPhase(**phase) for phase in json.loads(result.read_text()))]
    return Build(all(phase.status == "SUCCEEDED" for phase in phases), phases, _log(folder))


def _images(machine: BootedMachine) -> set[str]:
    """Names of tagged images: what is pulled by digest has none, and stays for the next build."""
    listed = machine.exec(["docker", "image", "ls", "--format", "{{.Repository}}:{{.Tag}}"], timeout=30).stdout
    return {line for line in listed.split() if not line.endswith(":<none>")}


def _log(folder: Path) -> str:
    file = folder / "log"
    return file.read_text(errors="replace") if file.exists() else ""


def _phases(buildspec: str) -> dict[str, Any]:
    """Commands by phase, variables, shell. Raises ValueError for what the stand-in does not run, rather than leave it out."""
    document = yaml.safe_load(buildspec)
    if not isinstance(document, dict) or str(document.get("version")) != "0.2":
        raise ValueError("the buildspec is not of version 0.2")
    strange = set(document) - {"version", "env", "phases"}
    env = document.get("env") or {}
    strange |= set(env) - {"shell", "variables"}
    phases = {name: phase or {} for name, phase in (document.get("phases") or {}).items()}
    strange |= {key for phase in phases.values() for key in set(phase) - {"commands"}}
    strange |= set(phases) - {"install", "pre_build", "build", "post_build"}
    if strange:
        raise ValueError(f"the stand-in for CodeBuild does not know {', '.join(sorted(map(str, strange)))}")
    commands = {name: [str(command) for command in phase.get("commands") or ()] for name, phase in phases.items()}
    variables = {str(name): str(value) for name, value in (env.get("variables") or {}).items()}
    return {"phases": commands, "variables": variables, "shell": env.get("shell", "sh")}


def _failed(phase: str, why: str, log: str = "") -> Build:
    said = f"[Container] Phase complete: {phase} State: FAILED\n{why}\n"
    return Build(False, (BuildPhase(phase, "FAILED", 0.0, why),), log + said)
