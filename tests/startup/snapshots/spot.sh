#!/bin/bash
# flexserve: what this machine does at each boot. Rendered from a plan; change the stack file, not this.
# It may be run again at any time: a phase whose effect is there is skipped, one that was cut off is done again.
set -euo pipefail
export HOME=/root LC_ALL=C.UTF-8 PATH="${PATH:+$PATH:}/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
umask 022

readonly STACK=g5g-spot DEPLOYMENT=k3j9x2 ATTEMPT=0
readonly STATE=/var/lib/flexserve RUN=/run/flexserve
readonly PINNED=yes
readonly BUILD=/opt/flexserve/builds/0123456789ab-torch2.12.0-cu132-sm75-py312-patch1
readonly MODEL_DIR=/var/lib/flexserve/models/google--gemma-4-E2B-it/89abcdef0189abcdef0189abcdef0189abcdef01

# swap, no automatic upgrades, the watcher for a reclaim
done_host() {
  [ -e "$RUN/host" ]
}
phase_host() {
  # Automatic upgrades hold dpkg's lock at the first boot, and may restart the driver's services: off for this short life.
  timeout 60 systemctl mask --now apt-daily.timer apt-daily-upgrade.timer apt-daily.service apt-daily-upgrade.service \
    unattended-upgrades.service || true
  # The weights are mapped as a whole: a host with less memory than they need fails without swap.
  local swap="$STATE/swap"
  if ! swapon --show=NAME --noheadings | grep -qx "$swap"; then
    rm -f "$swap" # one that was cut off while it was made
    fallocate -l 16G "$swap"
    chmod 600 "$swap"
    mkswap "$swap"
    swapon "$swap"
  fi
  # EC2 gives notice of a reclaim: the watcher reads it while the machine lives.
  cat >/etc/systemd/system/flexserve-reclaim.service <<UNIT
[Unit]
Description=flexserve: reads the notice of a reclaim

[Service]
WorkingDirectory=$LIB
ExecStart=/usr/bin/python3 -S -E -m startup.onboard reclaim
Restart=on-failure
RestartSec=5
StandardOutput=journal+console
UNIT
  systemctl daemon-reload
  systemctl restart --no-block flexserve-reclaim.service
  touch "$RUN/host"
}
# wait for the accelerator's driver, check that it is the card of the plan
done_driver() {
  false
}
phase_driver() {
  onboard driver T4G 7.5
}
# fetch the Hub token from Secret Manager as the machine's own identity
done_token() {
  [ -e "$MODEL_DIR/.complete" ]
}
phase_token() {
  onboard token aws-secrets-manager us-east-1 hf-token
}
# take the kept build of vLLM from the bucket, check and unpack it; or make it, where the stack says so (then 7200 s)
done_build() {
  [ -e "$BUILD/.complete" ]
}
phase_build() {
  onboard build us-east-1 fs-k3j9x2 builds/0123456789ab-torch2.12.0-cu132-sm75-py312-patch1 7.5 "$BUILD"
}
# download the model's files at the pinned revision, check them
done_weights() {
  [ -e "$MODEL_DIR/.complete" ]
}
phase_weights() {
  onboard weights google/gemma-4-E2B-it 89abcdef0189abcdef0189abcdef0189abcdef01 hf-token "$MODEL_DIR"
}
# apply the Turing patch to the build, check it
done_patch() {
  false
}
phase_patch() {
  local site
  for site in "$BUILD"/venv/lib/python3.*/site-packages; do
    (cd "$LIB" && python3 -S -E -m startup.turing apply --tree "$site" && python3 -S -E -m startup.turing check --tree "$site")
  done
}
# What the server is started with. A hash of it tells whether a running one is the wanted one.
# shellcheck disable=SC2016 # every word is meant as it is written
readonly SERVER=(
  c9ab190d629fdd127c8e2d01601d8af5
  DO_NOT_TRACK=1
  HF_HUB_OFFLINE=1
  HOME=/root
  PATH=/opt/flexserve/builds/0123456789ab-torch2.12.0-cu132-sm75-py312-patch1/venv/bin:/usr/local/cuda/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
  VLLM_NO_USAGE_STATS=1
  /opt/flexserve/builds/0123456789ab-torch2.12.0-cu132-sm75-py312-patch1/venv/bin/vllm
  serve
  /var/lib/flexserve/models/google--gemma-4-E2B-it/89abcdef0189abcdef0189abcdef0189abcdef01
  --served-model-name
  google/gemma-4-E2B-it
  --port
  8000
  --dtype
  float16
  --max-model-len
  16384
  --attention-backend
  TRITON_ATTN
)

server() {
  onboard server "$1" unit c9ab190d629fdd127c8e2d01601d8af5 8000 chat 3600 "${SERVER[@]}"
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
  host=300:
  driver=300:
  token=1800:
  build=1800:driver
  weights=1800:token+driver
  patch=120:build
  load=1200:host+patch+weights
  compile=1800:load
  serving=600:compile
)

readonly LIB=/run/flexserve/lib/38b097752bfe # on the tmpfs: a full disk must not keep the boot from saying so

onboard() {
  (cd "$LIB" && exec python3 -S -E -m startup.onboard "$@")
}

put() {
  cat >"$LIB/$1"
}

unpack() {
  mkdir -p "$LIB"/startup "$LIB"/startup/onboard "$LIB"/startup/turing "$LIB"/verdict
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
  put startup/onboard/aws.py <<'FLEXSERVE_FILE'
"""EC2's metadata service (version 2), and AWS's APIs signed as the machine's own role.

The signature is curl's own (`--aws-sigv4`). Session and credentials are files on a tmpfs that only root may read; neither is
ever on a command line.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

from startup.onboard import causes
from startup.onboard.attempt import pauses, sleep
from startup.onboard.curl import Answer, ask
from startup.onboard.places import AWS_CURL, AWS_SESSION, IMDS, object_url

SESSION_S = 21_600  # the longest that the service gives
SPARE_S = 300.0  # credentials that end sooner are asked for again
ROLE = "meta-data/iam/security-credentials/"


def imds(path: str, *, seconds: float = 5) -> Answer:
    """GET below `/latest/`. A session that ran out is renewed once."""
    for fresh in (False, True):
        if fresh or not _young(AWS_SESSION, SESSION_S / 2):
            renewed = _session(seconds)
            if renewed.status != 200:
                return renewed
        answer = ask(f"{IMDS}/{path}", header_file=AWS_SESSION, seconds=seconds)
        if answer.status != 401:
            break
    return answer


def credentials() -> str:
    """Keep the role's credentials where curl reads them; why not, when there are none."""
    if _young(AWS_CURL, -SPARE_S):  # its time is when it ends
        return ""
    role = imds(ROLE)
    name = role.body.strip().partition("\n")[0]
    if role.status != 200 or not name:
        return causes.say("no-instance-role", detail=role.error or f"metadata service: HTTP {role.status}")
    answer = imds(ROLE + name).document()
    if answer.get("Code", "Success") != "Success" or "SecretAccessKey" not in answer:
        return causes.say(
            "no-instance-role", detail=f"role {name}: {answer.get('Message') or answer.get('Code') or 'no credentials'}"
        )
    lines = f'header = "x-amz-security-token: {answer["Token"]}"\nuser = "{answer["AccessKeyId"]}:{answer["SecretAccessKey"]}"\n'
    keep(AWS_CURL, lines)
    ends = _epoch(str(answer.get("Expiration", "")))
    os.utime(AWS_CURL, (ends, ends))
    return ""


def role_name() -> str:
    """The machine's role, for a sentence."""
    return imds(ROLE).body.strip().partition("\n")[0] or "the machine's role"


def wait_for_credentials() -> None:
    """A profile that is attached late is waited for; the phase's limit bounds it."""
    for pause in pauses(15.0):
        reason = credentials()
        if not reason:
            return
        causes.note(reason)
        print(f"again in {pause:g} s: {reason}", flush=True)
        sleep(pause)


def call(service: str, region: str, target: str, document: object, *, seconds: float = 30) -> Answer:
    """One request of a JSON service (`secretsmanager.GetSecretValue`)."""
    headers = ("Content-Type: application/x-amz-json-1.1", f"X-Amz-Target: {target}")
    url = f"https://{service}.{region}.amazonaws.com/"
    return ask(url, *_signed(service, region), headers=headers, data=json.dumps(document), seconds=seconds)


def get(region: str, bucket: str, key: str, *options: str, seconds: float = 30) -> Answer:
    """One object of S3."""
    return ask(object_url(region, bucket, key), *options, *_signed("s3", region), headers=UNSIGNED, seconds=seconds)


def put(region: str, bucket: str, key: str, file: Path, *, seconds: float = 1700) -> Answer:
    """A file as one object of S3, in one request."""
    url = object_url(region, bucket, key)
    return ask(url, "-T", str(file), *_signed("s3", region), headers=UNSIGNED, seconds=seconds)


def delete(region: str, bucket: str, key: str) -> Answer:
    """One object of S3 goes; one that is not there is no error."""
    return ask(object_url(region, bucket, key), "-X", "DELETE", *_signed("s3", region), headers=UNSIGNED)


# The connection is TLS; what is asked for has no body, and what is put is hashed in its manifest.
UNSIGNED = ("x-amz-content-sha256: UNSIGNED-PAYLOAD",)


def error_code(answer: Answer) -> str:
    """AWS's own name of what went wrong: `ResourceNotFoundException`, `AccessDenied`; empty when it gives none."""
    name = str(answer.document().get("__type", "")).rpartition("#")[2]
    if not name and "<Code>" in answer.body:
        name = answer.body.partition("<Code>")[2].partition("</Code>")[0]
    return name


def keep(place: Path, text: str) -> None:
    """A file that only root may read, complete or not there. Phases run side by side and may all write it."""
    fresh = place.with_name(f"{place.name}.{os.getpid()}.new")
    with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="ascii") as file:
        file.write(text)
    fresh.replace(place)


def _signed(service: str, region: str) -> tuple[str, ...]:
    return ("-K", str(AWS_CURL), "--aws-sigv4", f"aws:amz:{region}:{service}")


def _session(seconds: float) -> Answer:
    lifetime = f"X-aws-ec2-metadata-token-ttl-seconds: {SESSION_S}"
    answer = ask(f"{IMDS}/api/token", "-X", "PUT", headers=(lifetime,), seconds=seconds)
    if answer.status == 200:
        keep(AWS_SESSION, f"X-aws-ec2-metadata-token: {answer.body.strip()}\n")
    return answer


def _young(file: Path, seconds: float) -> bool:
    try:
        return time.time() - file.stat().st_mtime < seconds
    except OSError:  # not there, or taken away by a boot that ends
        return False


def _epoch(text: str) -> float:
    import calendar

    try:
        return float(calendar.timegm(time.strptime(text, "%Y-%m-%dT%H:%M:%SZ")))
    except ValueError:
        return time.time() + SPARE_S
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
  put startup/onboard/build.py <<'FLEXSERVE_FILE'
"""The kept build: vLLM compiled once for this card, taken from the bucket, checked against its manifest, unpacked in one step.

`manifest.json` names the archive, its size and SHA-256, and what it was compiled for; the archive holds `venv/`.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from startup.onboard import aws, causes
from startup.onboard.attempt import pauses, sleep
from startup.onboard.curl import Answer

MANIFEST = "manifest.json"
COMPLETE = ".complete"
LONGEST_PAUSE = 15.0
WRONG_BYTES = 2


@dataclass(frozen=True)
class Kept:
    """Where it is kept (`folder` ends in no slash), and for which compute capability it must be."""

    region: str
    bucket: str
    folder: str
    capability: str

    @property
    def key(self) -> str:
        """Its name."""
        return self.folder.rpartition("/")[2]


class Missing(causes.Failed):
    """The bucket holds none that this machine may read."""


def take(kept: Kept, place: Path) -> None:
    """Make `place` the unpacked build. Raises `Failed`; waits while the bucket does not answer."""
    aws.wait_for_credentials()
    manifest = _manifest(kept)
    arch = f"sm_{kept.capability.replace('.', '')}"
    if arch not in manifest["arch_list"]:
        raise causes.Failed(causes.say("build-without-arch", found=" ".join(manifest["arch_list"]), wanted=kept.capability))
    place.parent.mkdir(parents=True, exist_ok=True)
    archive = place.with_name(f"{place.name}.archive")
    _archive(kept, manifest, archive)
    fresh = place.with_name(f"{place.name}.new")
    shutil.rmtree(fresh, ignore_errors=True)
    fresh.mkdir()
    unpacked = subprocess.run(["tar", "-xf", archive, "-C", fresh], stderr=subprocess.STDOUT, check=False)
    if unpacked.returncode != 0:
        archive.unlink()
        raise causes.Failed(causes.say("build-damaged", key=kept.key, detail="the archive does not unpack"))
    archive.unlink()
    (fresh / COMPLETE).write_text(json.dumps(manifest), encoding="utf-8")
    shutil.rmtree(place, ignore_errors=True)
    fresh.replace(place)
    print(f"vLLM {manifest.get('vllm', '')} for {' '.join(manifest['arch_list'])}, torch {manifest.get('torch', '')}", flush=True)


def _manifest(kept: Kept) -> dict[str, Any]:
    answer = _asked(kept, MANIFEST)
    manifest = answer.document()
    wanted = {"archive": str, "sha256": str, "size": int, "arch_list": list}
    wrong = [name for name, kind in wanted.items() if not isinstance(manifest.get(name), kind)]
    if wrong:
        raise causes.Failed(causes.say("build-damaged", key=kept.key, detail=f"{MANIFEST} lacks {', '.join(wrong)}"))
    return manifest


def _asked(kept: Kept, name: str) -> Answer:
    """A small object. A bucket tells one that it lacks from one that may not be read only to who may list it."""
    for pause in pauses(LONGEST_PAUSE):
        answer = aws.get(kept.region, kept.bucket, f"{kept.folder}/{name}")
        if answer.status == 200:
            return answer
        if answer.status in (403, 404) and aws.error_code(answer) not in ("ExpiredToken", "RequestTimeTooSkewed"):
            raise Missing(causes.say("no-build", bucket=kept.bucket, key=kept.key))
        _wait(answer, pause)
    raise AssertionError("pauses never end")


def _archive(kept: Kept, manifest: dict[str, Any], archive: Path) -> None:
    """Download with resume; twice wrong bytes are not the network's doing."""
    name, size = str(manifest["archive"]), int(manifest["size"])
    wrong = 0
    for pause in pauses(LONGEST_PAUSE):
        answer = aws.get(kept.region, kept.bucket, f"{kept.folder}/{name}", "-C", "-", "--fail", "-o", str(archive), seconds=1700)
        got = archive.stat().st_size if archive.exists() else 0
        if got == size:
            if sha256_of(archive) == manifest["sha256"]:
                return
            wrong += 1
            archive.unlink()
        if got > size:
            archive.unlink()
        if wrong >= WRONG_BYTES:
            raise causes.Failed(causes.say("build-damaged", key=kept.key, detail=f"{name} has another SHA-256"))
        if answer.status != 206 and answer.status != 200:
            aws.credentials()
        _wait(answer, pause, f"{got} of {size} bytes")


def _wait(answer: Answer, pause: float, more: str = "") -> None:
    detail = answer.error or f"HTTP {answer.status} {aws.error_code(answer)}".strip()
    reason = causes.say("bucket-unreachable", detail=f"{detail}, {more}" if more else detail)
    causes.note(reason)
    print(f"again in {pause:g} s: {reason}", flush=True)
    sleep(pause)


def sha256_of(file: Path) -> str:
    """Hex."""
    digest = hashlib.sha256()
    with file.open("rb") as data:
        os.posix_fadvise(data.fileno(), 0, 0, os.POSIX_FADV_SEQUENTIAL)
        while block := data.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()
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
  put startup/onboard/driver.py <<'FLEXSERVE_FILE'
"""The card, before anything long: the driver answers, and it is the card that the plan was made for."""

from __future__ import annotations

import shutil
import subprocess

from startup.onboard import causes
from startup.onboard.attempt import pauses, sleep

QUERY = ("nvidia-smi", "--query-gpu=name,compute_cap,driver_version,memory.total", "--format=csv,noheader,nounits")


def check(gpu: str, capability: str) -> None:
    """Raises `Failed` for another card or an image without a driver; a driver that still loads is waited for."""
    if shutil.which(QUERY[0]) is None:
        raise causes.Failed(causes.say("no-driver"))
    for pause in pauses(10.0):
        done = subprocess.run(QUERY, capture_output=True, encoding="utf-8", errors="replace", check=False)
        cards = [[field.strip() for field in line.split(",")] for line in done.stdout.splitlines() if line.count(",") >= 3]
        if done.returncode == 0 and cards:
            break
        reason = causes.say("driver-down", detail=causes.last_words((done.stdout + done.stderr).splitlines()))
        causes.note(reason)
        print(f"again in {pause:g} s: {reason}", flush=True)
        sleep(pause)
    for name, found, version, memory in (card[:4] for card in cards):
        print(f"{name}, compute capability {found}, driver {version}, {memory} MiB", flush=True)
        if found != capability or gpu not in name:
            wanted = f"{gpu} with compute capability {capability}"
            raise causes.Failed(causes.say("wrong-gpu", found=f"{name} with {found}", wanted=wanted))
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
  put startup/onboard/reclaim.py <<'FLEXSERVE_FILE'
"""The watcher of a spot machine: reads EC2's notice, says so in the status, and lets running requests end.

A notice comes two minutes before the end at most; the advice to rebalance may come earlier, or never, and is only noted.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress

from startup.onboard import aws, places
from startup.onboard.attempt import sleep
from startup.onboard.curl import Answer
from startup.onboard.report import Report, tell_nobody

EVERY_S = 5.0  # EC2's own advice
NOTICE = "meta-data/spot/instance-action"
ADVICE = "meta-data/events/recommendations/rebalance"


def watch() -> None:
    """Until the machine is taken back. Its console and log get a line for the advice, the status a sentence for the notice."""
    report = Report(places.STATE, tell_nobody)
    advised = False
    while True:
        notice = aws.imds(NOTICE)
        if notice.status == 200:
            taken(notice, report, places.SERVER_PORT)
            return
        if not advised and (advice := aws.imds(ADVICE)).status == 200:
            advised = True
            report.line(f"flexserve: EC2 advises to move on: {advice.body.strip()}", loud=True)
        sleep(EVERY_S)


def taken(notice: Answer, report: Report, port: int) -> None:
    """No new connection from here on; those that are open go on until EC2 ends the machine."""
    said = notice.document()
    at = str(said.get("time", ""))[11:16] or time.strftime("%H:%M", time.gmtime())
    cause = f"reclaimed at {at} UTC: EC2 takes the spot machine back ({said.get('action', 'terminate')})"
    with suppress(OSError, ValueError):
        os.kill(int(places.PID.read_text(encoding="ascii")), signal.SIGTERM)  # a boot that still runs would go on in vain
    try:
        state = json.loads((places.STATE / "state").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        state = {}
    report.document("state", {**state, "state": "reclaimed", "cause": cause, "updated_at": int(time.time())})
    report.line(f"flexserve: {cause}", loud=True)
    rule = ("INPUT", "-p", "tcp", "--dport", str(port), "--syn", "-j", "REJECT", "--reject-with", "tcp-reset")
    done = subprocess.run(["iptables", "-I", *rule], capture_output=True, encoding="utf-8", errors="replace", check=False)
    if done.returncode != 0:
        print(f"flexserve: new connections are not refused: {done.stderr.strip()}", file=sys.stderr, flush=True)
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
  put startup/onboard/secret_aws.py <<'FLEXSERVE_FILE'
"""The Hub token: read from Secrets Manager as the machine's own role, kept in a header file on a tmpfs.

A grant or a secret that comes late is waited for; what no waiting can mend is a failure at once.
"""

from __future__ import annotations

import json

from startup.onboard import aws, causes, places
from startup.onboard.attempt import pauses, sleep
from startup.onboard.curl import Answer
from startup.onboard.secret import LONGEST_PAUSE, checked, keep

LATE_GRANT_S = 120.0  # a grant of IAM's holds within a minute or so; a secret that is not there is refused in the same words
REFUSALS = {
    "ResourceNotFoundException": "aws-secret-missing",
    "InvalidRequestException": "secret-disabled",  # marked for deletion
    "AccessDeniedException": "aws-secret-permission",
    "DecryptionFailure": "aws-secret-permission",
}


def fetch(region: str, secret: str) -> None:
    """Put the secret's current version where `curl` finds it. Raises `Failed`; waits for a grant for as long as IAM may need."""
    aws.wait_for_credentials()
    waited = 0.0
    for pause in pauses(LONGEST_PAUSE):
        reason = _access(region, secret)
        if not reason:
            return
        if reason.startswith("aws-secret-permission") and waited >= LATE_GRANT_S:
            raise causes.Failed(reason)
        causes.note(reason)
        waited += pause
        print(f"again in {pause:g} s: {reason}", flush=True)
        sleep(pause)


def _access(region: str, secret: str) -> str:
    facts = {"secret": secret, "region": region, "project": region}
    answer = aws.call("secretsmanager", region, "secretsmanager.GetSecretValue", {"SecretId": secret})
    if answer.status == 200:
        keep(places.HUB_HEADER, checked(_text(answer), facts))
        return ""
    cause = REFUSALS.get(aws.error_code(answer), "aws-secret-unreachable")
    if aws.error_code(answer) == "ExpiredTokenException":
        places.AWS_CURL.unlink(missing_ok=True)
        aws.credentials()
    account = aws.role_name() if cause == "aws-secret-permission" else ""
    detail = answer.error or f"HTTP {answer.status} {aws.error_code(answer)}".strip()
    text = causes.say(cause, account=account, detail=detail, **facts)
    if not causes.BY_ID[cause].retry:
        raise causes.Failed(text)
    return text


def _text(answer: Answer) -> str:
    """The value: as text, or the one value of a JSON object, which is how the console stores a key and a value."""
    value = str(answer.document().get("SecretString", ""))
    try:
        pairs = json.loads(value)
    except ValueError:
        return value
    return str(next(iter(pairs.values()))) if isinstance(pairs, dict) and len(pairs) == 1 else value
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
  put startup/onboard/unit.py <<'FLEXSERVE_FILE'
"""The one server as a unit of systemd's, by the `systemctl` and `journalctl` on PATH.

What it runs is a small script of its own: systemd's quoting is not a shell's. The unit is not enabled: the boot starts it.
"""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

from startup.onboard import causes, places
from startup.onboard.engine import Server

NAME = "flexserve-vllm.service"
FILE = Path("/etc/systemd/system") / NAME
STOP_GRACE = 60  # seconds: an engine that is killed earlier leaves the accelerator busy
FACTS = ("ActiveState", "SubState", "NRestarts", "ExecMainStartTimestamp", "ExecMainStatus", "Result")
UNIT = """# flexserve.config={config}
[Unit]
Description=flexserve: vLLM
StartLimitIntervalSec=0

[Service]
ExecStart=/bin/bash {script}
Restart=always
RestartSec=5
TimeoutStopSec={grace}
KillMode=mixed
OOMPolicy=stop
LogRateLimitIntervalSec=0
"""


def inspect() -> Server | None:
    """The unit, or None when there is none. Raises `Failed` when systemd does not answer."""
    try:
        text, made = FILE.read_text(encoding="utf-8"), FILE.stat().st_mtime_ns
    except OSError:
        return None
    done = _run("systemctl", "show", "--timestamp=unix", *(f"--property={fact}" for fact in FACTS), NAME)
    if done.returncode != 0:
        raise causes.Failed(f"{causes.say('failed', status=done.returncode)} ({causes.last_words(done.stderr.splitlines())})")
    facts = dict(line.partition("=")[::2] for line in done.stdout.splitlines())
    config = re.search(r"^# flexserve\.config=(\S+)$", text, re.MULTILINE)
    return Server(
        id=f"{made:x}",
        config=config[1] if config else "",
        status=status(facts.get("ActiveState", ""), facts.get("SubState", "")),
        restarts=_number(facts.get("NRestarts", "")),
        started_at=stamp(_number(facts.get("ExecMainStartTimestamp", "").lstrip("@")) * 1_000_000),
        exit_code=_number(facts.get("ExecMainStatus", "")),
        oom=facts.get("Result") == "oom-kill",
    )


def status(active: str, sub: str) -> str:
    """Systemd's state in the engine's words."""
    if active == "active":
        return "running"
    if active in ("activating", "reloading"):
        return "restarting" if sub == "auto-restart" else "running"
    return "exited"


def stamp(micros: int) -> str:
    """Microseconds of the epoch as RFC 3339 text that sorts by time."""
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(micros // 1_000_000)) + f".{micros % 1_000_000:06d}Z"


def stop() -> None:
    """Stop it. Not there is fine."""
    _run("systemctl", "stop", NAME)


def remove() -> None:
    """Stop it and take it away. Not there is fine."""
    if FILE.exists():
        stop()
        FILE.unlink(missing_ok=True)
        _run("systemctl", "daemon-reload")
        _run("systemctl", "reset-failed", NAME)


def run(words: Sequence[str]) -> None:
    """Start it. `words`: the configuration's hash, then the command as `env` takes it. Raises `Failed` with systemd's words."""
    config, *command = words
    script = places.STATE / "serve"
    _write(script, f"#!/bin/bash\nexec env {shlex.join(command)}\n")
    _write(FILE, UNIT.format(config=config, script=script, grace=STOP_GRACE))
    for argv in (("systemctl", "daemon-reload"), ("systemctl", "start", "--no-block", NAME)):
        done = _run(*argv)
        if done.returncode != 0:
            detail = causes.last_words(done.stderr.splitlines())
            raise causes.Failed(f"{causes.say('failed', status=done.returncode)} ({' '.join(argv)}: {detail})")


def log(since: str) -> Log:
    """Its output from a time stamp on; empty: all."""
    return Log(since)


class Log:
    """The server's output as (time stamp, text), each line once, over restarts. Only its own: not what systemd says of it."""

    def __init__(self, since: str) -> None:
        self._last = since
        self._cursor = ""

    def lines(self) -> list[tuple[str, str]]:
        """What was printed since the last call (at first: since `since`)."""
        match = ("--no-pager", "--output=json", "--output-fields=MESSAGE", f"_SYSTEMD_UNIT={NAME}")
        start = (f"--after-cursor={self._cursor}",) if self._cursor else ()
        pairs = []
        for line in _run("journalctl", *start, *match).stdout.splitlines():
            try:
                entry = json.loads(line)
                at = stamp(int(entry["__REALTIME_TIMESTAMP"]))
            except (ValueError, KeyError, TypeError):
                continue
            self._cursor = str(entry.get("__CURSOR", self._cursor))
            message = entry.get("MESSAGE") or ""
            text = bytes(message).decode("utf-8", "replace") if isinstance(message, list) else str(message)
            if at > self._last:
                pairs.append((at, text))
        return pairs


def _write(file: Path, text: str) -> None:
    fresh = file.with_name(f".{file.name}.new")
    fresh.write_text(text, encoding="utf-8")
    fresh.replace(file)


def _number(text: str) -> int:
    return int(text) if text.lstrip("-").isdigit() else 0


def _run(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(words, capture_output=True, encoding="utf-8", errors="replace", check=False)
FLEXSERVE_FILE
  put startup/turing/__init__.py <<'FLEXSERVE_FILE'
"""The Turing patch: lets an installed vLLM's Triton unified attention run in the shared memory of compute capability 7.x.

A block may have 65,536 bytes there; the kernel asks for 98,304 at Gemma 4's 512-wide global layers. `python -m startup.turing`
applies, checks, reverts and proves it. All but `prove` need the standard library alone: they run where vLLM is installed.
"""
FLEXSERVE_FILE
  put startup/turing/__main__.py <<'FLEXSERVE_FILE'
"""`python -m startup.turing apply|check|revert|prove`: the Turing patch for an installed vLLM.

Exit codes: 0 done · 1 not patched, or not proved · 2 usage · 3 refused, the tree is not known · 9 cannot tell.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from startup.turing import patch, tree
from startup.turing.place import RULE
from verdict.errors import FlexserveError, Refused
from verdict.exit_codes import ExitCode


def parser() -> argparse.ArgumentParser:
    """The command line."""
    top = argparse.ArgumentParser(prog="python -m startup.turing", description="The Turing patch for an installed vLLM.")
    commands = top.add_subparsers(dest="command", required=True)
    for name, text in (
        ("apply", "patch it; a patched one stays as it is"),
        ("check", "patched, unpatched or unknown"),
        ("revert", "take the patch out, byte for byte"),
        ("prove", "compile what it launches for sm_75, with and without the patch"),
    ):
        command = commands.add_parser(name, help=text, description=text)
        command.add_argument("--tree", type=Path, help="site-packages or an unpacked wheel; default: this Python's vLLM")
        command.add_argument("--json", action="store_true", help="one JSON document on stdout")
        if name == "prove":
            command.add_argument("--release", action="append", default=[], metavar="VERSION", help="only this one; may be repeated")
            command.add_argument("--newest", action="store_true", help="also the newest vLLM of the package index")
            command.add_argument("--whole", action="store_true", help="compile to LLVM, not only to the memory's layout")
    return top


def main(words: Sequence[str]) -> int:
    """Run one command; returns the exit code."""
    args = parser().parse_args(words)
    try:
        if args.command == "prove":
            return _prove(args)
        return _file(args.command, args.tree, args.json)
    except FlexserveError as error:
        print(json.dumps(error.as_dict()) if args.json else error, file=sys.stdout if args.json else sys.stderr)
        return int(error.exit_code)
    except OSError as error:  # a file that may not be read or written
        print(f"{error.filename or ''}: {error.strerror or error}", file=sys.stderr)
        return int(ExitCode.FAILED)


def _file(command: str, under: Path | None, as_json: bool) -> int:
    file = tree.module_of(under)
    content = file.read_bytes()
    if command != "check":
        wanted = patch.apply(content) if command == "apply" else patch.revert(content)
        if wanted != content:
            tree.write(file, wanted)
        changed, content = wanted != content, wanted
    else:
        changed = False
    state = patch.check(content)
    if command == "check" and state.name == "unknown":
        raise Refused(RULE, why=state.why, way_out=f"see what {file} is; `prove` lists the releases that are known")
    shown: dict[str, Any] = {"state": state.name, "version": state.version, "changed": changed, "file": str(file)}
    version = f" (version {state.version})" if state.version else ""
    print(json.dumps(shown) if as_json else f"{state.name}{version}{', changed now' if changed else ''}: {file}")
    return int(ExitCode.FAILED if command == "check" and state.name != "patched" else ExitCode.DONE)


def _prove(args: argparse.Namespace) -> int:
    from catalog.loader import Catalog
    from startup.turing import fetch, prove

    if args.tree is not None:
        tree.module_of(args.tree)
        trees = [(args.tree.name or "tree", args.tree)]
    else:
        releases = [r for r in fetch.pinned() if not args.release or r.version in args.release]
        if unknown := set(args.release) - {r.version for r in releases}:
            raise FlexserveError(f"no release {', '.join(sorted(unknown))} in releases.toml", exit_code=ExitCode.USAGE)
        if args.newest and (newest := fetch.newest()) not in releases:
            releases.append(newest)
        trees = [(str(release), fetch.sources(release)) for release in releases]
    layers = {(layer.head_dim, layer.sliding_window or 0) for model in Catalog.load().models.values() for layer in model.kv_layers}
    proof = prove.prove(trees, layers, fetch.triton_python(), whole=args.whole)
    print(json.dumps(proof.as_dict()) if args.json else prove.table(proof))
    return int(ExitCode.FAILED if proof.problems else ExitCode.DONE)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
FLEXSERVE_FILE
  put startup/turing/limits.py <<'FLEXSERVE_FILE'
"""How much shared memory the attention kernel asks for on Turing, and which query groups that leaves room for."""

from __future__ import annotations

SHARED_BYTES = 65_536  # a block's shared memory on compute capability 7.5; CUDA C++ Programming Guide, compute capabilities
SMALLEST_TILE = 16  # tl.dot wants at least 16 along each side
WIDE_HEAD = 512  # from this padded head size on, the patch makes the tile SMALLEST_TILE
USUAL_TILE = 32  # what vLLM 0.27 to 0.33 choose for a prefill
_ELEMENT_BYTES = 2  # float16, the only 16-bit type that Turing multiplies


def power_of_two(number: int) -> int:
    """The smallest power of two that is not below `number`."""
    return 1 << max(number - 1, 0).bit_length()


def rows_of_a_block(group: int) -> int:
    """Query rows a block works on, for `group` query heads a KV head: vLLM's own rule."""
    return max(16, power_of_two(group))


def shared_bytes(head_dim: int, group: int, tile: int) -> int:
    """Bytes a block asks for in float16. Read off what Triton compiles for sm_75; `prove` holds every cell against it.

    Beside the query and the output tile (rows x head) lie a key and a value tile (tile x head).
    """
    return 2 * (rows_of_a_block(group) + tile) * power_of_two(head_dim) * _ELEMENT_BYTES


def patched_tile(head_dim: int) -> int:
    """The prefill tile that a patched vLLM takes on Turing."""
    return SMALLEST_TILE if power_of_two(head_dim) >= WIDE_HEAD else USUAL_TILE


def largest_group(head_dim: int) -> int:
    """The most query heads a KV head that fit with the patch, a power of two; 0 when not even one does. 16 at head 512."""
    group, tile = 0, patched_tile(head_dim)
    candidate = 1
    while shared_bytes(head_dim, candidate, tile) <= SHARED_BYTES:
        group, candidate = candidate, candidate * 2
    return group
FLEXSERVE_FILE
  put startup/turing/patch.py <<'FLEXSERVE_FILE'
"""The patch itself, on bytes: in, out, and what state a file is in. Knows no file system and no vLLM."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass

from startup.turing.limits import SMALLEST_TILE, WIDE_HEAD
from startup.turing.place import RULE, find
from verdict.errors import Refused

VERSION = 1
_BEGIN = "# >>> flexserve turing tile"
_END = "# <<< flexserve turing tile"
# The head size is asked first: narrow heads pay nothing. `is_cuda`: other platforms count capabilities in their own way.
_LINES = (
    "if triton.next_power_of_2(head_size) >= {wide} and current_platform.is_cuda():",
    "    _capability = current_platform.get_device_capability()",
    "    if _capability is not None and tuple(_capability) < (8, 0):",
    "        TILE_SIZE_PREFILL = min(TILE_SIZE_PREFILL, {tile})",
    "        TILE_SIZE_DECODE = min(TILE_SIZE_DECODE, {tile})",
)
_BLOCK = re.compile(
    rb"^[ \t]*"
    + _BEGIN.encode()
    + rb" v(?P<version>\d+) of (?P<digest>[0-9a-f]{64})\r?\n(?:.*\n)*?[ \t]*"
    + _END.encode()
    + rb"\r?\n",
    re.MULTILINE,
)


@dataclass(frozen=True)
class State:
    """`name`: patched, unpatched or unknown; `version` of the patch that is in, 0 for none; `why` it is unknown."""

    name: str
    version: int = 0
    why: str = ""


def apply(content: bytes) -> bytes:
    """The patched file. A file with this version is returned as it is; another version is taken out first.

    Raises `Refused` (rule `turing-unknown-tree`) for code of another shape, and for a patch that was edited by hand.
    """
    original = revert(content)
    patched = _insert(original)
    return content if patched == content else patched


def revert(content: bytes) -> bytes:
    """The file as it was, byte for byte, held against the digest that the patch recorded. Raises `Refused` otherwise."""
    found = list(_BLOCK.finditer(content))
    if not found:
        if _BEGIN.encode() in content or _END.encode() in content:
            raise _broken("a whole block between its two marks", "a part of one")
        return content
    if len(found) > 1:
        raise _broken("one block", f"{len(found)}")
    start, end = found[0].span()
    original = content[:start] + content[end:]
    if _BEGIN.encode() in original or _END.encode() in original:
        raise _broken("one block", "a second mark")
    if hashlib.sha256(original).hexdigest() != found[0]["digest"].decode():
        raise _broken("the file that the patch was made for", "one that was changed since")
    return original


def check(content: bytes) -> State:
    """What state the file is in; never raises for what the file holds."""
    try:
        original = revert(content)
        patched = _insert(original)
    except Refused as refused:
        return State("unknown", why=refused.why)
    if original == content:
        return State("unpatched")
    found = _BLOCK.search(content)
    version = int(found["version"]) if found else 0
    if version == VERSION and patched != content:
        return State("unknown", version, f"looked for version {VERSION} of the patch; found: one that was edited")
    return State("patched", version)


def _insert(original: bytes) -> bytes:
    try:
        source = original.decode("utf-8")
    except UnicodeDecodeError as error:
        raise _broken("a Python module in UTF-8", str(error)) from None
    newline = "\r\n" if "\r\n" in source else "\n"
    if any(mark in line for line in source.split(newline) for mark in "\r\n"):
        raise _broken("one kind of line ending", "several")
    place = find(source.replace("\r\n", "\n"))
    digest = hashlib.sha256(original).hexdigest()
    block = [f"{_BEGIN} v{VERSION} of {digest}", *(line.format(wide=WIDE_HEAD, tile=SMALLEST_TILE) for line in _LINES), _END]
    lines = source.split(newline)
    return newline.join([*lines[: place.after], *(place.indent + line for line in block), *lines[place.after :]]).encode("utf-8")


def _broken(looked_for: str, found: str) -> Refused:
    return Refused(RULE, why=f"looked for {looked_for}; found: {found}", way_out="install vLLM again and apply the patch to it")
FLEXSERVE_FILE
  put startup/turing/place.py <<'FLEXSERVE_FILE'
"""Where the patch goes in vLLM's `triton_unified_attention.py`: found by what the code does, never by line number."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from verdict.errors import Refused

FUNCTION = "unified_attention"
TILES = ("TILE_SIZE_PREFILL", "TILE_SIZE_DECODE")
IMPORTED = ("current_platform", "triton")
HEAD = "head_size"
KERNEL = "kernel_unified_attention"
RULE = "turing-unknown-tree"


@dataclass(frozen=True)
class Place:
    """Insert whole lines after line `after` (counted from 1), indented by `indent`."""

    after: int
    indent: str


def find(source: str) -> Place:
    """The place after the last assignment to the tile sizes and before their first use, in `unified_attention`.

    Raises `Refused` when the code is not of the known shape: a patch beside the point would change nothing, in silence.
    """
    try:
        module = ast.parse(source)
    except (SyntaxError, ValueError) as error:  # ValueError: a null byte
        raise _unknown("a Python module", f"it does not parse: {error}") from None
    for name in IMPORTED:
        if not any(name in _imported(node) for node in module.body):
            raise _unknown(f"an import of {name} at the top of the module", "none")
    functions = [node for node in module.body if isinstance(node, ast.FunctionDef) and node.name == FUNCTION]
    if len(functions) != 1:
        raise _unknown(f"one function {FUNCTION} at the top of the module", f"{len(functions)}")
    body = functions[0].body
    last = max(_last_assignment(body, name) for name in TILES)
    before, after = body[: last + 1], body[last + 1 :]
    for name in TILES:
        if not any(_reads(statement, name) for statement in after):
            raise _unknown(f"a use of {name} after its last assignment", "none")
    for statement in before:
        if found := _early_use(statement):
            raise _unknown(f"no use of {found} before the last assignment to the tile sizes", f"one in line {statement.lineno}")
    if not any(_stores(statement, HEAD) for statement in before):
        raise _unknown(f"an assignment to {HEAD} before the tiles are used", "none")
    if not any(_launches(statement) for statement in after):
        raise _unknown(f"a launch {KERNEL}[grid](TILE_SIZE=...) after the tiles are chosen", "none")
    return _between(source, body[last], after[0])


def _last_assignment(body: list[ast.stmt], name: str) -> int:
    stored = [index for index, statement in enumerate(body) if _stores(statement, name)]
    if not stored:
        raise _unknown(f"an assignment to {name} in {FUNCTION}", "none")
    return stored[-1]


def _between(source: str, last: ast.stmt, following: ast.stmt) -> Place:
    end = last.end_lineno or last.lineno
    if following.lineno <= end:
        raise _unknown("the next statement on a line of its own", f"line {following.lineno} holds two")
    line = source.split("\n")[following.lineno - 1]
    return Place(end, line[: len(line) - len(line.lstrip())])


def _imported(node: ast.stmt) -> set[str]:
    names = node.names if isinstance(node, ast.Import | ast.ImportFrom) else []
    return {alias.asname or alias.name for alias in names}


def _names(node: ast.AST, name: str, context: type[ast.expr_context]) -> Iterator[ast.Name]:
    for part in ast.walk(node):
        if isinstance(part, ast.Name) and part.id == name and isinstance(part.ctx, context):
            yield part


def _stores(node: ast.AST, name: str) -> bool:
    return any(_names(node, name, ast.Store))


def _reads(node: ast.AST, name: str) -> bool:
    return any(_names(node, name, ast.Load))


def _early_use(statement: ast.stmt) -> str:
    """A tile size that is read for something else than a new tile size; '' when there is none."""
    own: set[int] = set()
    for part in ast.walk(statement):
        if isinstance(part, ast.Assign | ast.AugAssign | ast.AnnAssign):
            targets = part.targets if isinstance(part, ast.Assign) else [part.target]
            if all(isinstance(target, ast.Name) and target.id in TILES for target in targets):
                own |= {id(node) for node in ast.walk(part)}
    return next((name for name in TILES for node in _names(statement, name, ast.Load) if id(node) not in own), "")


def _launches(statement: ast.stmt) -> bool:
    calls = [part for part in ast.walk(statement) if isinstance(part, ast.Call) and isinstance(part.func, ast.Subscript)]
    return any(_kernel(call) == KERNEL and any(keyword.arg == "TILE_SIZE" for keyword in call.keywords) for call in calls)


def _kernel(call: ast.Call) -> str:
    """`name` of `name[grid](...)`; '' for another call."""
    launched = call.func.value if isinstance(call.func, ast.Subscript) else None
    return launched.id if isinstance(launched, ast.Name) else ""


def _unknown(looked_for: str, found: str) -> Refused:
    return Refused(
        RULE,
        why=f"looked for {looked_for}; found: {found}",
        way_out="use a vLLM release that `python -m startup.turing prove` names, or extend startup/turing/place.py and prove it",
    )
FLEXSERVE_FILE
  put startup/turing/tree.py <<'FLEXSERVE_FILE'
"""The file of an installed vLLM: found without importing vLLM, and written whole or not at all."""

from __future__ import annotations

import importlib.util
import os
import tempfile
from pathlib import Path

from startup.turing.place import RULE
from verdict.errors import Refused

MODULE = Path("v1/attention/ops/triton_unified_attention.py")


def module_of(tree: Path | None) -> Path:
    """The attention module under `tree` (site-packages, or an unpacked wheel), or of the vLLM that Python would import.

    Raises `Refused` when there is none, with the place that was looked at.
    """
    package = tree / "vllm" if tree is not None else _installed()
    file = package / MODULE
    if not file.is_file():
        raise _absent(f"looked for {file}; found: no such file")
    return file


def write(file: Path, content: bytes) -> None:
    """Replace the file's content in one step, with its mode.

    A new file, never the old one overwritten: installers link files from a cache that other environments share.
    """
    handle, name = tempfile.mkstemp(dir=file.parent, prefix=".turing-")
    temporary = Path(name)
    try:
        with os.fdopen(handle, "wb") as out:
            out.write(content)
            out.flush()
            os.fsync(out.fileno())
        temporary.chmod(file.stat().st_mode & 0o7777)
        temporary.replace(file)
    finally:
        temporary.unlink(missing_ok=True)


def _installed() -> Path:
    spec = importlib.util.find_spec("vllm")
    if spec is None or not spec.submodule_search_locations:
        raise _absent("looked for the package vllm on this Python's path; found: none")
    return Path(next(iter(spec.submodule_search_locations)))


def _absent(why: str) -> Refused:
    return Refused(
        RULE, why=why, way_out="run it with the Python that vLLM is installed for, or name its site-packages with --tree"
    )
FLEXSERVE_FILE
  put verdict/__init__.py <<'FLEXSERVE_FILE'
FLEXSERVE_FILE
  put verdict/errors.py <<'FLEXSERVE_FILE'
"""One root for everything that flexserve raises on purpose.

Each error says what happened, why, and the way out; the command line prints it in one place, as a sentence or as JSON.
"""

from __future__ import annotations

from verdict.exit_codes import ExitCode


class FlexserveError(Exception):
    """Something went wrong that the operator can understand.

    `what` is one sentence; `why` and `way_out` may be empty when they would only repeat it; an `error: ` that
    somebody else's message begins with is left out of `why`. What looks like a secret's value
    is in none of them, whoever the words are from.
    """

    exit_code = ExitCode.FAILED
    kind = "failed"
    elsewhere = ""
    """Where asking again may help at once: `place` (any other one), `quota` (one that counts against another quota); else empty."""

    def __init__(self, what: str, *, why: str = "", way_out: str = "", exit_code: ExitCode | None = None) -> None:
        from verdict.secrets import hidden  # most commands end without an error

        self.what, self.why, self.way_out = hidden(what), hidden(why.removeprefix("error: ")), hidden(way_out)
        super().__init__(self.what)
        if exit_code is not None:
            self.exit_code = exit_code

    def __str__(self) -> str:
        return "\n".join(
            part
            for part in (
                self.what,
                f"  why: {self.why}" if self.why else "",
                f"  way out: {self.way_out}" if self.way_out else "",
            )
            if part
        )

    def as_dict(self) -> dict[str, object]:
        """The same error for `--json`."""
        return {
            "error": {
                "kind": self.kind,
                "what": self.what,
                "why": self.why,
                "way_out": self.way_out,
                "exit_code": int(self.exit_code),
            }
        }


class BadConfig(FlexserveError):
    """A key, type or value that the stack file or the command line may not hold."""

    exit_code = ExitCode.USAGE
    kind = "bad-config"


class Refused(FlexserveError):
    """The plan breaks a rule. Raised before anything is created."""

    exit_code = ExitCode.REFUSED
    kind = "refused"

    def __init__(self, rule: str, *, why: str, way_out: str) -> None:
        super().__init__(f"refused by rule {rule}", why=why, way_out=way_out)
        self.rule = rule

    def as_dict(self) -> dict[str, object]:
        """The contract's shape: `refused{rule,why,way_out}`."""
        return {"refused": {"rule": self.rule, "why": self.why, "way_out": self.way_out}}


class NoCapacity(FlexserveError):
    """The cloud has none where it was asked for."""

    exit_code = ExitCode.NO_CAPACITY
    kind = "no-capacity"
    elsewhere = "place"


class MissingProgram(FlexserveError):
    """A program that this machine lacks; no waiting brings it."""

    kind = "missing-program"


class NoAccess(FlexserveError):
    """Credentials, a permission or a quota are missing."""

    exit_code = ExitCode.NO_ACCESS
    kind = "no-access"


class TimedOut(FlexserveError):
    """A stated limit passed."""

    exit_code = ExitCode.TIMED_OUT
    kind = "timed-out"


class LeftBehind(FlexserveError):
    """Something of this deployment still bills."""

    exit_code = ExitCode.LEFT_BEHIND
    kind = "left-behind"


class Gone(FlexserveError):
    """The window closed or the cloud took the machine back: a normal state."""

    exit_code = ExitCode.GONE
    kind = "gone"


class Reclaimed(Gone):
    """The cloud took the machine back before its window closed."""

    kind = "reclaimed"


class CannotTell(FlexserveError):
    """The evidence is not enough for a verdict."""

    exit_code = ExitCode.CANNOT_TELL
    kind = "cannot-tell"


class Interrupted(FlexserveError):
    """The operator pressed Ctrl-C; what was finished first is in `what`."""

    exit_code = ExitCode.INTERRUPTED
    kind = "interrupted"
FLEXSERVE_FILE
  put verdict/exit_codes.py <<'FLEXSERVE_FILE'
"""The exit codes of every flexserve command: one table for the code, the help and the docs."""

from enum import IntEnum


class ExitCode(IntEnum):
    """What a flexserve command ends with. Pulumi's own exit codes are its own."""

    DONE = 0, "done"
    FAILED = 1, "failed"
    USAGE = 2, "usage error or bad config"
    REFUSED = 3, "refused by a rule, before anything was created"
    NO_CAPACITY = 4, "no capacity where it was asked for"
    NO_ACCESS = 5, "no credentials, permission or quota"
    TIMED_OUT = 6, "timed out"
    LEFT_BEHIND = 7, "something is left that bills"
    GONE = 8, "expired or reclaimed"
    CANNOT_TELL = 9, "cannot tell"
    INTERRUPTED = 130, "interrupted"

    meaning: str

    def __new__(cls, value: int, meaning: str = "") -> "ExitCode":  # a look-up by number names no meaning
        """Keep the meaning beside the number."""
        member = int.__new__(cls, value)
        member._value_ = value
        member.meaning = meaning
        return member
FLEXSERVE_FILE
  put verdict/secrets.py <<'FLEXSERVE_FILE'
"""What the values of secrets look like: where a name belongs they are refused, and no message repeats them."""

from __future__ import annotations

import re

_TOKENS = (
    (r"hf_", r"(?:(?:oauth|jwt)_[\w.-]{8,}|(?=[a-z]*[0-9A-Z])[A-Za-z0-9]{8,}|[a-z]{12,})"),  # hf_overrides, hf_transfer are words
    (r"api_org_", r"[A-Za-z0-9]{30,}"),
    (r"A[KS]IA", r"[0-9A-Z]{12,}"),
    (r"ya29\.", r"[\w-]{8,}"),
    (r"AIza", r"[\w-]{35}"),
    (r"gh[pousr]_", r"[A-Za-z0-9]{30,}"),
    (r"github_pat_", r"\w{20,}"),
    (r"sk-", r"[A-Za-z0-9_-]{20,}"),
)

# The last letter of an escaped character begins a word: `\n` in a text as JSON or Python writes it, `%3D` in an address.
_ESCAPED = (r"\\[abefnrtv0]", r"\\x[0-9a-fA-F]{2}", r"\\u[0-9a-fA-F]{4}", r"%[0-9a-fA-F]{2}")


def _token(head: str, rest: str) -> str:
    """That it is not in the middle of a word is asked after the head: what begins with letters is searched for much faster."""
    begins = "|".join((rf"(?<![A-Za-z0-9_-]{head})", *(rf"(?<={escaped}{head})" for escaped in _ESCAPED)))
    return f"{head}(?:{begins}){rest}"


SECRET_VALUE = re.compile("|".join(_token(*token) for token in _TOKENS) + r"|-----BEGIN [A-Z ]*PRIVATE KEY")
"""Tokens of the Hub, AWS, Google, GitHub and of OpenAI's kind, and private keys."""
_KEY = re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.DOTALL)
_WORDS = "(what looks like a secret's value)"


def hidden(text: str) -> str:
    """The text with words in place of what looks like a secret's value; a private key to its end."""
    return SECRET_VALUE.sub(_WORDS, _KEY.sub(_WORDS, text))
FLEXSERVE_FILE
}

boot() {
  echo "flexserve: stack $STACK, deployment ${DEPLOYMENT:-without id}, attempt $((ATTEMPT + 1))"
  if [ "$PINNED" != yes ]; then
    echo "flexserve: this script was rendered before the model was pinned, and runs nothing"
    exit 2
  fi
  mkdir -p "$STATE" || true
  install -d -m 700 "$RUN"
  echo "flexserve: $(df --output=avail -BGB "$STATE" | tail -n 1 | tr -d ' ') free on a disk planned for at least 40GB"
  unpack
  local self
  self=$(readlink -f "$0")
  cd "$LIB"
  exec python3 -S -E -m startup.onboard boot nobody "$self" "${STEPS[@]}"
}

# The phase's effect is there, or it is brought about.
phase() {
  case "$1" in
    host) if done_host; then exit 90; else phase_host; fi ;;
    driver) if done_driver; then exit 90; else phase_driver; fi ;;
    token) if done_token; then exit 90; else phase_token; fi ;;
    build) if done_build; then exit 90; else phase_build; fi ;;
    weights) if done_weights; then exit 90; else phase_weights; fi ;;
    patch) if done_patch; then exit 90; else phase_patch; fi ;;
    load) if done_load; then exit 90; else phase_load; fi ;;
    compile) if done_compile; then exit 90; else phase_compile; fi ;;
    serving) if done_serving; then exit 90; else phase_serving; fi ;;
    *) echo "no phase $1" >&2 && exit 2 ;;
  esac
}

case "${1:-boot}" in
  boot) boot ;;
  phase) phase "$2" ;;
  *) echo "usage: $0 [boot | phase NAME]" >&2 && exit 2 ;;
esac
exit 0
# flexserve: end of script
