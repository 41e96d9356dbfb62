"""What the stand-in takes from the provider's configuration; only the two access keys may also come from the environment."""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import urlsplit

from rehearsal.providers.resource import ProviderError

SERVICES: Final = (
    "application-autoscaling",
    "budgets",
    "codebuild",
    "ec2",
    "ecr",
    "iam",
    "logs",
    "s3",
    "sagemaker",
    "scheduler",
    "ssm",
    "sts",
)
KEYS: Final = {"application-autoscaling": "appautoscaling"}
"""How `aws:endpoints` names a service, where it is not botocore's name."""
MAX_RETRIES: Final = 25
"""Attempts of one request when the stack does not say (`aws:maxRetries`): the official provider's default."""


@dataclass(frozen=True)
class Config:
    """Where to send requests and in whose name. `attempts` bounds one request's tries, the first among them."""

    endpoints: Mapping[str, str]
    access_key: str
    secret_key: str
    token: str
    region: str
    attempts: int = MAX_RETRIES
    path_style: bool = False
    default_tags: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Config:
        """Read the provider's arguments. Raises `ProviderError` for an endpoint that is not on this machine."""
        given = values.get("endpoints") or []
        endpoints = {name: _local(name, str(address)) for item in given for name, address in item.items() if address}
        access, secret = (
            str(values.get(key) or os.environ.get(variable) or "")
            for key, variable in (("accessKey", "AWS_ACCESS_KEY_ID"), ("secretKey", "AWS_SECRET_ACCESS_KEY"))
        )
        if not (access and secret):
            raise ProviderError("No valid credential sources found: set aws:accessKey and aws:secretKey")
        region = str(values.get("region") or "")
        if not region:
            raise ProviderError("Missing region configuration: set aws:region")
        return cls(
            endpoints=endpoints,
            access_key=access,
            secret_key=secret,
            token=str(values.get("token") or ""),
            region=region,
            attempts=int(values.get("maxRetries") or MAX_RETRIES),
            path_style=values.get("s3UsePathStyle") is True,
            default_tags=dict((values.get("defaultTags") or {}).get("tags") or {}),
        )

    def endpoint(self, service: str) -> str:
        """A service's base address. Raises `ProviderError` when the stack does not give one."""
        key = KEYS.get(service, service)
        if key not in self.endpoints:
            raise ProviderError(f"the stand-in provider knows no address for {key}: set it in aws:endpoints")
        return self.endpoints[key]


def _local(name: str, address: str) -> str:
    """A base address. The stand-in never speaks to a real cloud."""
    host = urlsplit(address).hostname or ""
    try:
        local = ipaddress.ip_address(host).is_loopback
    except ValueError:
        local = host == "localhost"
    if not local:
        raise ProviderError(f"aws:endpoints {name} is {address}: the stand-in provider sends requests to loopback addresses only")
    return address
