"""An AWS account in the local cloud, and the stand-in provider configured for it."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import boto3
import grpc
import pytest
from pulumi.runtime.proto import provider_pb2, provider_pb2_grpc

from rehearsal.cloud.aws.cloud import LocalAwsCloud
from rehearsal.cloud.aws.pace import Hosting, Pace
from rehearsal.providers.aws import aws_provider
from rehearsal.providers.aws.api import Aws, AwsError
from rehearsal.providers.values import Values, encode
from tests.cloud_aws.containers import Cluster
from tests.providers.direct import Direct

QUICK = Pace(hosting=Hosting(instance=20.0, container=40.0, life=20.0, in_service=80.0, no_capacity=80.0, window=80.0))
"""An endpoint's way up in a tenth of the recorded time: the provider looks every 10 s, and each look is a request."""
_NUMBERS = itertools.count(700000000001)  # the local cloud keeps its state by account: each test has its own


class Account:
    """The account as its owner sees it: clients of its own, and how long the provider has waited."""

    def __init__(self, cloud: LocalAwsCloud) -> None:
        self.cloud = cloud
        self.slept: list[float] = []

    def client(self, service: str) -> Any:
        config = self.cloud.stack_config()
        return boto3.client(
            service,
            region_name=self.cloud.region,
            endpoint_url=self.cloud.base,
            aws_access_key_id=config["aws:accessKey"],
            aws_secret_access_key=config["aws:secretKey"],
        )

    def image(self, architecture: str = "arm64") -> str:
        """An image with a driver, of that architecture."""
        filters = [{"Name": "architecture", "Values": [architecture]}, {"Name": "name", "Values": ["*Nvidia Driver*"]}]
        return str(self.cloud.call("ec2", "DescribeImages", Filters=filters)["Images"][0]["ImageId"])

    def config(self, **more: Any) -> dict[str, Any]:
        """The provider's arguments as the engine passes them on: typed ones as JSON text."""
        return {key.removeprefix("aws:"): value for key, value in self.cloud.stack_config().items()} | more

    def sleep(self, seconds: float) -> None:
        """Let cloud time pass."""
        self.slept.append(seconds)
        self.cloud.clock.sleep(seconds)


@contextmanager
def account() -> Iterator[Account]:
    """A fresh account. Whatever it answers must be what AWS could answer."""
    with LocalAwsCloud(account=str(next(_NUMBERS)), pace=QUICK) as cloud:
        cloud.serve_containers(Cluster())
        yield Account(cloud)


@contextmanager
def provider_for(owner: Account, **more: Any) -> Iterator[Direct]:
    """A provider in this process, configured for the account; its waits turn the cloud's clock."""
    with aws_provider(owner.sleep) as port, grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        stub = provider_pb2_grpc.ResourceProviderStub(channel)
        stub.Configure(provider_pb2.ConfigureRequest(args=encode(owner.config(**more)), acceptSecrets=True))
        yield Direct(stub)


class Requests:
    """Every request of the provider: noted, and answered with an armed error instead of the cloud's answer."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.made: list[tuple[str, Values]] = []
        self._armed: list[tuple[str, AwsError, Callable[[], bool]]] = []
        real = Aws._once

        def once(api: Aws, client: Any, operation: str, parameters: Values) -> Values:
            self.made.append((operation, parameters))
            for armed, error, holds in self._armed:
                if armed == operation and holds():
                    raise error
            return real(api, client, operation, parameters)

        patch.setattr(Aws, "_once", once)

    def operations(self) -> list[str]:
        """What was asked, in order; requests that only look are left out."""
        return [name for name, _ in self.made if not name.startswith(("Describe", "Get", "List", "Head"))]

    def asked(self, operation: str) -> list[Values]:
        """The parameters of each request of one kind."""
        return [parameters for name, parameters in self.made if name == operation]

    def arm(self, operation: str, code: str, message: str, status: int = 400, times: int = 10**6) -> None:
        """The next `times` requests of the operation fail so."""
        left = [times]

        def holds() -> bool:
            left[0] -= 1
            return left[0] >= 0

        self._armed.append((operation, AwsError(f"api error {code}: {message}", code, message, status), holds))
