"""Building commands from Go modules whose versions and hashes are pinned in `tools/`."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from tools.setup.engine import HOW, sources
from tools.setup.host import Host
from tools.setup.step import StepFailed
from tools.setup.versions import go_directive, parse
from tools.setup.work import Count, Work

_SWITCHES_TOOLCHAIN = (1, 21)  # from here on `go` fetches a newer toolchain by itself when a module asks for it
_TO_COMPILE = "{{if .Stale}}{{.ImportPath}}{{end}}"  # stale: not in the build cache as it would be compiled now
_PACKAGE = re.compile(r"^[a-z][\w.-]*(?:/|$)", re.MULTILINE)  # as `go list` and `go build -v` print them, one a line
_COLLECT_AT = (
    "800"  # GOGC, percent: collecting after every few megabytes is part of a compiler's work; so it takes 400 MB a process
)
_NETWORK = re.compile(r"i/o timeout|connection reset|unexpected EOF|TLS handshake timeout|502 Bad Gateway|503 Service")


def go_environ(host: Host) -> dict[str, str]:
    """`go.sum` decides: a module that differs from it, or is missing in it, is an error.

    Modules and compiled packages are kept in our own cache, so that they go with it, unless the environment names a place.
    """
    ours = {"GOMODCACHE": str(host.cache / "go" / "mod"), "GOCACHE": str(host.cache / "go" / "build")}
    kept = {name: place for name, place in ours.items() if not host.environ.get(name)}
    return host.child_environ(GOFLAGS="-mod=readonly -buildvcs=false", CGO_ENABLED="0", GOWORK="off", GOGC=_COLLECT_AT, **kept)


def require(host: Host, name: str) -> str:
    """The `go` command. Raises `StepFailed` when it is missing or too old for `tools/NAME`."""
    needed = go_directive(sources(host, name))
    text = ".".join(map(str, needed))
    way_out = f"install Go {text} or newer, or install Pulumi from its own site; either on PATH"
    go = host.which("go")
    if go is None:
        raise StepFailed(f"Pulumi has to be built here, and there is no Go (needed: {text})", way_out=way_out)
    said = subprocess.run(
        [go, "env", "GOVERSION"], env=go_environ(host), cwd="/", capture_output=True, text=True, check=False, timeout=60
    ).stdout
    version = parse(said)
    if version < min(needed, _SWITCHES_TOOLCHAIN):
        raise StepFailed(f"Go {'.'.join(map(str, version))} is too old (needed: {text})", way_out=way_out)
    return go


def build(host: Host, work: Work, name: str, package: str, out: Path, flags: str) -> None:
    """Build one command of `tools/NAME`. First Go is asked what it will compile: that is what the bar counts."""
    go = require(host, name)
    how = [*HOW, "-ldflags", flags]  # part of what the build cache goes by: the same for both commands
    where = {"environ": go_environ(host), "cwd": sources(host, name)}
    for last in (False, True):
        try:
            work.say("downloads Go modules")
            listed = work.command([go, "list", "-deps", *how, "-f", _TO_COMPILE, package], **where)  # type: ignore[arg-type]
            packages = len(_PACKAGE.findall(listed))
            work.say(f"compiles {packages} Go packages")
            count = Count(_PACKAGE.pattern, packages) if packages else None
            work.command([go, "build", "-v", *how, "-o", out, package], count=count, **where)  # type: ignore[arg-type]
            return
        except StepFailed as error:
            if last or error.exit_code is None or not _NETWORK.search("\n".join(work.tail(30))):
                raise
            work.say("the network failed once: again, what was downloaded is kept")


def module_folder(host: Host, name: str, module: str) -> Path:
    """Where Go keeps the source of a module."""
    said = subprocess.run(
        [require(host, name), "list", "-m", "-f", "{{.Dir}}", module],
        env=go_environ(host), cwd=sources(host, name), capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    if said.returncode or not said.stdout.strip():
        raise StepFailed(f"go does not know where {module} is: {said.stderr.strip()}", exit_code=said.returncode)
    return Path(said.stdout.strip())
