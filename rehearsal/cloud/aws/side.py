"""AWS as something that runs under a role sees it: an endpoint's container, a build."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime

from rehearsal.cloud.aws import policies
from rehearsal.cloud.aws.http import HttpAnswer, HttpRequest, request
from rehearsal.cloud.aws.identity import Keys
from rehearsal.cloud.aws.roles import Role
from rehearsal.cloud.aws.state import State
from rehearsal.contracts import Ec2Answer

RENEWED_S = 3600.0
"""Keys are made anew this long before they expire."""


def assumed(state: State, arn: str, service: str) -> Role | None:
    """The role, where a service (`sagemaker.amazonaws.com`) may assume it by now. Called under the lock."""
    role = next((r for r in state.roles.view.roles.values() if r.arn == arn), None)
    context = {"aws:SourceAccount": state.account}
    return role if role is not None and policies.trusts(role.trust, service, context) else None


class RoleSide:
    """A `rehearsal.sagemaker.contracts.CloudSide`. `session` is the last part of the caller's ARN."""

    def __init__(self, state: State, front: Callable[[HttpRequest], HttpAnswer], role: str, service: str, session: str) -> None:
        self._state, self._front = state, front
        self._role, self._service, self._session = role, service, session
        self._keys: Keys | None = None

    def service(self, host: str, method: str, path: str, headers: Mapping[str, str], body: bytes) -> Ec2Answer:
        """The cloud's API under its real name, through the same checks and the same log as over HTTP."""
        made = request(method, path, {"host": host, **{k.lower(): v for k, v in headers.items()}}, body)
        answer = self._front(made)
        return Ec2Answer(answer.status, dict(answer.headers), b"".join(answer.stream) if answer.stream else answer.body)

    def credentials(self) -> Mapping[str, str]:
        """Keys of the role. Raises LookupError while the service cannot assume it."""
        with self._state.lock:
            role = assumed(self._state, self._role, self._service)
            if role is None:
                raise LookupError(f"{self._service} cannot assume {self._role}")
            keys = self._keys
            if keys is None or (keys.expires_at or 0) - self._state.clock.now() < RENEWED_S:
                keys = self._keys = self._state.credentials.issue(role.name, role.id, self._session, self._session)
        end = datetime.fromtimestamp(keys.expires_at or 0, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        return {
            "AccessKeyId": keys.key_id,
            "SecretAccessKey": keys.secret,
            "Token": keys.token,
            "Expiration": end,
            "RoleArn": self._role,
        }

    def end(self) -> None:
        """It is gone, and its keys with it."""
        with self._state.lock:
            self._state.credentials.revoke(self._session)
