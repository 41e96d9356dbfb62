"""The project that a command works on: its root, its stacks, Pulumi, and what the state says.

State is read with one `pulumi stack export` (0.2 s), never through the Automation API: outputs, and what the program keeps. What
was read holds for a moment, so that the steps of one command do not each ask again, and never while our own engine writes, or from
before.
"""

from __future__ import annotations

import json
import os
import re
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from infra.state import State, from_export
from verdict.errors import BadConfig, FlexserveError, NoAccess
from verdict.places import below_home

if TYPE_CHECKING:
    import subprocess

_NAME = re.compile(r"^name:\s*['\"]?flexserve['\"]?\s*(#.*)?$", re.MULTILINE)
_PREFIX, _SUFFIX = "Pulumi.", ".yaml"
_NO_STACK = "no stack named"
_NO_FOLDER = "unable to open state directory"
_NO_LOGIN = r"(?i)PULUMI_ACCESS_TOKEN must be set|log ?in|no credentials"
_PASSPHRASE = r"(?i)passphrase must be set|incorrect passphrase"
MOMENT_S = 5.0
"""So long what was read holds. Somebody else's `up` or `down` takes longer, and whoever is asked for consent takes his time."""


class Project:
    """A checkout (or a rehearsal's private copy of one)."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._known: dict[str, tuple[float, State | None]] = {}
        self._turns = 0

    @property
    def stacks(self) -> list[str]:
        """Names of the stack files."""
        return sorted(p.name[len(_PREFIX) : -len(_SUFFIX)] for p in (self.root / "stacks").glob(f"{_PREFIX}*{_SUFFIX}"))

    @property
    def logs(self) -> Path:
        """Where the engine's full logs are kept; made on demand."""
        folder = self.root / ".flexserve" / "logs"
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def state(self, stack: str) -> State | None:
        """What the backend has of the stack; None when it has no such stack."""
        turn, now = self._turns, time.monotonic()
        at, known = self._known.get(stack, (None, None))
        if at is None or now - at >= MOMENT_S:
            known = self._ask(stack)
            if turn == self._turns and turn % 2 == 0:
                self._known[stack] = now, known
        return known

    def outputs(self, stack: str) -> dict[str, object] | None:
        """The stack's outputs; empty when nothing was exported, None when the backend has no such stack."""
        state = self.state(stack)
        return None if state is None else dict(state.outputs)

    def bare(self, stack: str) -> bool:
        """Whether an engine would find nothing in the state, and no lock. A lock is seen in a folder only: else False."""
        state, folder = self.state(stack), _state_folder(_backend())
        if state is None or state.entries or folder is None:
            return False
        return not any((folder / "locks").glob(f"**/{stack}/*.json"))

    @contextmanager
    def changing(self) -> Iterator[None]:
        """While an engine of ours writes the state: each look is a new one, and nothing that was read before holds afterwards."""
        self._turns += 1  # odd: it writes
        self._known.clear()
        try:
            yield
        finally:
            self._turns += 1

    def _ask(self, stack: str) -> State | None:
        import subprocess

        from infra.halfread import half_written, settled

        argv = [pulumi(), "stack", "export", "--stack", stack, "--non-interactive"]

        def ask() -> subprocess.CompletedProcess[str]:
            return subprocess.run(argv, cwd=self.root, env=environment(), capture_output=True, text=True, check=False)

        done = settled(ask, lambda ended: ended.returncode != 0 and half_written(ended.stderr))
        if done.returncode == 0:
            return from_export(json.loads(done.stdout or "{}"))
        text = done.stderr.strip()
        if _NO_STACK in text:
            return None
        raise read_error(text)


def read_error(text: str) -> FlexserveError:
    """What Pulumi's refusal to read its state means."""
    from infra.halfread import half_written

    why = text.splitlines()[-1] if text else "it printed nothing"
    if re.search(_PASSPHRASE, text):
        return NoAccess("Pulumi's state needs its passphrase", why=why, way_out=PASSPHRASE_RULE)
    if re.search(_NO_LOGIN, text):
        return NoAccess("Pulumi is not logged in to a backend", why=why, way_out=BACKEND_RULE)
    way_out = "see what `pulumi stack ls` says, and `pulumi stack -s` with the stack's name"
    if _NO_FOLDER in text:
        way_out = "name the folder where the state is kept; the shell of a rehearsal that has ended serves no more: open another"
    if half_written(text):  # for longer than a write takes: a full disk, a power cut
        way_out = "put the one before in its place: a file backend keeps it in .pulumi/stacks/flexserve/STACK.json.bak"
    return FlexserveError("Pulumi could not read the stack's state", why=why, way_out=way_out)


BACKEND_RULE = (
    "choose where the state is kept: `pulumi login --local`, `pulumi login` (Pulumi Cloud), a bucket (`pulumi login s3://BUCKET`, "
    "`pulumi login gs://BUCKET`), or PULUMI_BACKEND_URL=file:///some/folder"
)
PASSPHRASE_RULE = (
    "outside Pulumi Cloud the state's secrets are locked by a passphrase: set PULUMI_CONFIG_PASSPHRASE "
    "(empty counts, unset does not) or PULUMI_CONFIG_PASSPHRASE_FILE, the same one each time"
)


def find(start: Path | None = None) -> Project:
    """The project at or above `start` (the working folder). Raises `BadConfig` outside of one."""
    try:
        here = (start or Path.cwd()).resolve()
    except FileNotFoundError:
        way_out = "open a new shell in the checkout; a rehearsal that was held takes its folder along when it ends"
        raise BadConfig("the working folder is no longer there", way_out=way_out) from None
    for folder in (here, *here.parents):
        file = folder / "Pulumi.yaml"
        if file.is_file() and _NAME.search(file.read_text(encoding="utf-8", errors="replace")):
            return Project(folder)
    raise BadConfig(
        "this is not a flexserve project",
        why=f"no Pulumi.yaml named flexserve in {here} or above",
        way_out="change into the checkout and try again",
    )


def pulumi() -> str:
    """The pulumi binary on PATH. Raises `FlexserveError` with the way out."""
    import shutil

    found = shutil.which("pulumi", path=environment()["PATH"])
    if found is None:
        raise FlexserveError("pulumi is not on PATH", way_out="run `make setup`, or install it from pulumi.com/docs/install")
    return found


def environment() -> dict[str, str]:
    """What the engine is started with: this Python's own folder first on PATH, so that its language host finds our packages."""
    own = str(Path(sys.executable).parent)
    path = os.environ.get("PATH", os.defpath)
    parts = [own, *(p for p in path.split(os.pathsep) if p != own)]
    return {**os.environ, "PATH": os.pathsep.join(parts), "PULUMI_SKIP_UPDATE_CHECK": "true"}


def check_backend(*, stack_file: Path | None = None, home: Path | None = None) -> None:
    """Say how to choose a backend and a passphrase, before the engine's own, longer words. Raises `NoAccess`."""
    backend = _backend(home)
    if not backend and not os.environ.get("PULUMI_ACCESS_TOKEN"):
        raise NoAccess("Pulumi has no backend to keep the state in", way_out=BACKEND_RULE)
    cloud = not backend or backend.startswith("https://")
    passphrase = {"PULUMI_CONFIG_PASSPHRASE", "PULUMI_CONFIG_PASSPHRASE_FILE"} & os.environ.keys()
    if not cloud and not passphrase and not _other_provider(stack_file):
        raise NoAccess("Pulumi's state needs a passphrase", why=f"the backend is {backend}", way_out=PASSPHRASE_RULE)


def _backend(home: Path | None = None) -> str:
    """Where the state is kept; empty where nothing was chosen, or Pulumi Cloud by its token."""
    return os.environ.get("PULUMI_BACKEND_URL") or next(filter(None, map(_login, [home] if home else _homes())), "")


def _state_folder(backend: str) -> Path | None:
    """Where a backend of files has the state and its locks; None for another one."""
    from urllib.parse import unquote, urlsplit

    parts = urlsplit(backend)
    folder = Path(unquote(parts.path)) / ".pulumi"
    return folder if (parts.scheme, parts.netloc) == ("file", "") and folder.is_absolute() and folder.is_dir() else None


def _other_provider(stack_file: Path | None) -> bool:
    """Whether the stack's secrets are locked by something else than a passphrase (a cloud's key)."""
    try:
        text = stack_file.read_text(encoding="utf-8") if stack_file else ""
    except OSError:
        return False
    found = re.search(r"^secretsprovider:\s*(\S+)", text, re.MULTILINE)
    return found is not None and found.group(1) not in ("passphrase", "default")


def _homes() -> list[Path]:
    """Where the engine may keep its login: it takes the home of the account, whatever $HOME says, unless PULUMI_HOME is set."""
    if named := os.environ.get("PULUMI_HOME"):
        return [Path(named)]
    import pwd

    own = below_home(os.environ, ".pulumi")
    try:
        return [Path(pwd.getpwuid(os.getuid()).pw_dir) / ".pulumi", own]
    except KeyError:  # no account of this number, as in many containers
        return [own]


def _login(home: Path) -> str:
    """The backend that `pulumi login` recorded, or nothing."""
    try:
        document = json.loads((home / "credentials.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return ""
    return str(document.get("current") or "") if isinstance(document, dict) else ""
