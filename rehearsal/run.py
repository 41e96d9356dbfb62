"""A rehearsal: the product's own commands, from nothing to an answer and back to nothing, against the local cloud."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Self

from infra.deployment import from_stack_file
from rehearsal.contracts import Fault, LedgerItem
from rehearsal.folders import new_folder
from rehearsal.hold import Wait, hold
from rehearsal.product import Product, Ran
from rehearsal.project import change, private_copy
from rehearsal.stage import HasBuild, Stage, stage
from rehearsal.verdict import LOG, Failure, Verdict
from verdict.errors import BadConfig, FlexserveError, Interrupted, LeftBehind
from verdict.exit_codes import ExitCode

TAIL = 12  # lines of the command that failed
_ERROR = (("rule", "refused by rule "), ("what", ""), ("why", "why: "), ("way_out", "way out: "))
SECRET_NAME = "hf-token"


class Rehearsal:
    """One rehearsal as an object, so that a test can run other commands in between. Use it as a context manager.

    `secret` is the token's value that the operator is taken to have stored beforehand; None stores none. `hold_s`: how long `life`
    holds the deployment up once it has answered.
    """

    def __init__(
        self,
        root: Path,
        stack: str,
        *,
        sets: Sequence[str] = (),
        allow: Sequence[str] = (),
        faults: Sequence[Fault] = (),
        secret: str | None = None,
        hold_s: float = 0.0,
        say: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.root, self.stack, self.sets, self.faults, self.say = root, stack, tuple(sets), tuple(faults), say
        passed = (*allow, *(rule for fault in self.faults for rule in fault.allows))
        self.allowed = tuple(word for rule in passed for word in ("--allow", rule))  # for `up`: the rules that it may go past
        self.secret = secret if secret is not None else "hf_rehearsal" + secrets.token_hex(12)
        self.hold_s = hold_s
        self.kind = from_stack_file(root, stack, sets).target.kind
        unfit = [fault for fault in self.faults if self.kind not in fault.targets]
        if unfit:
            only = " and ".join(unfit[0].targets)
            raise BadConfig(f"{unfit[0].name} is a fault of {only}, {stack} is {self.kind}", way_out="flexserve rehearse --faults")
        self.verdict = Verdict(stack)
        self.folder = Path()
        self.stage: Stage
        self.product: Product
        self.asked: Ran  # the command of `ask`
        self._started = 0.0
        self._builds = False  # a builder makes what the stack serves from
        self._before: set[tuple[str, str, str]] = set()  # the operator's own things: the stored token

    def __enter__(self) -> Self:
        """Set the stage and make the private project."""
        self._started = time.monotonic()
        self.folder, self._lock = new_folder(self.stack)
        self.stage = stage(self.kind, self.folder / "stage")
        self.stage.__enter__()
        try:
            settings = (*self.stage.settings(), *self.sets, *(text for fault in self.faults for text in fault.sets))
            project = private_copy(self.root, self.folder, self.stack, self.stage.stack_config(), settings)
            environment = {**_own_environment(), **pulumi_environment(self.folder), **self.stage.environment()}
            self.product = Product(project, environment, self.folder / LOG, self.say)
            if self.secret:
                self.stage.cloud.put_secret(SECRET_NAME, self.secret)
            self._before = {_key(item) for item in self.stage.cloud.ledger.items()}
            self._builds = bool(from_stack_file(project, self.stack).target.builder)
            made = self._builds and (not self.faults or any(fault.build for fault in self.faults))
            if isinstance(self.stage, HasBuild) and not made:
                self.stage.keep_build()
            for fault in self.faults:
                self.stage.arm(fault)
        except BaseException:
            self.stage.__exit__(*sys.exc_info())
            raise
        return self

    def __exit__(self, *exc: object) -> None:
        """Stop everything and look at what is left: in the ledger (before) and on the host (after)."""
        self.verdict.read(self.stage.cloud.ledger, self._before)
        self.verdict.parts = self.stage.parts()
        self.stage.__exit__(None, None, None)
        self.verdict.host_left = self.stage.host_left()
        self.verdict.seconds = time.monotonic() - self._started
        self._lock.close()
        if exc[0] is None and self.verdict.exit_code == 0 and not os.environ.get("FLEXSERVE_KEEP"):
            shutil.rmtree(self.folder, ignore_errors=True)
        else:
            self.verdict.kept_at = str(self.folder)

    def change(self, setting: str) -> None:
        """Edit the private stack file, as the operator would."""
        change(self.product.project, self.stack, setting)

    def step(self, *words: str, timeout: float = 600) -> Ran:
        """`flexserve WORDS -s STACK --json`, kept in the verdict's steps."""
        ran = self.product.flexserve(words[0], "-s", self.stack, "--json", *words[1:], timeout=timeout)
        self.verdict.steps.append({"command": " ".join(words), "exit": ran.returncode, "seconds": round(ran.seconds, 2)})
        return ran

    def ask(self, *, stream: bool = False) -> str:
        """Ask through the product's own tunnel, with a client that is not the product's; the answer, empty without one."""
        self.verdict.nonce = nonce = secrets.token_hex(6)
        command = f"{sys.executable} -m rehearsal.ask {nonce}{' --stream' if stream else ''}"
        ran = self.asked = self.product.flexserve("tunnel", "-s", self.stack, "--port", "0", "--exec", command, timeout=120)
        self.verdict.steps.append({"command": "tunnel --exec", "exit": ran.returncode, "seconds": round(ran.seconds, 2)})
        answers = [line for line in ran.stdout.splitlines() if '"answer"' in line]
        self.verdict.answer = str(json.loads(answers[-1])["answer"]) if answers else ""
        self.verdict.served = ran.returncode == 0 and nonce in self.verdict.answer
        return self.verdict.answer

    def life(self) -> Verdict:
        """The build where there is one to make, up, one answer, down.

        The first command that fails decides the exit code; down is run whatever happened.
        What the product keeps on purpose goes with a second `down`, so that the ledger can be empty.
        """
        if self._built():
            self._up()
        down = self.step("down", "--yes")
        if down.returncode == ExitCode.DONE and down.document.get("kept"):
            down = self.step("down", "--yes", "--purge")
        if down.returncode != ExitCode.DONE:
            self._failed(down)
        return self.verdict

    def _built(self) -> bool:
        """What the stack serves from is kept, or is made now."""
        if not self._builds:
            return True
        build = self.step("build", "--yes")
        if build.returncode != ExitCode.DONE:
            self._failed(build)
            return False
        if build.document.get("made"):
            self.verdict.build = with_held(build.document.get("phases", []), self.stage.held())
        return True

    def _up(self) -> None:
        up = self.step("up", "--yes", *self.allowed)
        if up.returncode != ExitCode.DONE:
            self._failed(up)
        status = self.step("status", "--boot")
        self.verdict.phases = with_held(status.document.get("phases", []), self.stage.held())
        if up.returncode == ExitCode.DONE:
            if status.returncode != ExitCode.DONE:
                self._failed(status)
            else:
                self.ask()
                if not self.verdict.served:
                    self._failed(self.asked, "the tunnel gave no answer with the nonce")
                elif self.hold_s:
                    self.hold(self.hold_s)

    def hold(self, seconds: float, wait: Wait | None = None) -> None:
        """Keep it up for commands from a second terminal, until the time or a Ctrl-C ends it."""
        began = time.monotonic()
        ended = hold(self.product, self.folder, self.stack, seconds, wait=wait)
        held = {"command": "hold", "exit": int(ExitCode.DONE if ended else ExitCode.INTERRUPTED)}
        self.verdict.steps.append({**held, "seconds": round(time.monotonic() - began, 2)})

    def _failed(self, ran: Ran, cause: str = "") -> None:
        """Only the first failure counts: what follows it follows from it."""
        if not self.verdict.product_exit:
            self.verdict.product_exit = ran.returncode or int(ExitCode.FAILED)
            self.verdict.cause = cause or cause_of(ran)
            self.verdict.failure = failure_of(ran)


def rehearse(
    root: Path,
    stack: str,
    *,
    sets: Sequence[str],
    faults: Sequence[Fault],
    say: Callable[[str], None],
    allow: Sequence[str] = (),
    hold_s: float = 0.0,
) -> Verdict:
    """The whole life of a stack, here."""
    rehearsal = Rehearsal(root, stack, sets=sets, allow=allow, faults=faults, hold_s=hold_s, say=say)
    try:
        with rehearsal:
            rehearsal.life()
    except KeyboardInterrupt as stop:
        raise interrupted(rehearsal.verdict) from stop
    return rehearsal.verdict


def interrupted(verdict: Verdict) -> FlexserveError:
    """What a rehearsal that was stopped says: its cloud went with it, and what is still on this host is an error of its own."""
    kept = f"its files are kept at {verdict.kept_at}" if verdict.kept_at else ""
    if verdict.host_left:
        left = ", ".join(verdict.host_left)
        return LeftBehind(
            "the rehearsal was interrupted and left something on this host", why=left, way_out="the next one sweeps it"
        )
    return Interrupted(
        "the rehearsal was interrupted; its cloud and machines are gone, nothing is left on this host",
        why=kept,
        way_out=f"flexserve rehearse {verdict.stack} begins anew",
    )


def cause_of(ran: Ran) -> str:
    """The product's own sentence for a failure: from its JSON, else its last words."""
    document = ran.document
    for key, field in (("error", "what"), ("refused", "why")):
        if isinstance(document.get(key), dict):
            return str(document[key].get(field, ""))
    lines = [line for line in ran.stderr.splitlines() if line.strip()]
    return lines[-1] if lines else f"exit {ran.returncode}"


def failure_of(ran: Ran) -> Failure:
    """The product's own error and the last lines of what it said."""
    document = ran.document
    error = document.get("error") or document.get("refused") or {}
    words = [f"{label}{error[key]}" for key, label in _ERROR if error.get(key)] if isinstance(error, dict) else []
    lines = [line for line in ran.stderr.splitlines() if line.strip()]
    return Failure(" ".join(ran.argv), ran.returncode, tuple(words), tuple(lines[-TAIL:]))


def _key(item: LedgerItem) -> tuple[str, str, str]:
    return item.kind, item.name, item.where


def with_held(phases: Sequence[Mapping[str, object]], held: Mapping[str, float]) -> list[Mapping[str, object]]:
    """The phases with the time that stand-ins held on purpose told apart; rounded, it is never more than the phase took."""
    return [{**phase, "held_s": _held(phase.get("seconds"), held.get(str(phase.get("name")), 0.0))} for phase in phases]


def _held(seconds: object, held: float) -> float:
    return round(min(held, seconds) if isinstance(seconds, int | float) else held, 2)


def pulumi_environment(folder: Path) -> dict[str, str]:
    """A backend, a home and a passphrase of the rehearsal's own."""
    (folder / "state").mkdir(parents=True, exist_ok=True)
    return {
        "PULUMI_BACKEND_URL": f"file://{folder / 'state'}",
        "PULUMI_HOME": str(folder / "pulumi-home"),
        "PULUMI_CONFIG_PASSPHRASE": "rehearsal",
        "PULUMI_SKIP_UPDATE_CHECK": "true",
    }


def _own_environment() -> dict[str, str]:
    """What a command needs of ours, and nothing that points at a real account."""
    kept = {
        k: os.environ[k]
        for k in ("HOME", "LANG", "TERM", "USER", "NO_COLOR", "XDG_CACHE_HOME", "FLEXSERVE_CACHE", "PYTHONPATH")
        if k in os.environ
    }
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ.get("PATH", "/usr/bin:/bin")))
    return {**kept, "PATH": path}
