"""A root of arm64 packages, unpacked and never configured: what a script of an arm64 machine runs on here, under qemu-user.

Opt-in, as `make test-arm64`. No machine is booted from it: there is no init in it, no card, and nothing is compiled.
"""

from __future__ import annotations

import platform
import shutil
import subprocess
from pathlib import Path

from rehearsal.machine.build.root import NOT_KEPT
from rehearsal.machine.build.sources import Sources
from rehearsal.machine.build.tool import mmdebstrap
from verdict.errors import FlexserveError

PACKAGES = (
    "bash",
    "dash",
    "coreutils",
    "util-linux",
    "procps",
    "findutils",
    "sed",
    "grep",
    "mawk",
    "tar",
    "gzip",
    "zstd",
    "curl",
    "ca-certificates",
    "python3",
    "iproute2",
    "netbase",
)
"""What the boot script calls, as far as no stand-in does it."""
BINFMT = Path("/proc/sys/fs/binfmt_misc")
WAY_OUT = "apt-get install qemu-user-static binfmt-support, and mount binfmt_misc on /proc/sys/fs/binfmt_misc"


def build(into: Path, sources: Sources) -> None:
    """Fill the empty folder `into`. Raises `FlexserveError` where nothing here runs arm64 programs."""
    if not registered():
        raise FlexserveError("this kernel is not told how to run arm64 programs", way_out=WAY_OUT)
    mmdebstrap("extract", PACKAGES, into, sources, ["--format=directory", "--architectures=arm64"])
    for folder in NOT_KEPT:
        shutil.rmtree(into / folder, ignore_errors=True)
    for file in ("etc/resolv.conf", "etc/hostname", "etc/machine-id"):
        (into / file).unlink(missing_ok=True)
    for file, text in {"etc/passwd": "root:x:0:0:root:/root:/bin/bash\n", "etc/group": "root:x:0:\n", "etc/hosts": ""}.items():
        (into / file).write_text(text)
    (into / "etc/systemd/system").mkdir(parents=True, exist_ok=True)
    bundle = into / "etc/ssl/certs/ca-certificates.crt"  # made by a package's own script, which never ran
    bundle.parent.mkdir(parents=True, exist_ok=True)
    bundle.touch()
    if (said := machine(into)) != "aarch64":
        raise FlexserveError("an arm64 program does not run here", why=said, way_out=WAY_OUT)


def registered() -> bool:
    """Whether arm64 programs run: by this processor, or by an interpreter that is open already (`F`), also in another root."""
    if platform.machine() == "aarch64":
        return True
    entries = [file for file in BINFMT.glob("*aarch64*") if file.is_file()] if BINFMT.is_dir() else []
    return any("enabled" in text and "F" in text.partition("flags:")[2].split("\n")[0] for text in map(Path.read_text, entries))


def machine(root: Path) -> str:
    """What `uname -m` of the root says, or why it says nothing."""
    done = subprocess.run(["chroot", str(root), "/bin/uname", "-m"], capture_output=True, text=True, check=False)
    return (done.stdout or done.stderr).strip()
