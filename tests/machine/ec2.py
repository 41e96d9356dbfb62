"""A small EC2 for one machine: what the tests' machines see from inside. Signatures are the local cloud's to check."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Mapping

from rehearsal.contracts import Ec2Answer

KEYS = {"AccessKeyId": "ASIAEXAMPLE", "SecretAccessKey": "role-secret-key", "Token": "role-session-token=="}

DENIED = Ec2Answer(403, {}, b"<Error><Code>AccessDenied</Code></Error>")


class TestEc2Guest:
    """`rehearsal.contracts.Ec2Guest` with a bucket and one secret."""

    __test__ = False

    def __init__(self, user_data: bytes, objects: dict[str, bytes], secret: str) -> None:
        self.data, self.objects, self.secret = user_data, objects, secret
        self.instance_id = f"i-{time.time_ns():017x}"[:19]
        self.notice = ""
        self.asked: list[tuple[str, str, str]] = []
        self.off = threading.Event()

    def user_data(self) -> bytes:
        return self.data

    def metadata(self) -> Mapping[str, object]:
        ends = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 21_000))
        credentials = json.dumps({"Code": "Success", "Type": "AWS-HMAC", **KEYS, "Expiration": ends})
        interface = {
            "device-number": "0",
            "local-ipv4s": "10.0.0.9",
            "mac": "02:00:0a:00:00:09",
            "subnet-ipv4-cidr-block": "10.0.0.0/24",
        }
        meta: dict[str, object] = {
            "ami-id": "ami-0123456789abcdef0",
            "instance-id": self.instance_id,
            "instance-type": "g5g.xlarge",
            "hostname": "ip-10-0-0-9.ec2.internal",
            "local-hostname": "ip-10-0-0-9.ec2.internal",
            "local-ipv4": "10.0.0.9",
            "mac": "02:00:0a:00:00:09",
            "network": {"interfaces": {"macs": {"02:00:0a:00:00:09": interface}}},
            "placement": {"availability-zone": "us-east-1a", "region": "us-east-1"},
            "iam": {"security-credentials": {"fs-k3j9x2": credentials}},
        }
        if self.notice:
            meta["spot"] = {"instance-action": self.notice}
        return {"meta-data": meta, "dynamic": {"instance-identity": {"document": "{}"}}}

    def service(self, host: str, method: str, path: str, headers: Mapping[str, str], body: bytes) -> Ec2Answer:
        self.asked.append((host, method, path))
        if (
            "Credential=ASIAEXAMPLE/" not in headers.get("authorization", "")
            or headers.get("x-amz-security-token") != KEYS["Token"]
        ):
            return Ec2Answer(403, {}, b"<Error><Code>AccessDenied</Code></Error>")
        if host == "s3.us-east-1.amazonaws.com":
            found = self.objects.get(path.partition("/")[2].partition("/")[2])
            return (
                Ec2Answer(200, {}, found) if found is not None else Ec2Answer(403, {}, b"<Error><Code>AccessDenied</Code></Error>")
            )
        if headers.get("x-amz-target") == "secretsmanager.GetSecretValue":
            return Ec2Answer(200, {}, json.dumps({"SecretString": self.secret}).encode())
        return Ec2Answer(404, {}, b"")

    def powered_off(self) -> None:
        self.off.set()
