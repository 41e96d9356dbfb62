"""`compute.Network` and `compute.Subnetwork`."""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import ip_network
from typing import Any, Final

from rehearsal.providers import diff as differ
from rehearsal.providers.google.compute import act, compute, found, gone
from rehearsal.providers.google.http import Google
from rehearsal.providers.google.names import in_project, last, relative, same_name, same_thing, v1
from rehearsal.providers.resource import Call, Change, Resource
from rehearsal.providers.schema import Fields, Prop, block, blocks, flag, number, out, text, unsent
from rehearsal.providers.values import Values

_TIMEOUTS: Final = {"create": 1200.0, "delete": 1200.0, "update": 1200.0}

NETWORK: Final[Fields] = {
    "autoCreateSubnetworks": flag(replace=True),
    "bgpAlwaysCompareMed": unsent(flag(None, computed=True)),
    "bgpBestPathSelectionMode": unsent(text(None, computed=True)),
    "bgpInterRegionCost": unsent(text(None, computed=True)),
    "deleteBgpAlwaysCompareMed": unsent(flag(default=False)),
    "deleteDefaultRoutesOnCreate": unsent(flag(default=False)),
    "deletionPolicy": unsent(text("DELETE", computed=True)),
    "description": text(replace=True),
    "enableUlaInternalIpv6": flag(),
    "gatewayIpv4": out(),
    "internalIpv6Range": unsent(text(computed=True, replace=True)),
    "mtu": number(computed=True, replace=True),
    "name": text(autoname=True, replace=True),
    "networkFirewallPolicyEnforcementOrder": text(default="AFTER_CLASSIC_FIREWALL"),
    "networkId": out(),
    "networkProfile": unsent(text(replace=True)),
    "numericId": out(),
    "params": unsent(Prop()),
    "project": text(computed=True, replace=True),
    "routingMode": text(None, computed=True),
    "selfLink": out(),
}

SUBNETWORK: Final[Fields] = {
    "allowSubnetCidrRoutesOverlap": unsent(flag(computed=True)),
    "creationTimestamp": out(),
    "deletionPolicy": unsent(text("DELETE", computed=True)),
    "description": text(replace=True),
    "externalIpv6Prefix": unsent(text(computed=True, replace=True)),
    "fingerprint": out(text(None)),
    "gatewayAddress": out(),
    "internalIpv6Prefix": unsent(text(computed=True, replace=True)),
    "ipCidrRange": text(computed=True),
    "ipCollection": unsent(text(replace=True)),
    "ipv6AccessType": unsent(text()),
    "ipv6CidrRange": out(),
    "ipv6GceEndpoint": out(),
    "logConfig": unsent(block({"aggregationInterval": text(), "flowSampling": number(), "metadata": text()})),
    "name": text(autoname=True, replace=True),
    "network": text(required=True, replace=True, same=same_thing),
    "params": unsent(Prop()),
    "privateIpGoogleAccess": flag(computed=True),
    "privateIpv6GoogleAccess": unsent(text(computed=True)),
    "project": text(computed=True, replace=True),
    "purpose": text(computed=True, replace=True),
    "region": text(computed=True, replace=True, same=same_name),
    "reservedInternalRange": unsent(text(replace=True)),
    "resolveSubnetMask": unsent(text()),
    "role": unsent(text()),
    "secondaryIpRanges": unsent(blocks({"rangeName": text(), "ipCidrRange": text()})),
    "selfLink": out(),
    "sendSecondaryIpRangeIfEmpty": unsent(flag(None)),
    "stackType": text(computed=True),
    "state": out(),
    "subnetworkId": out(number()),
}


def _create_network(call: Call[Google], planned: Values) -> tuple[str, Values]:
    collection = f"projects/{planned.get('project') or call.api.config.project}/global/networks"
    body = {
        "autoCreateSubnetworks": bool(planned.get("autoCreateSubnetworks")),
        "name": planned["name"],
        "networkFirewallPolicyEnforcementOrder": planned["networkFirewallPolicyEnforcementOrder"],
    }
    body |= {key: planned[key] for key in ("description", "mtu", "enableUlaInternalIpv6") if planned.get(key)}
    if planned.get("routingMode"):
        body["routingConfig"] = {"routingMode": planned["routingMode"]}
    act(call, "creating Network", "Creating Network", "POST", collection, body)
    identifier = f"{collection}/{planned['name']}"
    return identifier, _read_network(call, identifier, planned) or {}


def _read_network(call: Call[Google], identifier: str, before: Mapping[str, Any]) -> Values | None:
    network = found(call.api, identifier)
    if network is None:
        return None
    return {
        "autoCreateSubnetworks": bool(network.get("autoCreateSubnetworks")),
        "description": network.get("description", ""),
        "enableUlaInternalIpv6": bool(network.get("enableUlaInternalIpv6")),
        "gatewayIpv4": network.get("gatewayIPv4", ""),
        "internalIpv6Range": network.get("internalIpv6Range", ""),
        "mtu": int(network.get("mtu") or 0),
        "name": network["name"],
        "networkFirewallPolicyEnforcementOrder": network.get("networkFirewallPolicyEnforcementOrder", ""),
        "networkId": str(network.get("id", "")),
        "numericId": str(network.get("id", "")),
        "project": identifier.split("/")[1],
        "routingMode": (network.get("routingConfig") or {}).get("routingMode"),
        "selfLink": v1(network.get("selfLink")),
    }


def _update_network(call: Call[Google], identifier: str, change: Change) -> Values:
    body: Values = {}
    if change.touches("networkFirewallPolicyEnforcementOrder"):
        body["networkFirewallPolicyEnforcementOrder"] = change.planned["networkFirewallPolicyEnforcementOrder"]
    if change.touches("routingMode"):
        body["routingConfig"] = {"routingMode": change.planned["routingMode"]}
    if body:
        act(call, f'updating Network "{identifier}"', "Updating Network", "PATCH", identifier, body)
    return _read_network(call, identifier, change.planned) or {}


def _delete_network(call: Call[Google], identifier: str, state: Mapping[str, Any]) -> None:
    gone(call, f'Network "{identifier}"', "Network", identifier)


def _create_subnetwork(call: Call[Google], planned: Values) -> tuple[str, Values]:
    config = call.api.config
    project, region = planned.get("project") or config.project, last(planned.get("region") or config.region)
    collection = f"projects/{project}/regions/{region}/subnetworks"
    body = {
        "ipCidrRange": planned.get("ipCidrRange"),
        "logConfig": {"enable": False},
        "name": planned["name"],
        "network": in_project(project, "global", "networks", planned["network"]),
        "region": f"projects/{project}/global/regions/{region}",  # so it is recorded
    }
    body |= {key: planned[key] for key in ("description", "privateIpGoogleAccess", "purpose", "stackType") if planned.get(key)}
    act(call, "creating Subnetwork", "Creating Subnetwork", "POST", collection, body)
    identifier = f"{collection}/{planned['name']}"
    return identifier, _read_subnetwork(call, identifier, planned) or {}


def _read_subnetwork(call: Call[Google], identifier: str, before: Mapping[str, Any]) -> Values | None:
    subnetwork = found(call.api, identifier)
    if subnetwork is None:
        return None
    texts = ("creationTimestamp", "description", "gatewayAddress", "ipCidrRange", "name", "privateIpv6GoogleAccess")
    return {key: subnetwork.get(key, "") for key in (*texts, "purpose", "role", "stackType", "state")} | {
        "fingerprint": None,
        "network": relative(v1(subnetwork.get("network"))),
        "privateIpGoogleAccess": bool(subnetwork.get("privateIpGoogleAccess")),
        "project": identifier.split("/")[1],
        "region": last(subnetwork.get("region", "")),
        "selfLink": v1(subnetwork.get("selfLink")),
        "subnetworkId": int(subnetwork.get("id") or 0),
    }


def _update_subnetwork(call: Call[Google], identifier: str, change: Change) -> Values:
    what, activity = f'updating Subnetwork "{identifier}"', "Updating Subnetwork"
    if change.touches("ipCidrRange"):
        body: Values = {"ipCidrRange": change.planned["ipCidrRange"]}
        act(call, what, activity, "POST", f"{identifier}/expandIpCidrRange", body)
    if change.touches("privateIpGoogleAccess"):
        body = {"privateIpGoogleAccess": bool(change.planned.get("privateIpGoogleAccess"))}
        act(call, what, activity, "POST", f"{identifier}/setPrivateIpGoogleAccess", body)
    if change.touches("stackType"):
        fingerprint = compute(call.api, "GET", identifier).get("fingerprint")
        body = {"fingerprint": fingerprint, "stackType": change.planned["stackType"]}
        act(call, what, activity, "PATCH", identifier, body)
    return _read_subnetwork(call, identifier, change.planned) or {}


def _extra_subnetwork(api: Google, state: Mapping[str, Any], planned: Mapping[str, Any], changes: differ.Changes) -> differ.Changes:
    """A range may grow in place; any other new range needs a new subnetwork."""
    if "ipCidrRange" not in changes:
        return changes
    old, new = (ip_network(values["ipCidrRange"]) for values in (state, planned))
    grows = old.version == new.version and new.supernet_of(old)  # type: ignore[arg-type]
    return changes if grows else changes | {"ipCidrRange": changes["ipCidrRange"].replacing()}


def _delete_subnetwork(call: Call[Google], identifier: str, state: Mapping[str, Any]) -> None:
    gone(call, f'Subnetwork "{identifier}"', "Subnetwork", identifier)


RESOURCES: Final = [
    Resource(
        token="gcp:compute/network:Network",
        fields=NETWORK,
        create=_create_network,
        read=_read_network,
        update=_update_network,
        updates=frozenset({"networkFirewallPolicyEnforcementOrder", "routingMode"}),
        delete=_delete_network,
        timeouts=_TIMEOUTS,
    ),
    Resource(
        token="gcp:compute/subnetwork:Subnetwork",
        fields=SUBNETWORK,
        create=_create_subnetwork,
        read=_read_subnetwork,
        update=_update_subnetwork,
        updates=frozenset({"ipCidrRange", "privateIpGoogleAccess", "stackType"}),
        extra=_extra_subnetwork,
        delete=_delete_subnetwork,
        timeouts=_TIMEOUTS,
    ),
]
