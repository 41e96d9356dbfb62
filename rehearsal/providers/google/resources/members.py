"""Grants to one member: on a project, on a secret, on an instance's tunnel."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from rehearsal.providers.google.http import Google, GoogleError
from rehearsal.providers.google.iam import Policy, grant, holds, revoke
from rehearsal.providers.google.names import relative, same_name
from rehearsal.providers.resource import Call, Resource
from rehearsal.providers.schema import Fields, Prop, out, text, unsent
from rehearsal.providers.values import Values

_BATCH: Final = 3.0  # seconds in which changes to a project's policy are collected

_GRANT: Final[Fields] = {
    "condition": unsent(Prop(replace=True)),
    "etag": out(),
    "member": text(required=True, replace=True),
    "role": text(required=True, replace=True),
}

Where = Callable[[Google, Mapping[str, Any]], tuple[Policy, str, Values]]
"""Of the properties: the policy, the beginning of the id, and what the state says of the place."""


def _project(api: Google, given: Mapping[str, Any]) -> tuple[Policy, str, Values]:
    project = given.get("project") or api.config.project
    policy = Policy("crm", f"projects/{project}", mask="bindings,etag,auditConfigs", batch=_BATCH)
    return policy, project, {"project": project}


def _secret(api: Google, given: Mapping[str, Any]) -> tuple[Policy, str, Values]:
    secret = str(given["secretId"])
    path = relative(secret) if "/" in secret else f"projects/{given.get('project') or api.config.project}/secrets/{secret}"
    return Policy("secretmanager", path, get="GET"), path, {"project": path.split("/")[1], "secretId": path}


def _tunnel(api: Google, given: Mapping[str, Any]) -> tuple[Policy, str, Values]:
    project, zone = given.get("project") or api.config.project, given.get("zone") or api.config.zone
    instance = str(given["instance"])
    path = instance if "/" in instance else f"projects/{project}/iap_tunnel/zones/{zone}/instances/{instance}"
    return Policy("iap", path), path, {"project": project, "zone": zone, "instance": path}


def _member(token: str, fields: Fields, where: Where) -> Resource[Google]:
    def create(call: Call[Google], planned: Values) -> tuple[str, Values]:
        policy, start, place = where(call.api, planned)
        now = grant(call, policy, planned["role"], planned["member"])
        return f"{start}/{planned['role']}/{planned['member']}", place | {"etag": now.get("etag", "")}

    def read(call: Call[Google], identifier: str, before: Mapping[str, Any]) -> Values | None:
        policy, _, place = where(call.api, before)
        try:
            now = policy.read(call.api)
        except GoogleError as error:
            if error.not_found:  # the thing that the policy is of
                return None
            raise
        if not holds(now, before["role"], before["member"]):
            return None
        return place | {"role": before["role"], "member": before["member"], "etag": now.get("etag", "")}

    def delete(call: Call[Google], identifier: str, state: Mapping[str, Any]) -> None:
        policy, _, _ = where(call.api, state)
        try:
            revoke(call, policy, state["role"], state["member"])
        except GoogleError as error:
            if not error.not_found:
                raise

    return Resource(token=token, fields=fields, create=create, read=read, delete=delete)


RESOURCES: Final = [
    _member(
        "gcp:projects/iAMMember:IAMMember",
        {**_GRANT, "project": text(required=True, replace=True)},
        _project,
    ),
    _member(
        "gcp:secretmanager/secretIamMember:SecretIamMember",
        {
            **_GRANT,
            "project": text(computed=True, replace=True),
            "secretId": text(required=True, replace=True, same=same_name),
        },
        _secret,
    ),
    _member(
        "gcp:iap/tunnelInstanceIAMMember:TunnelInstanceIAMMember",
        {
            **_GRANT,
            "instance": text(required=True, replace=True, same=same_name),
            "project": text(computed=True, replace=True),
            "zone": text(computed=True, replace=True),
        },
        _tunnel,
    ),
]
