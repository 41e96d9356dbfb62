"""AWS's APIs as the operator: credentials and endpoints from the usual places, retries, typed errors, the cloud's own time."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any

from infra.clouds.aws import errors, models
from infra.clouds.clock import CLOUD, differs
from infra.clouds.http import NoNetwork
from verdict.errors import BadConfig, FlexserveError, NoAccess, TimedOut

CONNECT_S, READ_S, TRIES = 10, 30, 4
FIRST_S, WAIT_S, LIMIT_S = 1.0, 5.0, 600.0  # the first pause of a wait, its longest, all of them
GONE_CODES = frozenset(
    {
        "NoSuchEntity",
        "NoSuchBucket",
        "NoSuchKey",
        "NotFound",
        "NotFoundException",
        "404",
        "ResourceNotFoundException",
        "AssociationDoesNotExist",
        "ParameterNotFound",
        "NatGatewayNotFound",
        "InvalidInstanceId",
        "InvocationDoesNotExist",
        "RepositoryNotFoundException",
        "LayersNotFoundException",
        "ObjectNotFoundException",
    }
)
SIGNED = frozenset({"credentials-expired", "credentials-unknown", "clock-off"})
"""Meanings that a wrong clock has as well: AWS takes a signature for 5 to 15 minutes, by service."""
SET_CLOCK = "set this machine's clock, e.g. `sudo timedatectl set-ntp true`, and run it again"
CHAIN = "run `aws configure` or `aws sso login`, or set AWS_PROFILE or AWS_ACCESS_KEY_ID"


class NotThere(FlexserveError):
    """AWS has no such thing."""

    kind = "not-there"


class Session:
    """One operator, one region, one process. boto3 is imported, and something asked, at the first call."""

    def __init__(self, region: str, *, account: str = "", sleep: Callable[[float], None] = time.sleep) -> None:
        """`account`: whose things are meant, where that is known; with another's credentials every call is `NoAccess`."""
        self.region, self._account, self._sleep = region, account, sleep
        self._clients: dict[str, Any] = {}
        self._boto: Any = None
        self.date: datetime | None = None
        """When AWS last answered, by its own clock."""

    def call(self, service: str, operation: str, **params: Any) -> dict[str, Any]:
        """One call by boto3's name, e.g. `describe_instances`; its answer. Raises `NotThere`, or what the error means."""
        answer: dict[str, Any] = self._asked(service, lambda client: getattr(client, operation)(**params))
        return answer

    def pages(self, service: str, operation: str, key: str, **params: Any) -> Iterator[dict[str, Any]]:
        """Everything under `key` in all pages of a list."""
        client = self._asked(service, lambda c: c)
        if not client.can_paginate(operation):
            yield from self.call(service, operation, **params).get(key) or []
            return
        pages = iter(client.get_paginator(operation).paginate(**params))
        while True:
            page = self._asked(service, lambda _: next(pages, None))
            if page is None:
                return
            yield from page.get(key) or []

    def wait(self, done: Callable[[], bool], what: str) -> None:
        """Ask until it is done: soon at first, then every 5 s, for 10 minutes. Raises `TimedOut`."""
        waited, pause = 0.0, FIRST_S
        while not done():
            if waited >= LIMIT_S:
                raise TimedOut(f"{what} takes longer than {LIMIT_S / 60:.0f} minutes", way_out="look again later")
            self._sleep(pause)
            waited, pause = waited + pause, min(pause + FIRST_S, WAIT_S)

    def pause(self, seconds: float) -> None:
        """Wait a little between two looks."""
        self._sleep(seconds)

    def _asked(self, service: str, ask: Callable[[Any], Any]) -> Any:
        import botocore.exceptions as b

        try:
            answer = ask(self._client(service))
        except b.ClientError as error:
            self._note(error.response)  # a refusal tells the time as well
            raise _meant(error) from error
        except (b.NoCredentialsError, b.PartialCredentialsError) as error:
            raise NoAccess("no AWS credentials", why=str(error), way_out=CHAIN) from error
        except (b.CredentialRetrievalError, b.TokenRetrievalError, b.SSOError) as error:
            raise NoAccess("the AWS credentials cannot be had", why=str(error), way_out="run `aws sso login`") from error
        except b.ProfileNotFound as error:
            raise NoAccess("no such AWS profile", why=str(error), way_out="check AWS_PROFILE") from error
        except (b.HTTPClientError, b.ConnectionError) as error:
            raise NoNetwork(f"{service} in {self.region} does not answer", why=str(error), way_out="check the network") from error
        except b.BotoCoreError as error:
            raise FlexserveError(f"AWS could not be asked ({service})", why=str(error), way_out="check the AWS settings") from error
        if isinstance(answer, dict):
            self._note(answer)
        return answer

    def _right(self) -> None:
        """Nothing of the account is seen with the credentials of another: all would seem to be gone, and it would bill on."""
        expected, self._account = self._account, ""
        try:
            found = str(self.call("sts", "get_caller_identity")["Account"])
        except FlexserveError:
            self._account = expected
            raise
        if found != expected:
            self._account = expected
            raise NoAccess(
                f"the stack is in account {expected}, and these credentials are of {found}",
                why="with them nothing of it can be seen or deleted",
                way_out="check AWS_PROFILE or AWS_ACCESS_KEY_ID; `aws sts get-caller-identity` tells who you are",
            )

    def _client(self, service: str) -> Any:
        if self._account:
            self._right()
        if service not in self._clients:
            from botocore.config import Config

            retries = {"mode": "standard", "max_attempts": TRIES}
            config = Config(connect_timeout=CONNECT_S, read_timeout=READ_S, retries=retries, region_name=self.region)
            try:
                self._boto = self._boto or models.session(self.region)
                self._clients[service] = self._boto.client(service, config=config)
            except ValueError as error:  # botocore's own word for an address that is none
                way_out = "check AWS_ENDPOINT_URL and the other settings of AWS"
                raise BadConfig(f"AWS cannot be asked ({service})", why=str(error), way_out=way_out) from error
        return self._clients[service]

    def _note(self, answer: dict[str, Any]) -> None:
        date = (answer.get("ResponseMetadata") or {}).get("HTTPHeaders", {}).get("date")
        if date:
            self.date = CLOUD.hear(date) or self.date


def _meant(error: Any) -> FlexserveError:
    """The typed error of an API's refusal."""
    found = error.response.get("Error") or {}
    code, message = str(found.get("Code", "")), str(found.get("Message", ""))
    gone = code == "ValidationException" and message.startswith("Could not find ")  # SageMaker has no code of its own for it
    if code in GONE_CODES or code.endswith(".NotFound") or gone:
        return NotThere(f"{code}: {message}".strip(": "))
    row = errors.meaning(message, code)
    off = differs(CLOUD.ahead())
    if row is not None and row.name in SIGNED and off:
        return NoAccess(f"AWS does not take what is signed here: {off}", why=f"{code}: {message}".strip(": "), way_out=SET_CLOCK)
    return errors.from_words(message, code)


def region_of(value: object) -> str:
    """The region among a stack's settings. Raises `BadConfig` without one."""
    if not value:
        raise BadConfig("flexserve:target.region: missing")
    return str(value)
