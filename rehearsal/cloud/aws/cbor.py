"""AWS's binary protocol, smithy-rpc-v2-cbor, from the service's side: CodeBuild and CloudWatch speak it.

botocore has both halves of it as a client: its parser reads a request as if it were an answer, its serialiser writes an answer as
if it were a request.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from botocore.model import OperationModel
from botocore.parsers import RpcV2CBORParser
from botocore.serialize import RpcV2CBORSerializer

PROTOCOL = "smithy-rpc-v2-cbor"
HEADERS = {"Content-Type": "application/cbor", "smithy-protocol": "rpc-v2-cbor"}
_PATH = re.compile(r"/service/[^/]+/operation/([A-Za-z0-9]+)")


def named(path: str) -> str:
    """The operation that a path names; empty for a path of another protocol."""
    found = _PATH.fullmatch(path)
    return found.group(1) if found else ""


def raw(body: bytes) -> Any:
    """The document as it was sent. Raises ValueError for what is no CBOR map."""
    if not body:
        return {}
    try:
        document = RpcV2CBORParser()._initial_body_parse(body)
    except Exception as broken:  # whatever the parser trips over
        raise ValueError(f"the body is no CBOR: {broken}") from None
    if not isinstance(document, dict):
        raise ValueError("the body is no CBOR map")
    return document


def params(operation: OperationModel, body: bytes) -> dict[str, Any]:
    """The parameters as botocore names them. Raises ValueError for what cannot be read."""
    document = raw(body)
    shape = operation.input_shape
    return dict(RpcV2CBORParser()._parse_shape(shape, document)) if shape is not None else {}


def written(operation: OperationModel, result: Mapping[str, Any]) -> bytes:
    """An answer's body."""
    shape = operation.output_shape
    return bytes(RpcV2CBORSerializer()._serialize_body_params(dict(result), shape)) if shape is not None else b"\xa0"


def error(code: str, message: str) -> bytes:
    """An error's body: a map of two texts."""
    return b"\xa2" + b"".join(map(_text, ("__type", code, "message", message)))


def _text(value: str) -> bytes:
    data = value.encode()
    return b"\x7a" + len(data).to_bytes(4, "big") + data
