"""AWS's signature, version 4: who signed the request, and did he.

The canonical form is botocore's own, restricted to the headers that the client says it signed. The time must be within 15
minutes of real time, or of the cloud's: a client may correct its clock by the `Date` of our answers, and that is turned.
"""

from __future__ import annotations

import calendar
import hashlib
import hmac
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from botocore.auth import S3SigV4Auth, SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.compat import HTTPHeaders
from botocore.credentials import Credentials

from rehearsal.cloud.aws.errors import AwsError
from rehearsal.cloud.aws.http import HttpRequest

SKEW_S = 900
HEADER = re.compile(r"AWS4-HMAC-SHA256\s+Credential=([^,\s]+)[,\s]+SignedHeaders=([^,\s]+)[,\s]+Signature=([0-9a-f]{64})")

SHA256 = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class Scope:
    """What a request says of its signature."""

    key_id: str
    day: str
    region: str
    service: str
    signed: tuple[str, ...]
    signature: str


def scope(request: HttpRequest) -> Scope | None:
    """What the Authorization header says; None without one. Raises AwsError when it is no signature of version 4."""
    text = request.headers.get("authorization", "")
    if not text:
        return None
    found = HEADER.match(text.strip())
    parts = found.group(1).rsplit("/", 4) if found else []
    if found is None or len(parts) != 5 or parts[4] != "aws4_request":
        raise AwsError("IncompleteSignature", "Authorization header requires 'Credential', 'SignedHeaders' and 'Signature'.", 403)
    return Scope(parts[0], parts[1], parts[2], parts[3], tuple(found.group(2).lower().split(";")), found.group(3))


class _Auth(SigV4Auth):  # type: ignore[misc]
    """Signs exactly the headers that the client signed, at the client's time."""

    def signed(self, request: AWSRequest, when: str, names: tuple[str, ...], values: HttpRequest) -> str:
        """The signature that the client must have come to."""
        request.context["timestamp"] = when
        chosen = HTTPHeaders()
        for name in names:
            chosen[name] = values.headers.get(name, "")
        self.headers_to_sign = lambda _request: chosen
        return str(self.signature(self.string_to_sign(request, self.canonical_request(request)), request))


class _S3Auth(_Auth, S3SigV4Auth):  # type: ignore[misc]
    """S3 does not encode the path a second time."""


def verify(request: HttpRequest, claimed: Scope, secret: str, now: Callable[[], float]) -> None:
    """Raises AwsError unless the request was signed with `secret` and is fresh."""
    when = request.headers.get("x-amz-date", "")
    _fresh(when, claimed, now)
    if "host" not in claimed.signed:
        raise AwsError("IncompleteSignature", "'Host' must be a 'SignedHeader' in the AWS Authorization.", 403)
    headers = dict(request.headers)
    stated = headers.get("x-amz-content-sha256", "")
    if SHA256.fullmatch(stated) and stated != hashlib.sha256(request.body).hexdigest():
        raise AwsError("XAmzContentSHA256Mismatch", "The provided 'x-amz-content-sha256' header does not match what was computed.")
    url = f"http://{headers.get('host', '')}{request.path}" + (f"?{request.query}" if request.query else "")
    signed = AWSRequest(request.method, url, headers, request.body)
    kind = _S3Auth if claimed.service == "s3" else _Auth
    wanted = kind(Credentials(claimed.key_id, secret), claimed.service, claimed.region).signed(
        signed, when, claimed.signed, request
    )
    if not hmac.compare_digest(wanted, claimed.signature):
        raise AwsError(
            "SignatureDoesNotMatch",
            "The request signature we calculated does not match the signature you provided. "
            "Check your AWS Secret Access Key and signing method.",
            403,
        )


def _fresh(when: str, claimed: Scope, now: Callable[[], float]) -> None:
    try:
        signed_at: Any = calendar.timegm(time.strptime(when, "%Y%m%dT%H%M%SZ"))
    except ValueError:
        raise AwsError("IncompleteSignature", "Authorization header requires existence of 'X-Amz-Date'.", 403) from None
    if not when.startswith(claimed.day):
        raise AwsError(
            "SignatureDoesNotMatch", "Date in Credential scope does not match YYYYMMDD from ISO-8601 version of date.", 403
        )
    if min(abs(signed_at - time.time()), abs(signed_at - now())) > SKEW_S:
        raise AwsError("RequestExpired" if claimed.service == "ec2" else "SignatureDoesNotMatch", f"Signature expired: {when}", 403)
