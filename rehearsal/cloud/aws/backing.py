"""moto, in this process: its applications by service, its state, and its time.

moto is asked through its own WSGI applications, without a socket in between. Nearly everywhere it takes the time from one function
that its modules import by name: each is given the cloud's, so that what moto stamps is stamped on the cloud's clock.
"""

from __future__ import annotations

import functools
import os
import sys
import threading
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, cast

os.environ.setdefault("MOTO_EC2_LOAD_DEFAULT_AMIS", "false")  # the images are ours; read when moto's EC2 is loaded
os.environ.setdefault("MOTO_DISABLE_GLOBAL_CORS", "true")  # AWS sends no such headers; read when an application is made

import moto.backends
import moto.core.responses
import moto.core.utils
import moto.ec2.models.core
import moto.kms.models
import moto.secretsmanager.models
from moto.core.request import Request
from moto.core.utils import utcnow as _real_utcnow
from moto.ec2.utils import EC2_PREFIX_TO_RESOURCE, get_prefix
from moto.moto_server.werkzeug_app import create_backend_app
from werkzeug.test import run_wsgi_app

from rehearsal.cloud.aws.http import HttpAnswer, HttpRequest

USED = ("ec2", "iam", "s3", "secretsmanager", "ssm", "sts")
"""The services for which moto keeps the state."""

_NOW = threading.local()
_LOADING = threading.Lock()
_APPS: dict[str, Any] = {}
"""moto's applications; they belong to no account, and are made once."""


def _once() -> None:
    """What moto works out anew, and which is always the same: a service's models, the names of its methods at each request, and the
    RSA key of each account's first encrypted volume, which nobody sees. A fifth of a request, and 0.1 s an account. And a
    resource's tags: moto looks for them among all of the account, by regular expressions, at every look at the instances.
    """
    for module, name in (
        (moto.core.utils, "create_loader"),
        (moto.core.responses, "method_names_from_class"),
        (moto.kms.models, "generate_private_key"),
    ):
        setattr(module, name, functools.cache(getattr(module, name)))
    setattr(moto.ec2.models.core.TaggedEC2Resource, "get_tags", _tags_of)  # noqa: B010 - a method of moto's


def _tags_of(thing: Any) -> list[dict[str, str]]:
    """A resource's tags as moto gives them, without matching its id against those of all that the account has tagged."""
    kind = EC2_PREFIX_TO_RESOURCE.get(get_prefix(thing.id), "") if thing.id else ""
    found = thing.ec2_backend.tags.get(thing.id, {}) if thing.id else {}
    return [{"resource_id": thing.id, "key": key, "value": value, "resource_type": kind} for key, value in found.items()]


_once()


def _utcnow() -> datetime:
    now: Callable[[], float] | None = getattr(_NOW, "now", None)
    return _real_utcnow() if now is None else datetime.fromtimestamp(now(), UTC).replace(tzinfo=None)


class _Time:
    """What `time` is to a module of moto that asks it for the time itself."""

    @staticmethod
    def time() -> float:
        now: Callable[[], float] | None = getattr(_NOW, "now", None)
        return time.time() if now is None else now()


def _follow_the_clock() -> None:
    setattr(moto.secretsmanager.models, "time", _Time)  # noqa: B010 - a module's name, not an attribute of ours
    for name, module in list(sys.modules.items()):
        if name.startswith("moto.") and getattr(module, "utcnow", None) is _real_utcnow:
            module.utcnow = _utcnow  # type: ignore[attr-defined]


def _backends(service: str) -> Any:
    """Moto's objects of a service, by account and region."""
    return moto.backends.get_backend(cast(Any, service))


class Moto:
    """moto for one account in one region. Not thread-safe: the cloud's lock is held around it."""

    def __init__(self, account: str, region: str, now: Callable[[], float]) -> None:
        self.account, self.region = account, region
        self._now = now

    def load(self) -> None:
        """Import what is used, and forget what an earlier cloud left in this account."""
        with _LOADING:
            for service in USED:
                if service not in _APPS:
                    _APPS[service] = create_backend_app(service)  # type: ignore[arg-type]
            _follow_the_clock()
        self.forget()

    def forget(self) -> None:
        """Drop the account's state."""
        for service in USED:
            for backend in _backends(service)[self.account].values():
                backend.reset()

    def backend(self, service: str) -> Any:
        """Moto's own objects of a service: IAM and S3 have them for the partition, the others for the region."""
        where = "aws" if service in ("iam", "s3", "sts") else self.region
        return _backends(service)[self.account][where]

    def at_its_time(self) -> _AtTime:
        """Within it, moto's time is the cloud's (in this thread)."""
        return _AtTime(self._now)

    def ask(self, service: str, request: HttpRequest) -> HttpAnswer:
        """Let moto answer. Raises whatever breaks inside moto."""
        host = f"{service}.{self.region}.amazonaws.com" if service != "iam" else "iam.amazonaws.com"
        url = f"http://{host}{request.path}" + (f"?{request.query}" if request.query else "")
        made = Request.from_primitives(request.method, url, self._headers(request.headers, host), request.body)
        made.environ["RAW_URI"] = request.path + (f"?{request.query}" if request.query else "")
        with self.at_its_time():
            chunks, status, headers = run_wsgi_app(_APPS[service], made.environ, buffered=True)
            body = b"".join(chunks)
        return HttpAnswer(int(status.split()[0]), dict(headers), body)

    def _headers(self, headers: Mapping[str, str], host: str) -> Mapping[str, str]:
        kept = {k: v for k, v in headers.items() if k not in ("host", "connection", "expect", "content-length")}
        return {**kept, "host": host, "x-moto-account-id": self.account}


class _AtTime:
    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now

    def __enter__(self) -> None:
        self._before = getattr(_NOW, "now", None)
        _NOW.now = self._now

    def __exit__(self, *exc: object) -> None:
        _NOW.now = self._before
