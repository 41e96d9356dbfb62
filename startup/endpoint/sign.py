"""Signature Version 4 for one POST without a query: what Secrets Manager wants. Pure; held against botocore's own in a test."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

ALGORITHM = "AWS4-HMAC-SHA256"


@dataclass(frozen=True)
class Keys:
    """What a role's credentials are made of. Not shown by repr: it may end in a log."""

    key_id: str
    secret: str
    token: str

    def __repr__(self) -> str:
        return "Keys(...)"


def signed(url: str, headers: Mapping[str, str], body: bytes, keys: Keys, scope: tuple[str, str], stamp: str) -> dict[str, str]:
    """The headers of a POST to `url`, with its signature. `scope` is region and service, `stamp` UTC as `20260930T131500Z`."""
    said = {**{name.lower(): value.strip() for name, value in headers.items()}, "host": urlsplit(url).netloc, "x-amz-date": stamp}
    if keys.token:
        said["x-amz-security-token"] = keys.token
    names = sorted(said)
    lines = ("POST", "/", "", *(f"{name}:{said[name]}" for name in names), "", ";".join(names), _hash(body))
    within = f"{stamp[:8]}/{scope[0]}/{scope[1]}/aws4_request"
    to_sign = "\n".join((ALGORITHM, stamp, within, _hash("\n".join(lines).encode())))
    key = f"AWS4{keys.secret}".encode()
    for part in within.split("/"):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    signature = hmac.new(key, to_sign.encode(), hashlib.sha256).hexdigest()
    credential = f"{ALGORITHM} Credential={keys.key_id}/{within}, SignedHeaders={';'.join(names)}, Signature={signature}"
    return {**said, "authorization": credential}


def _hash(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
