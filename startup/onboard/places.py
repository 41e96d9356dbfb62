"""Where the boot keeps things on the machine. `RUN` is on a tmpfs: it is gone with the power, and the token is only ever there."""

from __future__ import annotations

from pathlib import Path

STATE = Path("/var/lib/flexserve")
RUN = Path("/run/flexserve")
LOGS = STATE / "log"
CONSOLE = Path("/dev/console")
BOOT_ID = Path("/proc/sys/kernel/random/boot_id")

HUB_HEADER = RUN / "hub.header"
IDENTITY_HEADER = RUN / "identity.header"
AWS_SESSION = RUN / "imds.header"
AWS_CURL = RUN / "aws.curl"
SERVER = RUN / "server.json"
PID = RUN / "boot.pid"
SERVER_PORT = 8000

METADATA = "http://metadata.google.internal/computeMetadata/v1"
IMDS = "http://169.254.169.254/latest"
BUILDS = Path("/opt/flexserve/builds")
NAMESPACE = "flexserve"
CONTAINER = "flexserve-vllm"
LABEL = "flexserve.config"

SKIPPED = 90  # a phase that ends with this found its effect already there


def object_url(region: str, bucket: str, key: str) -> str:
    """Where S3 has an object, in path style: a bucket's name may have dots, and certificates have one star."""
    return f"https://s3.{region}.amazonaws.com/{bucket}/{key}"
