"""The operator's access token for Google's REST APIs. Its value is in no message, whatever is wrong with it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from infra.clouds.http import NoNetwork
from verdict.errors import NoAccess

SCOPES = ("https://www.googleapis.com/auth/cloud-platform",)
VARIABLES = ("GOOGLE_OAUTH_ACCESS_TOKEN", "CLOUDSDK_AUTH_ACCESS_TOKEN")
FILE_VARIABLE = "CLOUDSDK_AUTH_ACCESS_TOKEN_FILE"
IMPERSONATE_VARIABLES = ("GOOGLE_IMPERSONATE_SERVICE_ACCOUNT", "CLOUDSDK_AUTH_IMPERSONATE_SERVICE_ACCOUNT")
LOGIN = "run `gcloud auth application-default login`"


def given(environ: Mapping[str, str] = os.environ) -> str:
    """The token that the environment holds, or names a file of; empty when it has none. Raises `NoAccess` for what is no token."""
    for name in VARIABLES:
        if environ.get(name, "").strip():
            return usable(environ[name], name)
    path = environ.get(FILE_VARIABLE)
    if not path:
        return ""
    try:
        return usable(Path(path).read_text(encoding="utf-8", errors="replace"), path)
    except OSError as error:
        raise NoAccess(f"the token file that {FILE_VARIABLE} names cannot be read", why=str(error)) from error


def usable(text: str, where: str) -> str:
    """The token without the blanks around it. Raises `NoAccess` for what no header can carry: a warning beside it, two lines."""
    token = text.strip()
    if not (token.isascii() and token.isprintable() and " " not in token):
        raise NoAccess(f"{where} holds no access token", why="there are blanks, lines or odd characters in it", way_out=LOGIN)
    return token


def from_google(environ: Mapping[str, str] = os.environ) -> str:
    """A fresh token of the application default credentials, as the account that is to be impersonated.

    Raises `NoNetwork` when Google's sign-in does not answer, `NoAccess` for all else.
    """
    from google.auth.exceptions import TransportError
    from google.auth.transport.requests import Request

    try:
        credentials = _credentials(next((environ[name] for name in IMPERSONATE_VARIABLES if environ.get(name)), ""))
        credentials.refresh(Request())
    except TransportError as error:
        raise NoNetwork("Google's sign-in does not answer", why=_first_line(error), way_out="check the network") from error
    except Exception as error:  # a credentials file that is a folder or a list ends in whatever Python says of it
        raise NoAccess("no Google credentials", why=_first_line(error), way_out=LOGIN) from error
    return str(credentials.token)


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]


def _credentials(account: str) -> Any:
    import google.auth
    from google.auth import impersonated_credentials

    source, _ = google.auth.default(scopes=SCOPES)
    if not account:
        return source
    return impersonated_credentials.Credentials(  # type: ignore[no-untyped-call]
        source_credentials=source, target_principal=account, target_scopes=list(SCOPES)
    )
