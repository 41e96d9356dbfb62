"""`secretmanager.Secret` and `secretmanager.SecretVersion`."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any, Final

from rehearsal.providers.google.http import Google, GoogleError
from rehearsal.providers.google.labels import LABEL_MAPS, LABELS, plan_labels, told_labels
from rehearsal.providers.resource import Call, Change, ProviderError, Resource
from rehearsal.providers.schema import Fields, Prop, block, blocks, flag, mapping, number, out, text, unsent
from rehearsal.providers.values import Values

_TIMEOUTS: Final = {"create": 1200.0, "delete": 1200.0, "update": 1200.0}
_KEY: Final = block({"kmsKeyName": text(required=True)}, replace=True)

SECRET: Final[Fields] = {
    "annotations": mapping(),
    "createTime": out(),
    "deletionPolicy": unsent(text("DELETE", computed=True)),
    "deletionProtection": unsent(flag(default=False)),
    "effectiveAnnotations": out(mapping({})),
    "expireTime": unsent(text(computed=True)),
    **LABELS,
    "name": out(),
    "project": text(computed=True, replace=True),
    "replication": block(
        {
            "auto": block({"customerManagedEncryption": _KEY}, replace=True),
            "userManaged": block(
                {"replicas": blocks({"location": text(required=True, replace=True)}, required=True)}, replace=True
            ),
        },
        required=True,
        replace=True,
    ),
    "rotation": unsent(Prop()),
    "secretId": text(required=True, replace=True),
    "tags": unsent(mapping(replace=True)),
    "topics": unsent(blocks({"name": text(required=True)})),
    "ttl": text(None),
    "versionAliases": unsent(mapping()),
    "versionDestroyTtl": text(),
}

VERSION: Final[Fields] = {
    "createTime": out(),
    "deletionPolicy": text("DELETE", computed=True),
    "destroyTime": out(),
    "enabled": flag(default=True),
    "isSecretDataBase64": flag(),
    "name": out(),
    "project": Prop(),
    "secret": text(required=True, replace=True),
    "secretData": text(required=True, replace=True, secret=True),
    "secretDataWo": unsent(text(None, secret=True)),
    "secretDataWoVersion": unsent(number(None)),
    "version": out(),
}


def _customize(api: Google, state: Mapping[str, Any] | None, planned: Values) -> Values:
    return plan_labels(api, state, planned)


def _create(call: Call[Google], planned: Values) -> tuple[str, Values]:
    identifier = f"projects/{planned.get('project') or call.api.config.project}/secrets/{planned['secretId']}"
    body: Values = {"labels": planned["effectiveLabels"], "replication": _replication(planned["replication"])}
    body |= {key: planned[key] for key in ("annotations", "ttl", "versionDestroyTtl") if planned.get(key)}
    body = {key: value for key, value in body.items() if value != {}}
    try:
        query = {"secretId": planned["secretId"]}
        call.api.call("secretmanager", "POST", identifier.rpartition("/")[0], query, body)
    except GoogleError as error:
        raise ProviderError(f"Error creating Secret: {error}") from error
    return identifier, _read(call, identifier, planned) or {}


def _replication(replication: Mapping[str, Any]) -> Values:
    if replication.get("userManaged"):
        return {"userManaged": {"replicas": [{"location": item["location"]} for item in replication["userManaged"]["replicas"]]}}
    key = (replication.get("auto") or {}).get("customerManagedEncryption")
    return {"automatic": {"customerManagedEncryption": {"kmsKeyName": key["kmsKeyName"]}} if key else {}}


def _read(call: Call[Google], identifier: str, before: Mapping[str, Any]) -> Values | None:
    secret = _found(call.api, identifier)
    if secret is None:
        return None
    automatic, managed = (secret.get("replication", {}).get(key) for key in ("automatic", "userManaged"))
    return told_labels(secret.get("labels"), before) | {
        "createTime": secret.get("createTime", ""),
        "effectiveAnnotations": secret.get("annotations") or {},
        "expireTime": secret.get("expireTime", ""),
        "name": secret["name"],
        "project": identifier.split("/")[1],
        "replication": {
            "auto": None if automatic is None else {"customerManagedEncryption": automatic.get("customerManagedEncryption")},
            "userManaged": managed,
        },
        "secretId": identifier.rpartition("/")[2],
    }


def _update(call: Call[Google], identifier: str, change: Change) -> Values:
    body: Values = {}
    if change.touches("effectiveLabels"):
        body["labels"] = change.planned["effectiveLabels"]
    for key in ("annotations", "versionDestroyTtl"):
        if change.touches(key):
            body[key] = change.planned.get(key)
    if body:
        call.api.call("secretmanager", "PATCH", identifier, {"updateMask": ",".join(sorted(body))}, body)
    return _read(call, identifier, change.planned) or {}


def _delete(call: Call[Google], identifier: str, state: Mapping[str, Any]) -> None:
    try:
        call.api.call("secretmanager", "DELETE", identifier)
    except GoogleError as error:
        if not error.not_found:
            raise ProviderError(f"Error when reading or editing Secret: {error}") from error


def _create_version(call: Call[Google], planned: Values) -> tuple[str, Values]:
    data = str(planned["secretData"])
    encoded = data if planned.get("isSecretDataBase64") else base64.b64encode(data.encode()).decode()
    try:
        body = {"payload": {"data": encoded}}
        made = call.api.call("secretmanager", "POST", f"{planned['secret']}:addVersion", body=body)
    except GoogleError as error:
        raise ProviderError(f"Error creating SecretVersion: {error}") from error
    verb = "enable" if planned.get("enabled") is not False else "disable"
    call.api.call("secretmanager", "POST", f"{made['name']}:{verb}")
    return made["name"], _read_version(call, made["name"], planned) or {}


def _read_version(call: Call[Google], identifier: str, before: Mapping[str, Any]) -> Values | None:
    version = _found(call.api, identifier)
    if version is None or version.get("state") == "DESTROYED":
        return None
    told: Values = {
        "createTime": version.get("createTime", ""),
        "destroyTime": version.get("destroyTime", ""),
        "enabled": version.get("state") == "ENABLED",
        "name": version["name"],
        "version": identifier.rpartition("/")[2],
    }
    if told["enabled"]:
        data = call.api.call("secretmanager", "GET", f"{identifier}:access")["payload"]["data"]
        told["secretData"] = data if before.get("isSecretDataBase64") else base64.b64decode(data).decode()
    return told


def _update_version(call: Call[Google], identifier: str, change: Change) -> Values:
    if change.touches("enabled"):
        verb = "enable" if change.planned.get("enabled") is not False else "disable"
        call.api.call("secretmanager", "POST", f"{identifier}:{verb}")
    return _read_version(call, identifier, change.planned) or {}


def _delete_version(call: Call[Google], identifier: str, state: Mapping[str, Any]) -> None:
    if state.get("deletionPolicy") == "ABANDON":
        return
    verb = "disable" if state.get("deletionPolicy") == "DISABLE" else "destroy"
    try:
        call.api.call("secretmanager", "POST", f"{identifier}:{verb}")
    except GoogleError as error:
        if not error.not_found:
            raise ProviderError(f"Error when reading or editing SecretVersion: {error}") from error


def _found(api: Google, path: str) -> Values | None:
    try:
        return api.call("secretmanager", "GET", path)
    except GoogleError as error:
        if error.not_found:
            return None
        raise


RESOURCES: Final = [
    Resource(
        token="gcp:secretmanager/secret:Secret",
        fields=SECRET,
        create=_create,
        read=_read,
        update=_update,
        updates=LABEL_MAPS | {"annotations", "effectiveAnnotations", "versionDestroyTtl"},
        delete=_delete,
        timeouts=_TIMEOUTS,
        customize=_customize,
    ),
    Resource(
        token="gcp:secretmanager/secretVersion:SecretVersion",
        fields=VERSION,
        create=_create_version,
        read=_read_version,
        update=_update_version,
        updates=frozenset({"enabled", "deletionPolicy"}),
        delete=_delete_version,
        timeouts=_TIMEOUTS,
        schema_version=1,
    ),
]
