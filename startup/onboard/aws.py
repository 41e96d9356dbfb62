"""EC2's metadata service (version 2), and AWS's APIs signed as the machine's own role.

The signature is curl's own (`--aws-sigv4`). Session and credentials are files on a tmpfs that only root may read; neither is
ever on a command line.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

from startup.onboard import causes
from startup.onboard.attempt import pauses, sleep
from startup.onboard.curl import Answer, ask
from startup.onboard.places import AWS_CURL, AWS_SESSION, IMDS, object_url

SESSION_S = 21_600  # the longest that the service gives
SPARE_S = 300.0  # credentials that end sooner are asked for again
ROLE = "meta-data/iam/security-credentials/"


def imds(path: str, *, seconds: float = 5) -> Answer:
    """GET below `/latest/`. A session that ran out is renewed once."""
    for fresh in (False, True):
        if fresh or not _young(AWS_SESSION, SESSION_S / 2):
            renewed = _session(seconds)
            if renewed.status != 200:
                return renewed
        answer = ask(f"{IMDS}/{path}", header_file=AWS_SESSION, seconds=seconds)
        if answer.status != 401:
            break
    return answer


def credentials() -> str:
    """Keep the role's credentials where curl reads them; why not, when there are none."""
    if _young(AWS_CURL, -SPARE_S):  # its time is when it ends
        return ""
    role = imds(ROLE)
    name = role.body.strip().partition("\n")[0]
    if role.status != 200 or not name:
        return causes.say("no-instance-role", detail=role.error or f"metadata service: HTTP {role.status}")
    answer = imds(ROLE + name).document()
    if answer.get("Code", "Success") != "Success" or "SecretAccessKey" not in answer:
        return causes.say(
            "no-instance-role", detail=f"role {name}: {answer.get('Message') or answer.get('Code') or 'no credentials'}"
        )
    lines = f'header = "x-amz-security-token: {answer["Token"]}"\nuser = "{answer["AccessKeyId"]}:{answer["SecretAccessKey"]}"\n'
    keep(AWS_CURL, lines)
    ends = _epoch(str(answer.get("Expiration", "")))
    os.utime(AWS_CURL, (ends, ends))
    return ""


def role_name() -> str:
    """The machine's role, for a sentence."""
    return imds(ROLE).body.strip().partition("\n")[0] or "the machine's role"


def wait_for_credentials() -> None:
    """A profile that is attached late is waited for; the phase's limit bounds it."""
    for pause in pauses(15.0):
        reason = credentials()
        if not reason:
            return
        causes.note(reason)
        print(f"again in {pause:g} s: {reason}", flush=True)
        sleep(pause)


def call(service: str, region: str, target: str, document: object, *, seconds: float = 30) -> Answer:
    """One request of a JSON service (`secretsmanager.GetSecretValue`)."""
    headers = ("Content-Type: application/x-amz-json-1.1", f"X-Amz-Target: {target}")
    url = f"https://{service}.{region}.amazonaws.com/"
    return ask(url, *_signed(service, region), headers=headers, data=json.dumps(document), seconds=seconds)


def get(region: str, bucket: str, key: str, *options: str, seconds: float = 30) -> Answer:
    """One object of S3."""
    return ask(object_url(region, bucket, key), *options, *_signed("s3", region), headers=UNSIGNED, seconds=seconds)


def put(region: str, bucket: str, key: str, file: Path, *, seconds: float = 1700) -> Answer:
    """A file as one object of S3, in one request."""
    url = object_url(region, bucket, key)
    return ask(url, "-T", str(file), *_signed("s3", region), headers=UNSIGNED, seconds=seconds)


def delete(region: str, bucket: str, key: str) -> Answer:
    """One object of S3 goes; one that is not there is no error."""
    return ask(object_url(region, bucket, key), "-X", "DELETE", *_signed("s3", region), headers=UNSIGNED)


# The connection is TLS; what is asked for has no body, and what is put is hashed in its manifest.
UNSIGNED = ("x-amz-content-sha256: UNSIGNED-PAYLOAD",)


def error_code(answer: Answer) -> str:
    """AWS's own name of what went wrong: `ResourceNotFoundException`, `AccessDenied`; empty when it gives none."""
    name = str(answer.document().get("__type", "")).rpartition("#")[2]
    if not name and "<Code>" in answer.body:
        name = answer.body.partition("<Code>")[2].partition("</Code>")[0]
    return name


def keep(place: Path, text: str) -> None:
    """A file that only root may read, complete or not there. Phases run side by side and may all write it."""
    fresh = place.with_name(f"{place.name}.{os.getpid()}.new")
    with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="ascii") as file:
        file.write(text)
    fresh.replace(place)


def _signed(service: str, region: str) -> tuple[str, ...]:
    return ("-K", str(AWS_CURL), "--aws-sigv4", f"aws:amz:{region}:{service}")


def _session(seconds: float) -> Answer:
    lifetime = f"X-aws-ec2-metadata-token-ttl-seconds: {SESSION_S}"
    answer = ask(f"{IMDS}/api/token", "-X", "PUT", headers=(lifetime,), seconds=seconds)
    if answer.status == 200:
        keep(AWS_SESSION, f"X-aws-ec2-metadata-token: {answer.body.strip()}\n")
    return answer


def _young(file: Path, seconds: float) -> bool:
    try:
        return time.time() - file.stat().st_mtime < seconds
    except OSError:  # not there, or taken away by a boot that ends
        return False


def _epoch(text: str) -> float:
    import calendar

    try:
        return float(calendar.timegm(time.strptime(text, "%Y-%m-%dT%H:%M:%SZ")))
    except ValueError:
        return time.time() + SPARE_S
