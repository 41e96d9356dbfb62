"""Who asks, and what they may.

A token that a machine's metadata server gave out stands for its service account, until it expires on the cloud's
clock. Any other bearer is the operator, who may do everything: the local cloud does not model an operator's roles,
faults do.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from fnmatch import fnmatchcase

from rehearsal.cloud.clock import TurnedClock
from rehearsal.cloud.google.call import Caller
from rehearsal.cloud.google.errors import ApiError, forbidden, permission_denied, rpc_error, unauthenticated
from rehearsal.cloud.google.policies import Policies

OPERATOR = "operator@example.com"
LIFETIME_S = 3600
CLOUD_PLATFORM = "https://www.googleapis.com/auth/cloud-platform"
PREFIX = "ya29.c."

ROLES: dict[str, tuple[str, ...]] = {
    "roles/owner": ("*",),
    "roles/editor": (
        "compute.*",
        "secretmanager.projects.secrets.create",
        "secretmanager.projects.secrets.list",
        "artifactregistry.*",
    ),
    "roles/secretmanager.admin": ("secretmanager.*",),
    "roles/secretmanager.secretAccessor": ("secretmanager.projects.secrets.versions.access",),
    "roles/secretmanager.viewer": (
        "secretmanager.projects.secrets.get",
        "secretmanager.projects.secrets.list",
        "secretmanager.projects.secrets.versions.get",
        "secretmanager.projects.secrets.versions.list",
    ),
    "roles/compute.admin": ("compute.*",),
    "roles/compute.instanceAdmin.v1": ("compute.instances.*", "compute.disks.*", "compute.zoneOperations.*"),
    "roles/compute.viewer": ("compute.*.get", "compute.*.list", "compute.*.aggregatedList"),
    "roles/artifactregistry.reader": ("artifactregistry.projects.locations.repositories.get",),
}
"""What a service account's role lets it call, as patterns on discovery ids. Only what a machine of ours may need."""


@dataclass(frozen=True)
class _Token:
    email: str
    scopes: tuple[str, ...]
    expires_at: float


class Tokens:
    """Tokens of machines. Not thread-safe by itself: the state's lock is held."""

    def __init__(self, clock: TurnedClock) -> None:
        self._clock = clock
        self._issued: dict[str, _Token] = {}

    def issue(self, email: str, scopes: tuple[str, ...]) -> tuple[str, int]:
        """A new token and its seconds to live."""
        token = PREFIX + secrets.token_urlsafe(48)
        self._issued[token] = _Token(email, scopes, self._clock.now() + LIFETIME_S)
        return token, LIFETIME_S

    def caller(self, bearer: str) -> Caller:
        """Whose token it is. Raises the 401 without one, when it expired or is a machine's that was never given out."""
        if not bearer:
            raise unauthenticated()
        found = self._issued.get(bearer)
        if found is None:
            if bearer.startswith(PREFIX):
                raise unauthenticated()
            return Caller(OPERATOR)
        if found.expires_at <= self._clock.now():
            raise unauthenticated()
        return Caller(found.email, operator=False, scopes=found.scopes)


def refusal(caller: Caller, method: str, resource: str, chain: tuple[str, ...], policies: Policies) -> ApiError | None:
    """Why a machine's account may not call `method` on `resource`.

    None when it may. `chain`: the policies that apply.
    """
    if caller.operator:
        return None
    if CLOUD_PLATFORM not in caller.scopes:
        detail = {
            "@type": "type.googleapis.com/google.rpc.ErrorInfo",
            "reason": "ACCESS_TOKEN_SCOPE_INSUFFICIENT",
            "domain": "googleapis.com",
            "metadata": {"method": method},
        }
        return rpc_error(403, "Request had insufficient authentication scopes.", details=[detail])
    for role in policies.roles_of(f"serviceAccount:{caller.email}", chain):
        if any(fnmatchcase(method, pattern) for pattern in ROLES.get(role, ())):
            return None
    permission = method.replace("projects.", "").replace("secrets.versions", "versions")
    return forbidden(permission, resource) if method.startswith("compute.") else permission_denied(permission, resource)
