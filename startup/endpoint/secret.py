"""The Hub token, read from Secrets Manager as the endpoint's execution role. Kept in no file and said in no line."""

from __future__ import annotations

import json
import re
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from startup.endpoint.sign import Keys, signed

CREDENTIALS_HOST = "http://169.254.170.2"  # AWS's container credential provider: AWS_CONTAINER_CREDENTIALS_RELATIVE_URI is below it
LASTING = {
    "ResourceNotFoundException": "no secret of this name",
    "InvalidRequestException": "it is marked for deletion",
    "ValidationException": "no name that Secrets Manager takes",
}
"""What no waiting mends. AccessDenied is not among it: a role's rights hold a while after they are given."""
_TOKEN = re.compile(r"[\x21-\x7e]+")


@dataclass(frozen=True)
class Answer:
    """One HTTP answer; status 0 and a text where there was none."""

    status: int
    body: bytes

    def document(self) -> Mapping[str, object]:
        """The body as a JSON object; empty for anything else."""
        try:
            value = json.loads(self.body)
        except ValueError:
            return {}
        return value if isinstance(value, dict) else {}


Ask = Callable[[str, Mapping[str, str], "bytes | None"], Answer]
"""URL, headers, body (None: a GET) -> the answer; never raises."""


class Later(Exception):
    """Not yet: asking again may help."""


class Never(Exception):
    """Asking again helps nothing."""


def ask(url: str, headers: Mapping[str, str], body: bytes | None) -> Answer:
    """One request, past any proxy: both ends are AWS's own."""
    request = urllib.request.Request(url, data=body, headers=dict(headers), method="GET" if body is None else "POST")
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(request, timeout=10) as answer:
            return Answer(answer.status, answer.read())
    except urllib.error.HTTPError as error:
        return Answer(error.code, error.read())
    except (OSError, ValueError) as error:  # URLError is an OSError
        return Answer(0, str(getattr(error, "reason", error)).encode())


def keys_of(environment: Mapping[str, str], ask: Ask) -> Keys:
    """The execution role's keys. Raises `Later` while SageMaker has none, `Never` where it says nothing of them."""
    url = environment.get("AWS_CONTAINER_CREDENTIALS_FULL_URI", "")
    if path := environment.get("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", ""):
        url = CREDENTIALS_HOST + path
    if not url.startswith(("http://", "https://")):
        raise Never("the container was given no address of its role's credentials (AWS_CONTAINER_CREDENTIALS_RELATIVE_URI)")
    answer = ask(url, _authorization(environment), None)
    found = answer.document()
    if answer.status != 200 or not found.get("AccessKeyId") or not found.get("SecretAccessKey"):
        raise Later(f"the execution role gives no credentials yet ({_short(answer)})")
    return Keys(str(found["AccessKeyId"]), str(found["SecretAccessKey"]), str(found.get("Token") or ""))


def value_of(arn: str, region: str, keys: Keys, ask: Ask, now: Callable[[], float] = time.time) -> str:
    """The secret's value. Raises `Later` or `Never`, with AWS's own name of what is wrong and never with the value."""
    url = f"https://secretsmanager.{region}.amazonaws.com{'.cn' if region.startswith('cn-') else ''}/"
    body = json.dumps({"SecretId": arn}).encode()
    headers = {"content-type": "application/x-amz-json-1.1", "x-amz-target": "secretsmanager.GetSecretValue"}
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(now()))
    answer = ask(url, signed(url, headers, body, keys, (region, "secretsmanager"), stamp), body)
    if answer.status == 200:
        return token_in(str(answer.document().get("SecretString") or ""))
    code = str(answer.document().get("__type", "")).rpartition("#")[2]
    if code in LASTING:
        raise Never(f"{LASTING[code]} ({code})")
    raise Later(code or _short(answer))


def token_in(text: str) -> str:
    """The token: as text, or the one value of a JSON object, which is how the console stores a key and a value."""
    try:
        pairs = json.loads(text)
    except ValueError:
        pairs = None
    value = (str(next(iter(pairs.values()))) if isinstance(pairs, dict) and len(pairs) == 1 else text).strip()
    if not value:
        raise Never("it is empty")
    if not _TOKEN.fullmatch(value):
        raise Never("it holds no token: white space or other characters that a header cannot hold")
    return value


def region_of(arn: str, environment: Mapping[str, str]) -> str:
    """The ARN's own region; for a plain name, the container's."""
    parts = arn.split(":")
    if len(parts) >= 7 and parts[0] == "arn":
        return parts[3]
    return environment.get("AWS_REGION") or environment.get("AWS_DEFAULT_REGION") or ""


def _authorization(environment: Mapping[str, str]) -> dict[str, str]:
    """What the credential provider wants to see, where SageMaker gives it: a value, or a file that holds it."""
    value = environment.get("AWS_CONTAINER_AUTHORIZATION_TOKEN", "")
    if file := environment.get("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", ""):
        try:
            value = Path(file).read_text(encoding="utf-8").strip()
        except OSError as error:
            raise Later(f"{file}: {error.strerror}") from None
    return {"authorization": value} if value else {}


def _short(answer: Answer) -> str:
    return f"HTTP {answer.status}" if answer.status else answer.body.decode("utf-8", "replace")[:120]
