"""Networks, subnetworks, firewalls, routers and addresses: one row of a table each, the same handlers for all."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable
from dataclasses import dataclass

from rehearsal.cloud.google import billing
from rehearsal.cloud.google.call import Call, Json, scope_of
from rehearsal.cloud.google.compute.checks import find, new_path, own_project, place
from rehearsal.cloud.google.errors import in_use, invalid, unimplemented
from rehearsal.cloud.google.listing import aggregated, listed
from rehearsal.cloud.google.operations import begin
from rehearsal.cloud.google.state import State, fingerprint, link, new_id, resolve

DEFAULT_FIREWALL = {"direction": "INGRESS", "priority": 1000, "disabled": False, "logConfig": {"enable": False}}


@dataclass(frozen=True)
class Kind:
    """One kind. `one` is the name of its path parameter and in its `kind`.

    `prepare` completes and checks a new resource.
    """

    collection: str
    one: str
    prepare: Callable[[State, Call, Json], None]
    settled: Callable[[State, Json, Json | None], None] = lambda state, new, old: None  # noqa: ARG005


def reference(state: State, value: Json, field: str, collection: str, scope: str = "global") -> str:
    """Put the canonical link into `field`; its path. Raises compute's 400 when nothing is there."""
    path = resolve(str(value[field]), state.project, f"{scope}/{collection}")
    if path not in state.compute:
        what = collection.removesuffix("s")
        raise invalid(f"resource.{field}", value[field], f"The referenced {what} resource cannot be found.")
    value[field] = link(path)
    return path


def _network(state: State, call: Call, value: Json) -> None:  # noqa: ARG001
    if value.setdefault("autoCreateSubnetworks", True):
        raise unimplemented("compute.networks.insert with autoCreateSubnetworks")
    value.setdefault("routingConfig", {"routingMode": "REGIONAL"})
    value.setdefault("networkFirewallPolicyEnforcementOrder", "AFTER_CLASSIC_FIREWALL")
    value["selfLinkWithId"] = link(f"{scope_of(call.params)}/networks/{value['id']}")


def _subnetwork(state: State, call: Call, value: Json) -> None:
    network = reference(state, value, "network", "networks")
    try:
        block = ipaddress.ip_network(str(value.get("ipCidrRange", "")))
    except ValueError:
        raise invalid("resource.ipCidrRange", value.get("ipCidrRange", ""), "Must be a CIDR address range.") from None
    for other in state.children(f"projects/{state.project}/regions/"):
        if other["kind"] == "compute#subnetwork" and other["network"] == link(network):
            taken = ipaddress.ip_network(other["ipCidrRange"])
            if block.version == taken.version and block.overlaps(taken):
                why = f"Invalid IPCidrRange: {block} conflicts with existing subnetwork '{other['name']}'."
                raise invalid("resource.ipCidrRange", block, why)
    value.update(gatewayAddress=str(block[1]), fingerprint=fingerprint(value), region=link(scope_of(call.params)))
    for key, default in (
        ("privateIpGoogleAccess", False),
        ("purpose", "PRIVATE"),
        ("stackType", "IPV4_ONLY"),
        ("privateIpv6GoogleAccess", "DISABLE_GOOGLE_ACCESS"),
        ("enableFlowLogs", False),
    ):
        value.setdefault(key, default)


def _firewall(state: State, call: Call, value: Json) -> None:  # noqa: ARG001
    reference(state, value, "network", "networks")
    for key, default in DEFAULT_FIREWALL.items():
        value.setdefault(key, default)
    if ("allowed" in value) == ("denied" in value):
        raise invalid("resource", "", "Either allowed or denied rules must be specified, not both.")
    if value["direction"] == "INGRESS" and not any(value.get(k) for k in ("sourceRanges", "sourceTags", "sourceServiceAccounts")):
        value["sourceRanges"] = ["0.0.0.0/0"]
    for cidr in [*value.get("sourceRanges", []), *value.get("destinationRanges", [])]:
        try:
            ipaddress.ip_network(cidr)
        except ValueError:
            raise invalid("resource.sourceRanges[0]", cidr, "Must be a CIDR address range.") from None


def _router(state: State, call: Call, value: Json) -> None:
    reference(state, value, "network", "networks")
    value["region"] = link(scope_of(call.params))
    for nat in value.get("nats", []):
        nat.setdefault("type", "PUBLIC")
        nat.setdefault("endpointTypes", ["ENDPOINT_TYPE_VM"])
        if nat.get("natIpAllocateOption") == "MANUAL_ONLY" and not nat.get("natIps"):
            raise invalid("resource.nats", "", "NAT IPs must be given when they are not allocated automatically.")


def _address(state: State, call: Call, value: Json) -> None:
    value.setdefault("addressType", "EXTERNAL")
    value.setdefault("networkTier", "PREMIUM")
    value.update(address=state.fleet.addresses.take(), status="RESERVED")
    if "region" in call.params:
        value["region"] = link(scope_of(call.params))


KINDS = (
    Kind("networks", "network", _network),
    Kind("subnetworks", "subnetwork", _subnetwork),
    Kind("firewalls", "firewall", _firewall),
    Kind("routers", "router", _router, billing.router),
    Kind("addresses", "address", _address, billing.address),
    Kind("globalAddresses", "address", _address, billing.address),
)


def _stored(kind: Kind) -> str:
    return "addresses" if kind.collection == "globalAddresses" else kind.collection


def _path(kind: Kind, call: Call) -> str:
    return f"{scope_of(call.params)}/{_stored(kind)}/{call.params[kind.one]}"


def _insert(kind: Kind, state: State, call: Call) -> Json:
    own_project(state, call)
    place(state, call)
    path = new_path(state, call, _stored(kind))
    value = {k: v for k, v in call.body.items() if k != "params"} | {
        "kind": f"compute#{kind.one}",
        "id": new_id(),
        "creationTimestamp": state.stamp(),
        "selfLink": link(path),
    }
    kind.prepare(state, call, value)

    def apply() -> None:
        state.compute[path] = value
        kind.settled(state, value, None)

    return begin(state, call, path, "insert", apply=apply)


def _change(kind: Kind, state: State, call: Call) -> Json:
    own_project(state, call)
    path = _path(kind, call)
    old = find(state, path)
    value = ({} if call.verb == "update" else dict(old)) | call.body
    value |= {k: old[k] for k in ("kind", "id", "creationTimestamp", "selfLink", "name") if k in old}
    kind.prepare(state, call, value) if kind.collection != "subnetworks" else None

    def apply() -> None:
        state.compute[path] = value
        kind.settled(state, value, old)

    return begin(state, call, path, call.verb, apply=apply)


def _delete(kind: Kind, state: State, call: Call) -> Json:
    own_project(state, call)
    path = _path(kind, call)
    value = find(state, path)
    for user, _ in state.users(path):
        raise in_use(kind.one, path, user)

    def apply() -> None:
        state.compute.pop(path, None)
        kind.settled(state, {}, value)

    return begin(state, call, path, "delete", apply=apply)


def _get(kind: Kind, state: State, call: Call) -> Json:
    own_project(state, call)
    value = find(state, _path(kind, call))
    if kind.collection == "networks":
        own = [
            s["selfLink"]
            for s in state.children(f"projects/{state.project}/regions/")
            if s.get("network") == value["selfLink"] and s["kind"] == "compute#subnetwork"
        ]
        return value | ({"subnetworks": own} if own else {})
    return value


def _list(kind: Kind, state: State, call: Call) -> Json:
    own_project(state, call)
    place(state, call)
    found = list(state.children(f"{scope_of(call.params)}/{_stored(kind)}/"))
    return listed(f"compute#{kind.one}List", found, call)


def _aggregated(kind: Kind, state: State, call: Call) -> Json:
    own_project(state, call)
    return aggregated(state, call, _stored(kind), f"compute#{kind.one}AggregatedList")


def _handlers() -> dict[str, Callable[[State, Call], Json]]:
    verbs = {"insert": _insert, "get": _get, "list": _list, "delete": _delete, "patch": _change, "update": _change}
    found: dict[str, Callable[[State, Call], Json]] = {}
    for kind in KINDS:
        for verb, handler in verbs.items():
            if "ddresses" in kind.collection and handler is _change:
                continue
            if verb == "update" and kind.collection in ("networks", "subnetworks"):
                continue
            found[f"compute.{kind.collection}.{verb}"] = _bound(handler, kind)
        if kind.collection in ("subnetworks", "routers", "addresses"):
            found[f"compute.{kind.collection}.aggregatedList"] = _bound(_aggregated, kind)
    return found


def _bound(handler: Callable[[Kind, State, Call], Json], kind: Kind) -> Callable[[State, Call], Json]:
    return lambda state, call: handler(kind, state, call)


def set_private_access(state: State, call: Call) -> Json:
    """Whether Google's APIs are reachable from a subnetwork without a way out."""
    own_project(state, call)
    path = f"{scope_of(call.params)}/subnetworks/{call.params['subnetwork']}"
    value, wanted = find(state, path), bool(call.body.get("privateIpGoogleAccess"))
    return begin(state, call, path, call.verb, apply=lambda: value.update(privateIpGoogleAccess=wanted))


HANDLERS = _handlers() | {"compute.subnetworks.setPrivateIpGoogleAccess": set_private_access}
