"""Members of IAM policies: read, change, write, and look three times until the change shows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, Final

from rehearsal.providers.google.http import Google, GoogleError
from rehearsal.providers.resource import Call, ProviderError
from rehearsal.providers.values import Values

POLICY_VERSION: Final = 3
_LOOKS: Final = 3
_LONGEST_PAUSE: Final = 30.0


@dataclass(frozen=True)
class Policy:
    """Where one policy is and how its API wants to be asked. `batch` is the pause in which changes are collected."""

    api: str
    path: str
    get: str = "POST"
    mask: str = ""
    batch: float = 0.0

    def read(self, api: Google) -> Values:
        """The policy as it is."""
        if self.get == "GET":
            query = {"options.requestedPolicyVersion": str(POLICY_VERSION)}
            return api.call(self.api, "GET", f"{self.path}:getIamPolicy", query)
        body = {"options": {"requestedPolicyVersion": POLICY_VERSION}}
        return api.call(self.api, "POST", f"{self.path}:getIamPolicy", body=body)

    def write(self, api: Google, policy: Values) -> None:
        """Put it in force."""
        body: Values = {"policy": policy}
        if self.mask:
            body["updateMask"] = self.mask
        api.call(self.api, "POST", f"{self.path}:setIamPolicy", body=body)


def grant(call: Call[Google], policy: Policy, role: str, member: str) -> Values:
    """Add one member to one role. Returns the policy read afterwards."""
    return _change(call, policy, lambda current: _with(current, role, member))


def revoke(call: Call[Google], policy: Policy, role: str, member: str) -> Values:
    """Take one member out of one role. Returns the policy read afterwards."""
    return _change(call, policy, lambda current: _without(current, role, member))


def holds(policy: Mapping[str, Any], role: str, member: str) -> bool:
    """Whether the member is in the role."""
    return any(member in binding.get("members", []) for binding in policy.get("bindings", []) if binding["role"] == role)


def _change(call: Call[Google], policy: Policy, modify: Callable[[Values], Values]) -> Values:
    if policy.batch:
        call.api.sleep(policy.batch)
    try:
        policy.write(call.api, _trimmed(modify(policy.read(call.api))))
    except GoogleError as error:
        error.args = (f"Error applying IAM policy for {policy.path}: Error setting IAM policy for {policy.path}: {error}",)
        raise
    pause, seen = 1.0, 0
    while seen < _LOOKS:
        if pause > _LONGEST_PAUSE:
            raise ProviderError(f"Error applying IAM policy to {policy.path}: Waited too long for propagation.\n")
        call.api.sleep(pause)
        now = policy.read(call.api)
        if _bindings(modify(now)) == _bindings(now):
            seen += 1
        else:
            pause *= 2
    return policy.read(call.api)


def _with(policy: Values, role: str, member: str) -> Values:
    changed = deepcopy(policy) | {"version": POLICY_VERSION}
    bindings = changed.setdefault("bindings", [])
    for binding in bindings:
        if binding["role"] == role and "condition" not in binding:
            if member not in binding["members"]:
                binding["members"] = sorted([*binding["members"], member])
            return changed
    bindings.append({"role": role, "members": [member]})
    return changed


def _without(policy: Values, role: str, member: str) -> Values:
    changed = deepcopy(policy)
    for binding in changed.get("bindings", []):
        if binding["role"] == role and "condition" not in binding:
            binding["members"] = [other for other in binding["members"] if other != member]
    changed["bindings"] = [binding for binding in changed.get("bindings", []) if binding["members"]]
    return changed


def _trimmed(policy: Values) -> Values:
    return {key: value for key, value in policy.items() if value not in ([], None)}


def _bindings(policy: Mapping[str, Any]) -> set[tuple[str, str]]:
    return {(binding["role"], member) for binding in policy.get("bindings", []) for member in binding["members"]}
