"""Requests to AWS through botocore, which checks each against AWS's own service model; texts and retries as the official's.

Texts are those of AWS's Go client: operation, status, request id, code, message. Retries follow the official
provider's: throttling, server errors and, for EC2, a lack of capacity are tried again `aws:maxRetries` times in all.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from typing import Any, Final

from botocore import xform_name
from botocore.client import BaseClient
from botocore.config import Config as ClientConfig
from botocore.exceptions import BotoCoreError, ClientError, ParamValidationError
from botocore.session import Session

from rehearsal.botocore_once import share
from rehearsal.providers.aws.config import Config
from rehearsal.providers.resource import ProviderError
from rehearsal.providers.values import Values
from rehearsal.providers.waits import Sleep

_THROTTLED: Final = frozenset(
    {
        "BandwidthLimitExceeded",
        "EC2ThrottledException",
        "LimitExceededException",
        "PriorRequestNotComplete",
        "RequestLimitExceeded",
        "RequestThrottled",
        "RequestThrottledException",
        "SlowDown",
        "ThrottledException",
        "Throttling",
        "ThrottlingException",
        "TooManyRequestsException",
    }
)
_RETRIED: Final = frozenset({"InsufficientInstanceCapacity", "RequestTimeout", "RequestTimeoutException"})
_SERVER_ERRORS: Final = frozenset({500, 502, 503, 504})
_LONGEST: Final = 300.0  # seconds between two attempts at most, before jitter

Send = Callable[..., Values]
"""`send("RunInstances", ImageId=...)`: one operation of one service in one region."""


class AwsError(ProviderError):
    """An answer that is an error: AWS's code, its message, and the HTTP status."""

    def __init__(self, text: str, code: str, message: str, status: int) -> None:
        self.code = code
        self.message = message
        self.status = status
        super().__init__(text)

    def says(self, code: str, part: str = "") -> bool:
        """Whether it is this code, with this in its message."""
        return self.code == code and part in self.message

    @property
    def retried(self) -> bool:
        """Whether the client itself tries again."""
        return self.throttled or self.code in _RETRIED or self.status in _SERVER_ERRORS

    @property
    def throttled(self) -> bool:
        """Whether it came too soon."""
        return self.code in _THROTTLED


def pauses(attempts: int, throttled: bool = False) -> Iterator[float]:
    """Seconds between the attempts of one request: doubling, with the mean of the official provider's random part.

    For its 25 attempts the pauses add up to 47 minutes.
    """
    first = 0.5 if throttled else 0.03
    for number in range(attempts - 1):
        pause = 1.5 * first * 2**number
        yield pause if pause <= _LONGEST else 0.75 * _LONGEST


share()


class Aws:
    """AWS's APIs for one configuration. Thread-safe; `sleep` is the clock that all waits run on."""

    def __init__(self, config: Config, sleep: Sleep) -> None:
        self.config = config
        self.sleep = sleep
        self._clients: dict[tuple[str, str], BaseClient] = {}
        self._account: str | None = None
        self._lock = threading.Lock()
        # Neither the operator's files nor a profile has a say.
        self._session = Session(
            session_vars={
                "profile": (None, None, None, None),
                "config_file": (None, None, os.devnull, None),
                "credentials_file": (None, None, os.devnull, None),
            }
        )
        self._session.set_credentials(config.access_key, config.secret_key, config.token or None)

    def service(self, name: str, region: Any = None) -> Send:
        """A service in a region, the configured one when none is given."""
        client = self._client(name, str(region or self.config.region))

        def send(operation: str, **parameters: Any) -> Values:
            return self._call(client, operation, parameters)

        return send

    @property
    def account(self) -> str:
        """The account's number."""
        if self._account is None:
            self._account = str(self.service("sts")("GetCallerIdentity")["Account"])
        return self._account

    def arn(self, service: str, resource: str, region: str | None = None) -> str:
        """A resource's name in the whole cloud."""
        return f"arn:aws:{service}:{self.config.region if region is None else region}:{self.account}:{resource}"

    def _client(self, name: str, region: str) -> BaseClient:
        with self._lock:
            if (name, region) not in self._clients:
                self._clients[name, region] = self._session.create_client(
                    name,
                    region_name=region,
                    endpoint_url=self.config.endpoint(name),
                    config=ClientConfig(
                        retries={"total_max_attempts": 1, "mode": "standard"},
                        proxies={},
                        connect_timeout=5,
                        read_timeout=60,
                        max_pool_connections=32,
                        user_agent="flexserve stand-in provider",
                        ignore_configured_endpoint_urls=True,
                        request_checksum_calculation="when_required",
                        s3={"addressing_style": "path" if self.config.path_style else "auto"},
                    ),
                )
            return self._clients[name, region]

    def _call(self, client: BaseClient, operation: str, parameters: Values) -> Values:
        tried = 0
        while True:
            try:
                return self._once(client, operation, parameters)
            except AwsError as error:
                waits = list(pauses(self.config.attempts, error.throttled))
                if not error.retried or tried >= len(waits):
                    raise
                self.sleep(waits[tried])
                tried += 1

    def _once(self, client: BaseClient, operation: str, parameters: Values) -> Values:
        service = client.meta.service_model.service_id
        try:
            answer: Values = getattr(client, xform_name(operation))(**parameters)
            return answer
        except ClientError as error:
            raise _error(client, operation, error) from error
        except ParamValidationError as error:
            raise ProviderError(f"operation error {service}: {operation}, {error}") from error
        except BotoCoreError as error:
            raise ProviderError(f"operation error {service}: {operation}, request send failed, {error}") from error


def _error(client: BaseClient, operation: str, error: ClientError) -> AwsError:
    said, http = error.response.get("Error", {}), error.response.get("ResponseMetadata", {})
    code, message, status = str(said.get("Code", "")), str(said.get("Message", "")), int(http.get("HTTPStatusCode", 0))
    where = f"operation error {client.meta.service_model.service_id}: {operation}, https response error StatusCode: {status}, "
    request = f"RequestID: {http.get('RequestId', '')}, "
    host = f"HostID: {http['HostId']}, " if http.get("HostId") else ""
    named = "" if _is_modelled(client, code) else "api error "
    return AwsError(f"{where}{request}{host}{named}{code}: {message}", code, message, status)


def _is_modelled(client: BaseClient, code: str) -> bool:
    """Whether the service model names this error; Go's client prints those without "api error"."""
    return client.meta.service_model.shape_for_error_code(code) is not None


def retry(api: Aws, seconds: float, work: Callable[[], Values], *again: tuple[str, str]) -> Values:
    """Do it again for these errors (code, part of the message) until `seconds` have been slept; then the error itself."""
    slept, pause = 0.0, 0.5
    while True:
        try:
            return work()
        except AwsError as error:
            if not any(error.says(code, part) for code, part in again) or slept >= seconds:
                raise
            api.sleep(pause)
            slept += pause
            pause = min(pause * 2, 10.0, max(seconds - slept, 0.1))
