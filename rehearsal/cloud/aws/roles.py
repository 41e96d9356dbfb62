"""IAM as the other services see it: what moto holds, some seconds late."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from moto.iam.aws_managed_policies import aws_managed_policies_data
from moto.iam.models import AWSManagedPolicy

from rehearsal.cloud.aws import policies
from rehearsal.cloud.aws.backing import Moto
from rehearsal.cloud.clock import TurnedClock


@dataclass(frozen=True)
class Role:
    """A role with everything that it may do and who may assume it."""

    name: str
    id: str
    arn: str
    trust: Mapping[str, Any]
    documents: tuple[Mapping[str, Any], ...]

    def may(self, action: str, resource: str, context: Mapping[str, str] = {}) -> bool:
        """Whether its policies allow it. Raises ValueError for a condition that is not evaluated here."""
        return policies.allowed(self.documents, action, resource, context)


@dataclass(frozen=True)
class View:
    """Roles by name, and the role of each instance profile by the profile's name (None: a profile without one)."""

    roles: Mapping[str, Role] = field(default_factory=dict)
    profiles: Mapping[str, tuple[str, str | None]] = field(default_factory=dict)
    """Profile name -> (ARN, role name)."""


class Roles:
    """The view that is in force. Changes come into force `delay()` seconds after they were made, in order."""

    def __init__(self, moto: Moto, clock: TurnedClock, delay: Callable[[], float]) -> None:
        self._moto, self._clock, self._delay = moto, clock, delay
        self.view = View()
        self._made = 0
        self._shown = 0

    def add_managed(self, names: tuple[str, ...]) -> None:
        """AWS's own policies: moto carries their text, and loads none of them unless it is told to."""
        backend = self._moto.backend("iam")
        for name in names:
            policy = AWSManagedPolicy.from_data(name, backend.account_id, backend.region_name, _captured(name))
            backend.managed_policies[policy.arn] = policy

    def changed(self) -> None:
        """IAM was written to."""
        self._made += 1
        number, view, delay = self._made, self._now(), self._delay()
        if delay <= 0:
            self._show(number, view)
        else:
            self._clock.after(delay, lambda: self._show(number, view))

    def _show(self, number: int, view: View) -> None:
        if number > self._shown:
            self._shown, self.view = number, view

    def _now(self) -> View:
        backend = self._moto.backend("iam")
        roles = {}
        for role in backend.roles.values():
            attached = [
                v.document for p in role.managed_policies.values() for v in p.versions if v.version_id == p.default_version_id
            ]
            documents = tuple(json.loads(text) for text in (*role.policies.values(), *attached))
            roles[role.name] = Role(role.name, role.id, role.arn, json.loads(role.assume_role_policy_document), documents)
        profiles = {p.name: (p.arn, p.roles[0].name if p.roles else None) for p in backend.instance_profiles.values()}
        return View(roles, profiles)

    def role(self, name: str | None) -> Role | None:
        """The role in force; None without one."""
        return self.view.roles.get(name) if name else None

    def of_profile(self, profile: str) -> Role | None:
        """The role of an instance profile in force."""
        _, name = self.view.profiles.get(profile, ("", None))
        return self.role(name)


def _captured(name: str) -> Any:
    """One policy of moto's capture, which is 2 MB of JSON: the others are not read. Raises ValueError without it."""
    start = aws_managed_policies_data.index(f'\n "{name}":{{')
    return json.JSONDecoder().raw_decode(aws_managed_policies_data, aws_managed_policies_data.index("{", start))[0]
