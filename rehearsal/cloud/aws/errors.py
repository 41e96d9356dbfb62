"""AWS's errors, and how each of its protocols writes one down."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from xml.sax.saxutils import escape

from rehearsal.cloud.aws import cbor

NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that no XML document can hold."""


class AwsError(Exception):
    """A refusal in AWS's words. `status` is the HTTP status: 400, but 403, 404, 409, 424, 500 or 503 where AWS says so.

    `more` are further members of the error, in JSON.
    """

    def __init__(self, code: str, message: str, status: int = 400, more: Mapping[str, object] = {}) -> None:
        super().__init__(f"{code}: {message}")
        self.code, self.message, self.status, self.more = code, message, status, dict(more)


class NotModelled(AwsError):
    """AWS has it; the local cloud does not."""

    def __init__(self, what: str) -> None:
        super().__init__("NotImplemented", f"the local cloud does not have {what}", 501)


class MotoFailed(AwsError):
    """moto broke on a request; `trace` says where. A fault of the local cloud, whoever wrote the line."""

    def __init__(self, trace: str) -> None:
        super().__init__("InternalFailure", "The local cloud failed.", 500)
        self.trace = f"moto failed: {trace}"


def written(error: AwsError, protocol: str, request_id: str) -> tuple[dict[str, str], bytes]:
    """Headers and body of an error in a protocol (`ec2 query json rest-json rest-xml smithy-rpc-v2-cbor`)."""
    if protocol == cbor.PROTOCOL:
        return cbor.HEADERS, cbor.error(error.code, error.message)
    if protocol in ("json", "rest-json"):
        body = json.dumps({"__type": error.code, "message": error.message, "Message": error.message, **error.more})
        kind = "application/json" if protocol == "rest-json" else "application/x-amz-json-1.1"
        return {"Content-Type": kind, "x-amzn-ErrorType": error.code}, body.encode()
    error = AwsError(error.code, NOT_XML.sub("?", error.message), error.status)
    fields = f"<Code>{escape(error.code)}</Code><Message>{escape(error.message)}</Message>"
    head = '<?xml version="1.0" encoding="UTF-8"?>'
    if protocol == "ec2":
        text = f"{head}<Response><Errors><Error>{fields}</Error></Errors><RequestID>{request_id}</RequestID></Response>"
    elif protocol == "rest-xml":
        text = f"{head}<Error>{fields}<RequestId>{request_id}</RequestId></Error>"
    else:
        fault = "Receiver" if error.status >= 500 else "Sender"
        text = (
            f"{head}<ErrorResponse><Error><Type>{fault}</Type>{fields}</Error><RequestId>{request_id}</RequestId></ErrorResponse>"
        )
    return {"Content-Type": "text/xml"}, text.encode()
