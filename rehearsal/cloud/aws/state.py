"""All that the local AWS knows besides what moto keeps: one account, one region, one lock around everything."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from rehearsal.cloud.aws.backing import Moto
from rehearsal.cloud.aws.call import Caller, Json, Trouble
from rehearsal.cloud.aws.identity import Credentials
from rehearsal.cloud.aws.inventory import Image, Inventory
from rehearsal.cloud.aws.pace import Pace
from rehearsal.cloud.aws.readers import Readers
from rehearsal.cloud.aws.roles import Role, Roles
from rehearsal.cloud.clock import TurnedClock
from rehearsal.cloud.ledger import BillLedger, Price

if TYPE_CHECKING:
    from rehearsal.cloud.aws.alarms import Watching
    from rehearsal.cloud.aws.autoscaling import Scaling
    from rehearsal.cloud.aws.billing import Bill
    from rehearsal.cloud.aws.codebuild import Builds
    from rehearsal.cloud.aws.ec2.fleet import Fleet
    from rehearsal.cloud.aws.ecr import Registry
    from rehearsal.cloud.aws.http import HttpAnswer, HttpRequest
    from rehearsal.cloud.aws.logs import Logs
    from rehearsal.cloud.aws.sagemaker.book import Book
    from rehearsal.cloud.aws.ssm.agents import Agents

StartSession = Callable[[str, str, Json], tuple[str, str, str]]
"""Opens a data channel: (instance id, document, parameters) -> (session id, stream URL, token)."""

SessionService = Callable[[str, Json], Json]
"""Answers StartSession, ResumeSession and TerminateSession: (operation, parameters) -> members of the output.

Raises an exception whose text is the name of the service's error.
"""


class State:
    """Every access holds `lock`; events on the clock take it themselves."""

    fleet: Fleet
    agents: Agents
    front: Callable[[HttpRequest], HttpAnswer]
    internal: Callable[[str, str, Mapping[str, object]], Json]
    """An operation as the operator, in process."""
    logs: Logs
    ecr: Registry
    codebuild: Builds
    scaling: Scaling
    watching: Watching
    sagemaker: Book

    def __init__(
        self, account: str, region: str, clock: TurnedClock, ledger: BillLedger, price: Price, inventory: Inventory, pace: Pace
    ) -> None:
        self.account, self.region = account, region
        self.clock, self.ledger, self.price = clock, ledger, price
        self.inventory, self.pace = inventory, pace
        self.lock = threading.RLock()
        self.moto = Moto(account, region, clock.now)
        self.credentials = Credentials(account, clock.now)
        self.iam_delay = pace.iam
        self.roles = Roles(self.moto, clock, lambda: self.iam_delay)
        self.troubles: list[Trouble] = []
        self.denied: set[str] = set()
        self.quotas = {quota.code: quota.value for quota in inventory.quotas}
        self.published = {image.id for image in inventory.images if image.published}
        self.renamed: dict[str, str] = {}
        """Public parameter -> image id, where it is not the newest of its line."""
        self.without_type: set[tuple[str, str]] = set()
        """(zone, instance type) that the zone does not offer after all."""
        self.spot_now: dict[str, float] = {}
        """Spot prices that were set by hand."""
        self.billed: dict[tuple[str, str, str], Bill] = {}
        self.spot: dict[str, Json] = {}
        self.run_tokens: dict[str, tuple[Json, list[str]]] = {}
        self.schedules: dict[str, Json] = {}
        self.commands: dict[str, Json] = {}
        self.associations: dict[str, Json] = {}
        self.sessions: dict[str, Json] = {}
        self.session_service: SessionService | None = None
        self.readers = Readers(lambda: self.pace.hosting.turn if self._moves() else 0.0, clock.advance)
        self.problems: list[str] = []
        """What the local cloud itself did wrong outside of a request."""

    def _moves(self) -> bool:
        """Whether an endpoint is on its way, the last one included."""
        with self.lock:
            return any(endpoint.moves or endpoint.status == "Deleting" for endpoint in self.sagemaker.endpoints.values())

    def looked(self, operation: str, agent: str) -> None:
        """A request was answered; called without the lock."""
        self.readers.looked(operation, agent)

    def now(self) -> datetime:
        """The cloud's time, with its zone."""
        return datetime.fromtimestamp(self.clock.now(), UTC)

    def naive(self) -> datetime:
        """The cloud's time as moto keeps it: UTC, without a zone."""
        return self.now().replace(tzinfo=None)

    @property
    def ec2(self) -> Any:
        """Moto's EC2."""
        return self.moto.backend("ec2")

    def image(self, image_id: str) -> Image | None:
        """An image of ours."""
        return next((i for i in self.inventory.images if i.id == image_id), None)

    def arn(self, service: str, resource: str) -> str:
        """An ARN in this account and region."""
        return f"arn:aws:{service}:{self.region}:{self.account}:{resource}"

    def may(self, role: Role | None, action: str, resource: str, context: Mapping[str, str] = {}) -> bool:
        """Whether a role may. No role may nothing; a policy that cannot be evaluated here grants nothing, and is a problem."""
        try:
            return role is not None and role.may(action, resource, context)
        except ValueError as strange:
            self.problems.append(f"a policy of {role.name if role else ''}: {strange}")
            return False

    def operator(self) -> Caller:
        """The operator."""
        return self.credentials.operator


def new_id(prefix: str, digits: int = 17) -> str:
    """`i-0123456789abcdef0`."""
    return f"{prefix}-{secrets.token_hex(9)[:digits]}"
