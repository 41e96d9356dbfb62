"""Access tokens for the relay, one a connect. Values are never logged, printed or kept in a file.

Order: a token given as an argument; `GOOGLE_OAUTH_ACCESS_TOKEN`, `CLOUDSDK_AUTH_ACCESS_TOKEN`,
`CLOUDSDK_AUTH_ACCESS_TOKEN_FILE`; application default credentials; gcloud's own login. With
`GOOGLE_IMPERSONATE_SERVICE_ACCOUNT` or `CLOUDSDK_AUTH_IMPERSONATE_SERVICE_ACCOUNT` the token is that account's.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from flexserve.tunnel.apart import apart
from flexserve.tunnel.iap import codes
from flexserve.tunnel.iap.codes import TunnelFailure
from infra.clouds.google.token import FILE_VARIABLE, IMPERSONATE_VARIABLES, SCOPES, VARIABLES, given
from verdict.errors import NoAccess

if TYPE_CHECKING:
    from google.auth.credentials import Credentials

_LOGIN = (
    "run gcloud auth application-default login; or without gcloud point GOOGLE_APPLICATION_CREDENTIALS at a credentials file, or"
    " set GOOGLE_OAUTH_ACCESS_TOKEN. GOOGLE_IMPERSONATE_SERVICE_ACCOUNT makes the token that account's"
)
_GCLOUD_LIMIT_S = 60

TokenSource = Callable[[bool], Awaitable[str]]
"""Returns a token; True asks for one that was not handed out before (the relay refused the last)."""


def source_of(token: str | TokenSource | None = None) -> TokenSource:
    """The source for `token`: itself when it is one already, a fixed token, or whatever this machine has."""
    if callable(token):
        return token
    return Found(token).token


class Found:
    """A token from the first place that has one; google.auth is only imported when it is needed."""

    def __init__(self, fixed: str | None = None) -> None:
        self._fixed = fixed
        self._credentials: Credentials | None = None
        self._lock = asyncio.Lock()

    async def token(self, fresh: bool = False) -> str:
        """A valid token. Raises `NoAccess` when there is none, or it is refused; `TunnelFailure` when nobody answers."""
        token = self._fixed or given()  # the environment and its file are read each time: they may change
        if token:
            return token
        async with self._lock:  # 64 connections at once refresh once
            return await apart(lambda: self._from_google(fresh))

    def _from_google(self, fresh: bool) -> str:
        import google.auth.exceptions
        from google.auth.transport.requests import Request

        try:
            if self._credentials is None:
                self._credentials = _credentials()
            if fresh or not self._credentials.valid:
                self._credentials.refresh(Request())  # type: ignore[no-untyped-call]
        except google.auth.exceptions.TransportError as error:  # a machine that just woke up: it passes
            raise TunnelFailure(codes.TOKEN_UNREACHABLE, _short(error)) from error
        except (google.auth.exceptions.GoogleAuthError, OSError, ValueError, AttributeError, TypeError) as error:  # an odd file
            raise NoAccess("no access token for the relay", why=_short(error), way_out=self._way_out()) from error
        return str(self._credentials.token)

    def _way_out(self) -> str:
        """With a login at hand it is the other account that refuses."""
        account = impersonated()
        if self._credentials is None or not account:
            return _LOGIN
        return (
            f"grant roles/iam.serviceAccountTokenCreator on {account} to the login in use, renew that login (gcloud auth "
            "application-default login), or unset the variable that names the account"
        )


def impersonated() -> str:
    """The service account whose token is wanted; empty for the login's own."""
    return next((os.environ[name] for name in IMPERSONATE_VARIABLES if os.environ.get(name)), "")


def _credentials() -> Credentials:
    import google.auth
    import google.auth.exceptions
    from google.auth import impersonated_credentials

    try:
        credentials: Any = google.auth.default(scopes=SCOPES)[0]
    except google.auth.exceptions.DefaultCredentialsError:
        if shutil.which("gcloud") is None:
            raise
        credentials = _gcloud_credentials()
    if account := impersonated():
        credentials = impersonated_credentials.Credentials(  # type: ignore[no-untyped-call]
            source_credentials=credentials, target_principal=account, target_scopes=list(SCOPES)
        )
    return cast("Credentials", credentials)


def _gcloud_credentials() -> Any:
    """Credentials that ask gcloud's login for each token."""
    from google.auth import credentials as base

    class FromGcloud(base.Credentials):
        def refresh(self, request: object) -> None:  # noqa: ARG002  (google.auth's signature)
            self.token, self.expiry = _ask_gcloud()

    return FromGcloud()  # type: ignore[no-untyped-call]


def _ask_gcloud() -> tuple[str, Any]:
    """The token of gcloud's login and its expiry, naive UTC as google.auth wants it. Raises `NoAccess`."""
    from datetime import datetime

    command = ["gcloud", "config", "config-helper", "--force-auth-refresh", "--format=json"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_GCLOUD_LIMIT_S, check=False)
        credential = json.loads(done.stdout or "{}").get("credential", {}) if done.returncode == 0 else {}
        expiry = str(credential.get("token_expiry", ""))
        if credential.get("access_token"):
            until = datetime.fromisoformat(expiry.removesuffix("Z")) if expiry else None
            return str(credential["access_token"]), until
        why = (done.stderr.strip().splitlines() or ["gcloud gave no token"])[0]
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:
        why = _short(error)
    raise NoAccess("gcloud's login gave no access token", why=why, way_out="run: gcloud auth login")


def member() -> str:
    """Who the token is for, as IAM writes it, if this machine knows without asking anybody; empty if not."""
    if account := impersonated():
        return f"serviceAccount:{account}"
    if any(os.environ.get(name) for name in (*VARIABLES, FILE_VARIABLE)):
        return ""
    path = os.environ.get("GOOGLE_APPLICATION_CREDENTIALS")
    if path:
        try:
            email = json.loads(Path(path).read_text(encoding="utf-8")).get("client_email", "")
        except (OSError, ValueError):
            return ""
        return f"serviceAccount:{email}" if email else ""
    return ""


def _short(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
