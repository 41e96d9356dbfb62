"""AWS's session-manager-plugin: an operator's own on PATH; for the rehearsal of EC2 stacks built from its Go module and linked."""

from __future__ import annotations

import platform
from pathlib import Path

from tools.setup import golang
from tools.setup.cache import building, digest, link
from tools.setup.engine import HOW, sources
from tools.setup.host import Host
from tools.setup.step import REHEARSAL, Skip, Step, StepFailed
from tools.setup.versions import module
from tools.setup.work import Work

NAME = "session-manager-plugin"
_MODULE = "github.com/aws/session-manager-plugin"
_PACKAGE = f"{_MODULE}/src/sessionmanagerplugin-main"
_GUIDE = "https://docs.aws.amazon.com/systems-manager/latest/userguide/session-manager-working-with-install-plugin.html"


def key(host: Host) -> str:
    """The pinned modules, the stand-in for the one that is not served, how they are compiled, and this kind of machine."""
    folder = sources(host, NAME)
    files = [folder / name for name in ("go.mod", "go.sum", "tools.go", "uuid/go.mod", "uuid/uuid.go")]
    return digest(*files, *HOW, platform.system(), platform.machine())


def built(host: Host) -> Path:
    """Where the plugin is when it was built here."""
    return host.cache / f"{NAME}-{key(host)}" / NAME


def own(host: Host) -> str | None:
    """The operator's own, on PATH outside our environment."""
    there = host.which(NAME)
    return None if there is None else f"on PATH: {there}"


def linked(host: Host) -> bool:
    """Whether the environment's `bin` leads to the one that was built."""
    there = host.bin / NAME
    return built(host).is_file() and there.is_symlink() and there.readlink() == built(host)


def done(host: Host) -> str | None:
    """The operator's own, or the one that was built and linked."""
    return own(host) or (f"{module(sources(host, NAME), _MODULE)}, built from Go modules" if linked(host) else None)


def run(host: Host, work: Work) -> str:
    """Build it and link it. Without it EC2 stacks are not rehearsed and some tests are skipped, so this is no failure."""
    try:
        if not built(host).is_file():
            with building(built(host).parent) as folder:
                golang.build(host, work, NAME, _PACKAGE, folder / NAME, "-s -w")
    except StepFailed as error:
        why = f"not built ({error.what})"
        raise Skip(f"{why}: stacks on EC2 cannot be rehearsed, the tests that run AWS's plugin are skipped") from error
    link(host.bin / NAME, built(host))
    return done(host) or ""


def own_done(host: Host) -> str | None:
    """Any that the tunnel will find."""
    return own(host) or (f"in {host.bin}, built here" if linked(host) else None)


def own_run(host: Host, work: Work) -> str:  # noqa: ARG001
    """Nothing is installed for an operator: AWS has packages of its own. He is told."""
    raise Skip(f"{NAME} is not on PATH; stacks on EC2 need it for the tunnel: install AWS's own, {_GUIDE}")


STEPS = (
    Step("aws-plugin", "looks for AWS's Session Manager plugin", lambda _: "", own_done, own_run, needs=("venv",)),
    Step(
        NAME, "AWS's Session Manager plugin for the rehearsal (built here: about 2 minutes)",
        key, done, run, lambda host: built(host).parent if built(host).is_file() else None, needs=("venv",), group=REHEARSAL,
        limit_s=900.0, takes_mb=400,
    ),
)  # fmt: skip
