"""A small AWS for containers and builds: a secret, a login, and who may have which repository."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from rehearsal.contracts import Ec2Answer

ACCOUNT, REGION = "111122223333", "us-east-2"
HOST = f"{ACCOUNT}.dkr.ecr.{REGION}.amazonaws.com"
AWS_HOST = f"763104351884.dkr.ecr.{REGION}.amazonaws.com"
PASSWORD = "login-password-sentinel"
SECRET_KEY = "role-secret-key-sentinel"


@dataclass
class Side:
    """`rehearsal.sagemaker.contracts.CloudSide`."""

    secret: str = ""
    denied_first: int = 0  # how often the secret is refused before
    asked: list[tuple[str, str]] = field(default_factory=list)

    def credentials(self) -> Mapping[str, str]:
        ends = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 3600))
        return {
            "AccessKeyId": "ASIAEXAMPLE",
            "SecretAccessKey": SECRET_KEY,
            "Token": "role-token==",
            "Expiration": ends,
            "RoleArn": "r",
        }

    def service(self, host: str, method: str, path: str, headers: Mapping[str, str], body: bytes) -> Ec2Answer:
        target = headers.get("x-amz-target", "")
        self.asked.append((host, target))
        if "Credential=ASIAEXAMPLE/" not in headers.get("authorization", ""):
            return Ec2Answer(403, {}, b'{"__type": "AccessDeniedException"}')
        if target.endswith(".GetAuthorizationToken"):
            token = base64.b64encode(f"AWS:{PASSWORD}".encode()).decode()
            return Ec2Answer(200, {}, json.dumps({"authorizationData": [{"authorizationToken": token}]}).encode())
        if target == "secretsmanager.GetSecretValue" and self.denied_first > 0:
            self.denied_first -= 1
            return Ec2Answer(400, {}, b'{"__type": "AccessDeniedException"}')
        if target == "secretsmanager.GetSecretValue" and self.secret:
            return Ec2Answer(200, {}, json.dumps({"SecretString": self.secret}).encode())
        return Ec2Answer(400, {}, b'{"__type": "ResourceNotFoundException"}')


@dataclass
class Gate:
    """`rehearsal.sagemaker.contracts.RegistryGate`."""

    repositories: set[tuple[str, str]] = field(default_factory=lambda: {(ACCOUNT, "fs-k3j9x2"), ("763104351884", "vllm")})
    forbidden: set[str] = field(default_factory=set)

    def may(self, authorization: str, account: str, repository: str, push: bool) -> str:
        if authorization != "Basic " + base64.b64encode(f"AWS:{PASSWORD}".encode()).decode():
            raise PermissionError("Your authorization token has expired. Reauthenticate and try again.")
        if repository and (account, repository) not in self.repositories:
            raise LookupError(f"The repository with name '{repository}' does not exist in the registry with id '{account}'")
        if repository in self.forbidden or (push and account != ACCOUNT):
            return "User: r is not authorized to perform: ecr:BatchGetImage on resource: x"
        return ""

    def immutable(self, account: str, repository: str) -> bool:
        return True
