"""What a new Google project has: a network that lets everybody in by ssh."""

from __future__ import annotations

from rehearsal.cloud.google.compute.kinds import DEFAULT_FIREWALL
from rehearsal.cloud.google.state import State, fingerprint, link, new_id


def add(state: State) -> None:
    """What a new Google project has.

    The `default` network with a subnetwork a region and rules that let everybody in by ssh.
    """
    project = f"projects/{state.project}"
    network = f"{project}/global/networks/default"
    born = "2026-01-01T00:00:00.000-00:00"
    state.compute[network] = {
        "kind": "compute#network",
        "id": new_id(),
        "creationTimestamp": born,
        "name": "default",
        "autoCreateSubnetworks": True,
        "description": "Default network for the project",
        "routingConfig": {"routingMode": "REGIONAL"},
        "networkFirewallPolicyEnforcementOrder": "AFTER_CLASSIC_FIREWALL",
        "selfLink": link(network),
    }
    for index, region in enumerate(state.inventory.regions):
        path = f"{project}/regions/{region}/subnetworks/default"
        cidr = f"10.{128 + 2 * index}.0.0/20"
        state.compute[path] = {
            "kind": "compute#subnetwork",
            "id": new_id(),
            "creationTimestamp": born,
            "name": "default",
            "network": link(network),
            "ipCidrRange": cidr,
            "gatewayAddress": cidr.replace("0/20", "1"),
            "region": link(f"{project}/regions/{region}"),
            "privateIpGoogleAccess": False,
            "purpose": "PRIVATE",
            "stackType": "IPV4_ONLY",
            "fingerprint": fingerprint(path),
            "selfLink": link(path),
        }
    rules = (
        (
            "default-allow-internal",
            "10.128.0.0/9",
            [{"IPProtocol": "tcp", "ports": ["0-65535"]}, {"IPProtocol": "icmp"}],
        ),
        ("default-allow-ssh", "0.0.0.0/0", [{"IPProtocol": "tcp", "ports": ["22"]}]),
        ("default-allow-rdp", "0.0.0.0/0", [{"IPProtocol": "tcp", "ports": ["3389"]}]),
        ("default-allow-icmp", "0.0.0.0/0", [{"IPProtocol": "icmp"}]),
    )
    for name, cidr, allowed in rules:
        path = f"{project}/global/firewalls/{name}"
        state.compute[path] = DEFAULT_FIREWALL | {
            "kind": "compute#firewall",
            "id": new_id(),
            "creationTimestamp": born,
            "name": name,
            "network": link(network),
            "priority": 65534,
            "sourceRanges": [cidr],
            "allowed": allowed,
            "selfLink": link(path),
        }
