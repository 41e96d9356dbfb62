"""`projects.Service`: an API that is switched on for a project."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from rehearsal.providers.google.http import Google, GoogleError
from rehearsal.providers.google.names import last
from rehearsal.providers.resource import Call, Change, ProviderError, Resource
from rehearsal.providers.schema import Fields, flag, text, unsent
from rehearsal.providers.values import Values

_BATCH: Final = 3.0  # seconds in which requests about one project are collected
_LIST: Final = {"fields": "services/name,nextPageToken", "filter": "state:ENABLED", "pageSize": "200"}

FIELDS: Final[Fields] = {
    "checkIfServiceHasUsageOnDestroy": unsent(flag(None)),
    "deletionPolicy": unsent(text("DELETE", computed=True)),
    "disableDependentServices": flag(None),
    "disableOnDestroy": flag(None),
    "project": text(computed=True, replace=True),
    "service": text(required=True, replace=True),
}


def _enabled(call: Call[Google], project: str, service: str) -> bool:
    call.api.sleep(_BATCH)
    query = dict(_LIST)
    while True:
        page = call.api.call("serviceusage", "GET", f"projects/{project}/services", query)
        if any(last(item["name"]) == service for item in page.get("services", [])):
            return True
        if not page.get("nextPageToken"):
            return False
        query["pageToken"] = page["nextPageToken"]


def _create(call: Call[Google], planned: Values) -> tuple[str, Values]:
    project, service = planned.get("project") or call.api.config.project, planned["service"]
    if not _enabled(call, project, service):
        call.api.sleep(_BATCH)
        try:
            operation = call.api.call("serviceusage", "POST", f"projects/{project}/services/{service}:enable", body={})
        except GoogleError as error:
            raise ProviderError(f"Error waiting for api to enable: {error}") from error
        while not operation.get("done"):
            call.api.sleep(1.0)
            operation = call.api.call("serviceusage", "GET", operation["name"])
    identifier = f"{project}/{service}"
    return identifier, _read(call, identifier, planned) or {}


def _read(call: Call[Google], identifier: str, before: Mapping[str, Any]) -> Values | None:
    project, _, service = identifier.partition("/")
    call.api.call("crm", "GET", f"projects/{project}")
    return {"project": project, "service": service} if _enabled(call, project, service) else None


def _update(call: Call[Google], identifier: str, change: Change) -> Values:
    return {}  # only the provider's own switches can change


def _delete(call: Call[Google], identifier: str, state: Mapping[str, Any]) -> None:
    if not state.get("disableOnDestroy"):
        return
    project, _, service = identifier.partition("/")
    body = {"disableDependentServices": bool(state.get("disableDependentServices"))}
    call.api.call("serviceusage", "POST", f"projects/{project}/services/{service}:disable", body=body)


RESOURCES: Final = [
    Resource(
        token="gcp:projects/service:Service",
        fields=FIELDS,
        create=_create,
        read=_read,
        update=_update,
        updates=frozenset({"disableDependentServices", "disableOnDestroy"}),
        delete=_delete,
        timeouts={"create": 1200.0, "delete": 1200.0, "read": 600.0, "update": 1200.0},
    )
]
