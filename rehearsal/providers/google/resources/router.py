"""`compute.Router` and `compute.RouterNat` (which is a part of its router's own body)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from rehearsal.providers.google.compute import act, found, gone
from rehearsal.providers.google.http import Google
from rehearsal.providers.google.names import in_project, last, relative, same_name, same_thing, v1
from rehearsal.providers.resource import Call, Change, ProviderError, Resource
from rehearsal.providers.schema import Fields, Prop, blocks, flag, members, number, out, text, unsent
from rehearsal.providers.values import Values

_TIMEOUTS: Final = {"create": 1200.0, "delete": 1200.0, "update": 1200.0}

ROUTER: Final[Fields] = {
    "bgp": unsent(Prop()),
    "creationTimestamp": out(),
    "deletionPolicy": unsent(text("DELETE", computed=True)),
    "description": text(),
    "encryptedInterconnectRouter": unsent(flag(replace=True)),
    "md5AuthenticationKeys": unsent(Prop()),
    "name": text(autoname=True, replace=True),
    "nccGateway": unsent(text(replace=True)),
    "network": text(required=True, replace=True, same=same_thing),
    "params": unsent(Prop()),
    "project": text(computed=True, replace=True),
    "region": text(computed=True, replace=True, same=same_name),
    "selfLink": out(),
}

_IDLE: Final = {
    "icmpIdleTimeoutSec": 30,
    "tcpEstablishedIdleTimeoutSec": 1200,
    "tcpTimeWaitTimeoutSec": 120,
    "tcpTransitoryIdleTimeoutSec": 30,
    "udpIdleTimeoutSec": 30,
}

NAT: Final[Fields] = {
    "autoNetworkTier": text(None, computed=True),
    "deletionPolicy": unsent(text("DELETE", computed=True)),
    "drainNatIps": members([]),
    "enableDynamicPortAllocation": flag(computed=True),
    "enableEndpointIndependentMapping": flag(computed=True),
    "endpointTypes": members([], computed=True, replace=True),
    "initialNatIps": members(),
    "logConfig": Prop(),
    "maxPortsPerVm": number(),
    "minPortsPerVm": number(computed=True),
    "name": text(autoname=True, replace=True),
    "nat64Subnetworks": unsent(blocks({})),
    "natIpAllocateOption": text(),
    "natIps": members([]),
    "project": text(computed=True, replace=True),
    "region": text(computed=True, replace=True, same=same_name),
    "router": text(required=True, replace=True, same=same_thing),
    "rules": unsent(blocks({})),
    "sourceSubnetworkIpRangesToNat": text(required=True),
    "sourceSubnetworkIpRangesToNat64": unsent(text()),
    "subnetworks": blocks({"name": text(required=True, same=same_thing), "sourceIpRangesToNats": members(required=True)}),
    "type": text(default="PUBLIC", replace=True),
} | {key: number(default=seconds) for key, seconds in _IDLE.items()}


def _place(call: Call[Google], planned: Mapping[str, Any]) -> tuple[str, str]:
    config = call.api.config
    return planned.get("project") or config.project, last(planned.get("region") or config.region)


def _create_router(call: Call[Google], planned: Values) -> tuple[str, Values]:
    project, region = _place(call, planned)
    collection = f"projects/{project}/regions/{region}/routers"
    body = {
        "bgp": None,
        "name": planned["name"],
        "network": in_project(project, "global", "networks", planned["network"]),
        "region": f"projects/{project}/global/regions/{region}",  # so it is recorded
    }
    if planned.get("description"):
        body["description"] = planned["description"]
    act(call, "creating Router", "Creating Router", "POST", collection, body)
    identifier = f"{collection}/{planned['name']}"
    return identifier, _read_router(call, identifier, planned) or {}


def _read_router(call: Call[Google], identifier: str, before: Mapping[str, Any]) -> Values | None:
    router = found(call.api, identifier)
    if router is None:
        return None
    return {
        "creationTimestamp": router.get("creationTimestamp", ""),
        "description": router.get("description", ""),
        "name": router["name"],
        "network": relative(v1(router.get("network"))),
        "project": identifier.split("/")[1],
        "region": last(router.get("region", "")),
        "selfLink": v1(router.get("selfLink")),
    }


def _update_router(call: Call[Google], identifier: str, change: Change) -> Values:
    body = {"bgp": None, "description": change.planned.get("description") or ""}
    act(call, f'updating Router "{identifier}"', "Updating Router", "PATCH", identifier, body)
    return _read_router(call, identifier, change.planned) or {}


def _delete_router(call: Call[Google], identifier: str, state: Mapping[str, Any]) -> None:
    gone(call, f'Router "{identifier}"', "Router", identifier)


def nat_body(nat: Mapping[str, Any]) -> Values:
    """One NAT as it stands in its router's list."""
    subnetworks = [
        {"name": subnetwork["name"], "sourceIpRangesToNat": subnetwork["sourceIpRangesToNats"]}
        for subnetwork in nat.get("subnetworks") or []
    ]
    body: Values = {
        "drainNatIps": nat.get("drainNatIps") or [],
        "initialNatIps": nat.get("initialNatIps") or [],
        "logConfig": nat.get("logConfig"),
        "name": nat["name"],
        "nat64Subnetworks": [],
        "natIps": nat.get("natIps") or [],
        "rules": [],
        "sourceSubnetworkIpRangesToNat": nat["sourceSubnetworkIpRangesToNat"],
        "subnetworks": subnetworks,
        "type": nat.get("type") or "PUBLIC",
    } | {key: nat.get(key, seconds) for key, seconds in _IDLE.items()}
    optional = (
        "autoNetworkTier",
        "enableDynamicPortAllocation",
        "enableEndpointIndependentMapping",
        "endpointTypes",
        "maxPortsPerVm",
        "minPortsPerVm",
        "natIpAllocateOption",
    )
    return body | {key: nat[key] for key in optional if nat.get(key)}


def _router_of(call: Call[Google], identifier: str) -> str:
    project, region, router, _ = identifier.split("/")
    return f"projects/{project}/regions/{region}/routers/{router}"


def _write_nats(call: Call[Google], what: str, identifier: str, nat: Values | None, *, must_exist: bool) -> None:
    """Put the router's list of NATs in place again, with this one in it or (None) without."""
    path, name = _router_of(call, identifier), identifier.rpartition("/")[2]
    router = found(call.api, path)
    if router is None:
        if must_exist:
            raise ProviderError(f"Error {what} RouterNat: the router {path} was not found")
        return
    others = [other for other in router.get("nats", []) if other["name"] != name]
    body = {"nats": [*others, nat] if nat else others}
    activity = {"creating": "Creating", "updating": "Updating", "deleting": "Deleting"}[what]
    act(call, f"{what} RouterNat", f"{activity} RouterNat", "PATCH", path, body)


def _create_nat(call: Call[Google], planned: Values) -> tuple[str, Values]:
    project, region = _place(call, planned)
    identifier = f"{project}/{region}/{last(planned['router'])}/{planned['name']}"
    _write_nats(call, "creating", identifier, nat_body(planned), must_exist=True)
    return identifier, _read_nat(call, identifier, planned) or {}


def _read_nat(call: Call[Google], identifier: str, before: Mapping[str, Any]) -> Values | None:
    router = found(call.api, _router_of(call, identifier))
    name = identifier.rpartition("/")[2]
    nat = next((nat for nat in (router or {}).get("nats", []) if nat["name"] == name), None)
    if router is None or nat is None:
        return None
    project, region, router_name, _ = identifier.split("/")
    plain = ("name", "natIpAllocateOption", "sourceSubnetworkIpRangesToNat", "type", *_IDLE)
    return {key: nat[key] for key in plain if key in nat} | {
        "drainNatIps": nat.get("drainNatIps") or [],
        "enableEndpointIndependentMapping": bool(nat.get("enableEndpointIndependentMapping")),
        "natIps": nat.get("natIps") or [],
        "project": project,
        "region": region,
        "router": router_name,
        "subnetworks": [
            {"name": v1(item["name"]), "sourceIpRangesToNats": item.get("sourceIpRangesToNat", [])}
            for item in nat.get("subnetworks") or []
        ],
    }


def _update_nat(call: Call[Google], identifier: str, change: Change) -> Values:
    _write_nats(call, "updating", identifier, nat_body(change.planned), must_exist=True)
    return _read_nat(call, identifier, change.planned) or {}


def _delete_nat(call: Call[Google], identifier: str, state: Mapping[str, Any]) -> None:
    _write_nats(call, "deleting", identifier, None, must_exist=False)


RESOURCES: Final = [
    Resource(
        token="gcp:compute/router:Router",
        fields=ROUTER,
        create=_create_router,
        read=_read_router,
        update=_update_router,
        updates=frozenset({"description"}),
        delete=_delete_router,
        timeouts=_TIMEOUTS,
    ),
    Resource(
        token="gcp:compute/routerNat:RouterNat",
        fields=NAT,
        create=_create_nat,
        read=_read_nat,
        update=_update_nat,
        updates=frozenset(NAT) - {"name", "router", "region", "project", "type", "endpointTypes"},
        delete=_delete_nat,
        timeouts=_TIMEOUTS,
    ),
]
