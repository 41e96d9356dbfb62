"""From an HTTP request to an answer.

Whose API, which method, does it fit Google's document, may the caller, then the handler.
"""

from __future__ import annotations

import json
import traceback
from collections.abc import Mapping
from dataclasses import dataclass, replace
from urllib.parse import parse_qsl

from rehearsal.cloud.google import fields, secretmanager
from rehearsal.cloud.google.call import Call, Json
from rehearsal.cloud.google.discovery import SNAKE, Document, Match, document
from rehearsal.cloud.google.errors import ApiError, bad_payload, forbidden, rpc_error, service_disabled, unimplemented
from rehearsal.cloud.google.identity import refusal
from rehearsal.cloud.google.redaction import redacted
from rehearsal.cloud.google.schema import Violation, normalise, query_violations, violations
from rehearsal.cloud.google.services import TITLES
from rehearsal.cloud.google.state import LINK, State
from rehearsal.cloud.google.table import BEFORE, handlers
from rehearsal.cloud.requests import Request, RequestLog


@dataclass(frozen=True)
class Api:
    """One of Google's APIs. `prefix` is its first path segment here; `versions` those that the local cloud answers."""

    prefix: str
    name: str
    versions: tuple[str, ...]
    service: str


APIS = (
    Api("compute", "compute", ("beta", "v1"), "compute.googleapis.com"),
    Api("iam", "iam", ("v1",), "iam.googleapis.com"),
    Api("crm", "cloudresourcemanager", ("v1", "v3"), "cloudresourcemanager.googleapis.com"),
    Api("secretmanager", "secretmanager", ("v1",), "secretmanager.googleapis.com"),
    Api("iap", "iap", ("v1",), "iap.googleapis.com"),
    Api("serviceusage", "serviceusage", ("v1",), "serviceusage.googleapis.com"),
    Api("artifactregistry", "artifactregistry", ("v1",), "artifactregistry.googleapis.com"),
    Api("oauth2", "oauth2", ("v2",), ""),
    Api("userinfo", "oauth2", ("v2",), ""),
)


PERMISSION = {"compute.instances.insert": "compute.instances.create"}
"""Permissions that are not spelt like the method that needs them; only those that the local cloud takes away."""


@dataclass(frozen=True)
class Answer:
    """What goes back over the wire; links are complete."""

    status: int
    body: Json


@dataclass
class _Trace:
    """What is learnt of a request on its way, for the log."""

    api: str = ""
    operation: str = ""
    accepted: bool = False
    complaints: tuple[str, ...] = ()
    own_errors: tuple[str, ...] = ()


class Front:
    """Answers requests. Thread-safe."""

    def __init__(self, state: State, log: RequestLog) -> None:
        self._state = state
        self._log = log
        self._handlers = handlers()

    def answer(self, method: str, path: str, query: str, raw: bytes, bearer: str, base: str) -> Answer:
        """Answer one request. `path` as on the wire, without the query; `base` is what links begin with (`http://HOST:PORT`)."""
        trace = _Trace()
        values = dict(parse_qsl(query, keep_blank_values=True))
        body: object = None
        try:
            body = _json(raw)
            status, result = 200, self._answer(method, path, values, body, bearer, trace)
        except ApiError as refused:
            status, result = refused.status, dict(refused.body)
        except Exception:
            trace.own_errors = (traceback.format_exc(),)
            failed = rpc_error(500, "Internal error encountered.", status="INTERNAL")
            status, result = failed.status, dict(failed.body)
        version = path.split("/")[2] if path.startswith("/compute/") else "v1"
        text = json.dumps(result).replace(LINK, f"{base}/compute/{version}/")
        entry = Request(
            at=self._state.clock.now(),
            api=trace.api,
            method=method,
            path=path,
            query=values,
            body=redacted(body),
            status=status,
            operation=trace.operation,
            bearer=bool(bearer),
            accepted=trace.accepted,
            answer=redacted(json.loads(text)),
            complaints=trace.complaints,
            own_errors=trace.own_errors,
        )
        self._log.add(entry)
        return Answer(status, json.loads(text))

    def _answer(self, http: str, path: str, query: Mapping[str, str], body: object, bearer: str, trace: _Trace) -> Json:
        api, doc, found = _route(http, path)
        trace.api, trace.operation = api.name, found.method.id
        with self._state.lock:
            caller = self._state.tokens.caller(bearer)
        wrong = _wrong(doc, found, query, body)
        trace.complaints, trace.accepted = tuple(v.text for v in wrong), not wrong
        if wrong:
            raise bad_payload([(v.field, v.text) for v in wrong])
        request = found.method.request
        call = Call(
            id=found.method.id,
            path=path,
            params=found.params,
            query={_documented(found, name): value for name, value in query.items()},
            body=normalise(doc, request, body or {}) if request else {},
            caller=caller,
        )
        result = self._handle(api, call)
        answer = fields.chosen(result, query.get("fields", ""))
        if found.method.response:
            trace.own_errors = tuple(f"{call.id}: {v.text}" for v in violations(doc, found.method.response, result))
        return json.loads(json.dumps(answer))  # type: ignore[no-any-return]

    def _handle(self, api: Api, call: Call) -> Json:
        handler = self._handlers.get(call.id)
        if handler is None:
            raise unimplemented(call.id)
        if (before := BEFORE.get(call.id)) is not None:
            before(self._state, call)
        with self._state.lock:
            if api.service in self._state.disabled:
                raise service_disabled(api.service, TITLES[api.service], self._state.number)
            self._authorise(call)
            call = self._with_trouble(call)
            return json.loads(json.dumps(handler(self._state, call)))  # type: ignore[no-any-return]

    def _authorise(self, call: Call) -> None:
        if call.id.startswith("oauth2."):  # whoever has a token may ask whose it is
            return
        chain = [f"projects/{self._state.project}"]
        if call.id.startswith("secretmanager.") and "/secrets/" in call.name:
            chain.append(secretmanager.policy_resource(self._state, call.name))
        if (permission := PERMISSION.get(call.id, call.id)) in self._state.denied and call.caller.operator:
            scope = call.path.split("/", 3)[-1]
            raise forbidden(permission, f"{scope}/{call.body['name']}" if call.body.get("name") else scope)
        refused = refusal(call.caller, call.id, call.name or call.path, tuple(chain), self._state.policies)
        if refused is not None:
            raise refused

    def _with_trouble(self, call: Call) -> Call:
        trouble = next((t for t in self._state.troubles if t.matches(call)), None)
        if trouble is None:
            return call
        trouble.spend()
        if trouble.answer is not None:
            status, body = trouble.answer(call)
            raise ApiError(status, body)
        return replace(call, trouble=trouble)


def _json(raw: bytes) -> object:
    if not raw:
        return None
    try:
        return json.loads(raw)
    except ValueError:
        raise rpc_error(400, "Invalid JSON payload received. Parsing the request failed.") from None


def _route(http: str, path: str) -> tuple[Api, Document, Match]:
    """The API, its document and the method. Raises 404 for what Google does not have."""
    if path.startswith("/v1/projects/") and "/secrets" in path:  # a client whose endpoint has no path of its own
        path = f"/secretmanager{path}"
    for api in APIS:
        for version in api.versions:
            below = _below(api, version, path)
            if below is None:
                continue
            doc = document(api.name, version)
            found = doc.match(http, below)
            if found is not None:
                return api, doc, found
    raise rpc_error(404, f"Method not found: {http} {path}")


def _below(api: Api, version: str, path: str) -> str | None:
    if api.name == "compute":
        start = f"/compute/{version}/"
        return path.removeprefix(start) if path.startswith(start) else None
    if api.name == "oauth2":
        return path.lstrip("/") if path.startswith(f"/{api.prefix}/") else None
    start = f"/{api.prefix}/"
    below = path.removeprefix(start)
    return below if path.startswith(start) and below.startswith(f"{version}/") else None


def _wrong(doc: Document, found: Match, query: Mapping[str, str], body: object) -> list[Violation]:
    wrong = query_violations(doc, found.method, query)
    if found.method.request:
        wrong += violations(doc, found.method.request, body if body is not None else {})
    elif body:
        wrong.append(Violation("", "Unknown name in body: the method takes none."))
    return wrong


def _documented(found: Match, name: str) -> str:
    """The parameter's name in the document: `repositoryId` for `repository_id`."""
    for stated in found.method.parameters:
        if name == stated or SNAKE.sub("_", stated).lower() == name:
            return stated
    return name
