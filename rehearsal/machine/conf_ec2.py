"""What makes the root a machine of EC2: cloud-init runs its user data, and stand-ins for what a host without a card lacks.

cloud-init takes no notice that it is on EC2 (it looks for that in the firmware), so it is told; it then asks the metadata
service in version 1, which the stand-in allows to it alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rehearsal.machine import making

MASKED = (
    "google-guest-agent.service",
    "google-startup-scripts.service",
    "google-shutdown-scripts.service",
    "docker.service",
    "docker.socket",
)
CLOUD_INIT = """\
datasource_list: [Ec2]
datasource:
  Ec2:
    strict_id: false
    metadata_urls: ["http://169.254.169.254"]
    max_wait: 10
    timeout: 5
    apply_network_config: false
locale: false
ssh_deletekeys: false
ssh_genkeytypes: []
preserve_hostname: true
apt_preserve_sources_list: true
package_update: false
cloud_init_modules: [seed_random, write-files, ca-certs]
cloud_config_modules: []
cloud_final_modules: [scripts-per-once, scripts-per-instance, scripts-user, final-message]
"""
NVIDIA_SMI = """\
#!/bin/sh
# stand-in: there is no card here; what it says is what the driver says on a g5g machine
case $(curl -s http://169.254.169.254/rehearsal/fault/driver) in
  down)
    echo "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver."
    exit 9
    ;;
  other-card) echo "Tesla T4, 7.5, 580.95.05, 15360" ;;
  *) echo "NVIDIA T4G, 7.5, 595.91.07, 15360" ;;
esac
"""
SWAPON = """\
#!/bin/sh
# stand-in: swap belongs to the kernel, which is the host's; what was asked for is kept and shown
case $1 in
  --show*) cat /run/stand-in-swap 2>/dev/null || : ;;
  *) [ -s "$1" ] && echo "$1" >>/run/stand-in-swap ;;
esac
"""


def write(put: Callable[..., None]) -> Sequence[str]:
    """Its files; the units that it does without."""
    put("etc/hosts", "127.0.0.1 localhost\n")
    put("etc/cloud/cloud.cfg.d/99-rehearsal.cfg", CLOUD_INIT)
    put("usr/local/bin/nvidia-smi", NVIDIA_SMI, 0o755)
    put("usr/local/sbin/swapon", SWAPON, 0o755)
    making.write(put)
    return MASKED
