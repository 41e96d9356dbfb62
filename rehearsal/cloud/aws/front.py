"""From an HTTP request to an answer.

Whose service, which operation, does it fit AWS's model, who signed it, may he, is a trouble armed, then the handler or moto.
"""

from __future__ import annotations

import re
import traceback
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from urllib.parse import parse_qsl

from rehearsal.cloud.aws import authorise, ecr, limits, wire
from rehearsal.cloud.aws.backing import USED
from rehearsal.cloud.aws.call import Call, Caller, FromMoto, Json, Result
from rehearsal.cloud.aws.errors import AwsError, MotoFailed, NotModelled, written
from rehearsal.cloud.aws.http import HttpAnswer, HttpRequest
from rehearsal.cloud.aws.redaction import redacted
from rehearsal.cloud.aws.signature import scope
from rehearsal.cloud.aws.state import State
from rehearsal.cloud.aws.table import HANDLERS, LIMITED, MISSING, OWN, UNLOCKED
from rehearsal.cloud.requests import Request, RequestLog

SERVICES = {
    "application-autoscaling": "application-autoscaling",
    "budgets": "budgets",
    "codebuild": "codebuild",
    "ec2": "ec2",
    "ecr": "ecr",
    "iam": "iam",
    "logs": "logs",
    "monitoring": "cloudwatch",
    "s3": "s3",
    "sagemaker": "sagemaker",
    "scheduler": "scheduler",
    "secretsmanager": "secretsmanager",
    "servicequotas": "service-quotas",
    "ssm": "ssm",
    "sts": "sts",
}
"""Services that are answered: name in the signature's scope and in host names -> botocore's name."""

EVERYWHERE = ("budgets", "iam", "s3", "sts")
"""Services that are signed for one region and answer for all."""

RUNTIME = re.compile(r"/endpoints/[^/]+/(async-invocations|invocations|invocations-response-stream)")
"""Paths of SageMaker's runtime, which is signed as SageMaker is."""

BUCKET_HOST = re.compile(r"(?P<bucket>.+)\.s3[.-](?P<region>[a-z0-9-]+\.)?amazonaws\.com")
READS = ("BatchGet", "Describe", "Filter", "Get", "Head", "Invoke", "List")


@dataclass
class _Trace:
    """What is learnt of a request on its way, for the log."""

    service: str = ""
    operation: str = ""
    protocol: str = "rest-xml"
    accepted: bool = False
    signed: bool = False
    params: Json = field(default_factory=dict)
    answer: object = None
    complaints: tuple[str, ...] = ()
    own_errors: tuple[str, ...] = ()
    actions: tuple[str, ...] = ()


class Front:
    """Answers requests. Thread-safe."""

    def __init__(self, state: State, log: RequestLog, settle: Callable[[], None]) -> None:
        """`settle` is called under the lock after every request that may have changed something."""
        self._state, self._log, self._settle = state, log, settle

    def answer(self, request: HttpRequest) -> HttpAnswer:
        """Answer one request."""
        trace, request_id = _Trace(), str(uuid.uuid4())
        try:
            answer = self._answer(request, trace, request_id)
        except AwsError as refused:
            if isinstance(refused, MotoFailed):
                trace.own_errors = (*trace.own_errors, refused.trace)
            trace.answer = {"Error": {"Code": refused.code, "Message": refused.message}}
            headers, body = written(refused, trace.protocol, request_id)
            answer = HttpAnswer(refused.status, headers, b"" if request.method == "HEAD" else body)
        except Exception:
            trace.own_errors = (*trace.own_errors, traceback.format_exc())
            headers, body = written(AwsError("InternalFailure", "The local cloud failed.", 500), trace.protocol, request_id)
            answer = HttpAnswer(500, headers, body)
        self._log.add(
            Request(
                at=self._state.clock.now(),
                api=trace.service,
                method=request.method,
                path=request.path,
                query=dict(parse_qsl(request.query, keep_blank_values=True)),
                body=redacted(trace.params),
                status=answer.status,
                operation=trace.operation,
                bearer=trace.signed,
                accepted=trace.accepted,
                answer=redacted(trace.answer),
                complaints=trace.complaints,
                own_errors=trace.own_errors,
                actions=trace.actions,
            )
        )
        self._state.looked(trace.operation, request.headers.get("user-agent", ""))
        headers = {**answer.headers, "x-amzn-RequestId": request_id, "x-amz-request-id": request_id}
        return replace(answer, headers=headers)

    def _answer(self, request: HttpRequest, trace: _Trace, request_id: str) -> HttpAnswer:
        if (layer := self._layer(request, trace)) is not None:
            return layer
        trace.service = service = self._service(request)
        trace.protocol = wire.protocol(service)
        asked = wire.Asked(service, path_style(request), self._state.region)
        trace.protocol, trace.operation = asked.protocol, f"{service}.{asked.operation.name}"
        with self._state.lock:
            caller = self._state.credentials.caller(request)
        trace.signed = True
        trace.params = params = asked.params()
        trace.complaints = tuple(asked.complaints(params))
        if trace.complaints:
            raise _invalid(service, trace.complaints)
        trace.accepted = True
        call = self._call(asked, params, caller)
        trace.actions = authorise.needed(call) if caller.operator else ()
        result = self._handle(call)
        if isinstance(result, HttpAnswer):
            trace.answer = {"status": result.status, "bytes": len(result.body)}
            return result
        if isinstance(result, FromMoto):
            trace.answer = result.parsed
            return result.answer
        body = dict(result or {})
        trace.answer = body
        trace.own_errors = tuple(f"{trace.operation}: {text}" for text in wire.wrong_result(asked.operation, body))
        return wire.answered(asked.operation, body, asked.protocol, request_id)

    def _layer(self, request: HttpRequest, trace: _Trace) -> HttpAnswer | None:
        """A layer by the address that ECR signed; whoever has it may fetch it."""
        with self._state.lock:
            found = ecr.fetched(self._state, request)
        if found is not None:
            trace.service, trace.operation, trace.accepted, trace.signed = "s3", "s3.GetObject", True, True
            trace.answer = {"status": found.status, "bytes": len(found.body)}
        return found

    def _call(self, asked: wire.Asked, params: Json, caller: Caller) -> Call:
        return Call(asked.service, asked.operation.name, params, caller, lambda changed: self._moto(asked, changed))

    def _handle(self, call: Call) -> Result:
        handler = HANDLERS.get(call.id)
        if (why := MISSING.get(call.id)) or (handler is None and call.service in OWN):
            raise NotModelled(f"{call.id}{f' ({why})' if why else ''}")
        if handler is not None and call.id in UNLOCKED:
            with self._state.lock:
                self._permit(call)
            return handler(self._state, call)
        with self._state.lock:
            self._permit(call)
            try:
                return handler(self._state, call) if handler is not None else call.moto(None)
            finally:
                if not call.operation.startswith(READS):
                    if call.service == "iam":
                        self._state.roles.changed()
                    self._settle()

    def _permit(self, call: Call) -> None:
        """Raises AwsError when the caller may not, when the model's own limits are broken, or when a trouble is armed."""
        authorise.check(self._state, call)
        if call.service in LIMITED and (complaints := limits.broken(call)):
            raise _limited(complaints)
        trouble = next((t for t in self._state.troubles if not t.capacity and t.matches(call)), None)
        if trouble is not None:
            trouble.spend()
            raise trouble.error(call)

    def _moto(self, asked: wire.Asked, changed: Json | None) -> FromMoto:
        request = asked.request
        if changed is not None:
            made = wire.remade(asked.service, asked.operation, changed, self._state.region)
            request = HttpRequest(made.method, made.path, made.query, {**_without_body(request.headers), **made.headers}, made.body)
        return through_moto(self._state, asked.service, asked, request)

    def _service(self, request: HttpRequest) -> str:
        """By the signature's scope, else by the host. Raises AwsError for a service that is not here, or another region."""
        claimed = scope(request)
        if claimed is not None:
            if claimed.region != self._state.region and claimed.service not in EVERYWHERE:
                raise NotModelled(f"the region {claimed.region}: it has {self._state.region} alone")
            if claimed.service == "sagemaker" and RUNTIME.fullmatch(request.path):
                return "sagemaker-runtime"
            if claimed.service in SERVICES:
                return SERVICES[claimed.service]
            raise NotModelled(f"the service {claimed.service}")
        first = request.host.removeprefix("api.").removeprefix("runtime.").split(".")[0]
        return SERVICES.get(first, "s3")

    def internal(self, service: str, operation: str, params: Mapping[str, object]) -> Json:
        """What the operator did beforehand, in process: no signature, no log. Raises AwsError where it is refused."""
        model = wire.model(service).operation_model(operation)
        asked = wire.Asked(service, wire.remade(service, model, dict(params), self._state.region), self._state.region)
        result = self._handle(self._call(asked, asked.params(), self._state.operator()))
        return result.parsed if isinstance(result, FromMoto) else dict(result or {})


def through_moto(state: State, service: str, asked: wire.Asked, request: HttpRequest) -> FromMoto:
    """Moto's answer. Raises AwsError where moto refuses, NotModelled where moto lacks it."""
    if service not in USED:
        raise NotModelled(f"{service}.{asked.operation.name}")
    try:
        answer = state.moto.ask(service, request)
        parsed = wire.read(asked.operation, answer)
    except NotImplementedError as missing:
        raise NotModelled(f"{service}.{asked.operation.name} ({missing})") from None
    except Exception:
        raise MotoFailed(traceback.format_exc()) from None
    if answer.status >= 300 and (error := parsed.get("Error")):
        raise AwsError(str(error.get("Code", "")), str(error.get("Message", "")), answer.status)
    parsed.pop("ResponseMetadata", None)
    return FromMoto(answer, parsed)


def path_style(request: HttpRequest) -> HttpRequest:
    """A request to a bucket's own host, as one to S3 with the bucket in the path."""
    found = BUCKET_HOST.fullmatch(request.host)
    return request.with_path(f"/{found['bucket']}{request.path}") if found else request


def _without_body(headers: Mapping[str, str]) -> dict[str, str]:
    return {
        k: v for k, v in headers.items() if k not in ("content-length", "content-type", "content-encoding", "transfer-encoding")
    }


def _limited(complaints: list[str]) -> AwsError:
    """In the words of services that check limits themselves."""
    count = len(complaints)
    return AwsError("ValidationException", f"{count} validation error{'s' * (count > 1)} detected: {'; '.join(complaints)}")


def _invalid(service: str, complaints: tuple[str, ...]) -> AwsError:
    code = {"ec2": "InvalidParameterValue", "iam": "ValidationError", "sts": "ValidationError", "s3": "InvalidRequest"}
    unknown = "not recognized" in complaints[0]
    return AwsError(
        "UnknownParameter" if service == "ec2" and unknown else code.get(service, "ValidationException"), "; ".join(complaints)
    )
