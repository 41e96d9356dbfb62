"""`artifactregistry.Repository`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from rehearsal.providers.google.http import Google, GoogleError
from rehearsal.providers.google.labels import LABEL_MAPS, LABELS, plan_labels, told_labels
from rehearsal.providers.resource import Call, Change, ProviderError, Resource
from rehearsal.providers.schema import Fields, Prop, block, blocks, flag, out, text, unsent
from rehearsal.providers.values import Values
from rehearsal.providers.waits import TimedOutWaiting, Waiter

FIELDS: Final[Fields] = {
    "cleanupPolicies": unsent(blocks({"id": text(required=True), "action": text()})),
    "cleanupPolicyDryRun": unsent(flag()),
    "createTime": out(),
    "deletionPolicy": unsent(text("DELETE", computed=True)),
    "description": text(),
    "dockerConfig": block({"immutableTags": flag()}),
    "format": text(required=True, replace=True),
    "kmsKeyName": text(replace=True),
    **LABELS,
    "location": text(computed=True, replace=True),
    "mavenConfig": unsent(Prop(replace=True)),
    "mode": text(default="STANDARD_REPOSITORY", replace=True),
    "name": out(),
    "project": text(computed=True, replace=True),
    "registryUri": out(),
    "remoteRepositoryConfig": unsent(Prop(replace=True)),
    "repositoryId": text(required=True, replace=True),
    "updateTime": out(),
    "virtualRepositoryConfig": unsent(Prop()),
    "vulnerabilityScanningConfig": unsent(Prop()),
}


def _customize(api: Google, state: Mapping[str, Any] | None, planned: Values) -> Values:
    return plan_labels(api, state, planned)


def _create(call: Call[Google], planned: Values) -> tuple[str, Values]:
    config = call.api.config
    place = f"projects/{planned.get('project') or config.project}/locations/{planned.get('location') or config.region}"
    body: Values = {"format": planned["format"], "labels": planned["effectiveLabels"], "mode": planned["mode"]}
    body |= {key: planned[key] for key in ("description", "dockerConfig", "kmsKeyName") if planned.get(key)}
    body = {key: value for key, value in body.items() if value != {}}
    query = {"repository_id": planned["repositoryId"]}
    try:
        _finish(call, call.api.call("artifactregistry", "POST", f"{place}/repositories", query, body), "Creating Repository")
    except GoogleError as error:
        raise ProviderError(f"Error creating Repository: {error}") from error
    identifier = f"{place}/repositories/{planned['repositoryId']}"
    return identifier, _read(call, identifier, planned) or {}


def _finish(call: Call[Google], operation: Values, activity: str) -> None:
    def look() -> tuple[Values | None, str]:
        now = call.api.call("artifactregistry", "GET", operation["name"])
        return now, "done" if now.get("done") else "running"

    if not operation.get("done"):
        try:
            operation = Waiter("done", call.timeout, every=10.0).wait(look, call.api.sleep)
        except TimedOutWaiting as error:
            raise ProviderError(f"Error waiting to create Repository: Error waiting for {activity}: {error}") from error
    if operation.get("error"):
        raise ProviderError(f"Error waiting for {activity}: {operation['error'].get('message', '')}")


def _read(call: Call[Google], identifier: str, before: Mapping[str, Any]) -> Values | None:
    try:
        repository = call.api.call("artifactregistry", "GET", identifier)
    except GoogleError as error:
        if error.not_found:
            return None
        raise
    texts = ("createTime", "description", "format", "kmsKeyName", "mode", "registryUri", "updateTime")
    return (
        {key: repository.get(key, "") for key in texts}
        | told_labels(repository.get("labels"), before)
        | {
            "cleanupPolicyDryRun": bool(repository.get("cleanupPolicyDryRun")),
            "location": identifier.split("/")[3],
            "name": identifier.rpartition("/")[2],
            "project": identifier.split("/")[1],
            "repositoryId": identifier.rpartition("/")[2],
        }
    )


def _update(call: Call[Google], identifier: str, change: Change) -> Values:
    body: Values = {}
    if change.touches("description"):
        body["description"] = change.planned.get("description") or ""
    if change.touches("effectiveLabels"):
        body["labels"] = change.planned["effectiveLabels"]
    if body:
        call.api.call("artifactregistry", "PATCH", identifier, {"updateMask": ",".join(sorted(body))}, body)
    return _read(call, identifier, change.planned) or {}


def _delete(call: Call[Google], identifier: str, state: Mapping[str, Any]) -> None:
    try:
        _finish(call, call.api.call("artifactregistry", "DELETE", identifier), "Deleting Repository")
    except GoogleError as error:
        if not error.not_found:
            raise ProviderError(f"Error when reading or editing Repository: {error}") from error


RESOURCES: Final = [
    Resource(
        token="gcp:artifactregistry/repository:Repository",
        fields=FIELDS,
        create=_create,
        read=_read,
        update=_update,
        updates=LABEL_MAPS | {"description"},
        delete=_delete,
        timeouts={"create": 1200.0, "delete": 1200.0, "update": 1200.0},
        customize=_customize,
    )
]
