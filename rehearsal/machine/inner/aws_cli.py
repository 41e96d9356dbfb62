"""Stand-in for the AWS CLI: `aws ecr get-login-password --region REGION`, with the keys of the container credential provider."""

from __future__ import annotations

import base64
import json
import os
import sys
import time
import urllib.error
import urllib.request

PROVIDER = "http://169.254.170.2"
TARGET = "AmazonEC2ContainerRegistry_V20150921.GetAuthorizationToken"


def main(words: list[str]) -> int:
    """0 with the password on stdout; 253 without keys, 254 with AWS's refusal, 252 for another command: as the CLI does."""
    from sign import Keys, signed  # type: ignore[import-not-found]  # the product's signer, which lies beside this file

    if words[:2] != ["ecr", "get-login-password"] or len(words) != 4 or words[2] != "--region":
        print(f"the stand-in knows `ecr get-login-password --region REGION`, not {' '.join(words)}", file=sys.stderr)
        return 252
    region = words[3]
    try:
        path = os.environ["AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"]
        found = json.loads(urllib.request.urlopen(PROVIDER + path, timeout=10).read())
    except (KeyError, OSError, ValueError):
        print('Unable to locate credentials. You can configure credentials by running "aws login".', file=sys.stderr)
        return 253
    keys = Keys(found["AccessKeyId"], found["SecretAccessKey"], found["Token"])
    url, body = f"https://api.ecr.{region}.amazonaws.com/", b"{}"
    headers = {"content-type": "application/x-amz-json-1.1", "x-amz-target": TARGET}
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    request = urllib.request.Request(url, body, signed(url, headers, body, keys, (region, "ecr"), stamp))
    try:
        document = json.loads(urllib.request.urlopen(request, timeout=30).read())
    except urllib.error.HTTPError as error:
        told = json.loads(error.read() or b"{}")
        code, text = str(told.get("__type", error.code)).rpartition("#")[2], told.get("message") or told.get("Message") or ""
        print(f"\nAn error occurred ({code}) when calling the GetAuthorizationToken operation: {text}", file=sys.stderr)
        return 254
    token = document["authorizationData"][0]["authorizationToken"]
    print(base64.b64decode(token).decode().partition(":")[2])
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
