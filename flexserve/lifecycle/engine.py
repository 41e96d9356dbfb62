"""The Pulumi engine through the Automation API: preview, up and destroy of one stack, with its events and a clean Ctrl-C."""

from __future__ import annotations

import copy
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import FrameType
from typing import IO, Any, Self

from pulumi import automation as auto
from pulumi._version import version as sdk  # which versions fit is its choice
from pulumi.automation import CommandResult, PulumiCommand
from pulumi.automation._stack import StackInitMode  # not exported; `create_or_select` knows no subclass
from pulumi.automation.errors import ConcurrentUpdateError, InvalidVersionError, create_command_error
from semver import VersionInfo

from catalog.kept import name, read, write
from flexserve.lifecycle.events import Events
from flexserve.lifecycle.lock import Locked
from flexserve.lifecycle.logfile import LogFile
from flexserve.lifecycle.parts import Changes, EngineFailed
from flexserve.project import Project, check_backend, environment, pulumi
from infra.kept import PLACE, RERUN
from verdict.errors import FlexserveError, Interrupted
from verdict.places import cache_root

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Command(PulumiCommand):
    """Starts pulumi in a session of its own: a terminal's Ctrl-C reaches us, and we pass it on, once, to the engine alone.

    Otherwise the program and the providers would get it too and die under the engine that is still recording.
    """

    process: subprocess.Popen[str] | None = None
    early: int | None = None
    """A signal that came while no engine ran: between two of the runs that one command takes."""

    @classmethod
    def of(cls, version: VersionInfo) -> Self:
        """One whose version is known, and fits."""
        made = cls.__new__(cls)
        made.version = version
        return made

    def run(
        self,
        args: list[str],
        cwd: str,
        additional_env: Mapping[str, str],
        on_output: Callable[[str], Any] | None = None,
        on_error: Callable[[str], Any] | None = None,
    ) -> CommandResult:
        """As the SDK's own: its result, or its `CommandError`. Raises `NotStarted` when it should not run any more."""
        if self.early is not None:
            raise NotStarted
        env = {**environment(), **additional_env, "PULUMI_AUTOMATION_API": "true"}
        with subprocess.Popen(
            [self.command, "--non-interactive", *(a for a in args if a != "--non-interactive")],
            cwd=cwd,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
            errors="replace",
            start_new_session=True,
        ) as process:
            self.process = process
            if self.early is not None:
                process.send_signal(self.early)
            out, err = _Drain(process.stdout, on_output), _Drain(process.stderr, on_error)
            out.join()
            err.join()
            code = process.wait()
        self.process = None
        result = CommandResult(stdout=out.text, stderr=err.text, code=code)
        if code != 0:
            raise create_command_error(result)
        return result

    def send(self, number: int) -> None:
        """Pass a signal on to the engine; if none runs, the next one does not begin."""
        if self.process is None or self.process.poll() is not None:
            self.early = number
        else:
            self.process.send_signal(number)


class NotStarted(Exception):
    """Ctrl-C came before the engine was started."""


class _Drain(threading.Thread):
    """Reads a stream to its end, line by line."""

    def __init__(self, stream: IO[str] | None, each: Callable[[str], Any] | None) -> None:
        super().__init__(daemon=True)
        self._stream, self._each, self._lines = stream, each, list[str]()
        self.start()

    def run(self) -> None:
        for line in self._stream or ():
            self._lines.append(line.rstrip())
            if self._each:
                self._each(line.rstrip())

    @property
    def text(self) -> str:
        return "\n".join(self._lines)


class _Stack(auto.Stack):
    """Does not read outputs and history back after each run, as the SDK's does: 0.6 s that nobody looks at.

    Nor does it select a stack that is known to be there, as every command names its own: 0.2 s, and the operator's choice stays.
    """

    def __init__(self, name: str, workspace: auto.LocalWorkspace, *, there: bool) -> None:
        if there:
            self.name, self.workspace, self._mode = name, workspace, StackInitMode.SELECT
        else:
            super().__init__(name, workspace, StackInitMode.CREATE_OR_SELECT)

    def outputs(self) -> auto.OutputMap:
        return {}

    def info(self, show_secrets: bool = True) -> Any:  # noqa: ARG002
        return _NOT_READ


_NOT_READ = object()


def root(path: str) -> str | None:
    """The folder whose `bin` holds the engine: the SDK's own look-up knows this process's PATH only. None leaves it to that."""
    folder = Path(path).parent
    return str(folder.parent) if folder.name == "bin" else None


def command(path: str) -> Command:
    """What starts this pulumi. Raises `FlexserveError` for one that does not fit."""
    try:
        made = copy.copy(_asked(path))
    except InvalidVersionError as error:
        raise FlexserveError("the pulumi on PATH does not fit", why=str(error), way_out="run `make setup`") from error
    made.command = path
    return made


@cache
def _asked(path: str) -> Command:
    """Its version is asked for once, in this process and the next ones: 0.2 s."""
    place = _place(path)
    if place is None:
        return Command(root=root(path))
    if (kept := read(place)) is not None:
        return Command.of(VersionInfo.parse(kept.decode()))
    asked = Command(root=root(path))
    write(place, str(asked.version).encode())
    return asked


def _place(path: str) -> Path | None:
    """Where the version of this file is kept; None for what may start another pulumi tomorrow: a script, a version manager."""
    try:
        file = Path(path).resolve(strict=True)
        facts = file.stat()
        with file.open("rb") as opened:
            script = opened.read(2) == b"#!"
    except OSError:
        return None
    if script or file.name != "pulumi" or root(path) is None:
        return None
    return cache_root() / "pulumi" / name({str(file): f"{facts.st_size} {facts.st_mtime_ns} for {sdk}".encode()})


class PulumiEngine:
    """The engine on one stack of a project. `say` gets lines for people; `variables` go to the program (consent, allowed rules)."""

    def __init__(
        self, project: Project, stack: str, say: Callable[[str], None], variables: Mapping[str, str] | None = None
    ) -> None:
        check_backend(stack_file=project.root / "stacks" / f"Pulumi.{stack}.yaml")
        self._project, self._name, self._say = project, stack, say
        self._variables = dict(variables or {})
        self._presses = 0
        self._command = command(pulumi())

    def preview(self) -> Changes:
        """What `up` would do."""
        return self._run("preview", lambda stack, **kw: stack.preview(**kw))

    def up(self, *, rerun: bool = False, place: str = "") -> Changes:
        """Create or update. `rerun`: the program gives the machine's script another attempt number. `place`: where it asks."""
        if rerun:
            self._variables[RERUN] = "1"
        if place:
            self._variables[PLACE] = place
        return self._run("up", lambda stack, **kw: stack.up(suppress_outputs=True, show_secrets=False, **kw))

    def destroy(self) -> Changes:
        """Refresh, then delete everything in the state. The lock of a killed engine of this host is removed first."""

        def call(stack: auto.Stack, **keywords: Any) -> Any:
            return stack.destroy(refresh=True, show_secrets=False, **keywords)

        try:
            return self._run("destroy", call)
        except Locked as locked:
            if not locked.unlocked(self._say):
                raise
        return self._run("destroy", call)

    def stop(self, *, hard: bool = False) -> None:
        """Ask a running engine to finish and record what it does, or end it. It is no interruption by the operator."""
        self._command.send(signal.SIGTERM if hard else signal.SIGINT)

    def _run(self, name: str, call: Callable[..., Any]) -> Changes:
        events = Events(self._say)
        there = self._project.state(self._name) is not None
        with (
            LogFile(lambda: self._project.logs, self._name, name, self._say) as log,
            self._interruptible(),
            self._project.changing(),
        ):
            try:
                stack = _Stack(self._name, self._workspace(), there=there)
                call(stack, color="never", on_event=events, on_output=log.keep, on_error=log.keep)
            except NotStarted as error:
                raise Interrupted("interrupted before the engine changed anything") from error
            except ConcurrentUpdateError as error:
                raise Locked(self._name, str(error)) from error
            except auto.CommandError as error:
                log.keep(str(error))
                self._interrupted(error, events)
                raise EngineFailed(f"pulumi {name} failed", diagnostics=_diagnostics(events, error), log=log.path) from error
            except OSError as error:  # no room for its own files, no memory for its process
                raise EngineFailed(f"pulumi {name} could not be run", diagnostics=(str(error),), log=log.path) from error
        self._interrupted(None, events)
        return events.changes

    def _workspace(self) -> auto.LocalWorkspace:
        variables = {"PULUMI_SKIP_UPDATE_CHECK": "true", **self._variables}
        return auto.LocalWorkspace(work_dir=str(self._project.root), env_vars=variables, pulumi_command=self._command)

    @contextmanager
    def _interruptible(self) -> Iterator[None]:
        """While the engine runs: the first signal asks it to finish and record, the second ends it."""
        self._presses, self._command.early = 0, None
        if threading.current_thread() is not threading.main_thread():
            yield  # signals can only be taken in the main thread
            return
        taken = [number for number in _SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]  # nohup's stays ignored
        before = {number: signal.signal(number, self._signal) for number in taken}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _signal(self, _number: int, _frame: FrameType | None) -> None:
        self._presses += 1
        self._command.send(signal.SIGINT if self._presses == 1 else signal.SIGTERM)
        if self._presses == 1:
            self._say("waits until the engine has finished and recorded what it is doing; once more ends it at once")

    def _interrupted(self, error: BaseException | None, events: Events) -> None:
        """Raise `Interrupted` when a signal came, whatever the engine ended with."""
        if not self._presses:
            return
        if self._presses == 1:
            what = "interrupted; the engine finished what it was doing and recorded it"
            raise Interrupted(
                what, why=_made(events), way_out=f"flexserve up -s {self._name} goes on, flexserve down -s {self._name} deletes it"
            ) from error
        raise Interrupted(
            "interrupted twice; the engine was ended in the middle",
            why="what it was creating may exist and bill without being recorded",
            way_out=f"flexserve down -s {self._name} finds it by its id and deletes it",
        ) from error


def _made(events: Events) -> str:
    return f"made by now: {', '.join(events.made)}" if events.made else "nothing new was made by now"


def _diagnostics(events: Events, error: auto.CommandError) -> tuple[str, ...]:
    return tuple(events.errors) or (_last(str(error)),)


def _last(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip() and line.strip() != "stdout:"]
    return lines[-1] if lines else ""
