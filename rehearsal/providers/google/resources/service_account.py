"""`serviceaccount.Account`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from rehearsal.providers.google.http import Google, GoogleError
from rehearsal.providers.resource import Call, Change, ProviderError, Resource
from rehearsal.providers.schema import Fields, flag, out, text, unsent
from rehearsal.providers.values import Values
from rehearsal.providers.waits import Waiter

_SETTLING: Final = 10.0  # seconds of waiting after the account has been seen: IAM is consistent late
_SEEN: Final = 3  # answers in a row that must show it

FIELDS: Final[Fields] = {
    "accountId": text(required=True, replace=True),
    "createIgnoreAlreadyExists": flag(None),
    "deletionPolicy": unsent(text("DELETE", computed=True)),
    "description": text(),
    "disabled": flag(default=False),
    "displayName": text(),
    "email": out(),
    "member": out(),
    "name": out(),
    "project": text(computed=True, replace=True),
    "uniqueId": out(),
}


def _create(call: Call[Google], planned: Values) -> tuple[str, Values]:
    api = call.api
    project = planned.get("project") or api.config.project
    told = {key: planned[key] for key in ("description", "displayName") if planned.get(key)}
    try:
        body = {"accountId": planned["accountId"], "serviceAccount": told}
        made = api.call("iam", "POST", f"projects/{project}/serviceAccounts", body=body)
    except GoogleError as error:
        if error.status != 409 or not planned.get("createIgnoreAlreadyExists"):
            raise ProviderError(f"Error creating service account: {error}") from error
        email = f"{planned['accountId']}@{project}.iam.gserviceaccount.com"
        made = api.call("iam", "GET", f"projects/{project}/serviceAccounts/{email}")
    _await_visible(call, made["name"])
    api.sleep(_SETTLING)
    return made["name"], _told(made)


def _await_visible(call: Call[Google], name: str) -> None:
    seen = 0

    def look() -> tuple[str, str]:
        nonlocal seen
        try:
            call.api.call("iam", "GET", name)
            seen += 1
        except GoogleError as error:
            if error.status not in (403, 404):
                raise
            seen = 0
        return name, "seen" if seen >= _SEEN else "pending"

    Waiter("seen", call.timeout).wait(look, call.api.sleep)


def _read(call: Call[Google], identifier: str, before: Mapping[str, Any]) -> Values | None:
    try:
        return _told(call.api.call("iam", "GET", identifier))
    except GoogleError as error:
        if error.not_found:
            return None
        raise


def _update(call: Call[Google], identifier: str, change: Change) -> Values:
    if change.touches("disabled"):
        verb = "disable" if change.planned.get("disabled") else "enable"
        call.api.call("iam", "POST", f"{identifier}:{verb}", body={})
    fields = {"description": "description", "displayName": "display_name"}
    changed = [key for key in fields if change.touches(key)]
    if changed:
        account = {key: change.planned.get(key) or "" for key in fields}
        body = {"serviceAccount": account, "updateMask": ",".join(fields[key] for key in changed)}
        call.api.call("iam", "PATCH", identifier, body=body)
    return _told(call.api.call("iam", "GET", identifier))


def _delete(call: Call[Google], identifier: str, state: Mapping[str, Any]) -> None:
    try:
        call.api.call("iam", "DELETE", identifier)
    except GoogleError as error:
        if not error.not_found:
            raise ProviderError(f"Error deleting service account: {error}") from error


def _told(account: Mapping[str, Any]) -> Values:
    return {
        "accountId": account["email"].split("@")[0],
        "description": account.get("description", ""),
        "disabled": bool(account.get("disabled")),
        "displayName": account.get("displayName", ""),
        "email": account["email"],
        "member": f"serviceAccount:{account['email']}",
        "name": account["name"],
        "project": account.get("projectId", ""),
        "uniqueId": account.get("uniqueId", ""),
    }


RESOURCES: Final = [
    Resource(
        token="gcp:serviceaccount/account:Account",
        fields=FIELDS,
        create=_create,
        read=_read,
        update=_update,
        updates=frozenset({"createIgnoreAlreadyExists", "description", "disabled", "displayName"}),
        delete=_delete,
        timeouts={"create": 300.0},
    )
]
