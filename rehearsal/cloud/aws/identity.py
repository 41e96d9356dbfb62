"""Credentials: the operator's, which are fixed, and those that an instance is given for its role."""

from __future__ import annotations

import base64
import secrets
import string
from collections.abc import Callable
from dataclasses import dataclass

from rehearsal.cloud.aws import signature
from rehearsal.cloud.aws.call import Caller
from rehearsal.cloud.aws.errors import AwsError
from rehearsal.cloud.aws.http import HttpRequest

LIFETIME_S = 6 * 3600
"""How long an instance's credentials are good, on the cloud's clock."""


@dataclass(frozen=True)
class Keys:
    """A key pair; with a token and an end (epoch seconds) where it was issued for a role."""

    key_id: str
    secret: str
    token: str = ""
    expires_at: float | None = None


OPERATOR = Keys("AKIAFLEXSERVEREHEARS", "local-operator-secret-key-of-no-account0")
"""The operator's keys: of no account, the same in every rehearsal."""


class Credentials:
    """All keys that are good, and who holds them. Called under the cloud's lock."""

    def __init__(self, account: str, now: Callable[[], float]) -> None:
        self._account, self._now = account, now
        self._issued: dict[str, tuple[Keys, Caller]] = {}
        self.operator = Caller(f"arn:aws:iam::{account}:user/operator", "AIDAFLEXSERVEREHEARS")

    def issue(self, role: str, role_id: str, session: str, instance: str = "") -> Keys:
        """Keys of a session of a role."""
        keys = Keys(
            "ASIA" + _letters(16),
            secrets.token_urlsafe(30),
            base64.b64encode(secrets.token_bytes(96)).decode(),
            self._now() + LIFETIME_S,
        )
        arn = f"arn:aws:sts::{self._account}:assumed-role/{role}/{session}"
        self._issued[keys.key_id] = (keys, Caller(arn, f"{role_id}:{session}", role, instance))
        return keys

    def revoke(self, instance: str) -> None:
        """The instance is gone, and its keys with it."""
        self._issued = {k: v for k, v in self._issued.items() if v[1].instance != instance}

    def caller(self, request: HttpRequest) -> Caller:
        """Who signed the request. Raises AwsError for no signature, a wrong one, unknown or expired keys."""
        claimed = signature.scope(request)
        if claimed is None and ".s3." in f".{request.host}":
            raise AwsError("AccessDenied", "Access Denied", 403)
        if claimed is None:
            raise AwsError("MissingAuthenticationToken", "Missing Authentication Token", 403)
        keys, who = (
            (OPERATOR, self.operator) if claimed.key_id == OPERATOR.key_id else self._issued.get(claimed.key_id, (None, None))
        )
        if keys is None or who is None:
            raise AwsError(*_UNKNOWN.get(claimed.service, _UNKNOWN["sts"]), 403)
        token = request.headers.get("x-amz-security-token", "")
        if token != keys.token:
            raise AwsError(*_UNKNOWN.get(claimed.service, _UNKNOWN["sts"]), 403)
        signature.verify(request, claimed, keys.secret, self._now)
        if keys.expires_at is not None and self._now() >= keys.expires_at:
            raise AwsError(
                "ExpiredToken" if claimed.service == "s3" else "ExpiredTokenException",
                "The security token included in the request is expired",
                403,
            )
        return who


_UNKNOWN = {
    "ec2": ("AuthFailure", "AWS was not able to validate the provided access credentials"),
    "s3": ("InvalidAccessKeyId", "The AWS Access Key Id you provided does not exist in our records."),
    "sts": ("InvalidClientTokenId", "The security token included in the request is invalid."),
    "iam": ("InvalidClientTokenId", "The security token included in the request is invalid."),
    "ssm": ("UnrecognizedClientException", "The security token included in the request is invalid."),
    "secretsmanager": ("UnrecognizedClientException", "The security token included in the request is invalid."),
    "scheduler": ("UnrecognizedClientException", "The security token included in the request is invalid."),
    "ecr": ("UnrecognizedClientException", "The security token included in the request is invalid."),
    "logs": ("UnrecognizedClientException", "The security token included in the request is invalid."),
    "sagemaker": ("UnrecognizedClientException", "The security token included in the request is invalid."),
    "servicequotas": ("UnrecognizedClientException", "The security token included in the request is invalid."),
}


def _letters(count: int) -> str:
    return "".join(secrets.choice(string.ascii_uppercase + "234567") for _ in range(count))
