"""What makes the root a machine that runs and builds containers: dockerd from its first second, and a stand-in for the AWS CLI.

Nobody logs in to it and no script is run in it: SageMaker and CodeBuild own such machines, and show the container alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from startup.templating import source

MASKED = (
    "google-guest-agent.service",
    "google-startup-scripts.service",
    "google-shutdown-scripts.service",
    "ssh.service",
    "systemd-timesyncd.service",
)
DOCKER = """\
[Unit]
Description=dockerd
After=rehearsal-cgroups.service
[Service]
Type=notify
ExecStart=/usr/sbin/dockerd --host unix:///run/docker.sock --group root
[Install]
WantedBy=multi-user.target
"""
AWS = """\
#!/bin/sh
# stand-in for the AWS CLI: the one command that a registry's login needs, signed as the product's own wrapper signs
PYTHONPATH=/usr/local/lib/rehearsal exec python3 -B /usr/local/lib/rehearsal/aws_cli.py "$@"
"""
HERE = Path(__file__).parent
LIBRARY = "usr/local/lib/rehearsal"


def write(put: Callable[..., None]) -> Sequence[str]:
    """Its files; the units that it does without."""
    put("etc/hosts", "127.0.0.1 localhost\n")
    put("etc/cloud/cloud-init.disabled", "")
    put("etc/systemd/system/docker.service", DOCKER)
    put("etc/systemd/system/multi-user.target.d/docker.conf", "[Unit]\nWants=docker.service\n")
    put("usr/local/bin/aws", AWS, 0o755)
    put(f"{LIBRARY}/aws_cli.py", (HERE / "inner" / "aws_cli.py").read_bytes())
    put(f"{LIBRARY}/codebuild.py", (HERE / "inner" / "codebuild.py").read_bytes())
    put(f"{LIBRARY}/sign.py", source("startup/endpoint/sign"))
    return MASKED
