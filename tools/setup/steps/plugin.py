"""AWS's session-manager-plugin, built from its Go module: for the tests of the tunnel's Session Manager form."""

from __future__ import annotations

import platform
from pathlib import Path

from tools.setup import golang
from tools.setup.cache import building, digest
from tools.setup.engine import sources
from tools.setup.host import Host
from tools.setup.step import TESTS, Skip, Step, StepFailed
from tools.setup.versions import module
from tools.setup.work import Work

NAME = "session-manager-plugin"
_MODULE = "github.com/aws/session-manager-plugin"
_PACKAGE = f"{_MODULE}/src/sessionmanagerplugin-main"


def key(host: Host) -> str:
    """The pinned modules, the stand-in for the one that is not served, and this kind of machine."""
    folder = sources(host, NAME)
    files = [folder / name for name in ("go.mod", "go.sum", "tools.go", "uuid/go.mod", "uuid/uuid.go")]
    return digest(*files, platform.system(), platform.machine())


def built(host: Host) -> Path:
    """Where the plugin is when it was built here."""
    return host.cache / f"{NAME}-{key(host)}" / NAME


def done(host: Host) -> str | None:
    """The plugin that was built."""
    return f"{module(sources(host, NAME), _MODULE)}, built from Go modules" if built(host).is_file() else None


def run(host: Host, work: Work) -> str:
    """Build it. Without it some tests are skipped, so this is no failure."""
    try:
        with building(built(host).parent) as folder:
            golang.build(host, work, NAME, _PACKAGE, folder / NAME, "-s -w")
    except StepFailed as error:
        raise Skip(f"not built ({error.what}): the tests that run AWS's plugin are skipped") from error
    return done(host) or ""


STEPS = (
    Step(
        NAME, "AWS's Session Manager plugin, for the tests (built here: about 2 minutes)",
        key, done, run, lambda host: built(host).parent if built(host).is_file() else None, group=TESTS, limit_s=900.0,
        takes_mb=400,
    ),
)  # fmt: skip
