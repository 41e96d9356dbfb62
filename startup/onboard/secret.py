"""The Hub token: read from Secret Manager as the machine's own identity, kept in a header file on a tmpfs.

A grant or a secret that comes late is waited for; what no waiting can mend is a failure at once. The value is in no argument,
no output and no environment.
"""

from __future__ import annotations

import base64
import binascii
import os
import re
from collections.abc import Mapping
from pathlib import Path

from startup.onboard import causes, places
from startup.onboard.attempt import pauses, sleep
from startup.onboard.curl import Answer, ask, metadata

LONGEST_PAUSE = 15.0
_TOKEN = re.compile(r"[\x21-\x7e]+")


def fetch(project: str, secret: str) -> None:
    """Put the secret's latest version where `curl` finds it. Raises `Failed`; waits for late grants without end."""
    for pause in pauses(LONGEST_PAUSE):
        reason = identity() or access(project, secret)
        if not reason:
            return
        causes.note(reason)
        print(f"again in {pause:g} s: {reason}", flush=True)
        sleep(pause)


def identity() -> str:
    """Store the machine's access token; why not, when there is none yet."""
    answer = metadata("instance/service-accounts/default/token")
    token = str(answer.document().get("access_token", ""))
    if answer.status == 200 and token:
        keep(places.IDENTITY_HEADER, token)
        return ""
    if answer.status in (403, 404):
        return causes.say("no-service-account")
    return causes.say("secret-unreachable", detail=f"metadata server: {answer.error or answer.status}")


def access(project: str, secret: str) -> str:
    """Store the secret's value; a reason to try again, or raises `Failed`."""
    facts = {"project": project, "secret": secret}
    url = f"https://secretmanager.googleapis.com/v1/projects/{project}/secrets/{secret}/versions/latest:access"
    answer = ask(url, header_file=places.IDENTITY_HEADER)
    if answer.status == 200:
        keep(places.HUB_HEADER, value_of(answer, facts))
        places.IDENTITY_HEADER.unlink(missing_ok=True)
        return ""
    cause = refusal(answer.status, answer.body)
    account = metadata("instance/service-accounts/default/email").body.strip() if cause == "secret-permission" else ""
    detail = answer.error or f"HTTP {answer.status}"
    text = causes.say(cause, account=account or "the machine's service account", detail=detail, **facts)
    if not causes.BY_ID[cause].retry:
        raise causes.Failed(text)
    return text


def refusal(status: int, body: str) -> str:
    """The cause behind an answer that is no secret. Two 403s look alike: the token's scopes, and the account's permission."""
    if status == 403:
        if "SCOPE" in body or "authentication scopes" in body:
            return "secret-scope"
        return (
            "secret-api-disabled" if "SERVICE_DISABLED" in body or "has not been used in project" in body else "secret-permission"
        )
    if status == 404:
        return "secret-missing"
    return "secret-disabled" if status == 400 else "secret-unreachable"


def value_of(answer: Answer, facts: dict[str, str]) -> str:
    """The token: decoded, white space around it taken off. Raises `Failed` by the secret's name when there is none."""
    payload = answer.document().get("payload")
    data = payload.get("data", "") if isinstance(payload, dict) else ""
    try:
        value = base64.b64decode(str(data), validate=True).decode("utf-8")
    except (binascii.Error, UnicodeDecodeError):
        raise causes.Failed(causes.say("secret-malformed", **facts)) from None
    return checked(value, facts)


def checked(text: str, facts: Mapping[str, str]) -> str:
    """The token without white space around it. Raises `Failed` by the secret's name when it is none."""
    value = text.strip()
    if not value:
        raise causes.Failed(causes.say("secret-empty", **facts))
    if not _TOKEN.fullmatch(value):
        raise causes.Failed(causes.say("secret-malformed", **facts))
    return value


def keep(place: Path, token: str) -> None:
    """A header file that only root may read, complete or not there."""
    fresh = place.with_name(f"{place.name}.{os.getpid()}.new")
    with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="ascii") as file:
        file.write(f"Authorization: Bearer {token}\n")
    fresh.replace(place)
