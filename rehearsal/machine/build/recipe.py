"""What goes into the root, the image and the repository, as data, and the keys that name a build of them."""

from __future__ import annotations

import hashlib
import platform
from pathlib import Path

ROOT_PACKAGES = (
    "systemd-sysv",
    "udev",
    "dbus",
    "iproute2",
    "iptables",
    "netbase",
    "procps",
    "kmod",
    "curl",
    "ca-certificates",
    "python3",
    "jq",
    "openssh-server",
    "google-guest-agent",
    "cloud-init",
    "docker-registry",
)
"""The machine's software. Docker is not among it: a TPU image has none, and the boot script installs it."""

REPOSITORY_PACKAGES = ("docker.io", "pigz", "iptables", "zstd", "psmisc", "lsof")
"""What `apt-get install` finds inside the machine, with everything it needs beyond the root."""

IMAGE_PACKAGES = (
    "python3-minimal",
    "libpython3-stdlib",
    "netbase",
    "bash",
    "dash",
    "coreutils",
    "ca-certificates",
)
"""The container image's system: enough for a small server in Python."""

PARTS = ("root", "images", "repo")
OPTIONAL = ("arm64",)
"""Built only when asked for by name."""


def key(part: str, codename: str) -> str:
    """Twelve hex digits that change when the inputs of `part` change: packages, release, processor, and its builder."""
    here = Path(__file__).parent
    lists = {"root": ROOT_PACKAGES, "images": IMAGE_PACKAGES, "repo": REPOSITORY_PACKAGES + ROOT_PACKAGES}
    packages = lists.get(part, ())  # the optional one names its own, in its builder
    inputs = [part, codename, platform.machine(), *packages, (here / f"{part}.py").read_text()]
    return hashlib.sha256("\0".join(inputs).encode()).hexdigest()[:12]
