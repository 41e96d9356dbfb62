"""The Hub token: read from Secrets Manager as the machine's own role, kept in a header file on a tmpfs.

A grant or a secret that comes late is waited for; what no waiting can mend is a failure at once.
"""

from __future__ import annotations

import json

from startup.onboard import aws, causes, places
from startup.onboard.attempt import pauses, sleep
from startup.onboard.curl import Answer
from startup.onboard.secret import LONGEST_PAUSE, checked, keep

LATE_GRANT_S = 120.0  # a grant of IAM's holds within a minute or so; a secret that is not there is refused in the same words
REFUSALS = {
    "ResourceNotFoundException": "aws-secret-missing",
    "InvalidRequestException": "secret-disabled",  # marked for deletion
    "AccessDeniedException": "aws-secret-permission",
    "DecryptionFailure": "aws-secret-permission",
}


def fetch(region: str, secret: str) -> None:
    """Put the secret's current version where `curl` finds it. Raises `Failed`; waits for a grant for as long as IAM may need."""
    aws.wait_for_credentials()
    waited = 0.0
    for pause in pauses(LONGEST_PAUSE):
        reason = _access(region, secret)
        if not reason:
            return
        if reason.startswith("aws-secret-permission") and waited >= LATE_GRANT_S:
            raise causes.Failed(reason)
        causes.note(reason)
        waited += pause
        print(f"again in {pause:g} s: {reason}", flush=True)
        sleep(pause)


def _access(region: str, secret: str) -> str:
    facts = {"secret": secret, "region": region, "project": region}
    answer = aws.call("secretsmanager", region, "secretsmanager.GetSecretValue", {"SecretId": secret})
    if answer.status == 200:
        keep(places.HUB_HEADER, checked(_text(answer), facts))
        return ""
    cause = REFUSALS.get(aws.error_code(answer), "aws-secret-unreachable")
    if aws.error_code(answer) == "ExpiredTokenException":
        places.AWS_CURL.unlink(missing_ok=True)
        aws.credentials()
    account = aws.role_name() if cause == "aws-secret-permission" else ""
    detail = answer.error or f"HTTP {answer.status} {aws.error_code(answer)}".strip()
    text = causes.say(cause, account=account, detail=detail, **facts)
    if not causes.BY_ID[cause].retry:
        raise causes.Failed(text)
    return text


def _text(answer: Answer) -> str:
    """The value: as text, or the one value of a JSON object, which is how the console stores a key and a value."""
    value = str(answer.document().get("SecretString", ""))
    try:
        pairs = json.loads(value)
    except ValueError:
        return value
    return str(next(iter(pairs.values()))) if isinstance(pairs, dict) and len(pairs) == 1 else value
