"""Compute Engine's requests and operations."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from rehearsal.providers.google.http import Google, GoogleError
from rehearsal.providers.google.names import last
from rehearsal.providers.resource import Call, ProviderError
from rehearsal.providers.values import Values
from rehearsal.providers.waits import TimedOutWaiting, Waiter

POLL: Final = 10.0  # seconds between two looks at an operation, after a first quick one


class OperationFailed(ProviderError):
    """An operation that ended in an error, or did not end in time."""


def compute(api: Google, method: str, path: str, body: Values | None = None, **query: Any) -> Values:
    """One Compute request; `path` is relative to the API."""
    return api.call("compute", method, path, query, body)


def act(call: Call[Google], what: str, activity: str, method: str, path: str, body: Values | None = None, **query: Any) -> Values:
    """A request that starts an operation, and the wait for its end. Returns the operation.

    `what` begins the text when the request fails ("creating instance"), `activity` when the operation does.
    """
    try:
        operation = compute(call.api, method, path, body, **query)
    except GoogleError as error:
        error.args = (f"Error {what}: {error}",)
        raise
    return finish(call, operation, activity)


def finish(call: Call[Google], operation: Values, activity: str) -> Values:
    """Wait until an operation is done. Raises `OperationFailed` with the operation's own words, never its codes."""
    path = operation_path(call.api, operation)

    def look() -> tuple[Values | None, str]:
        now = compute(call.api, "GET", path)
        return now, str(now.get("status", ""))

    if operation.get("status") == "DONE":
        done = operation
    else:
        try:
            done = Waiter("DONE", call.timeout, every=POLL).wait(look, call.api.sleep)
        except TimedOutWaiting as error:
            raise OperationFailed(f"Error waiting for {activity}: {error}") from error
    if done.get("error"):
        raise OperationFailed(f"Error waiting for {activity}: {operation_text(done['error'])}")
    return done


def operation_path(api: Google, operation: Mapping[str, Any]) -> str:
    """Where an operation is read."""
    place = "global"
    for scope in ("zone", "region"):
        if operation.get(scope):
            place = f"{scope}s/{last(operation[scope])}"
    named = re.search(r"/projects/([^/]+)/", str(operation.get("selfLink", "")))  # the resource's project, which may be another
    return f"projects/{named[1] if named else api.config.project}/{place}/operations/{operation['name']}"


def operation_text(error: Mapping[str, Any]) -> str:
    """An operation's errors as one text: messages, a quota's figures, localised message, first help link."""
    return "".join(_one(item) for item in error.get("errors", []))


def _one(error: Mapping[str, Any]) -> str:
    text = f"{error['message']}\n" if error.get("message") else ""
    details = error.get("errorDetails") or []
    if error.get("code") == "QUOTA_EXCEEDED":
        quota = next((detail["quotaInfo"] for detail in details if detail.get("quotaInfo")), None)
        if quota:
            return text + _quota(quota)
    localized = next((d["localizedMessage"]["message"] for d in details if d.get("localizedMessage")), "")
    links: list[Any] = next((detail["help"]["links"] for detail in details if detail.get("help", {}).get("links")), [])
    if localized:
        text += f"\n\n{localized}\n"
    if links:
        description = links[0].get("description")
        text += "\n\n" + (f"{description}\n" if description else "") + f"{links[0].get('url', '')}\n"
    return text


def _quota(quota: Mapping[str, Any]) -> str:
    lines = []
    if quota.get("metricName"):
        lines.append(f"metric name = {quota['metricName']}")
    if quota.get("limitName"):
        lines.append(f"limit name = {quota['limitName']}")
    if quota.get("limit"):
        lines.append(f"limit = {quota['limit']:g}")
    if quota.get("futureLimit"):
        lines += [f"future limit = {quota['futureLimit']:g}", "rollout status = in progress"]
    if quota.get("dimensions"):
        pairs = " ".join(f"{key}:{value}" for key, value in sorted(quota["dimensions"].items()))
        lines.append(f"dimensions = map[{pairs}]")
    return "".join(f"\t{line}\n" for line in lines)


def found(api: Google, path: str, **query: Any) -> Values | None:
    """A resource, or None when it is not there."""
    try:
        return compute(api, "GET", path, **query)
    except GoogleError as error:
        if error.not_found:
            return None
        raise


def gone(call: Call[Google], what: str, kind: str, path: str) -> None:
    """Delete; a thing that is already gone is done. `kind` names it in the operation's text."""
    try:
        act(call, f"when reading or editing {what}", f"Deleting {kind}", "DELETE", path)
    except GoogleError as error:
        if not error.not_found:
            raise
