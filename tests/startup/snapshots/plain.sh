#!/bin/bash
# flexserve: what this machine does at each boot. Rendered from a plan; change the stack file, not this.
# It may be run again at any time: a phase whose effect is there is skipped, one that was cut off is done again.
set -euo pipefail
export HOME=/root LC_ALL=C.UTF-8 PATH="${PATH:+$PATH:}/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
umask 022

readonly STACK=tpu-v6e DEPLOYMENT=k3j9x2 ATTEMPT=0
readonly STATE=/var/lib/flexserve RUN=/run/flexserve
readonly PINNED=yes
readonly IMAGE=vllm/vllm-tpu@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef
readonly MODEL_DIR=/var/lib/flexserve/models/google--gemma-4-E2B-it/89abcdef0189abcdef0189abcdef0189abcdef01

readonly DEBS=/run/flexserve-debs # on the tmpfs: needed once, and written to no disk
readonly APT=(-o Acquire::Retries=2 -o Acquire::Languages=none -o DPkg::Lock::Timeout=60 -o Dpkg::Use-Pty=0
  -o Dir::Cache::archives="$DEBS" -o Dpkg::Options::=--force-unsafe-io)

# The packages of Docker, as far as they are installed.
docker_packages() {
  dpkg-query -W -f '${db:Status-Status} ${Package}\n' docker.io docker-ce containerd containerd.io runc tini pigz 2>/dev/null |
    sed -n 's/^installed //p' || true
}

# One go of the installation. It starts with what a go that was cut off has left. `--reinstall`: what is there may be broken,
# dpkg's own notes too: one that is empty keeps dpkg from doing anything, and scripts that are empty end with an error.
# Nothing waits for the disk here (`attempt-unsynced`); the boot does, once, at its end. systemd is not told of each package:
# `start_early` starts the daemons. pigz unpacks image layers about twice as quickly as dockerd itself (it is used when it is there).
install_docker() {
  local names=(docker.io pigz) early
  if [ "${1:-}" = --reinstall ]; then
    find /var/lib/dpkg/updates -type f -empty -delete || true
    mapfile -t -O "${#names[@]}" names < <(docker_packages)
    dpkg --configure -a || true
  else
    dpkg --configure -a
  fi
  apt-get -q "${APT[@]}" update
  mkdir -p "$DEBS/partial"
  printf -v early 'bash %q early' "$0"
  SYSTEMD_OFFLINE=1 apt-get -q -y "${APT[@]}" -o Dpkg::Options::="--status-logger=$early" install --no-install-recommends \
    "$@" "${names[@]}"
}

# dpkg's status lines on standard input: a daemon starts when its files are there, while dpkg still sets the packages up.
# Until the last line is read, whatever became of the daemon: dpkg would end with its reader. The phase `docker` tries again.
start_early() {
  unset SYSTEMD_OFFLINE
  rm -f /var/lib/man-db/auto-update || true # no index of all manuals for the few that come with Docker
  local line unit
  while IFS= read -r line; do
    case "$line" in
      "status: containerd: unpacked" | "status: containerd:"*": unpacked") unit=containerd ;;
      "status: docker.io: unpacked" | "status: docker.io:"*": unpacked")
        groupadd --system --force docker || true # the socket's; the package adds it only while it is set up
        unit=docker
        ;;
      *) continue ;;
    esac
    systemctl start --no-block "$unit" || true
  done
}

# install Docker, hold its packages, turn automatic upgrades off
done_packages() {
  [ -e "$STATE/packages" ] && command -v dockerd >/dev/null && ! lost_power
}
phase_packages() {
  export DEBIAN_FRONTEND=noninteractive NEEDRESTART_SUSPEND=1
  # Automatic upgrades hold dpkg's lock at the first boot, and would take Docker down later: off for this machine's short life.
  # Beside the rest, since systemd reads all of its units anew: an installation that meets the lock meanwhile is tried again.
  timeout 60 systemctl mask --now apt-daily.timer apt-daily-upgrade.timer apt-daily.service apt-daily-upgrade.service \
    unattended-upgrades.service &
  local masking=$! again=()
  if [ -e "$STATE/installing" ] || ! command -v dockerd >/dev/null; then
    if lost_power; then again=(--reinstall --allow-change-held-packages); fi
    cp /proc/sys/kernel/random/boot_id "$STATE/installing" # an installation that was cut off is done again
  onboard attempt-unsynced packages 60 bash "$0" install "${again[@]}"
    systemctl start --no-block docker || true # the phase `docker` waits for it, and tries again
    rm -rf "$DEBS"
  fi
  docker_packages | sed 's/$/ hold/' | dpkg --set-selections || true
  wait "$masking" || true
  touch "$STATE/packages"
}
# The machine went down after an installation began and before it was on the disk for sure: files may be empty.
lost_power() {
  [ -e "$STATE/installing" ] && ! cmp -s "$STATE/installing" /proc/sys/kernel/random/boot_id
}

# start Docker, wait until it answers
done_docker() {
  timeout 60 docker info >/dev/null 2>&1
}
phase_docker() {
  systemctl is-enabled --quiet docker || systemctl enable docker || true
  systemctl start docker || { systemctl daemon-reload && systemctl restart docker; } || true
  local tries=0
  until timeout 20 docker info >/dev/null 2>&1; do
    tries=$((tries + 1))
    if ((tries == 20)); then
      journalctl --unit=docker --no-pager --lines=20 || true
      onboard fail docker-down
    fi
    sleep 1
  done
}
# fetch the Hub token from Secret Manager as the machine's own identity
done_token() {
  [ -e "$MODEL_DIR/.complete" ]
}
phase_token() {
  onboard token google-secret-manager your-project hf-token
}
# pull the container image by digest
done_image() {
  docker image inspect "$IMAGE" >/dev/null 2>&1
}
phase_image() {
  onboard attempt image 60 docker pull "$IMAGE"
}
# download the model's files at the pinned revision, check them
done_weights() {
  [ -e "$MODEL_DIR/.complete" ]
}
phase_weights() {
  onboard weights google/gemma-4-E2B-it 89abcdef0189abcdef0189abcdef0189abcdef01 hf-token "$MODEL_DIR"
}
# What the server is started with. A hash of it tells whether a running one is the wanted one.
# shellcheck disable=SC2016 # every word is meant as it is written
readonly SERVER=(
  docker
  run
  --detach
  --name
  flexserve-vllm
  --label
  flexserve.config=0cd467642a221c53cf7e41815a4548be
  --restart
  unless-stopped
  --pull
  never
  --log-driver
  json-file
  --log-opt
  max-size=64m
  --log-opt
  max-file=3
  --volume
  /var/lib/flexserve/models/google--gemma-4-E2B-it/89abcdef0189abcdef0189abcdef0189abcdef01:/models/google/gemma-4-E2B-it:ro
  --volume
  /var/lib/flexserve/xla-cache:/var/cache/flexserve-xla
  --env
  DO_NOT_TRACK=1
  --env
  HF_HUB_OFFLINE=1
  --env
  JAX_COMPILATION_CACHE_DIR=/var/cache/flexserve-xla
  --env
  VLLM_NO_USAGE_STATS=1
  --env
  VLLM_XLA_CACHE_PATH=/var/cache/flexserve-xla
  --privileged
  --net=host
  -v
  /dev/shm:/dev/shm
  --shm-size
  10gb
  vllm/vllm-tpu@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef
  vllm
  serve
  /models/google/gemma-4-E2B-it
  --served-model-name
  google/gemma-4-E2B-it
  --port
  8000
  --max-model-len
  65536
  --enable-auto-tool-choice
  --limit-mm-per-prompt
  '{"image":4,"audio":1}'
)

server() {
  onboard server "$1" docker 0cd467642a221c53cf7e41815a4548be 8000 chat 3600 "${SERVER[@]}"
}

# start the server, wait until its weights are on the accelerator
done_load() {
  false
}
phase_load() {
  server load
}
# wait until the server has compiled
done_compile() {
  false
}
phase_compile() {
  server compile
}
# ask for an answer that holds a nonce
done_serving() {
  false
}
phase_serving() {
  server serving
}
# name=limit in seconds:what it waits for
readonly STEPS=(
  packages=600:
  docker=300:packages
  token=1800:
  image=1800:docker
  weights=1800:token
  load=1200:image+weights
  compile=1800:load
  serving=600:compile
)

readonly LIB=/run/flexserve/lib/11bccfae2521 # on the tmpfs: a full disk must not keep the boot from saying so

onboard() {
  (cd "$LIB" && exec python3 -S -E -m startup.onboard "$@")
}

put() {
  cat >"$LIB/$1"
}

unpack() {
  mkdir -p "$LIB"/startup "$LIB"/startup/onboard
  put startup/__init__.py <<'FLEXSERVE_FILE'
FLEXSERVE_FILE
  put startup/onboard/__init__.py <<'FLEXSERVE_FILE'
"""What runs on the machine itself: Python's standard library only, 3.10 or later (Ubuntu 22.04's), carried inside the boot script.

Every program that leaves the machine's own process is a command on PATH (`curl`, `docker`): what a boot does can be read from
the commands that it starts.
"""
FLEXSERVE_FILE
  put startup/onboard/__main__.py <<'FLEXSERVE_FILE'
"""What the boot script calls: `boot`, and the phases that are more than a few commands.

The process ends at once when its part is done: nobody waits for transfers that a failure made pointless.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from startup.onboard import causes


def main(words: Sequence[str]) -> int:
    """Run one part; the exit status is the phase's."""
    match list(words):
        case ["boot", tell, script, *steps]:
            from startup.onboard import boot

            return boot.main(tell, script, steps)
        case ["job", tell, script, *steps]:
            from startup.onboard import boot

            return boot.main(tell, script, steps, ends="done")
        case ["fail", cause]:
            raise causes.Failed(causes.say(cause))
        case ["attempt-unsynced", *rest] if rest:
            from startup.onboard import unsynced

            unsynced.begin()
            return main(["attempt", *rest])
        case ["attempt", phase, patience, *command] if command:
            from startup.onboard.attempt import attempt

            attempt(phase, command, patience=float(patience))
        case ["token", "google-secret-manager", project, secret]:
            from startup.onboard import secret as secrets

            secrets.fetch(project, secret)
        case ["token", "aws-secrets-manager", region, secret]:
            from startup.onboard import secret_aws

            secret_aws.fetch(region, secret)
        case ["driver", gpu, capability]:
            from startup.onboard import driver

            driver.check(gpu, capability)
        case ["build", region, bucket, folder, capability, place]:
            from startup.onboard import build

            build.take(build.Kept(region, bucket, folder, capability), Path(place))
        case ["take-or-make" | "make" as how, region, bucket, folder, capability, place, *recipe]:
            from startup.onboard import build, making

            making.main(build.Kept(region, bucket, folder, capability), Path(place), recipe, take=how != "make")
        case ["making", name, region, bucket, folder, capability, place, *recipe]:
            from startup.onboard import build, making

            making.phase(name, build.Kept(region, bucket, folder, capability), Path(place), recipe)
        case ["report", region, bucket, key]:
            from startup.onboard import keeping

            return 0 if keeping.report(region, bucket, key) else 1
        case ["reclaim"]:
            from startup.onboard import reclaim

            reclaim.watch()
        case ["weights", model, revision, secret, folder]:
            from startup.onboard import hub, places

            try:
                hub.download(hub.Source(model, revision, secret), Path(folder))
            finally:
                places.HUB_HEADER.unlink(missing_ok=True)
        case ["server", phase, engine, config, port, kind, starting_s, *run]:
            from startup.onboard import server
            from startup.onboard.engine import named

            wanted = server.Wanted(config, int(port), kind == "chat", int(starting_s), run, named(engine))
            return {"load": server.load, "compile": server.compile_, "serving": server.serving}[phase](wanted)
        case _:
            print(f"not a part of the boot: {' '.join(words)}", file=sys.stderr)
            return 2
    return 0


def ended(words: Sequence[str]) -> int:
    """`main`, with a failure noted for the report and no traceback for the log."""
    try:
        return main(words)
    except causes.Failed as failed:
        causes.note(failed.text)
        print(failed.text, flush=True)
        return 1


if __name__ == "__main__":
    status = ended(sys.argv[1:])
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)
FLEXSERVE_FILE
  put startup/onboard/attempt.py <<'FLEXSERVE_FILE'
"""Run a command until it works: again while its output shows a cause that may pass, at once over when it shows another."""

from __future__ import annotations

import itertools
import subprocess
import sys
from collections import Counter, deque
from collections.abc import Iterator, Sequence

from startup.onboard import causes


def pauses(longest: float = 60) -> Iterator[float]:
    """Seconds between tries: 1, 2, 4, … up to `longest`."""
    return (min(2.0 ** min(turn, 30), longest) for turn in itertools.count())


def sleep(seconds: float) -> None:
    """Wait by the `sleep` on PATH: who looks at the process list sees what a boot waits for."""
    subprocess.run(["sleep", f"{seconds:g}"], check=False)


def attempt(phase: str, argv: Sequence[str], *, patience: float, unknown: int = 3) -> None:
    """Raise `Failed` when it cannot work, or after `unknown` failures for no known cause. The phase's limit bounds the rest.

    `patience`: seconds, over all tries, that a `throttled` cause is waited for: by then the limit is one of hours, not of a burst.
    """
    strange, waited, met = 0, 0.0, Counter[str]()
    for pause in pauses():
        lines: deque[str] = deque(maxlen=60)
        process = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, encoding="utf-8", errors="replace")
        assert process.stdout is not None
        for line in process.stdout:
            lines.append(line.rstrip())
            sys.stdout.write(line)
            sys.stdout.flush()
        status = process.wait()
        if status == 0:
            return
        found = causes.find(lines, phase)
        if found and not found[0].retry:
            raise causes.Failed(found[1])
        text = found[1] if found else f"{causes.say('failed', status=status)} ({argv[0]}: {causes.last_words(lines)})"
        strange += found is None
        if strange >= unknown:
            raise causes.Failed(text)
        met[found[0].id if found else ""] += 1
        if found and met[found[0].id] == found[0].tries:
            raise causes.Failed(f"{text} (tried {found[0].tries} times)")
        if found and found[0].throttled:
            pause = min(pause, patience - waited)
            if pause <= 0:
                raise causes.Failed(f"{text} (asked for {patience:g} s, image.throttled_wait)")
            waited += pause
        causes.note(text)
        print(f"again in {pause:g} s: {text}", flush=True)
        sleep(pause)
FLEXSERVE_FILE
  put startup/onboard/boot.py <<'FLEXSERVE_FILE'
"""The boot: starts each phase when what it needs is there, keeps its limit, and reports.

Its exit status: 0 serving, 1 failed, 143 told to stop.
"""

from __future__ import annotations

import hashlib
import os
import queue
import signal
import subprocess
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from startup.onboard import causes, places, process
from startup.onboard.redact import Redactor
from startup.onboard.report import Report, tell_guest_attributes, tell_nobody

TAIL_CHARACTERS = 2400
STOPPED = 143
SECRET_FILES = (places.HUB_HEADER, places.IDENTITY_HEADER, places.AWS_SESSION, places.AWS_CURL)
TELLS = {"guest-attributes": tell_guest_attributes, "nobody": tell_nobody}  # EC2 has no such channel: SSM reads the files
HEARTBEAT = 60.0  # seconds: the state's `updated_at` is never older while the boot lives


@dataclass(frozen=True)
class Step:
    """One phase as the script declares it: `name=limit` or `name=limit:need+need`; limit in seconds."""

    name: str
    limit: int
    needs: tuple[str, ...]

    @staticmethod
    def read(word: str) -> Step:
        """Read such a word."""
        name, _, rest = word.partition("=")
        limit, _, needs = rest.partition(":")
        return Step(name, int(limit), tuple(need for need in needs.split("+") if need))


class Record:
    """What is reported of one phase; `began` is the run's start on the monotonic clock."""

    def __init__(self, report: Report, step: Step, run: str, began: float) -> None:
        self._report = report
        self._step = step
        self._run = run
        self._start = time.monotonic()
        self._at = self._start - began

    def seconds(self) -> float:
        """Since the phase began."""
        return time.monotonic() - self._start

    def keep(self, result: str, cause: str = "", tail: str = "") -> None:
        """The phase's document as it is now."""
        self._report.document(
            f"phase-{self._step.name}",
            {
                "name": self._step.name,
                "start_s": round(self._at, 3),
                "seconds": None if result == "running" else round(self.seconds(), 3),
                "result": result,
                "needs": self._step.needs,
                "cause": cause,
                "log_tail": tail,
                "limit_s": self._step.limit,
                "run": self._run,
            },
        )


class Boot:
    """One run of the script. `ends`: its state when all went well."""

    def __init__(self, script: Path, steps: Sequence[Step], report: Report, redact: Redactor, ends: str = "serving") -> None:
        self._script = script
        self._ends = ends
        self._steps = tuple(steps)
        self._report = report
        self._redact = redact
        self._sha256 = hashlib.sha256(script.read_bytes()).hexdigest()
        self._boot_id = places.BOOT_ID.read_text(encoding="ascii").strip()
        self._began = time.monotonic()
        self._started_at = int(time.time())
        self._run = f"{time.time_ns():x}"
        self._running: dict[str, Step] = {}
        self._failure = ("", "")
        self._ended: queue.Queue[tuple[Step, str]] = queue.Queue()
        self.stop = threading.Event()

    def run(self) -> int:
        """All phases. The first failure is the boot's; phases that run beside it may end, no other starts."""
        waiting, done = list(self._steps), set[str]()
        self._state("booting")
        while waiting or self._running:
            ready = [step for step in waiting if set(step.needs) <= done and not self._failure[0] and not self.stop.is_set()]
            for step in ready:
                waiting.remove(step)
                self._running[step.name] = step
                threading.Thread(target=self._phase, args=(step,), daemon=True).start()
            if not self._running:
                break
            if ready:
                self._state("booting")
            try:
                step, result = self._ended.get(timeout=HEARTBEAT)
            except queue.Empty:
                self._state("booting")
                continue
            del self._running[step.name]
            if result != "failed":
                done.add(step.name)
        return self._end()

    def _end(self) -> int:
        if self._failure[0]:
            self._state("failed")
            self._say(f"failed in phase {self._failure[0]}: {self._failure[1]}")
            return 1
        if self.stop.is_set():
            self._say("told to stop; the next run goes on from here")
            return STOPPED
        self._state(self._ends)
        self._say(f"{self._ends} after {time.monotonic() - self._began:.1f} s")
        return 0

    def _phase(self, step: Step) -> None:
        result = "failed"
        try:
            result = self._work(step)
        except Exception as error:  # whatever it is: the boot must hear of it
            self._fail(step, causes.say("failed", status=repr(error)))
        finally:
            self._ended.put((step, result))

    def _work(self, step: Step) -> str:
        """Run one phase and report it; its result."""
        cause_file = places.RUN / f"cause-{step.name}"
        warning_file = cause_file.with_name(f"{cause_file.name}.warning")
        for file in (cause_file, warning_file):
            file.unlink(missing_ok=True)
        record = Record(self._report, step, self._run, self._began)
        shown = ""

        def tick() -> None:
            nonlocal shown
            reason = self._noted(cause_file)
            if reason != shown and not self.stop.is_set():
                shown = reason
                self._say(f"phase {step.name} waits: {reason}")
                record.keep("running", reason)

        record.keep("running")
        self._say(f"phase {step.name} starts, at most {step.limit} s")
        ended = process.run(
            ["bash", str(self._script), "phase", step.name],
            {**os.environ, process.MARK: process.mark(), "FLEXSERVE_CAUSE": str(cause_file), "FLEXSERVE_LIMIT": str(step.limit)},
            step.limit,
            lambda line: self._report.line(f"{step.name}| {self._redact(line)}"),
            stop=self.stop,
            tick=tick,
        )
        if ended.status in (0, places.SKIPPED):
            result = "done" if ended.status == 0 else "skipped"
            warning = self._noted(warning_file)
            record.keep(result, warning)
            self._say(f"phase {step.name} {result} in {record.seconds():.1f} s" + (f", but {warning}" if warning else ""))
            return result
        if self.stop.is_set():
            record.keep("failed", "stopped: the boot was told to stop")
            return "failed"
        tail = self._redact("\n".join(ended.tail))[-TAIL_CHARACTERS:]
        cause = self._redact(cause_of(step, ended, self._noted(cause_file)))
        record.keep("failed", cause, tail)
        for line in [*tail.splitlines(), *(_disks() if cause.startswith("no-space") else ())]:
            self._report.line(f"flexserve: {step.name}| {line}", loud=True)
        self._say(f"phase {step.name} failed after {record.seconds():.1f} s: {cause}")
        self._fail(step, cause)
        return "failed"

    def _fail(self, step: Step, cause: str) -> None:
        if not self._failure[0]:  # the first one is the boot's
            self._failure = (step.name, cause)
            self._state("failed")

    def _noted(self, cause_file: Path) -> str:
        try:
            return self._redact(cause_file.read_text(encoding="utf-8").strip())
        except OSError:
            return ""

    def _state(self, state: str) -> None:
        phase, cause = self._failure
        if not phase:
            phase = next(
                (step.name for step in self._steps if step.name in self._running),
                self._steps[-1].name if state == self._ends else "",
            )
        self._report.document(
            "state",
            {
                "state": "failed" if self._failure[0] else state,
                "script": self._sha256,
                "phase": phase,
                "cause": cause,
                "started_at": self._started_at,
                "updated_at": int(time.time()),
                "boot_id": self._boot_id,
                "run": self._run,
            },
        )

    def _say(self, text: str) -> None:
        self._report.line(f"flexserve: {text}", loud=True)


def cause_of(step: Step, ended: process.Ended, noted: str) -> str:
    """Why a phase failed: what it said itself, else what its output shows, else its status."""
    if noted:
        return f"{noted} (gave up after {step.limit} s)" if ended.status is None else noted
    if found := causes.find(ended.tail, step.name):
        return found[1]
    if ended.status is None:
        return causes.say("time-limit", limit=step.limit)
    return f"{causes.say('failed', status=ended.status)} ({causes.last_words(ended.tail)})"


def main(tell: str, script: str, words: Sequence[str], ends: str = "serving") -> int:
    """Run the phases that the script declares, and leave no token behind. `tell`: who hears of it besides the disk."""
    redact = Redactor(SECRET_FILES)
    report = Report(places.STATE, TELLS[tell])
    if swept := process.sweep():
        report.line(f"flexserve: ended {swept} processes of a boot that was cut off", loud=True)
    _forget()
    boot = Boot(Path(script), [Step.read(word) for word in words], report, redact, ends)
    signal.signal(signal.SIGTERM, lambda *_: boot.stop.set())
    places.PID.write_text(f"{os.getpid()}\n", encoding="ascii")
    try:
        return boot.run()
    finally:
        _forget()
        places.PID.unlink(missing_ok=True)
        report.flush(10)
        settle()


def settle() -> None:
    """What dpkg installed without waiting is on the disk from here on. After the report: nobody waits for it.

    Until then an installation that lost power is not trusted (`installing` holds the boot that began it).
    """
    begun = places.STATE / "installing"
    if begun.exists() and (places.STATE / "packages").exists():
        subprocess.run(["sync", "-f", "/usr", str(places.STATE)], check=False)
        begun.unlink(missing_ok=True)


def _disks() -> list[str]:
    done = subprocess.run(
        ["df", "-h", "/", str(places.STATE)], capture_output=True, encoding="utf-8", errors="replace", check=False
    )
    return done.stdout.splitlines()


def _forget() -> None:
    for header in SECRET_FILES:
        header.unlink(missing_ok=True)
FLEXSERVE_FILE
  put startup/onboard/cause.py <<'FLEXSERVE_FILE'
"""The shape of a reason why a phase failed."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Cause:
    """One reason. `phases` empty: any phase.

    `retry`: it may pass by itself, so the phase goes on until its limit; `throttled`: for no longer than `image.throttled_wait`;
    `tries`: for so many tries (0: no such bound).
    """

    id: str
    about: str
    way_out: str
    pattern: str = ""
    phases: tuple[str, ...] = ()
    retry: bool = False
    throttled: bool = False
    tries: int = 0
FLEXSERVE_FILE
  put startup/onboard/causes.py <<'FLEXSERVE_FILE'
"""Why a phase failed: rows with a name, a sentence and a way out. The boot, its log search and the docs read the same rows.

A row with a `pattern` is found in the output of a phase; the others are named by the code that meets them. `{...}` in the
sentences are filled from the pattern's named groups or by that code.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from startup.onboard import causes_ec2
from startup.onboard.cause import Cause

SERVER = ("load", "compile", "serving")
HUB = ("weights",)


ROWS: tuple[Cause, ...] = (
    Cause(
        "no-space",
        "the disk is full",
        "raise target.disk_gb; the log shows what is free",
        r"[Nn]o space left on device|not enough free space|not enough space",
    ),
    # packages, docker
    Cause(
        "apt-lock",
        "another package manager holds dpkg's lock",
        "it ends by itself, or reset the machine",
        r"Could not get lock|Unable to (?:acquire|lock)|dpkg frontend lock|is another process using it|dpkg was interrupted",
        ("packages", "build"),
        retry=True,
    ),
    Cause(
        "apt-missing",
        "the package mirror lists {file} and does not have it",
        "it may be between two states: `flexserve up` runs the boot again; if it stays so, use another host image",
        r"^E: Failed to fetch \S*?(?P<file>[^/\s]+\.deb)\s+404",
        ("packages",),
        retry=True,
        tries=5,
    ),
    Cause(
        "apt-mirror",
        "the package mirror does not answer",
        "give the machine a way out: egress `address` or `nat`",
        r"Failed to fetch|Temporary failure resolving|Could not (?:resolve|connect to)|Unable to fetch some|Connection failed",
        ("packages",),
        retry=True,
    ),
    Cause(
        "apt-no-package",
        "the distribution offers no {package}",
        "use a host image of Debian or Ubuntu, or one with Docker",
        r"Unable to locate package (?P<package>\S+)|Package '?(?P<package2>[^\s']+)'? has no installation candidate",
        ("packages", "build"),
    ),
    Cause(
        "docker-down",
        "Docker's daemon does not start",
        "the log shows its last lines",
        r"Cannot connect to the Docker daemon",
        ("docker", "image", *SERVER),
    ),
    # token
    Cause(
        "secret-missing",
        "secret {secret} does not exist in project {project}, or has no version",
        "flexserve secret put {secret}",
        phases=("token",),
        retry=True,
    ),
    Cause("secret-empty", "secret {secret} is empty", "flexserve secret put {secret}", phases=("token",)),
    Cause(
        "secret-malformed",
        "secret {secret} holds more than one line or signs that no token has",
        "flexserve secret put {secret}",
        phases=("token",),
    ),
    Cause(
        "secret-disabled",
        "the latest version of secret {secret} is disabled or destroyed",
        "flexserve secret put {secret}",
        phases=("token",),
    ),
    Cause(
        "secret-permission",
        "{account} may not read secret {secret}",
        "grant it roles/secretmanager.secretAccessor on the secret (secret.grant `own`)",
        phases=("token",),
        retry=True,
    ),
    Cause(
        "secret-scope",
        "the machine's access scopes leave out Secret Manager",
        "create it with the scope cloud-platform; a running machine cannot gain one",
        phases=("token",),
    ),
    Cause(
        "secret-api-disabled",
        "the Secret Manager API is off in project {project}",
        "gcloud services enable secretmanager.googleapis.com",
        phases=("token",),
        retry=True,
    ),
    Cause(
        "secret-unreachable",
        "Secret Manager does not answer ({detail})",
        "give the subnetwork Private Google Access or the machine a way out",
        phases=("token",),
        retry=True,
    ),
    Cause(
        "no-service-account",
        "the machine has no service account",
        "target.service_account: `own`, or the e-mail of an existing one",
        phases=("token",),
        retry=True,
    ),
    # image
    Cause(
        "image-pull-limit",
        "the registry's pull limit is reached for the machine's address; Docker Hub counts anonymous pulls over hours",
        "put the image into a registry of yours (image.name), or `flexserve down`, then `up`: the next machine has another address",
        r"toomanyrequests|pull rate limit|429 Too Many Requests",
        ("image",),
        retry=True,
        throttled=True,
    ),
    Cause(
        "image-not-found",
        "the registry has no such image",
        "check image.name; a digest may have been deleted",
        r"manifest unknown|manifest for \S+ not found|repository does not exist|: not found|no matching manifest",
        ("image",),
    ),
    Cause(
        "image-denied",
        "the registry refuses the machine",
        "use a public image, or one that the machine's identity may read",
        r"pull access denied|denied:|unauthorized:",
        ("image",),
    ),
    Cause(
        "image-registry",
        "the registry does not answer",
        "give the machine a way out: egress `address` or `nat`",
        r"no such host|dial tcp|i/o timeout|TLS handshake timeout|connection re(?:fused|set)|network is unreachable"
        r"|unexpected EOF|50[0234] |Client\.Timeout|EOF$",
        ("image",),
        retry=True,
    ),
    # weights
    Cause(
        "hub-unauthorized",
        "the Hub refuses the token in secret {secret}",
        "flexserve secret put {secret} with a valid token",
        phases=HUB,
    ),
    Cause(
        "hub-licence",
        "the Hub wants the licence of {model} accepted by the token's owner",
        "accept it at https://huggingface.co/{model}",
        phases=HUB,
    ),
    Cause(
        "hub-needs-token",
        "{model} is not open to anonymous downloads, or does not exist",
        "accept its licence at https://huggingface.co/{model} and set secret.name",
        phases=HUB,
    ),
    Cause("hub-not-found", "the Hub has no {model} at revision {revision}", "check model.name and model.revision", phases=HUB),
    Cause("hub-throttled", "the Hub throttles this token's downloads", "it goes on when the Hub allows", phases=HUB, retry=True),
    Cause(
        "hub-throttled-anonymous",
        "the Hub throttles anonymous downloads from this address",
        "set secret.name: downloads with a token have their own allowance",
        phases=HUB,
        retry=True,
    ),
    Cause(
        "hub-unreachable",
        "the Hub does not answer ({detail})",
        "give the machine a way out: egress `address` or `nat`",
        phases=HUB,
        retry=True,
    ),
    Cause(
        "weights-corrupt",
        "{file} does not match the Hub's checksum or size, three times",
        "try again; if it stays so, pin another model.revision",
        phases=HUB,
    ),
    # load, compile, serving
    Cause(
        "bad-flag",
        "vLLM refuses its arguments: {detail}",
        "change serving.extra_args or the setting behind it; `flexserve up` restarts the container",
        r"vllm(?: serve)?: error: (?P<detail>.+)|api_server\.py: error: (?P<detail2>.+)",
        SERVER,
    ),
    Cause(
        "kv-cache-too-small",
        "a request of serving.max_model_len does not fit the KV cache; vLLM suggests {length}",
        "set serving.max_model_len to {length} or less",
        r"estimated maximum model length is (?P<length>\d+)",
        SERVER,
    ),
    Cause(
        "kv-cache-none",
        "no memory is left for the KV cache beside the weights",
        "raise serving.gpu_memory_utilization, lower max_num_batched_tokens, or take a larger accelerator",
        r"No available memory for the cache blocks|larger than the (?:available KV cache memory|maximum number of tokens)",
        SERVER,
    ),
    Cause(
        "accelerator-busy",
        "another process still holds the accelerator ({detail})",
        "it was retried once; reset the machine",
        r"(?P<detail>/dev/(?:vfio/\d+|accel\d+))\S* ?.{0,40}[Bb]usy|The TPU is already in use by (?P<detail2>.+)"
        r"|(?P<detail3>CUDA-capable device\(s\) is/are busy or unavailable)",
        SERVER,
    ),
    Cause(
        "out-of-memory",
        "the accelerator's memory is too small for these settings",
        "lower serving.max_model_len, max_num_seqs or max_num_batched_tokens",
        r"RESOURCE_EXHAUSTED|Ran out of memory in memory space|CUDA out of memory|OutOfMemoryError",
        SERVER,
    ),
    Cause(
        "shared-memory",
        "an attention kernel asks for more shared memory than this card has",
        "use an image with smaller kernel tiles for this card",
        r"out of resource: shared memory",
        SERVER,
    ),
    Cause(
        "host-out-of-memory",
        "the host's memory is too small: the kernel ended the server",
        "take a machine type with more memory",
        r"^Killed$|oom-kill",
        SERVER,
    ),
    Cause(
        "unsupported-quantization",
        "vLLM has no kernels for this checkpoint's quantization on this accelerator",
        "use the unquantized checkpoint",
        r"[Qq]uantization.{0,80}not (?:currently )?supported|compressed-tensors.{0,60}not (?:implemented|supported)",
        SERVER,
    ),
    Cause(
        "no-accelerator",
        "the server sees no accelerator",
        "reset the machine; if it stays so, its host image does not fit",
        r"No TPU devices|Unable to initialize backend 'tpu'|TPU initialization failed|Failed to infer device type",
        SERVER,
    ),
    Cause(
        "port-in-use",
        "another process holds the server's port",
        "end it, or reset the machine",
        r"[Aa]ddress already in use",
        SERVER,
    ),
    Cause(
        "bad-checkpoint",
        "vLLM cannot read the checkpoint: {detail}",
        "pin another model.revision or image",
        r"(?P<detail>Error while deserializing header.*|does not appear to have a file named \S+)",
        SERVER,
    ),
    Cause(
        "container-refused",
        "Docker does not start the container: {detail}",
        "see the log",
        r"docker: (?:Error response from daemon: )?(?P<detail>.+)",
        SERVER,
    ),
    Cause(
        "crash-loop", "the server ended {times} times before it served ({detail})", "the log shows its last lines", phases=SERVER
    ),
    Cause(
        "chat-crash",
        "the server is healthy, but ends when it is asked ({detail})",
        "the log shows its last lines",
        phases=("serving",),
    ),
    Cause("chat-refused", "the server refuses a plain request ({detail})", "the log shows its last lines", phases=("serving",)),
    Cause(
        "chat-wrong",
        "the server answers, but not what it was asked: {detail}",
        "the weights or the settings are broken: check dtype, kv_cache_dtype and the checkpoint",
        phases=("serving",),
    ),
    *causes_ec2.ROWS,
    # any
    Cause(
        "time-limit",
        "it took longer than its limit of {limit} s",
        "see the log; `flexserve up` runs the boot again",
    ),
    Cause("failed", "it ended with status {status}", "see the log"),
)

BY_ID = {row.id: row for row in ROWS}


class Failed(Exception):
    """A phase cannot go on. `text` is the cause as it is reported."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text


class _Blank(dict[str, str]):
    def __missing__(self, key: str) -> str:
        return f"({key})"


def say(cause: str, **facts: object) -> str:
    """The cause as one line: its name, the sentence, the way out."""
    row = BY_ID[cause]
    known = _Blank({name: str(value) for name, value in facts.items() if value is not None})
    return f"{row.id}: {row.about}; {row.way_out}".format_map(known)


def find(lines: Iterable[str], phase: str) -> tuple[Cause, str] | None:
    """The first row (in the table's order) whose pattern one of the lines holds, and its text. None when none does."""
    text = list(lines)
    for row in ROWS:
        if not row.pattern or (row.phases and phase not in row.phases):
            continue
        for line in reversed(text):
            found = re.search(row.pattern, line)
            if found:
                facts = {name.rstrip("23"): value.strip() for name, value in found.groupdict().items() if value}
                return row, say(row.id, **facts)
    return None


def note(text: str) -> None:
    """Keep why the phase waits, for the report: what it says if its limit passes."""
    place = os.environ.get("FLEXSERVE_CAUSE")
    if place:
        path = Path(place)
        fresh = path.with_name(path.name + ".new")
        fresh.write_text(text, encoding="utf-8")
        fresh.replace(path)


def warn(text: str) -> None:
    """Say what went wrong although the phase goes well: it is reported with its end."""
    print(text, flush=True)
    place = os.environ.get("FLEXSERVE_CAUSE")
    if place:
        Path(f"{place}.warning").write_text(text, encoding="utf-8")


def last_words(lines: Sequence[str]) -> str:
    """The line that most likely says why: the last one that speaks of an error, else the last."""
    wordy = [line.strip() for line in lines if line.strip()]
    errors = [line for line in wordy if re.search(r"\b\w*(?:Error|Exception|error|fatal)\b", line)]
    return (errors or wordy or ["no output"])[-1][-200:]
FLEXSERVE_FILE
  put startup/onboard/causes_ec2.py <<'FLEXSERVE_FILE'
"""Why a phase failed that only a boot on EC2 has, or fails in a way of its own."""

from __future__ import annotations

from startup.onboard.cause import Cause

TOKEN = ("token",)
BUILD = ("build",)

ROWS: tuple[Cause, ...] = (
    # host
    Cause(
        "swap-refused",
        "the system takes no swap ({detail})",
        "take a larger machine type: target.machine_type",
        r"(?P<detail>(?:swapon|mkswap|fallocate): .*(?:failed|cannot|denied|not permitted|No space).*)",
        ("host",),
    ),
    # driver
    Cause(
        "no-driver",
        "the host image has no NVIDIA driver",
        "take a deep learning image with one: target.host_image",
        r"nvidia-smi: (?:command )?not found",
        ("driver",),
    ),
    Cause("driver-down", "the NVIDIA driver does not answer ({detail})", "it goes on when it does", phases=("driver",), retry=True),
    Cause("wrong-gpu", "the machine has {found}, the plan was made for {wanted}", "check target.machine_type", phases=("driver",)),
    # credentials of the machine's own role
    Cause(
        "no-instance-role",
        "the machine has no role to ask with ({detail})",
        "it goes on when the instance profile is there; `flexserve up` attaches it",
        retry=True,
    ),
    # build
    Cause(
        "no-build",
        "bucket {bucket} holds no build {key} that this machine may read",
        "`flexserve build` makes it, then `flexserve up` runs the boot again; or set target.build",
        phases=BUILD,
    ),
    Cause("bucket-unreachable", "the bucket does not answer ({detail})", "it goes on when it does", phases=BUILD, retry=True),
    Cause(
        "build-damaged",
        "the kept build {key} is not what its manifest says ({detail})",
        "delete it and make it again",
        phases=BUILD,
    ),
    Cause(
        "build-without-arch",
        "the kept build holds {found}, and this card needs {wanted}",
        "make it with TORCH_CUDA_ARCH_LIST={wanted}",
        phases=BUILD,
    ),
    Cause(
        "build-not-kept",
        "the build serves here and is not kept: bucket {bucket} did not take {key} ({detail})",
        "the next boot of this machine tries again; or copy {folder} by hand",
        phases=BUILD,
    ),
    Cause(
        "bucket-not-writable",
        "bucket {bucket} takes no build {key} from this machine ({detail})",
        "grant the role s3:PutObject below builds/, or set target.bucket",
    ),
    # build, where a machine makes it
    Cause("build-other-machine", "the build is for {wanted}, this machine is {found}", "check target.machine_type", phases=BUILD),
    Cause(
        "build-no-torch",
        "the host image has no torch to build on ({detail})",
        "take a deep learning image with PyTorch: target.host_image",
        phases=BUILD,
    ),
    Cause(
        "build-torch-cpu",
        "the host image's torch {found} knows no CUDA",
        "take a deep learning image for GPUs: target.host_image",
        phases=BUILD,
    ),
    Cause(
        "build-torch-without-arch",
        "the host image's torch holds {found}, and this card needs {wanted}",
        "take an image line whose torch holds it: target.host_image",
        phases=BUILD,
    ),
    Cause(
        "build-torch-other",
        "{name} is {found}, the build is named for {wanted}",
        "take the host image that the catalog describes: target.host_image",
        phases=BUILD,
    ),
    Cause(
        "build-no-space",
        "{free} GB are free, making the build needs {wanted} GB",
        "raise target.disk_gb",
        phases=BUILD,
    ),
    Cause("build-no-nvcc", "no CUDA compiler of torch's version at {path} ({detail})", "see the log", phases=BUILD),
    Cause(
        "build-commit",
        "vLLM's repository gave {found} for commit {wanted}",
        "check target.build.commit",
        r"not our ref (?P<wanted>[0-9a-f]+)|couldn't find remote ref (?P<wanted2>\S+)",
        BUILD,
    ),
    Cause(
        "build-unknown-release",
        "this release of vLLM has no {detail}",
        "take a release from 0.27.2rc0 on: target.build",
        phases=BUILD,
    ),
    Cause(
        "build-memory",
        "a compiler ran out of memory",
        "fewer go on at a time; with one at a time take a larger machine type: target.machine_type",
        r"\bKilled\b|[Oo]ut of memory|virtual memory exhausted|Cannot allocate memory|died of signal 9|status 137",
        BUILD,
    ),
    Cause(
        "build-compiler",
        "vLLM does not compile ({detail})",
        "the log shows more; another release or commit: target.build",
        r"(?P<detail>\S+\(\d+\): error: .*|\S+:\d+:\d+: (?:fatal )?error: .*|error(?:\[E\d+\])?: could not compile .*)",
        BUILD,
    ),
    Cause(
        "build-source-unreachable",
        "a repository does not answer ({detail})",
        "give the machine a way out: egress `address` or `nat`",
        r"(?P<detail>unable to access '[^']*'|Could not resolve host\S* \S+|Failed to connect to \S+|Failed to fetch \S+"
        r"|Temporary failure resolving \S+|Max retries exceeded|Temporary failure in name resolution"
        r"|RPC failed|early EOF|Read timed out)",
        BUILD,
        retry=True,
        tries=8,
    ),
    Cause(
        "build-does-not-load",
        "vLLM was compiled and does not load ({detail})",
        "see the log; another release: target.build",
        phases=BUILD,
    ),
    Cause("build-not-packed", "the build could not be packed ({detail})", "see the log", phases=BUILD),
    # token
    Cause(
        "aws-secret-missing",
        "secret {secret} does not exist in {region}, or has no value",
        "flexserve secret put {secret}",
        phases=TOKEN,
        retry=True,
    ),
    Cause(
        "aws-secret-permission",
        "{account} may not read secret {secret}, or there is no such secret",
        "flexserve secret put {secret}; or grant the role secretsmanager:GetSecretValue on it (secret.grant `own`)",
        phases=TOKEN,
        retry=True,
    ),
    Cause(
        "aws-secret-unreachable", "Secrets Manager does not answer ({detail})", "it goes on when it does", phases=TOKEN, retry=True
    ),
    # patch
    Cause(
        "patch-refused",
        "vLLM's attention kernel is not one that the Turing patch knows ({detail})",
        "make the build from a release that `python -m startup.turing prove` lists",
        r"why: (?P<detail>looked for .*)",
        ("patch",),
    ),
)
FLEXSERVE_FILE
  put startup/onboard/chat.py <<'FLEXSERVE_FILE'
"""Does it serve? An answer that holds a number made a moment ago: not a status code, not `/health`.

Instruction-tuned checkpoints are asked over chat completions (their plain completions are nonsense); base checkpoints have no
chat template and continue a pattern instead.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass

from startup.onboard.curl import ask

SECONDS = 120.0  # the first request after a start may still compile


@dataclass(frozen=True)
class Verdict:
    """`kind`: answered, wrong (text without the number), refused (HTTP error), silent (no HTTP at all)."""

    kind: str
    detail: str = ""


def number() -> str:
    """Six digits that nobody knew before."""
    return str(100_000 + int.from_bytes(os.urandom(4), "big") % 900_000)


def healthy(port: int) -> bool:
    """Whether the server says that it is up. Not whether it serves."""
    return ask(f"http://127.0.0.1:{port}/health", seconds=5).status == 200


def probe(port: int, *, chat: bool, seconds: float = SECONDS) -> Verdict:
    """Ask once."""
    models = ask(f"http://127.0.0.1:{port}/v1/models", seconds=10)
    if models.status != 200:
        return Verdict("refused" if models.status else "silent", models.error or f"/v1/models: HTTP {models.status}")
    listed = models.document().get("data") or [{}]
    nonce = number()
    path, body = _chat(nonce) if chat else _completion(nonce)
    body = {"model": listed[0].get("id", ""), "temperature": 0, **body}
    answer = ask(
        f"http://127.0.0.1:{port}{path}", headers=("Content-Type: application/json",), data=json.dumps(body), seconds=seconds
    )
    if answer.status != 200:
        return Verdict(
            "refused" if answer.status else "silent",
            f"{path}: {answer.error or f'HTTP {answer.status}'} {answer.body[:200]}".strip(),
        )
    try:
        choice = answer.document()["choices"][0]
        text = str(choice["message"]["content"] if chat else choice["text"])
    except (KeyError, IndexError, TypeError):
        return Verdict("wrong", f"{path}: no choices in {answer.body[:200]!r}")
    if nonce in text.replace(",", "").replace(" ", ""):
        return Verdict("answered", nonce)
    return Verdict("wrong", f"asked for {nonce}, got {text[:120]!r}")


def _chat(nonce: str) -> tuple[str, dict[str, object]]:
    content = f"Repeat this number and write nothing else: {nonce}"
    return "/v1/chat/completions", {"max_tokens": 32, "messages": [{"role": "user", "content": content}]}


def _completion(nonce: str) -> tuple[str, dict[str, object]]:
    lines = [f"in: {other} out: {other}" for other in (number(), number(), number())]
    return "/v1/completions", {"max_tokens": 12, "prompt": "\n".join([*lines, f"in: {nonce} out:"])}
FLEXSERVE_FILE
  put startup/onboard/curl.py <<'FLEXSERVE_FILE'
"""HTTP by the `curl` on PATH. Headers that hold a token come from a file on a tmpfs, never from the command line."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from startup.onboard.places import METADATA

UNREACHED = 0


@dataclass(frozen=True)
class Answer:
    """`status` 0: nothing answered, and `error` says why in curl's words."""

    status: int
    body: str
    error: str
    headers: str = ""

    def document(self) -> dict[str, Any]:
        """The body as a JSON object; empty when it is none."""
        try:
            value = json.loads(self.body)
        except ValueError:
            return {}
        return value if isinstance(value, dict) else {}

    def header(self, name: str) -> str:
        """The last header of that name, over all redirects."""
        found = ""
        for line in self.headers.splitlines():
            key, _, value = line.partition(":")
            if key.strip().lower() == name:
                found = value.strip()
        return found


def ask(
    url: str,
    *options: str,
    headers: Sequence[str] = (),
    header_file: Path | None = None,
    data: str | None = None,
    seconds: float = 30,
) -> Answer:
    """One request, bounded. Never raises for what the network does."""
    words = ["curl", "-sS", "--connect-timeout", "10", "--max-time", f"{seconds:g}", "-D", "-", "-w", "\n%{http_code}"]
    words += [word for header in headers for word in ("-H", header)]
    if header_file is not None and header_file.exists():
        words += ["-H", f"@{header_file}"]
    if data is not None:
        words += ["--data-binary", "@-"]
    done = subprocess.run(
        [*words, *options, url], input=data or "", capture_output=True, encoding="utf-8", errors="replace", check=False
    )
    text, _, status = done.stdout.rpartition("\n")
    head, body = _split(text)
    error = done.stderr.strip().removeprefix("curl: ")
    return Answer(int(status) if status.isdigit() and done.returncode == 0 else UNREACHED, body, error, head)


def metadata(path: str, *options: str, data: str | None = None, seconds: float = 5) -> Answer:
    """Ask (or, with data and `-X PUT`, tell) the metadata server."""
    return ask(f"{METADATA}/{path}", *options, headers=("Metadata-Flavor: Google",), data=data, seconds=seconds)


def _split(text: str) -> tuple[str, str]:
    """Heads (one a redirect or 100 Continue) and body, of what `-D -` printed before the body."""
    head = ""
    text = text.replace("\r\n", "\n")
    while text.startswith("HTTP/"):
        one, _, text = text.partition("\n\n")
        head += one + "\n"
    return head, text
FLEXSERVE_FILE
  put startup/onboard/docker.py <<'FLEXSERVE_FILE'
"""The one container, by the `docker` on PATH."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from typing import Any

from startup.onboard import causes
from startup.onboard.engine import Server
from startup.onboard.places import CONTAINER, LABEL

STOP_GRACE = 60  # seconds: an engine that is killed earlier leaves the accelerator busy


def inspect() -> Server | None:
    """The container, or None when there is none. Raises `Failed` when the engine does not answer."""
    done = _docker("inspect", "--type", "container", CONTAINER)
    if done.returncode != 0:
        if "no such" in done.stderr.lower():
            return None
        raise causes.Failed(f"{causes.say('docker-down')} ({causes.last_words(done.stderr.splitlines())})")
    about: dict[str, Any] = json.loads(done.stdout)[0]
    state = about.get("State", {})
    return Server(
        id=str(about.get("Id", "")),
        config=str((about.get("Config", {}).get("Labels") or {}).get(LABEL, "")),
        status=str(state.get("Status", "")),
        restarts=int(about.get("RestartCount", 0)),
        started_at=str(state.get("StartedAt", "")),
        exit_code=int(state.get("ExitCode", 0)),
        oom=bool(state.get("OOMKilled", False)),
    )


def stop() -> None:
    """Stop it, with time to let go of the accelerator. Not there is fine."""
    _docker("stop", "-t", str(STOP_GRACE), CONTAINER)


def remove() -> None:
    """Stop and remove it. Not there is fine."""
    if inspect() is not None:
        stop()
        _docker("rm", "-f", CONTAINER)


def run(words: Sequence[str]) -> None:
    """Start it (`words` are the whole `docker run …`). Raises `Failed` with the engine's words."""
    done = subprocess.run(words, capture_output=True, encoding="utf-8", errors="replace", check=False)
    if done.returncode != 0:
        print(done.stderr, flush=True)
        found = causes.find(done.stderr.splitlines(), "load")
        raise causes.Failed(
            found[1] if found else causes.say("container-refused", detail=causes.last_words(done.stderr.splitlines()))
        )


def log(since: str) -> Log:
    """Its output from a time stamp on; empty: all."""
    return Log(since)


class Log:
    """The server's output as (time stamp, text), each line once, over restarts of the container. Stamps sort as text."""

    def __init__(self, since: str) -> None:
        self._last = since

    def lines(self) -> list[tuple[str, str]]:
        """What was printed since the last call (at first: since `since`)."""
        options = ("--since", self._last) if self._last else ()
        done = _docker("logs", "--timestamps", *options, CONTAINER, merge=True)
        pairs = [
            (stamp, text) for stamp, _, text in (line.partition(" ") for line in done.stdout.splitlines()) if stamp[:2] == "20"
        ]
        fresh = [pair for pair in pairs if pair[0] > self._last]
        self._last = max([self._last, *(stamp for stamp, _ in fresh)])
        return fresh


def _docker(*words: str, merge: bool = False) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["docker", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT if merge else subprocess.PIPE,
        encoding="utf-8",
        errors="replace",
        check=False,
    )
FLEXSERVE_FILE
  put startup/onboard/engine.py <<'FLEXSERVE_FILE'
"""What runs the server: an engine with one server in it. Docker's is a container, systemd's is a unit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True)
class Server:
    """What the engine says of it. `started_at` is RFC 3339, UTC; `status`: running, restarting, exited, dead, created."""

    id: str
    config: str
    status: str
    restarts: int
    started_at: str
    exit_code: int
    oom: bool

    @property
    def running(self) -> bool:
        """It runs; not: it serves."""
        return self.status == "running"


class Log(Protocol):
    """The server's output."""

    def lines(self) -> list[tuple[str, str]]:
        """(time stamp, text) printed since the last call, over restarts of the server. Stamps sort as text."""


class Engine(Protocol):
    """A module of the boot: `docker` or `unit`."""

    def inspect(self) -> Server | None:
        """The server, or None when there is none. Raises `Failed` when the engine does not answer."""

    def stop(self) -> None:
        """Stop it, with time to let go of the accelerator. Not there is fine."""

    def remove(self) -> None:
        """Stop and remove it. Not there is fine."""

    def run(self, words: Sequence[str]) -> None:
        """Start it. Raises `Failed` with the engine's words."""

    def log(self, since: str) -> Log:
        """Its output from a time stamp on; empty: all."""


def named(name: str) -> Engine:
    """The engine of that name."""
    import importlib

    module: Engine = importlib.import_module(f"startup.onboard.{name}")
    return module
FLEXSERVE_FILE
  put startup/onboard/hub.py <<'FLEXSERVE_FILE'
"""The model's files from the Hub, at one revision: resumed where a download broke off, checked, complete or not called so.

A file has its own name only after its size (and, for large ones, its SHA-256) was found right and it was written through to
the disk; until then it is `NAME.part`. `.complete` comes last.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import quote

from startup.onboard import causes, places
from startup.onboard.attempt import pauses, sleep
from startup.onboard.curl import Answer, ask

HUB = "https://huggingface.co"
COMPLETE = ".complete"
TOGETHER = 4  # downloads at a time
WRONG_BYTES = 3
LONGEST_PAUSE = 60.0
# Other formats of the same weights, and pages for people: vLLM reads none of them.
UNWANTED = ("original/*", "*.gguf", "*.onnx", "onnx/*", "*.pth", "*.h5", "*.msgpack", "*.tflite", "*.litertlm", "*.task")
PAGES = (".gitattributes", "README.md", "*.png", "*.jpg", "*.pdf")
UNWANTED_BESIDE_SAFETENSORS = ("*.bin", "*.pt")


@dataclass(frozen=True)
class Entry:
    """A file of the model. `sha256` is None for small files, whose size alone is known."""

    name: str
    size: int
    sha256: str | None


@dataclass(frozen=True)
class Source:
    """Which model, and with whose token (the secret's name; empty: anonymous)."""

    model: str
    revision: str
    secret: str

    def facts(self) -> Mapping[str, str]:
        """What the causes may name."""
        return {"model": self.model, "revision": self.revision, "secret": self.secret}


def download(source: Source, folder: Path) -> None:
    """Make `folder` complete. Raises `Failed`; waits as the Hub asks while it throttles or does not answer."""
    folder.mkdir(parents=True, exist_ok=True)
    entries = listing(source)
    missing = [entry for entry in entries if not _there(folder / entry.name, entry.size)]
    check_space(folder, missing)
    print(f"{len(entries)} files, {sum(e.size for e in entries) / 1e9:.2f} GB; {len(missing)} to fetch", flush=True)
    pool = ThreadPoolExecutor(TOGETHER)
    try:
        for _ in pool.map(lambda entry: fetch(source, entry, folder), missing):
            pass
    finally:
        pool.shutdown(wait=False, cancel_futures=True)  # after a failure nobody waits for the others
    names = json.dumps({"model": source.model, "revision": source.revision, "files": {e.name: e.size for e in entries}})
    _write_through(folder / COMPLETE, names)


def listing(source: Source) -> Sequence[Entry]:
    """What the model consists of, without what vLLM does not read."""
    url = f"{HUB}/api/models/{quote(source.model)}/revision/{quote(source.revision)}?blobs=true"
    for pause in pauses(LONGEST_PAUSE):
        answer = ask(url, "-L", header_file=places.HUB_HEADER)
        if answer.status == 200:
            return wanted(answer.document().get("siblings"))
        wait(source, answer, pause)
    raise AssertionError("the pauses have no end")


def wanted(siblings: Any) -> Sequence[Entry]:
    """The files to fetch, of the Hub's own list. Raises `Failed` for a name that would leave the folder."""
    entries = []
    for sibling in siblings if isinstance(siblings, list) else []:
        name, lfs = str(sibling["rfilename"]), sibling.get("lfs") or {}
        if PurePosixPath(name).is_absolute() or ".." in PurePosixPath(name).parts or not name.isprintable():
            raise causes.Failed(f"the Hub lists a file named {name!r}, which is no name inside a folder")
        entries.append(Entry(name, int(lfs.get("size") or sibling.get("size") or 0), lfs.get("sha256")))
    safetensors = any(entry.name.endswith(".safetensors") for entry in entries)
    patterns = UNWANTED + PAGES + (UNWANTED_BESIDE_SAFETENSORS if safetensors else ())
    return [entry for entry in entries if not any(fnmatch(entry.name, pattern) for pattern in patterns)]


def fetch(source: Source, entry: Entry, folder: Path) -> None:
    """One file: as often as it takes, from where the last try ended."""
    place, part = folder / entry.name, folder / f"{entry.name}.part"
    place.parent.mkdir(parents=True, exist_ok=True)
    url = f"{HUB}/{quote(source.model)}/resolve/{quote(source.revision)}/{quote(entry.name)}"
    if entry.size == 0:
        part.touch()
    wrong, tries = 0, pauses(LONGEST_PAUSE)
    while wrong < WRONG_BYTES:
        have = part.stat().st_size if part.exists() else 0
        if have < entry.size or not part.exists():
            answer = transfer(url, part)
            if answer.status not in (200, 206):
                wait(source, answer, next(tries))
                continue
        if right(part, entry):
            _settle(part, place)
            return
        part.unlink()
        wrong += 1
    raise causes.Failed(causes.say("weights-corrupt", file=entry.name))


def transfer(url: str, part: Path) -> Answer:
    """One try of a download into `part`. Status 0: it broke off, and what arrived is kept."""
    words = ["curl", "-sSLf", "-C", "-", "--connect-timeout", "15", "--speed-limit", "1024", "--speed-time", "60"]
    if places.HUB_HEADER.exists():
        words += ["-H", f"@{places.HUB_HEADER}"]
    heads = part.with_name(part.name + ".head")
    done = subprocess.run(
        [*words, "-D", str(heads), "-o", str(part), "-w", "%{http_code}", url],
        capture_output=True,
        encoding="utf-8",
        errors="replace",
        check=False,
    )
    head = heads.read_text(encoding="latin-1") if heads.exists() else ""
    heads.unlink(missing_ok=True)
    error = done.stderr.strip().removeprefix("curl: ")
    if done.returncode in (33, 36) or done.stdout == "416":  # no ranges there, or none that fits what we have
        part.unlink(missing_ok=True)
        return Answer(0, "", error, head)
    if done.returncode == 23 and ("space" in error or os.statvfs(part.parent).f_bavail == 0):
        raise causes.Failed(causes.say("no-space"))
    ok = done.returncode in (0, 22) and done.stdout.isdigit()
    return Answer(int(done.stdout) if ok else 0, "", error, head)


def wait(source: Source, answer: Answer, pause: float) -> None:
    """Sleep before the next try, as long as the Hub asks if it does. Raises `Failed` when none can help."""
    cause = refusal(answer, bool(source.secret))
    text = causes.say(cause, **source.facts(), detail=answer.error or f"HTTP {answer.status}")
    if not causes.BY_ID[cause].retry:
        raise causes.Failed(text)
    asked = answer.header("retry-after")
    pause = float(asked) if answer.status == 429 and asked.isdigit() else pause
    causes.note(text)
    print(f"again in {pause:g} s: {text}", flush=True)
    sleep(pause)


def refusal(answer: Answer, with_token: bool) -> str:
    """The cause behind an answer that is no file. `X-Error-Code` is the Hub's own word for it."""
    code = answer.header("x-error-code")
    if answer.status == 429:
        return "hub-throttled" if with_token else "hub-throttled-anonymous"
    if answer.status == 403 or (answer.status == 401 and code == "GatedRepo"):
        return "hub-licence" if with_token else "hub-needs-token"
    if answer.status == 401:
        return "hub-needs-token" if not with_token else "hub-not-found" if code == "RepoNotFound" else "hub-unauthorized"
    return "hub-not-found" if answer.status in (400, 404, 410) else "hub-unreachable"


def right(part: Path, entry: Entry) -> bool:
    """Size and, where the Hub tells it, SHA-256."""
    if not _there(part, entry.size):
        print(f"{entry.name}: {part.stat().st_size} of {entry.size} bytes", flush=True)
        return False
    if entry.sha256 is None:
        return True
    digest = hashlib.sha256()
    with part.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    if digest.hexdigest() != entry.sha256:
        print(f"{entry.name}: SHA-256 is {digest.hexdigest()}, not {entry.sha256}", flush=True)
        return False
    return True


def check_space(folder: Path, missing: Sequence[Entry]) -> None:
    """Raise `Failed` before the transfer when the rest of it does not fit."""
    parts = sum(part.stat().st_size for part in folder.rglob("*.part"))
    need = sum(entry.size for entry in missing) - parts
    disk = os.statvfs(folder)
    free = disk.f_bavail * disk.f_frsize
    if need > free:
        raise causes.Failed(f"{causes.say('no-space')} ({need / 1e9:.1f} GB to fetch, {free / 1e9:.1f} GB free)")


def _there(place: Path, size: int) -> bool:
    return place.is_file() and place.stat().st_size == size


def _settle(part: Path, place: Path) -> None:
    with part.open("rb") as file:
        os.fsync(file.fileno())
    part.replace(place)


def _write_through(place: Path, text: str) -> None:
    fresh = place.with_name(place.name + ".new")
    with fresh.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    for folder in {path.parent for path in place.parent.rglob("*")}:  # the names of the files, too
        handle = os.open(folder, os.O_RDONLY)
        os.fsync(handle)
        os.close(handle)
    fresh.replace(place)
FLEXSERVE_FILE
  put startup/onboard/places.py <<'FLEXSERVE_FILE'
"""Where the boot keeps things on the machine. `RUN` is on a tmpfs: it is gone with the power, and the token is only ever there."""

from __future__ import annotations

from pathlib import Path

STATE = Path("/var/lib/flexserve")
RUN = Path("/run/flexserve")
LOGS = STATE / "log"
CONSOLE = Path("/dev/console")
BOOT_ID = Path("/proc/sys/kernel/random/boot_id")

HUB_HEADER = RUN / "hub.header"
IDENTITY_HEADER = RUN / "identity.header"
AWS_SESSION = RUN / "imds.header"
AWS_CURL = RUN / "aws.curl"
SERVER = RUN / "server.json"
PID = RUN / "boot.pid"
SERVER_PORT = 8000

METADATA = "http://metadata.google.internal/computeMetadata/v1"
IMDS = "http://169.254.169.254/latest"
BUILDS = Path("/opt/flexserve/builds")
NAMESPACE = "flexserve"
CONTAINER = "flexserve-vllm"
LABEL = "flexserve.config"

SKIPPED = 90  # a phase that ends with this found its effect already there


def object_url(region: str, bucket: str, key: str) -> str:
    """Where S3 has an object, in path style: a bucket's name may have dots, and certificates have one star."""
    return f"https://s3.{region}.amazonaws.com/{bucket}/{key}"
FLEXSERVE_FILE
  put startup/onboard/process.py <<'FLEXSERVE_FILE'
"""One phase as a process group: its lines as they come, its limit kept, nothing of it left when it is over."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

TAIL_LINES = 30
LINE_LENGTH = 2000
MARK = "FLEXSERVE_RUN"


@dataclass(frozen=True)
class Ended:
    """How a phase ended. `status` None: its limit passed (or the boot was told to stop) and its group was killed."""

    status: int | None
    tail: tuple[str, ...]


def run(
    argv: Sequence[str],
    env: Mapping[str, str],
    limit: float,
    line: Callable[[str], None],
    *,
    stop: threading.Event,
    tick: Callable[[], None] = lambda: None,
) -> Ended:
    """Run a command in a group of its own. `tick` is called about twice a second while it runs."""
    process = subprocess.Popen(
        argv, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True
    )
    tail: deque[str] = deque(maxlen=TAIL_LINES)
    reader = threading.Thread(target=_read, args=(process, tail, line), daemon=True)
    reader.start()
    waiter = threading.Thread(target=process.wait, daemon=True)  # hears of the end at once; `wait` with a limit looks now and then
    waiter.start()
    until = time.monotonic() + limit
    ticked = time.monotonic()
    while waiter.is_alive() and time.monotonic() < until and not stop.is_set():
        waiter.join(0.1)
        if time.monotonic() - ticked > 0.5:
            ticked = time.monotonic()
            tick()
    status = None if waiter.is_alive() else process.returncode
    if status is None:
        _kill(process.pid, signal.SIGTERM)
        waiter.join(3)
    _kill(process.pid, signal.SIGKILL)
    waiter.join()
    reader.join(2)
    return Ended(status, tuple(tail))


def marked() -> list[int]:
    """Processes that a boot before this one left on this machine (killed, so that it could not end them)."""
    run_folder = mark().encode()
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                environment = (entry / "environ").read_bytes().split(b"\0")
            except OSError:
                continue  # gone meanwhile, or not ours
            if f"{MARK}=".encode() + run_folder in environment:
                found.append(int(entry.name))
    return found


def sweep(seconds: float = 5) -> int:
    """End what an earlier boot left; how many there were."""
    found = left = marked()
    until = time.monotonic() + seconds
    while left and time.monotonic() < until:
        for pid in left:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.05)
        left = marked()
    return len(found)


def mark() -> str:
    """What the processes of a boot carry in their environment. It is another one on another machine or after a restart."""
    from startup.onboard.places import RUN

    about = RUN.stat()
    return f"{about.st_dev}:{about.st_ino}"


def _kill(group: int, number: int) -> None:
    with suppress(ProcessLookupError):
        os.killpg(group, number)


def _read(process: subprocess.Popen[bytes], tail: deque[str], line: Callable[[str], None]) -> None:
    assert process.stdout is not None
    for raw in process.stdout:
        text = raw.decode("utf-8", "replace").rstrip("\r\n").rpartition("\r")[2][:LINE_LENGTH]
        tail.append(text)
        line(text)
FLEXSERVE_FILE
  put startup/onboard/redact.py <<'FLEXSERVE_FILE'
"""No token in a log: what was fetched is replaced by name, and what looks like a token is replaced anyway."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

HIDDEN = "[redacted]"
_LOOKS_LIKE = re.compile(r"hf_[A-Za-z0-9_-]{6,}|ya29\.[\w.-]+|(?<=Bearer )[\w.~+/=-]+")


class Redactor:
    """Reads the header files again whenever they change; remembers every value it has seen."""

    def __init__(self, headers: Iterable[Path]) -> None:
        self._headers = tuple(headers)
        self._seen: dict[Path, int] = {}
        self._values: set[str] = set()

    def __call__(self, text: str) -> str:
        """The text without any of them."""
        for header in self._headers:
            self._read(header)
        for value in self._values:
            text = text.replace(value, HIDDEN)
        return _LOOKS_LIKE.sub(HIDDEN, text)

    def _read(self, header: Path) -> None:
        try:
            changed = header.stat().st_mtime_ns
            if self._seen.get(header) == changed:
                return
            value = header.read_text(encoding="utf-8").strip().rpartition(" ")[2]
        except (OSError, UnicodeDecodeError):
            return
        self._seen[header] = changed
        if len(value) >= 4:  # shorter ones would blank out ordinary words
            self._values.add(value)
FLEXSERVE_FILE
  put startup/onboard/report.py <<'FLEXSERVE_FILE'
"""The boot's record while it runs: one document a phase and one for the whole, on disk and in the cloud's guest attributes.

Telling the cloud never holds up or fails the boot: it happens in a thread, newest document of a key first come first served,
a few tries each.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from startup.onboard import places
from startup.onboard.curl import metadata

TRIES = 3
Tell = Callable[[str, str], bool]


def tell_guest_attributes(key: str, text: str) -> bool:
    """PUT one document. False when the metadata server did not take it."""
    answer = metadata(f"instance/guest-attributes/{places.NAMESPACE}/{key}", "-X", "PUT", data=text, seconds=3)
    return answer.status in (200, 204)


def tell_nobody(_key: str, _text: str) -> bool:
    """The documents on the disk are all there is."""
    return True


class Report:
    """Writes documents and lines. Safe to call from several threads."""

    def __init__(self, folder: Path, tell: Tell = tell_guest_attributes, console: Path = places.CONSOLE) -> None:
        self._folder = folder
        self._tell = tell
        self._console = console
        self._pending: dict[str, str] = {}
        self._changed = threading.Condition()
        self._busy = False
        threading.Thread(target=self._forward, daemon=True).start()

    def document(self, key: str, value: Mapping[str, object]) -> None:
        """Keep one document: on disk at once and whole (rename), in the cloud soon."""
        text = json.dumps(value, separators=(",", ":"))
        with self._changed:
            with suppress(OSError):  # a full disk: the cloud must hear of it all the more
                fresh = self._folder / f".{key}.new"
                fresh.write_text(text, encoding="utf-8")
                fresh.replace(self._folder / key)
            self._pending[key] = text
            self._changed.notify_all()

    def line(self, text: str, *, loud: bool = False) -> None:
        """One line to the log (standard output); loud ones to the console too."""
        with self._changed, suppress(OSError):
            print(text, flush=True)
        if loud:
            with suppress(OSError), self._console.open("w", encoding="utf-8", errors="replace") as console:
                console.write(text + "\r\n")  # no console here: the journal has it

    def flush(self, seconds: float) -> None:
        """Wait until the cloud has everything, at most so long."""
        until = time.monotonic() + seconds
        with self._changed:
            while (self._pending or self._busy) and (left := until - time.monotonic()) > 0:
                self._changed.wait(left)

    def _forward(self) -> None:
        while True:
            with self._changed:
                self._busy = False
                self._changed.notify_all()
                while not self._pending:
                    self._changed.wait()
                key = next(iter(self._pending))
                text = self._pending.pop(key)
                self._busy = True
            for attempt in range(TRIES):
                if self._tell(key, text) or key in self._pending:
                    break
                time.sleep(0.5 * 2**attempt)
            else:
                print(f"flexserve: the metadata server did not take {key}", file=sys.stderr, flush=True)
FLEXSERVE_FILE
  put startup/onboard/secret.py <<'FLEXSERVE_FILE'
"""The Hub token: read from Secret Manager as the machine's own identity, kept in a header file on a tmpfs.

A grant or a secret that comes late is waited for; what no waiting can mend is a failure at once. The value is in no argument,
no output and no environment.
"""

from __future__ import annotations

import base64
import binascii
import os
import re
from collections.abc import Mapping
from pathlib import Path

from startup.onboard import causes, places
from startup.onboard.attempt import pauses, sleep
from startup.onboard.curl import Answer, ask, metadata

LONGEST_PAUSE = 15.0
_TOKEN = re.compile(r"[\x21-\x7e]+")


def fetch(project: str, secret: str) -> None:
    """Put the secret's latest version where `curl` finds it. Raises `Failed`; waits for late grants without end."""
    for pause in pauses(LONGEST_PAUSE):
        reason = identity() or access(project, secret)
        if not reason:
            return
        causes.note(reason)
        print(f"again in {pause:g} s: {reason}", flush=True)
        sleep(pause)


def identity() -> str:
    """Store the machine's access token; why not, when there is none yet."""
    answer = metadata("instance/service-accounts/default/token")
    token = str(answer.document().get("access_token", ""))
    if answer.status == 200 and token:
        keep(places.IDENTITY_HEADER, token)
        return ""
    if answer.status in (403, 404):
        return causes.say("no-service-account")
    return causes.say("secret-unreachable", detail=f"metadata server: {answer.error or answer.status}")


def access(project: str, secret: str) -> str:
    """Store the secret's value; a reason to try again, or raises `Failed`."""
    facts = {"project": project, "secret": secret}
    url = f"https://secretmanager.googleapis.com/v1/projects/{project}/secrets/{secret}/versions/latest:access"
    answer = ask(url, header_file=places.IDENTITY_HEADER)
    if answer.status == 200:
        keep(places.HUB_HEADER, value_of(answer, facts))
        places.IDENTITY_HEADER.unlink(missing_ok=True)
        return ""
    cause = refusal(answer.status, answer.body)
    account = metadata("instance/service-accounts/default/email").body.strip() if cause == "secret-permission" else ""
    detail = answer.error or f"HTTP {answer.status}"
    text = causes.say(cause, account=account or "the machine's service account", detail=detail, **facts)
    if not causes.BY_ID[cause].retry:
        raise causes.Failed(text)
    return text


def refusal(status: int, body: str) -> str:
    """The cause behind an answer that is no secret. Two 403s look alike: the token's scopes, and the account's permission."""
    if status == 403:
        if "SCOPE" in body or "authentication scopes" in body:
            return "secret-scope"
        return (
            "secret-api-disabled" if "SERVICE_DISABLED" in body or "has not been used in project" in body else "secret-permission"
        )
    if status == 404:
        return "secret-missing"
    return "secret-disabled" if status == 400 else "secret-unreachable"


def value_of(answer: Answer, facts: dict[str, str]) -> str:
    """The token: decoded, white space around it taken off. Raises `Failed` by the secret's name when there is none."""
    payload = answer.document().get("payload")
    data = payload.get("data", "") if isinstance(payload, dict) else ""
    try:
        value = base64.b64decode(str(data), validate=True).decode("utf-8")
    except (binascii.Error, UnicodeDecodeError):
        raise causes.Failed(causes.say("secret-malformed", **facts)) from None
    return checked(value, facts)


def checked(text: str, facts: Mapping[str, str]) -> str:
    """The token without white space around it. Raises `Failed` by the secret's name when it is none."""
    value = text.strip()
    if not value:
        raise causes.Failed(causes.say("secret-empty", **facts))
    if not _TOKEN.fullmatch(value):
        raise causes.Failed(causes.say("secret-malformed", **facts))
    return value


def keep(place: Path, token: str) -> None:
    """A header file that only root may read, complete or not there."""
    fresh = place.with_name(f"{place.name}.{os.getpid()}.new")
    with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="ascii") as file:
        file.write(f"Authorization: Bearer {token}\n")
    fresh.replace(place)
FLEXSERVE_FILE
  put startup/onboard/server.py <<'FLEXSERVE_FILE'
"""From weights to an answer: exactly one server, watched through load and compile until it serves.

What runs it is an `Engine`: a container of Docker's, or a unit of systemd's. A server of the same configuration is left alone
while it serves or still starts; another, a stopped one, one that served and answers no more, or one that has been starting for
longer than the phases allow is replaced.
"""

from __future__ import annotations

import json
import re
import time
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from startup.onboard import causes, chat, places
from startup.onboard.attempt import sleep
from startup.onboard.engine import Engine, Server, named

LOADED = re.compile(
    r"Loading weights took|Model loading took|checkpoint shards: 100%|KV cache size: [\d,]+ tokens|(?:[Ww]eights|[Mm]odel) loaded"
)
COMPILED = re.compile(r"init engine \(.*\) took|Compilation finished|Application startup complete")
STARTED = re.compile(r"Application startup complete|Uvicorn running on")
CRASHES = 3
WRONG_ANSWERS = 3
POLL, LONG_POLL, PATIENCE = 0.1, 2.0, 30  # seconds, seconds, polls before the long one


@dataclass(frozen=True)
class Wanted:
    """The server that the script asks for. `starting_s`: how long a start may take."""

    config: str
    port: int
    chat: bool
    starting_s: int
    run: Sequence[str] = ()
    engine: Engine = field(default_factory=lambda: named("docker"))


class Watch:
    """One phase's view of the server: its new lines, its crashes."""

    def __init__(self, wanted: Wanted, phase: str) -> None:
        self._wanted = wanted
        self._phase = phase
        self._memory = remembered()
        self._tail: deque[str] = deque(maxlen=200)
        self._polls = 0
        self.server: Server | None = None  # as the last look found it
        self._log = self._wanted.engine.log(str(self._memory.get("since", "")))

    def until(self, pattern: re.Pattern[str]) -> str:
        """Wait for the log line, or for `/health`: what ended the wait. Raises `Failed` when the server cannot come up."""
        while True:
            for line in self.look():
                if pattern.search(line):
                    return line.strip()
            if chat.healthy(self._wanted.port):
                return "the server is up"
            self.pause()

    def look(self) -> list[str]:
        """New lines, shown; a crash is judged. Raises `Failed`."""
        self.server = before = self._wanted.engine.inspect()
        lines = self._show(self._log.lines())
        if before is None:
            raise causes.Failed(causes.say("crash-loop", times=1, detail="the server was removed by somebody else"))
        restarts = self._memory.get("restarts", 0)
        if not before.running or before.restarts > restarts:
            self._crashed(before)
        return lines

    def _show(self, pairs: Sequence[tuple[str, str]]) -> list[str]:
        """All lines since the start are searched by every phase; each is printed by one."""
        printed = str(self._memory.get("printed", ""))
        for stamp, text in pairs:
            self._tail.append(text)
            if stamp > printed:
                print(text, flush=True)
        if pairs:
            self._remember(printed=max(printed, pairs[-1][0]))
        return [text for _, text in pairs]

    def pause(self) -> None:
        """Between two looks: short at first, since a small model starts quickly."""
        self._polls += 1
        sleep(POLL if self._polls < PATIENCE else LONG_POLL)

    def _crashed(self, server: Server) -> None:
        crashes = max(server.restarts - int(self._memory.get("first", 0)), 1 if not server.running else 0)
        self._remember(restarts=server.restarts)
        found = causes.find(self._tail, self._phase)
        if found and found[0].id == "accelerator-busy" and not self._memory.get("busy"):
            print("the accelerator is still held: stopping the server, starting it once more", flush=True)
            self._remember(busy=True)
            self._wanted.engine.remove()
            sleep(5)
            start(self._wanted, busy=True)
            self._memory = remembered()
            self._tail.clear()
            self._log = self._wanted.engine.log("")
            return
        if server.oom and found is None:
            text = causes.say("host-out-of-memory")
        elif found:
            text = found[1]
        elif self._phase == "serving" and self._memory.get("asked"):
            text = causes.say("chat-crash", detail=causes.last_words(list(self._tail)))
        elif crashes >= CRASHES or server.status in ("exited", "dead", "created"):
            text = causes.say("crash-loop", times=crashes, detail=causes.last_words(list(self._tail)))
        else:
            causes.note(causes.say("crash-loop", times=crashes, detail=causes.last_words(list(self._tail))))
            return
        self._wanted.engine.stop()  # it would go on for ever
        raise causes.Failed(text)

    def asked(self) -> None:
        """From here on, a crash came from a question."""
        self._remember(asked=True)

    def _remember(self, **facts: object) -> None:
        self._memory = {**self._memory, **facts}
        places.SERVER.write_text(json.dumps(self._memory), encoding="utf-8")


def load(wanted: Wanted) -> int:
    """Phase `load`. Returns an exit status: `SKIPPED` when there was nothing to do."""
    server = wanted.engine.inspect()
    if server is not None and server.running and server.config == wanted.config:
        verdict = chat.probe(wanted.port, chat=wanted.chat, seconds=30)
        if verdict.kind == "answered":
            adopt(server, healthy=True)
            print("a server of this configuration serves: left alone", flush=True)
            return places.SKIPPED
        if still_starting(server, wanted):
            print("a server of this configuration is starting: waiting for it", flush=True)
            adopt(server, healthy=False)
            print(Watch(wanted, "load").until(LOADED), flush=True)
            return 0
        print(f"the server does not answer any more ({verdict.detail}): replacing it", flush=True)
    elif server is not None:
        print(f"replacing a server that is {server.status}, configuration {server.config or 'unknown'}", flush=True)
    if server is not None:
        wanted.engine.remove()
    start(wanted)
    print(Watch(wanted, "load").until(LOADED), flush=True)
    return 0


def compile_(wanted: Wanted) -> int:
    """Phase `compile`."""
    if remembered().get("healthy"):
        return places.SKIPPED
    print(Watch(wanted, "compile").until(COMPILED), flush=True)
    return 0


def serving(wanted: Wanted) -> int:
    """Phase `serving`: the number asked for comes back."""
    watch = Watch(wanted, "serving")
    wrong = refused = 0
    while True:
        watch.look()
        if chat.healthy(wanted.port):
            watch.asked()
        verdict = chat.probe(wanted.port, chat=wanted.chat)
        watch.look()
        if verdict.kind == "answered":
            print(f"asked for {verdict.detail}, and got it", flush=True)
            if watch.server is not None:
                served(watch.server)
            return 0
        wrong += verdict.kind == "wrong"
        refused += verdict.kind == "refused"
        if wrong >= WRONG_ANSWERS:
            raise causes.Failed(causes.say("chat-wrong", detail=verdict.detail))
        if verdict.kind in ("wrong", "refused"):
            print(verdict.detail, flush=True)
            causes.note(causes.say("chat-wrong" if verdict.kind == "wrong" else "chat-refused", detail=verdict.detail))
        watch.pause()


def still_starting(server: Server, wanted: Wanted) -> bool:
    """Whether a server that does not answer yet may: it has not served since its start, and its time is not up."""
    last = remembered_served()
    if last == {"id": server.id, "started_at": server.started_at}:
        return False
    return age(server.started_at) < wanted.starting_s


def age(started_at: str) -> float:
    """Seconds since the engine's time stamp; 0 for one that cannot be read."""
    found = re.match(r"(\d+)-(\d+)-(\d+)T(\d+):(\d+):(\d+)", started_at)
    if not found:
        return 0.0
    import calendar

    year, month, day, hour, minute, second = (int(part) for part in found.groups())
    return time.time() - calendar.timegm((year, month, day, hour, minute, second))


def start(wanted: Wanted, *, busy: bool = False) -> None:
    """A new server, and what the phases after this one must know of it."""
    wanted.engine.run(wanted.run)
    server = wanted.engine.inspect()
    if server is not None:
        places.SERVER.write_text(json.dumps({"id": server.id, "restarts": 0, "first": 0, "busy": busy}), encoding="utf-8")


def adopt(server: Server, *, healthy: bool) -> None:
    """Go on with a server that an earlier run started."""
    facts = {
        "id": server.id,
        "restarts": server.restarts,
        "first": server.restarts,
        "since": server.started_at,
        "healthy": healthy,
    }
    places.SERVER.write_text(json.dumps(facts), encoding="utf-8")


def served(server: Server) -> None:
    """Keep that this start of the server has served."""
    facts = {"id": server.id, "started_at": server.started_at}
    with suppress(OSError):  # a full disk does not undo an answer
        (places.STATE / "served").write_text(json.dumps(facts), encoding="utf-8")


def remembered() -> dict[str, Any]:
    """What the phases of this run know of the server."""
    return _read(places.SERVER)


def remembered_served() -> Mapping[str, Any]:
    """Which start of which server served last."""
    return _read(places.STATE / "served")


def _read(place: Any) -> dict[str, Any]:
    try:
        value = json.loads(place.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}
FLEXSERVE_FILE
  put startup/onboard/unsynced.py <<'FLEXSERVE_FILE'
"""A process, and all that it starts, that no longer waits for the disk: the calls for it succeed and do nothing.

For an installation: dpkg writes its records through hundreds of times, and each time the file system writes all that was unpacked
before. Who uses it waits for the disk once, when all is done, and trusts nothing of it until then. On another kernel or processor
nothing changes.
"""

from __future__ import annotations

import os
import struct
import sys

# Processor: its number for the kernel's filters, and the numbers of fsync, fdatasync, sync_file_range.
CALLS = {"x86_64": (0xC000003E, (74, 75, 277)), "aarch64": (0xC00000B7, (82, 83, 84))}
LOAD, SAME, RETURN = 0x20, 0x15, 0x06  # of the filter's language: load a word, jump if equal, end
NUMBER_AT, PROCESSOR_AT = 0, 4  # in what the filter is shown of a call
ALLOWED, DONE = 0x7FFF0000, 0x00050000  # the call is made; or it is not, and ends with error 0
PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 22, 2


def program(processor: int, calls: tuple[int, ...]) -> bytes:
    """The filter: eight bytes an instruction. Jumps count from the instruction after them."""
    last = len(calls)
    lines = [(LOAD, 0, 0, PROCESSOR_AT), (SAME, 0, last + 1, processor), (LOAD, 0, 0, NUMBER_AT)]
    lines += [(SAME, last - at, 0, number) for at, number in enumerate(calls)]
    lines += [(RETURN, 0, 0, ALLOWED), (RETURN, 0, 0, DONE)]
    return b"".join(struct.pack("=HBBI", *line) for line in lines)


def begin() -> bool:
    """From now on, for this process and those it starts, for ever. False where the kernel does not do it."""
    known = CALLS.get(os.uname().machine)
    if known is None or sys.maxsize < 2**32:
        return False
    try:
        import ctypes
    except ImportError:  # a smaller Python
        return False
    code = ctypes.create_string_buffer(program(*known))
    whole = ctypes.create_string_buffer(struct.pack("@HP", len(code.raw) // 8, ctypes.addressof(code)))
    prctl = ctypes.CDLL(None).prctl
    return bool(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.c_void_p(ctypes.addressof(whole)), 0, 0) == 0)
FLEXSERVE_FILE
}

boot() {
  echo "flexserve: stack $STACK, deployment ${DEPLOYMENT:-without id}, attempt $((ATTEMPT + 1))"
  if [ "$PINNED" != yes ]; then
    echo "flexserve: this script was rendered before image and model were pinned, and runs nothing"
    exit 2
  fi
  mkdir -p "$STATE" /var/lib/flexserve/xla-cache || true
  install -d -m 700 "$RUN"
  echo "flexserve: $(df --output=avail -BGB "$STATE" | tail -n 1 | tr -d ' ') free on a disk planned for at least 44GB"
  unpack
  local self
  self=$(readlink -f "$0")
  cd "$LIB"
  exec python3 -S -E -m startup.onboard boot guest-attributes "$self" "${STEPS[@]}"
}

# The phase's effect is there, or it is brought about.
phase() {
  case "$1" in
    packages) if done_packages; then exit 90; else phase_packages; fi ;;
    docker) if done_docker; then exit 90; else phase_docker; fi ;;
    token) if done_token; then exit 90; else phase_token; fi ;;
    image) if done_image; then exit 90; else phase_image; fi ;;
    weights) if done_weights; then exit 90; else phase_weights; fi ;;
    load) if done_load; then exit 90; else phase_load; fi ;;
    compile) if done_compile; then exit 90; else phase_compile; fi ;;
    serving) if done_serving; then exit 90; else phase_serving; fi ;;
    *) echo "no phase $1" >&2 && exit 2 ;;
  esac
}

case "${1:-boot}" in
  boot) boot ;;
  install) install_docker "${@:2}" ;;
  early) start_early ;;
  phase) phase "$2" ;;
  *) echo "usage: $0 [boot | phase NAME]" >&2 && exit 2 ;;
esac
exit 0
# flexserve: end of script
