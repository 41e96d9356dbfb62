"""IAM policies of any resource.

Get, set against an etag, test; and bindings that take effect late when a fault says so.
"""

from __future__ import annotations

import base64
import re
import secrets
from collections.abc import Callable, Iterable, Set

from rehearsal.cloud.clock import TurnedClock
from rehearsal.cloud.google.call import Call, Json
from rehearsal.cloud.google.errors import rpc_error

MEMBER = re.compile(r"(user|serviceAccount|group|domain|principal|principalSet|deleted):.+|allUsers|allAuthenticatedUsers")


class Policies:
    """Policies by resource. The state's lock is held by whoever calls."""

    def __init__(self, clock: TurnedClock, account_exists: Callable[[str], bool]) -> None:
        self._clock = clock
        self._account_exists = account_exists
        self._policies: dict[str, Json] = {}
        self._effective: dict[tuple[str, str, str], float] = {}
        self.grant_delay_s = 0.0

    def get(self, resource: str) -> Json:
        """The policy; an empty one when none was set."""
        return self._policies.setdefault(resource, {"version": 1, "etag": _etag()})

    def replace(self, resource: str, policy: Json) -> Json:
        """Replace it. Raises 409 for a stale etag, 400 for a member that does not exist."""
        current = self.get(resource)
        if policy.get("etag") and policy["etag"] != current["etag"]:
            text = (
                "There were concurrent policy changes. Please retry the whole read-modify-write with exponential"
                " backoff."
                f" The request's ETag '{policy['etag']}' did not match the current policy's ETag '{current['etag']}'."
            )
            raise rpc_error(409, text, status="ABORTED")
        bindings = [b for b in policy.get("bindings", []) if b.get("members")]
        for role, member in _pairs(bindings):
            self._check(role, member)
        before = set(_pairs(current.get("bindings", [])))
        for role, member in _pairs(bindings):
            if (role, member) not in before:
                self._effective[resource, role, member] = self._clock.now() + self.grant_delay_s
        new = {"version": policy.get("version", 1), "etag": _etag()} | ({"bindings": bindings} if bindings else {})
        self._policies[resource] = new
        return new

    def _check(self, role: str, member: str) -> None:
        if not MEMBER.fullmatch(member):
            raise rpc_error(400, f"Invalid member: {member}")
        if not role.startswith(("roles/", "projects/", "organizations/")):
            raise rpc_error(400, f"Invalid role: {role}")
        kind, _, name = member.partition(":")
        if kind == "serviceAccount" and not self._account_exists(name):
            raise rpc_error(400, f"Service account {name} does not exist.")

    def roles_of(self, member: str, resources: Iterable[str]) -> set[str]:
        """The roles in effect now that the member has on any of the resources."""
        now = self._clock.now()
        return {
            role
            for resource in resources
            for role, who in _pairs(self.get(resource).get("bindings", []))
            if who == member and self._effective.get((resource, role, who), 0.0) <= now
        }

    def account_deleted(self, email: str, unique_id: str) -> None:
        """Google keeps the bindings of a deleted account, under a name that says so."""
        gone = f"deleted:serviceAccount:{email}?uid={unique_id}"
        for policy in self._policies.values():
            for binding in policy.get("bindings", []):
                binding["members"] = [gone if m == f"serviceAccount:{email}" else m for m in binding["members"]]

    def forget(self, resource: str) -> None:
        """The resource is gone."""
        self._policies.pop(resource, None)


def _pairs(bindings: Iterable[Json]) -> list[tuple[str, str]]:
    return [(b["role"], member) for b in bindings for member in b.get("members", [])]


def _etag() -> str:
    return base64.b64encode(b"\x07\x06" + secrets.token_bytes(6)).decode()


def answer_get(policies: Policies, resource: str) -> Json:
    """What getIamPolicy answers."""
    return dict(policies.get(resource))


def answer_set(policies: Policies, resource: str, call: Call) -> Json:
    """What setIamPolicy answers."""
    return dict(policies.replace(resource, call.body.get("policy", {})))


def answer_test(call: Call, denied: Set[str]) -> Json:
    """What testIamPermissions answers to the operator: all that were asked for, but those that were taken away."""
    held = [permission for permission in call.body.get("permissions", []) if permission not in denied]
    return {"permissions": held} if held else {}
