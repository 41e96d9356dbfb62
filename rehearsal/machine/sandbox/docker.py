"""The sandbox's `docker`: one kind of image, containers as plain processes, the words and codes that scripts rely on."""

from __future__ import annotations

import contextlib
import datetime as dt
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from rehearsal.machine.vllm.start import ask

STATE = Path("/var/lib/sandbox-docker")
ON = Path("/run/sandbox-docker-on")
IMAGES = STATE / "images"
VALUES = {"--name", "--label", "--restart", "--pull", "--log-driver", "--log-opt", "--volume", "-v", "--env", "-e", "--net",
          "--network", "--shm-size", "--ulimit", "--device", "--ipc", "--entrypoint", "--publish", "-p", "--memory"}  # fmt: skip
THROTTLED = "toomanyrequests: You have reached your unauthenticated pull rate limit."


def main(words: list[str]) -> int:
    """One call of `docker`."""
    STATE.mkdir(parents=True, exist_ok=True)
    verb, rest = (words[0], words[1:]) if words else ("", [])
    if verb == "_boot":
        return _boot()
    if verb == "_supervise":
        return _supervise(STATE / rest[0])
    if not ON.exists():
        return _error("Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon running?")
    if verb == "image":
        verb, rest = f"image {rest[0]}", rest[1:]
    plain = [word for word in rest if not word.startswith("-")]
    commands = {"pull": _pull, "image inspect": _image, "inspect": _inspect, "stop": _stop, "rm": _remove, "logs": _logs}
    if verb == "info":
        return 0
    if verb == "run":
        return _run(rest)
    if verb == "ps":
        print("\n".join(box.name for box in _containers() if _read(box)["State"]["Status"] == "running"))
        return 0
    if verb not in commands:
        return _error(f"the sandbox's docker has no {verb!r}")
    return commands[verb](plain[-1] if plain else "", rest)


def install() -> None:
    """What the package leaves: a dockerd on PATH, and the daemon running."""
    target = Path("/var/lib/sandbox-docker/dockerd")
    STATE.mkdir(parents=True, exist_ok=True)
    target.write_text("#!/bin/sh\nexit 0\n")
    target.chmod(0o755)
    for folder in os.environ.get("PATH", "").split(":"):
        if folder.endswith("/bin") and Path(folder, "docker").is_file() and os.access(folder, os.W_OK):
            with contextlib.suppress(FileExistsError):
                Path(folder, "dockerd").symlink_to(target)
            break
    daemon(on=True)


def daemon(*, on: bool) -> None:
    """Turn the daemon on or off; containers go with it."""
    if on:
        STATE.mkdir(parents=True, exist_ok=True)
        (STATE / "enabled").touch()
        ON.touch()
    else:
        ON.unlink(missing_ok=True)
        for box in _containers():
            _kill(box)


def _boot() -> int:
    """The daemon at power-on: containers that ran come back."""
    if not (STATE / "enabled").exists():
        return 0
    ON.touch()
    for box in _containers():
        if _read(box)["State"]["Status"] in ("running", "restarting"):
            _start(box)
    return 0


def _pull(reference: str, _: list[str]) -> int:
    fault = ask("behaviour").get("faults", {}).get("registry", "")
    if fault in ("down", "throttled"):
        return _error(f"Error response from daemon: {THROTTLED}" if fault == "throttled" else "connection reset by peer")
    known = json.loads(Path(os.environ["SANDBOX_IMAGES"]).read_text())
    if reference not in known:
        return _error(f"Error response from daemon: manifest for {reference} not found: manifest unknown")
    ask("hold/image")
    with IMAGES.open("a") as file:
        file.write(reference + "\n")
    print(f"Status: Downloaded newer image for {reference}")
    return 0


def _image(reference: str, _: list[str]) -> int:
    if IMAGES.exists() and reference in IMAGES.read_text().splitlines():
        print("[{}]")
        return 0
    return _error(f"Error: No such image: {reference}")


def _run(words: list[str]) -> int:
    options: dict[str, list[str]] = {}
    at = 0
    while at < len(words) and words[at].startswith("-"):
        name, equals, value = words[at].partition("=")
        if not equals and name in VALUES:
            at += 1
            value = words[at]
        options.setdefault(name, []).append(value)
        at += 1
    image, command = words[at], words[at + 1 :]
    if _image(image, []) != 0:
        return 125
    name = (options.get("--name") or [f"box-{os.getpid()}"])[0]
    box = STATE / f"{name}.json"
    if box.exists():
        return _error(f'docker: Error response from daemon: Conflict. The container name "/{name}" is already in use.', 125)
    for volume in options.get("--volume", []) + options.get("-v", []):
        source, target = volume.split(":")[:2]
        command = [
            source + word.removeprefix(target) if word == target or word.startswith(f"{target}/") else word for word in command
        ]
    environment = dict(pair.split("=", 1) for pair in options.get("--env", []) + options.get("-e", []) if "=" in pair)
    document = {
        "Id": f"{abs(hash((name, time.time()))):064x}"[:64],
        "Name": f"/{name}",
        "Config": {"Labels": dict(label.split("=", 1) for label in options.get("--label", [])), "Image": image},
        "State": {"Status": "created", "StartedAt": "", "ExitCode": 0, "OOMKilled": False},
        "RestartCount": 0,
        "sandbox": {"command": command, "environment": environment, "restart": options.get("--restart", ["no"])[0], "pid": 0},
    }
    _write(box, document)
    if "--detach" in options or "-d" in options:
        _start(box)
        print(document["Id"])
        return 0
    return subprocess.call(_argv(command), env=_environment(environment))


def _start(box: Path) -> None:
    """In the background, and not before the container runs."""
    argv = [sys.executable, "-S", "-m", "rehearsal.machine.sandbox.commands", "docker", "_supervise", box.name]
    document = _read(box)
    document["State"]["Status"] = "created"
    _write(box, document)
    with Path("/dev/null").open("r+b") as null:
        subprocess.Popen(argv, stdin=null, stdout=null, stderr=null, start_new_session=True)
    until = time.monotonic() + 10
    while _read(box)["State"]["Status"] == "created" and time.monotonic() < until:
        time.sleep(0.02)


def _supervise(box: Path) -> int:
    """Run it, keep its output line by line, start it again as its policy says."""
    while True:
        document = _read(box)
        inner = document["sandbox"]
        process = subprocess.Popen(
            _argv(inner["command"]), env=_environment(inner["environment"]), stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", start_new_session=True,
        )  # fmt: skip
        document["State"] |= {"Status": "running", "StartedAt": _now()}
        inner["pid"] = process.pid
        _write(box, document)
        assert process.stdout is not None
        with box.with_suffix(".log").open("a") as log:
            for line in process.stdout:
                log.write(f"{_now()} {line.rstrip()}\n")
                log.flush()
        code = process.wait()
        document = _read(box)
        document["State"] |= {"ExitCode": code if code >= 0 else 128 - code}
        if document["State"]["Status"] == "exited" or document["sandbox"]["restart"] == "no":
            document["State"]["Status"] = "exited"
            _write(box, document)
            return 0
        document["State"]["Status"], document["RestartCount"] = "restarting", document["RestartCount"] + 1
        _write(box, document)
        time.sleep(0.2)
        if not box.exists():
            return 0


def _inspect(name: str, _: list[str]) -> int:
    box = STATE / f"{name}.json"
    if not box.exists():
        return _error(f"Error: No such container: {name}")
    print(json.dumps([_read(box)]))
    return 0


def _stop(name: str, _: list[str]) -> int:
    box = STATE / f"{name}.json"
    if not box.exists():
        return _error(f"Error response from daemon: No such container: {name}")
    _kill(box)
    return 0


def _remove(name: str, _: list[str]) -> int:
    if (code := _stop(name, [])) == 0:
        box = STATE / f"{name}.json"
        box.unlink()
        box.with_suffix(".log").unlink(missing_ok=True)
    return code


def _logs(name: str, words: list[str]) -> int:
    log = STATE / f"{name}.log"
    since = words[words.index("--since") + 1] if "--since" in words else ""
    for line in log.read_text().splitlines() if log.exists() else []:
        stamp, _, text = line.partition(" ")
        if stamp >= since:
            print(line if "--timestamps" in words or "-t" in words else text)
    return 0


def _kill(box: Path) -> None:
    document = _read(box)
    document["State"]["Status"] = "exited"
    _write(box, document)
    pid = int(document["sandbox"]["pid"])
    for _ in range(100):
        try:
            os.kill(pid, signal.SIGTERM)
        except ProcessLookupError:
            return
        time.sleep(0.05)
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def _argv(command: list[str]) -> list[str]:
    if command[:1] != ["vllm"]:
        return command
    return [sys.executable, "-S", "-m", "rehearsal.machine.vllm.server", *command[1:]]


def _environment(more: dict[str, str]) -> dict[str, str]:
    return {**{name: os.environ[name] for name in ("PATH", "PYTHONPATH", "STAND_IN_OPTIONS")}, **more}


def _containers() -> list[Path]:
    return sorted(STATE.glob("*.json"))


def _read(box: Path) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(box.read_text())
    return document


def _write(box: Path, document: dict[str, Any]) -> None:
    part = box.with_suffix(f".{os.getpid()}")
    part.write_text(json.dumps(document))
    part.replace(box)


def _now() -> str:
    return dt.datetime.now(dt.UTC).strftime("%Y-%m-%dT%H:%M:%S.%f000Z")


def _error(text: str, code: int = 1) -> int:
    print(text, file=sys.stderr)
    return code
