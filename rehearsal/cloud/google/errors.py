"""Google's errors, in the form and words of the recordings of the real provider and of Google's documentation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

STATUS = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    409: "ALREADY_EXISTS",
    412: "FAILED_PRECONDITION",
    429: "RESOURCE_EXHAUSTED",
    501: "UNIMPLEMENTED",
    503: "UNAVAILABLE",
}


class ApiError(Exception):
    """An error answer. `status` and `body` are what goes over the wire."""

    def __init__(self, status: int, body: Mapping[str, Any]) -> None:
        super().__init__(f"{status}: {body.get('error', {}).get('message', '')}")
        self.status = status
        self.body = body


def error(
    code: int,
    reason: str,
    message: str,
    *,
    short: str | None = None,
    domain: str = "global",
    status: str | None = None,
    details: Sequence[Mapping[str, Any]] = (),
    **extra: str,
) -> ApiError:
    """An error in compute's form: `errors[0]` carries the reason (and `short` as its message, where it differs)."""
    first = {"message": message if short is None else short, "domain": domain, "reason": reason, **extra}
    body: dict[str, Any] = {"code": code, "message": message, "errors": [first]}
    if status:
        body["status"] = status
    if details:
        body["details"] = list(details)
    return ApiError(code, {"error": body})


def rpc_error(code: int, message: str, *, status: str | None = None, details: Sequence[Mapping[str, Any]] = ()) -> ApiError:
    """An error in the form of Google's newer APIs: a canonical status, no `errors`."""
    body: dict[str, Any] = {"code": code, "message": message, "status": status or STATUS[code]}
    if details:
        body["details"] = list(details)
    return ApiError(code, {"error": body})


def not_found(path: str) -> ApiError:
    """Compute's 404; `path` is `projects/P/zones/Z/instances/N`."""
    return error(404, "notFound", f"The resource '{path}' was not found")


def exists(path: str) -> ApiError:
    """Compute's 409."""
    return error(409, "alreadyExists", f"The resource '{path}' already exists")


def invalid(field: str, value: object, why: str) -> ApiError:
    """Compute's 400 for a value that it understood and refuses."""
    return error(400, "invalid", f"Invalid value for field '{field}': '{value}'. {why}", short=why)


def bad_payload(texts: Sequence[tuple[str, str]]) -> ApiError:
    """The 400 of a body or query that does not fit the schema; `texts` are (field, sentence)."""
    lines = [text if text.startswith("Invalid value") else f"Invalid JSON payload received. {text}" for _, text in texts]
    violations = [
        {"field": field, "description": line} if field else {"description": line}
        for (field, _), line in zip(texts, lines, strict=True)
    ]
    details = [{"@type": "type.googleapis.com/google.rpc.BadRequest", "fieldViolations": violations}]
    return error(400, "badRequest" if len(lines) > 1 else "invalid", "\n".join(lines), status="INVALID_ARGUMENT", details=details)


def condition_not_met(what: str) -> ApiError:
    """Compute's 412: somebody else changed it since it was read."""
    text = {
        "labels": "Labels fingerprint either invalid or resource labels have changed",
        "metadata": "Supplied fingerprint does not match current metadata fingerprint.",
    }.get(what, "Supplied fingerprint does not match current fingerprint.")
    return error(412, "conditionNotMet", text, location="If-Match", locationType="header")


def in_use(kind: str, path: str, user: str) -> ApiError:
    """Compute's 400 for deleting what something else needs."""
    return error(400, "resourceInUseByAnotherResource", f"The {kind} resource '{path}' is already being used by '{user}'")


def unauthenticated() -> ApiError:
    """The 401 of a request without a token, or with one that is not valid any more."""
    return error(
        401,
        "authError",
        "Request had invalid authentication credentials. Expected OAuth 2 access token, login cookie or other valid"
        " authentication credential.",
        short="Invalid Credentials",
        status="UNAUTHENTICATED",
        location="Authorization",
        locationType="header",
    )


def forbidden(permission: str, resource: str) -> ApiError:
    """Compute's 403."""
    return error(403, "forbidden", f"Required '{permission}' permission for '{resource}'")


def permission_denied(permission: str, resource: str) -> ApiError:
    """The 403 of the newer APIs."""
    return rpc_error(403, f"Permission '{permission}' denied for resource '{resource}' (or it may not exist).")


def service_disabled(service: str, title: str, number: str) -> ApiError:
    """The 403 of an API that the project has not switched on."""
    message = (
        f"{title} has not been used in project {number} before or it is disabled. Enable it by visiting"
        f" https://console.developers.google.com/apis/api/{service}/overview?project={number} then retry."
    )
    detail = {
        "@type": "type.googleapis.com/google.rpc.ErrorInfo",
        "reason": "SERVICE_DISABLED",
        "domain": "googleapis.com",
        "metadata": {"service": service, "consumer": f"projects/{number}"},
    }
    return error(
        403,
        "accessNotConfigured",
        message,
        short=f"{title} has not been used",
        domain="usageLimits",
        status="PERMISSION_DENIED",
        details=[detail],
    )


def unimplemented(method: str) -> ApiError:
    """Google has the method, the local cloud does not."""
    return rpc_error(501, f"The local cloud does not answer {method}.")
