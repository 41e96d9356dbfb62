"""The layer laid over the root: what makes a Debian root a machine of the rehearsal. One layer serves every machine of a run."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from rehearsal.machine import conf_container, conf_ec2
from rehearsal.machine.fakes.packages import HOST as PACKAGES

MASKED = (
    "getty@tty1.service",
    "console-getty.service",
    "systemd-udevd.service",
    "apt-daily.timer",
    "apt-daily-upgrade.timer",
    "e2scrub_all.timer",
    "e2scrub_reap.service",
    "fstrim.timer",
    "docker-registry.service",
    "systemd-networkd-wait-online.service",
    "dev-hugepages.mount",
    "sys-kernel-debug.mount",
    "sys-kernel-tracing.mount",
    "modprobe@.service",
)
"""Units that a machine of the rehearsal does without: quiet, quick boot."""

MANUALS = tuple(f"usr/share/man/man{section}" for section in range(1, 9))
"""The root has no manuals, and any system has their folders. Where one is missing, dpkg takes it out of the lists of all packages
that share it, one write through to the disk each: two hundred of them, in an installation of Docker."""

CLAMP = """\
#!/bin/sh
# Only a container that is being made has a configuration to clamp; most calls of runc are others, and need no Python.
for word in "$@"; do case $word in create | run) exec /usr/local/sbin/runc-clamp.py "$@" ;; esac; done
exec /usr/sbin/runc "$@"
"""
CGROUPS = """\
[Unit]
Description=cgroup hierarchies writable for containers
DefaultDependencies=no
After=local-fs.target
Before=docker.service containerd.service
[Service]
Type=oneshot
ExecStart=/bin/sh -c 'for c in cpu cpuacct cpuset memory devices freezer blkio pids; do \
mount -o remount,bind,rw /sys/fs/cgroup/$c || :; done'
"""
CONSOLE = """\
[Unit]
Description=the serial console: the journal, line by line
DefaultDependencies=no
After=systemd-journald.service
[Service]
ExecStart=/bin/sh -c 'exec journalctl --follow --boot --lines=all --output=short-iso-precise --no-hostname >>/out/console.log'
Restart=on-failure
"""


Put = Callable[..., None]
"""Path, text or bytes, mode: one file of the layer."""


def write(folder: Path, root: Path, authority: bytes, flavour: str = "gce") -> None:
    """Fill `folder`. The flavour says whose script runner is on: Google's agent or cloud-init; both are in the root."""

    def put(path: str, text: str | bytes, mode: int = 0o644) -> None:
        file = folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(text.encode() if isinstance(text, str) else text)
        file.chmod(mode)

    def unit(name: str, text: str, wanted_by: str) -> None:
        put(f"etc/systemd/system/{name}", text)
        _link(folder / f"etc/systemd/system/{wanted_by}.wants/{name}", f"/etc/systemd/system/{name}")

    put("etc/resolv.conf", "nameserver 169.254.169.254\noptions timeout:2 attempts:1\n")
    put("etc/apt/sources.list", f"deb [trusted=yes] http://{PACKAGES} ./\n")
    put("etc/apt/apt.conf.d/90quick", 'Acquire::Retries "0";\n')
    runtimes = {"runtimes": {"clamp": {"path": "/usr/local/sbin/runc-clamp"}}, "default-runtime": "clamp"}
    put("etc/docker/daemon.json", json.dumps(runtimes))
    put("usr/local/sbin/runc-clamp", CLAMP, 0o755)
    put("usr/local/sbin/runc-clamp.py", (Path(__file__).parent / "runc_clamp.py").read_bytes(), 0o755)
    unit("rehearsal-cgroups.service", CGROUPS, "sysinit.target")
    unit("rehearsal-console.service", CONSOLE, "sysinit.target")
    put("etc/systemd/system.conf.d/rehearsal.conf", "[Manager]\nDefaultTimeoutStopSec=10s\n")
    put("etc/systemd/journald.conf.d/rehearsal.conf", "[Journal]\nSyncIntervalSec=1s\nRateLimitBurst=0\n")
    for path in ("var/log/journal", *MANUALS):
        (folder / path).mkdir(parents=True, exist_ok=True)
    for name in (*MASKED, *FLAVOURS[flavour](put)):
        _link(folder / "etc/systemd/system" / name, "/dev/null")
    put("usr/local/share/ca-certificates/rehearsal.crt", authority)
    put("etc/ssl/certs/ca-certificates.crt", (root / "etc/ssl/certs/ca-certificates.crt").read_bytes() + authority)


def _gce(put: Put) -> Sequence[str]:
    put("etc/hosts", "127.0.0.1 localhost\n169.254.169.254 metadata.google.internal metadata\n")
    put("etc/cloud/cloud-init.disabled", "")
    put("etc/default/instance_configs.cfg", "[InstanceSetup]\nset_host_keys = false\noptimize_local_ssd = false\n")
    return ()


FLAVOURS: Mapping[str, Callable[[Put], Sequence[str]]] = {"gce": _gce, "ec2": conf_ec2.write, "container": conf_container.write}
"""What a flavour adds, and the units that it does without besides."""


def _link(link: Path, target: str) -> None:
    link.parent.mkdir(parents=True, exist_ok=True)
    link.unlink(missing_ok=True)
    link.symlink_to(target)
