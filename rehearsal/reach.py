"""Whether the relay may reach a port: the local cloud's own firewall rules and tunnel grants decide, not the relay."""

from __future__ import annotations

import ipaddress
import json
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from rehearsal.contracts import Machine

IAP_RANGE = ipaddress.IPv4Network("35.235.240.0/20")
TUNNEL_ROLE = "roles/iap.tunnelResourceAccessor"
FORBIDDEN = 4033


class GoogleApi(Protocol):
    """What is asked of the cloud."""

    @property
    def project(self) -> str:
        """The project's id."""

    def machines(self) -> Mapping[str, Machine]:
        """By instance name."""

    def request(self, method: str, path: str, query: str = "", body: bytes = b"") -> tuple[int, dict[str, Any]]:
        """Any request, as the operator."""


class Reach:
    """`connect` and `allowed` for the relay, for one operator with one token."""

    def __init__(self, cloud: GoogleApi, member: str, token: str) -> None:
        self._cloud, self._member, self._token = cloud, member, token

    def allowed(self, token: str, project: str, zone: str, instance: str, port: int) -> int | None:  # noqa: ARG002
        """None, or why not: 401 for another token, 4033 without a tunnel grant for this member on this instance."""
        if token != self._token:
            return 401
        path = f"/iap/v1/projects/{project}/iap_tunnel/zones/{zone}/instances/{instance}:getIamPolicy"
        status, policy = self._cloud.request("POST", path, "", json.dumps({}).encode())
        granted = (
            {m for b in policy.get("bindings", []) if b["role"] == TUNNEL_ROLE for m in b["members"]} if status == 200 else set()
        )
        return None if self._member in granted else FORBIDDEN

    def connect(self, instance: str, zone: str, port: int) -> int:
        """A connected descriptor. Raises LookupError without such an instance, ConnectionRefusedError when nothing lets us in."""
        status, vm = self._cloud.request("GET", f"/compute/v1/projects/{self._cloud.project}/zones/{zone}/instances/{instance}")
        if status != 200:
            raise LookupError(instance)
        _, rules = self._cloud.request("GET", f"/compute/v1/projects/{self._cloud.project}/global/firewalls")
        if not admits(rules.get("items", []), vm, port):
            raise ConnectionRefusedError("no firewall rule admits IAP to this port")
        machine = self._cloud.machines().get(instance)
        if machine is None:
            raise ConnectionRefusedError(f"{instance} is not running")
        return machine.connect(port)


def admits(rules: Sequence[Mapping[str, Any]], vm: Mapping[str, Any], port: int) -> bool:
    """The first rule by priority that concerns IAP's range, this machine and this port decides; deny wins a tie; none is no."""
    network = str(vm["networkInterfaces"][0]["network"]).rpartition("/")[2]
    tags = set(vm.get("tags", {}).get("items", []))
    ours = [
        rule
        for rule in rules
        if rule.get("direction", "INGRESS") == "INGRESS"
        and not rule.get("disabled")
        and str(rule["network"]).rpartition("/")[2] == network
        and (not rule.get("targetTags") or tags & set(rule["targetTags"]))
        and any(_covers(r) for r in rule.get("sourceRanges", []))
        and any(_matches(part, port) for part in (*rule.get("allowed", []), *rule.get("denied", [])))
    ]
    ours.sort(key=lambda rule: (int(rule.get("priority", 1000)), not rule.get("denied")))
    return bool(ours) and not ours[0].get("denied")


def _covers(text: str) -> bool:
    network = ipaddress.ip_network(text, strict=False)
    return isinstance(network, ipaddress.IPv4Network) and IAP_RANGE.subnet_of(network)


def _matches(part: Mapping[str, Any], port: int) -> bool:
    if part["IPProtocol"] not in ("tcp", "all", "6"):
        return False
    if not part.get("ports"):
        return True
    for text in part["ports"]:
        first, _, last = str(text).partition("-")
        if int(first) <= port <= int(last or first):
            return True
    return False
