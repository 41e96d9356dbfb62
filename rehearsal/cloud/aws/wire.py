"""AWS's protocols, by botocore's service models: which operation a request is, its parameters, and an answer's bytes."""

from __future__ import annotations

import functools
import json
import threading
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urlencode

import botocore.parsers
import botocore.serialize
from botocore.compat import HTTPHeaders
from botocore.model import OperationModel, OperationNotFoundError
from botocore.validate import ParamValidator
from moto.core.parse import PROTOCOL_PARSERS
from moto.core.request import Request as MotoRequest
from moto.core.request import determine_request_protocol
from moto.core.routing import get_service_router
from moto.core.serialize import SerializationContext, get_serializer_class
from moto.core.utils import get_service_model
from werkzeug.exceptions import NotFound

from rehearsal.cloud.aws import cbor
from rehearsal.cloud.aws.call import Json
from rehearsal.cloud.aws.errors import AwsError
from rehearsal.cloud.aws.http import HttpAnswer, HttpRequest

UNKNOWN = {"query": "InvalidAction", "ec2": "InvalidAction", "json": "UnknownOperationException"}
_LOADING = threading.Lock()


@functools.cache
def model(service: str) -> Any:
    """A service's model (moto's, which is botocore's with a little more)."""
    with _LOADING:
        return get_service_model(service)


def protocol(service: str) -> str:
    """The protocol in which a service is answered."""
    return str(model(service).protocol)


class Asked:
    """A request whose operation is known."""

    def __init__(self, service: str, request: HttpRequest, region: str) -> None:
        """Raises AwsError for an operation that the service does not have."""
        self.service = service
        self.request = request
        host = f"{service}.{region}.amazonaws.com" if service != "s3" else f"s3.{region}.amazonaws.com"
        url = f"http://{host}{request.path}" + (f"?{request.query}" if request.query else "")
        headers = {**request.headers, "host": host}
        self.moto = MotoRequest.from_primitives(request.method, url, headers, request.body)
        self.moto.environ["RAW_URI"] = request.path + (f"?{request.query}" if request.query else "")
        try:
            self.protocol, self.operation, self._labels = self._match(cbor.named(request.path))
        except (NotFound, NotImplementedError, OperationNotFoundError):
            raise AwsError(UNKNOWN.get(protocol(service), "MethodNotAllowed"), "The operation is not known.", 400) from None

    def _match(self, named: str) -> tuple[str, OperationModel, Mapping[str, Any]]:
        """Protocol, operation, and what its path says."""
        if named and protocol(self.service) == cbor.PROTOCOL:
            return cbor.PROTOCOL, model(self.service).operation_model(named), {}
        spoken = determine_request_protocol(model(self.service), self.moto.content_type)
        return spoken, *get_service_router(self.service).match(self.moto)

    def params(self) -> Json:
        """The parameters as botocore names them. Raises AwsError for what cannot be read."""
        try:
            if self.protocol == cbor.PROTOCOL:
                return cbor.params(self.operation, self.request.body)
            parser = PROTOCOL_PARSERS[self.protocol](self.operation)
            self._json()
            return dict(
                parser.parse(
                    {
                        "method": self.moto.method,
                        "values": self.moto.values,
                        "headers": self.moto.headers,
                        "body": self.moto.data,
                        "url_path": self.moto.path,
                        "url_params": self._labels,
                    }
                )
            )
        except Exception as broken:  # whatever a parser trips over: XML, JSON, numbers, base64
            code = "MalformedXML" if self.protocol == "rest-xml" else "SerializationException"
            raise AwsError(code, f"The request could not be read: {broken}") from None

    def _json(self) -> object:
        """The body, where it is JSON: None without one. Raises ValueError for what is no JSON object."""
        plain = self.protocol == "json" or (self.protocol == "rest-json" and "payload" not in self._input())
        if not plain or not self.moto.data:
            return None
        value = json.loads(self.moto.data)
        if not isinstance(value, dict):
            raise ValueError("the body is no JSON object")
        return value

    def _input(self) -> Mapping[str, Any]:
        shape = self.operation.input_shape
        return shape.serialization if shape is not None else {}

    def complaints(self, params: Json) -> list[str]:
        """What the model does not allow: types, ranges, members missing or unknown."""
        shape = self.operation.input_shape
        if shape is None:
            return []
        return [*_validated(params, shape), *self._unknown(params)]

    def _unknown(self, params: Json) -> Iterator[str]:
        shape = self.operation.input_shape
        if self.protocol in ("ec2", "query"):
            sent = {name for name in self.moto.values if name not in ("Action", "Version")}
            body = botocore.serialize.create_serializer(self.protocol, False).serialize_to_request(params, self.operation)["body"]
            sent = {name for name in sent if self.moto.values.get(name)}  # an empty list is a name without a value
            yield from (f"The parameter {name} is not recognized" for name in sorted(sent - set(body)))
        elif self.protocol == cbor.PROTOCOL:
            yield from _strange(cbor.raw(self.request.body), shape, "")
        elif (body := self._json()) is not None:
            yield from _strange(body, shape, "")


def _validated(params: Json, shape: Any) -> list[str]:
    report = ParamValidator().validate(params, shape)
    return [line for line in report.generate_report().splitlines() if line] if report.has_errors() else []


def _strange(value: object, shape: Any, path: str) -> Iterator[str]:
    """Members that the shape does not have."""
    if shape.type_name == "structure" and isinstance(value, dict) and not shape.is_document_type:
        names = {member.serialization.get("name", name): member for name, member in shape.members.items()}
        for name, inner in value.items():
            if name not in names:
                yield f'Unknown parameter in input: "{path}{name}"'
            else:
                yield from _strange(inner, names[name], f"{path}{name}.")
    elif shape.type_name == "list" and isinstance(value, list):
        for index, inner in enumerate(value):
            yield from _strange(inner, shape.member, f"{path}{index}.")
    elif shape.type_name == "map" and isinstance(value, dict):
        for name, inner in value.items():
            yield from _strange(inner, shape.value, f"{path}{name}.")


def answered(operation: OperationModel, result: Mapping[str, Any], used: str, request_id: str) -> HttpAnswer:
    """The bytes of a result."""
    if used == cbor.PROTOCOL:
        return HttpAnswer(200, cbor.HEADERS, cbor.written(operation, result))
    serializer = get_serializer_class(operation.service_model.service_name, used)(operation, SerializationContext(request_id))
    written = serializer.serialize(dict(result))
    body = written["body"]
    return HttpAnswer(written["status_code"], dict(written["headers"]), body.encode() if isinstance(body, str) else body)


def wrong_result(operation: OperationModel, result: Mapping[str, Any]) -> list[str]:
    """What the model does not allow in a result of ours. An empty list is fine: services answer it where models want an entry."""
    shape = operation.output_shape
    if shape is None:
        return ["no output expected"] if result else []
    return [line for line in _validated(dict(result), shape) if not line.endswith("value: 0, valid min length: 1")]


def read(operation: OperationModel, answer: HttpAnswer) -> Json:
    """An answer as botocore reads it: the output's members, or `Error` with `Code` and `Message`."""
    parser = botocore.parsers.create_parser(operation.service_model.resolved_protocol)
    headers = HTTPHeaders.from_dict(dict(answer.headers))
    response: Json = {"status_code": answer.status, "headers": headers, "body": answer.body}
    shape = operation.output_shape
    if answer.status < 300 and shape is not None and operation.has_streaming_output:
        return {}
    return dict(parser.parse(response, shape))


def remade(service: str, operation: OperationModel, params: Json, region: str) -> HttpRequest:
    """The request that a client would send for these parameters, unsigned."""
    serializer = botocore.serialize.create_serializer(operation.service_model.protocol, False)
    made = serializer.serialize_to_request(params, operation)
    headers = {k.lower(): str(v) for k, v in made["headers"].items()}
    body = made["body"]
    if isinstance(body, dict):
        body = urlencode(body)
        headers["content-type"] = "application/x-www-form-urlencoded; charset=utf-8"
    raw = body.encode() if isinstance(body, str) else bytes(body or b"")
    path, _, query = str(made["url_path"]).partition("?")
    pairs = made.get("query_string") or {}
    if pairs:
        query = "&".join(filter(None, (query, urlencode(pairs))))
    headers["host"] = f"{service}.{region}.amazonaws.com"
    return HttpRequest(str(made["method"]), path or "/", query, headers, raw)
