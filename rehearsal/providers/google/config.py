"""What the stand-in takes from the provider's configuration, and nothing from anywhere else."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

from rehearsal.providers.resource import ProviderError

APIS: Final[Mapping[str, str]] = {
    "compute": "computeCustomEndpoint",
    "iam": "iamBetaCustomEndpoint",
    "crm": "resourceManagerCustomEndpoint",
    "iap": "iapCustomEndpoint",
    "secretmanager": "secretManagerCustomEndpoint",
    "serviceusage": "serviceUsageCustomEndpoint",
    "artifactregistry": "artifactRegistryCustomEndpoint",
}


@dataclass(frozen=True)
class Config:
    """Where to send requests and in whose name. `region` and `zone` are for resources that do not say."""

    endpoints: Mapping[str, str]
    token: str
    project: str
    region: str
    zone: str
    attribution: bool  # whether created things get the label `goog-pulumi-provisioned`

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Config:
        """Read the provider's arguments. Raises `ProviderError` for an endpoint that is not on this machine."""
        endpoints = {api: _local(key, str(values[key])) for api, key in APIS.items() if values.get(key)}
        return cls(
            endpoints=endpoints,
            token=str(values.get("accessToken") or ""),
            project=str(values.get("project") or ""),
            region=str(values.get("region") or ""),
            zone=str(values.get("zone") or ""),
            attribution=values.get("addPulumiAttributionLabel", True) is not False,
        )

    def endpoint(self, api: str) -> str:
        """An API's base address. Raises `ProviderError` when the stack does not give one."""
        if api not in self.endpoints:
            raise ProviderError(f"the stand-in provider knows no address for {api}: set gcp:{APIS[api]}")
        return self.endpoints[api]


def _local(key: str, address: str) -> str:
    """A base address with its slash. The stand-in never speaks to a real cloud."""
    host = urlsplit(address).hostname or ""
    try:
        local = ipaddress.ip_address(host).is_loopback
    except ValueError:
        local = host == "localhost"
    if not local:
        raise ProviderError(f"gcp:{key} is {address}: the stand-in provider sends requests to loopback addresses only")
    return address if address.endswith("/") else f"{address}/"
