"""All that the local Google cloud knows: one project, its resources by path, one lock around them."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import secrets
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from rehearsal.cloud.clock import TurnedClock
from rehearsal.cloud.google.call import Json, Trouble
from rehearsal.cloud.google.inventory import Inventory
from rehearsal.cloud.ledger import BillLedger

if TYPE_CHECKING:
    from rehearsal.cloud.google.fleet import Fleet
    from rehearsal.cloud.google.identity import Tokens
    from rehearsal.cloud.google.policies import Policies

LINK = "compute:////"
"""What links of stored resources begin with.

The answer has the server's address and the asked version there instead.
"""

Report = Callable[[str, str, str, str], None]
"""Told of a guest attribute: instance, namespace, key, value."""

NO_LABELS = "42WmSpB8rSM="


@dataclass(frozen=True)
class Waiting:
    """An instance that waits for capacity: what starts it, and what ends the wait without it."""

    grant: Callable[[], None]
    give_up: Callable[[], None]


@dataclass(frozen=True)
class Pace:
    """How long things take on the cloud's clock, in seconds.

    A client that turns the clock while it waits does not notice.
    """

    operation: float = 1.0
    provisioning: float = 2.0
    staging: float = 3.0
    stopping: float = 2.0


class State:
    """The project's resources. Every access holds `lock`; events on the clock take it themselves."""

    fleet: Fleet
    tokens: Tokens
    policies: Policies

    def __init__(self, project: str, clock: TurnedClock, ledger: BillLedger, inventory: Inventory, pace: Pace) -> None:
        self.project = project
        self.number = "123456789012"
        self.clock = clock
        self.ledger = ledger
        self.inventory = inventory
        self.pace = pace
        self.lock = threading.RLock()
        self.compute: dict[str, Json] = {}
        self.operations: dict[str, Json] = {}
        self.accounts: dict[str, Json] = {}
        self.secrets: dict[str, Json] = {}
        self.versions: dict[str, Json] = {}
        self.repositories: dict[str, Json] = {}
        self.disabled: set[str] = set()
        self.denied: set[str] = set()
        self.troubles: list[Trouble] = []
        self.reports: list[Report] = []
        self.queue: dict[str, Waiting] = {}

    def stamp(self, when: float | None = None) -> str:
        """A time as compute writes it."""
        moment = datetime.fromtimestamp(self.clock.now() if when is None else when, UTC)
        return moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{moment.microsecond // 1000:03d}-00:00"

    def zulu(self, when: float | None = None) -> str:
        """A time as the newer APIs write it."""
        moment = datetime.fromtimestamp(self.clock.now() if when is None else when, UTC)
        return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")

    def children(self, prefix: str) -> Iterator[Json]:
        """Compute resources whose path begins with `prefix`, in order of creation."""
        return (value for path, value in self.compute.items() if path.startswith(prefix))

    def users(self, path: str) -> Iterator[tuple[str, str]]:
        """(path of the user, path of what it uses) of everything that refers to `path`."""
        wanted = f'"{link(path)}"'
        return ((other, path) for other, value in self.compute.items() if other != path and wanted in json.dumps(value))


def link(path: str) -> str:
    """The stored form of a link to a compute resource."""
    return LINK + path


def unlink(value: str) -> str:
    """The path in a stored link or in any form of URL that Google takes."""
    found = re.search(r"projects/.*\Z", value)
    return found.group(0) if found else value.removeprefix(LINK)


def resolve(reference: str, project: str, scope: str = "") -> str:
    """The path that a full, partial or relative reference means.

    `scope` completes a bare name, as in `global/networks`.
    """
    if "projects/" in reference:
        return unlink(reference)
    if "/" in reference:
        return f"projects/{project}/{reference.lstrip('/')}"
    return f"projects/{project}/{scope}/{reference}"


def new_id() -> str:
    """A numeric resource id."""
    return str(secrets.randbelow(9 * 10**18) + 10**18)


def fingerprint(value: object) -> str:
    """Changes with the value; 8 bytes in base64, as Google's."""
    if not value:
        return NO_LABELS
    digest = hashlib.sha256(json.dumps(value, sort_keys=True).encode()).digest()
    return base64.urlsafe_b64encode(digest[:8]).decode()


def without(value: Mapping[str, object], *names: str) -> Json:
    """A copy that lacks these keys."""
    return {k: v for k, v in value.items() if k not in names}
