"""`compute.Firewall`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from rehearsal.providers.google.compute import act, found, gone
from rehearsal.providers.google.http import Google
from rehearsal.providers.google.names import in_project, relative, same_thing, v1
from rehearsal.providers.resource import Call, Change, Resource
from rehearsal.providers.schema import (
    Fields,
    Prop,
    block,
    blocks,
    flag,
    items,
    members,
    number,
    out,
    terraform_order,
    text,
    unsent,
)
from rehearsal.providers.values import Values

_RULE: Final[Fields] = {"protocol": text(required=True), "ports": items()}

FIELDS: Final[Fields] = {
    "allows": blocks(_RULE),
    "creationTimestamp": out(),
    "deletionPolicy": unsent(text("DELETE", computed=True)),
    "denies": blocks(_RULE),
    "description": text(),
    "destinationRanges": members([], computed=True),
    "direction": text(computed=True, replace=True),
    "disabled": flag(),
    "enableLogging": out(flag(None)),
    "logConfig": block({"metadata": text(required=True)}),
    "name": text(autoname=True, replace=True),
    "network": text(required=True, replace=True, same=same_thing),
    "params": unsent(Prop()),
    "priority": number(default=1000),
    "project": text(computed=True, replace=True),
    "selfLink": out(),
    "sourceRanges": members([], computed=True),
    "sourceServiceAccounts": members(replace=True),
    "sourceTags": members(),
    "targetServiceAccounts": members(replace=True),
    "targetTags": members(),
}

_SETS: Final = (
    "destinationRanges",
    "sourceRanges",
    "sourceServiceAccounts",
    "sourceTags",
    "targetServiceAccounts",
    "targetTags",
)


_UPDATES: Final = frozenset(
    {
        "allows",
        "denies",
        "description",
        "destinationRanges",
        "disabled",
        "logConfig",
        "priority",
        "sourceRanges",
        "sourceTags",
        "targetTags",
    }
)


def body(project: str, rule: Mapping[str, Any]) -> Values:
    """A firewall rule as sent."""
    log = rule.get("logConfig")
    sent: Values = {
        "allowed": _ports(rule.get("allows")),
        "denied": _ports(rule.get("denies")),
        "description": rule.get("description"),
        "direction": rule.get("direction"),
        "disabled": rule.get("disabled") or None,
        "name": rule["name"],
        "network": in_project(project, "global", "networks", rule["network"]),
    } | {key: terraform_order(rule.get(key) or []) for key in _SETS}
    kept = {key: value for key, value in sent.items() if value not in (None, "", [])}
    return kept | {
        "logConfig": {"enable": True, "metadata": log["metadata"]} if log else {"enable": False},
        "priority": rule.get("priority", 1000),
    }


def _ports(rules: Any) -> list[Values]:
    return [
        {"IPProtocol": rule["protocol"]} | ({"ports": [str(port) for port in rule["ports"]]} if rule.get("ports") else {})
        for rule in rules or []
    ]


def _create(call: Call[Google], planned: Values) -> tuple[str, Values]:
    project = planned.get("project") or call.api.config.project
    collection = f"projects/{project}/global/firewalls"
    act(call, "creating Firewall", "Creating Firewall", "POST", collection, body(project, planned))
    identifier = f"{collection}/{planned['name']}"
    return identifier, _read(call, identifier, planned) or {}


def _read(call: Call[Google], identifier: str, before: Mapping[str, Any]) -> Values | None:
    rule = found(call.api, identifier)
    if rule is None:
        return None
    log = rule.get("logConfig") or {}
    return {
        "allows": _told(rule.get("allowed")),
        "creationTimestamp": rule.get("creationTimestamp", ""),
        "denies": _told(rule.get("denied")),
        "description": rule.get("description", ""),
        "direction": rule.get("direction", ""),
        "disabled": bool(rule.get("disabled")),
        "logConfig": {"metadata": log.get("metadata", "")} if log.get("enable") else None,
        "name": rule["name"],
        "network": relative(v1(rule.get("network"))),
        "priority": rule.get("priority", 1000),
        "project": identifier.split("/")[1],
        "selfLink": v1(rule.get("selfLink")),
    } | {key: terraform_order(rule[key]) if rule.get(key) else None for key in _SETS}


def _told(rules: Any) -> list[Values]:
    return [{"protocol": rule["IPProtocol"], "ports": rule.get("ports")} for rule in rules or []]


def _update(call: Call[Google], identifier: str, change: Change) -> Values:
    emptied = {"description": "", "disabled": False} | {key: [] for key in ("allowed", "denied", "sourceTags", "targetTags")}
    names = {"allowed": "allows", "denied": "denies"}
    sent = body(identifier.split("/")[1], change.planned)
    sent |= {key: value for key, value in emptied.items() if key not in sent and change.touches(names.get(key, key))}
    act(call, f'updating Firewall "{identifier}"', "Updating Firewall", "PATCH", identifier, sent)
    return _read(call, identifier, change.planned) or {}


def _delete(call: Call[Google], identifier: str, state: Mapping[str, Any]) -> None:
    gone(call, f'Firewall "{identifier}"', "Firewall", identifier)


RESOURCES: Final = [
    Resource(
        token="gcp:compute/firewall:Firewall",
        fields=FIELDS,
        create=_create,
        read=_read,
        update=_update,
        updates=_UPDATES,
        delete=_delete,
        timeouts={"create": 1200.0, "delete": 1200.0, "update": 1200.0},
        schema_version=1,
    )
]
