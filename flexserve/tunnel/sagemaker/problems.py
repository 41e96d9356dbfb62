"""AWS's refusals as OpenAI's errors: status, type, and the words that help."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any

# AWS error code -> (HTTP status, OpenAI's type). Source: botocore's service model of sagemaker-runtime and its common errors.
_KINDS = {
    "ValidationError": (400, "invalid_request_error"),
    "ValidationException": (400, "invalid_request_error"),
    "AccessDeniedException": (403, "permission_error"),
    "AccessDenied": (403, "permission_error"),
    "ExpiredTokenException": (401, "authentication_error"),
    "ExpiredToken": (401, "authentication_error"),
    "UnrecognizedClientException": (401, "authentication_error"),
    "InvalidSignatureException": (401, "authentication_error"),
    "MissingAuthenticationTokenException": (401, "authentication_error"),
    "ThrottlingException": (429, "rate_limit_error"),
    "Throttling": (429, "rate_limit_error"),
    "ServiceUnavailable": (503, "server_error"),
    "ModelNotReadyException": (503, "server_error"),
    "InternalDependencyException": (502, "server_error"),
    "InternalFailure": (500, "server_error"),
    "InternalStreamFailure": (500, "server_error"),
    "ModelStreamError": (500, "server_error"),
    "ModelError": (500, "server_error"),
}
_EVERYONES = (401, 403, 404)  # credentials, a permission, no such endpoint
_LOGIN = "run: aws sso login, or set AWS_PROFILE or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"


@dataclass(frozen=True)
class Problem:
    """An answer of the proxy's own: mostly an error, then `body` has OpenAI's shape for it."""

    status: int
    body: dict[str, Any]
    request_id: str = ""
    lost: bool = False
    """Neither this request's fault nor the model's: every other request will meet it."""


def problem(
    status: int, message: str, kind: str = "invalid_request_error", code: str | None = None, request_id: str = ""
) -> Problem:
    """An error in OpenAI's shape."""
    return Problem(status, {"error": {"message": message, "type": kind, "param": None, "code": code}}, request_id)


def of(error: BaseException) -> Problem:
    """What went wrong, from botocore's exception. The model's own error is handed on with its own status."""
    response = getattr(error, "response", None)
    if isinstance(response, dict) and "Error" in response:
        said = _of_response(response)
        return replace(said, lost=str(response["Error"].get("Code", "")) != "ModelError" and said.status in _EVERYONES)
    return replace(_unanswered(error), lost=type(error).__name__ != "ReadTimeoutError")  # that one may be a long answer


def _unanswered(error: BaseException) -> Problem:
    name = type(error).__name__
    if "Credential" in name or "Token" in name or "SSO" in name:
        return problem(401, f"no AWS credentials: {_line(error)}; {_LOGIN}", "authentication_error", name)
    if "Timeout" in name:
        return problem(504, f"the endpoint did not answer in time: {_line(error)}", "server_error", name)
    return problem(502, f"the endpoint was not reached: {_line(error)}", "server_error", name)


def _of_response(response: dict[str, Any]) -> Problem:
    code = str(response["Error"].get("Code", ""))
    message = str(response["Error"].get("Message", "")) or code
    request_id = str(response.get("ResponseMetadata", {}).get("RequestId", ""))
    if code == "ModelError" and response.get("OriginalStatusCode"):
        status = int(response["OriginalStatusCode"])
        said = _openai(str(response.get("OriginalMessage", "")))
        if said is not None:
            return Problem(status, said, request_id)
        kind = "invalid_request_error" if status < 500 else "server_error"
        return problem(status, str(response.get("OriginalMessage", message)), kind, code, request_id)
    status, kind = _KINDS.get(code, (int(response.get("ResponseMetadata", {}).get("HTTPStatusCode", 500)), "server_error"))
    if status == 400 and "not found" in message.lower():
        status = 404
    if status == 401:
        message = f"{message}; {_LOGIN}"
    return problem(status, message, kind, code, request_id)


def _openai(text: str) -> dict[str, Any] | None:
    """The model's own error, when it has OpenAI's shape already (older vLLM servers leave out the outer `error`)."""
    try:
        value = json.loads(text)
    except ValueError:
        return None
    if isinstance(value, dict) and isinstance(value.get("error"), dict):
        return value
    if isinstance(value, dict) and value.get("object") == "error" and "message" in value:
        return {"error": {key: value.get(key) for key in ("message", "type", "param", "code")}}
    return None


def _line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
