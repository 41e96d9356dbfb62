"""Debian packages that the rehearsal needs on the host. No container engine: that lives in the machine's root."""

from __future__ import annotations

from tools.setup import debian
from tools.setup.cache import digest
from tools.setup.host import Host
from tools.setup.step import REHEARSAL, Skip, Step
from tools.setup.work import Work

# command -> package. None of them starts a service.
COMMANDS = {
    "mmdebstrap": "mmdebstrap",  # makes the machine's root
    "systemd-nspawn": "systemd-container",  # boots it
    "ip": "iproute2",
    "mkfs.ext4": "e2fsprogs",
    "unshare": "util-linux",
    "setpriv": "util-linux",
    "openssl": "openssl",
    "zstd": "zstd",
    "xz": "xz-utils",
}


def missing(host: Host) -> dict[str, str]:
    """Commands that are not there, and their packages."""
    return {command: package for command, package in COMMANDS.items() if host.which(command) is None}


def key(host: Host) -> str:
    """The list."""
    return digest(*COMMANDS, *COMMANDS.values(), *host.os_ids)


def done(host: Host) -> str | None:
    """All commands are there, whoever installed them."""
    return None if missing(host) else f"{len(COMMANDS)} commands present"


def run(host: Host, work: Work) -> str:
    """Install what is missing, on Debian and Ubuntu as root; elsewhere the rehearsal uses its sandbox."""
    lacking = missing(host)
    if not host.debian or not host.is_root:
        why = "not root" if host.debian else "not Debian or Ubuntu"
        raise Skip(f"{why}, and {', '.join(lacking)} missing: no booted machine here, the rehearsal uses its sandbox")
    debian.install(host, work, sorted(set(lacking.values())), purpose="the booted machine")
    return done(host) or ""


STEPS = (Step("apt", "Debian packages that boot the rehearsal's machine", key, done, run, group=REHEARSAL),)
