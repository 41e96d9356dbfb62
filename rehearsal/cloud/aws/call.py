"""One operation on its way to a handler, and the troubles that may be armed for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any

from rehearsal.cloud.aws.errors import AwsError
from rehearsal.cloud.aws.http import HttpAnswer

Json = dict[str, Any]


@dataclass(frozen=True)
class Caller:
    """Who asks. The operator may do whatever was not denied to him; a role what its policies allow."""

    arn: str
    user_id: str
    role: str = ""
    """The role's name; empty for the operator."""
    instance: str = ""
    """The instance that was given the credentials."""

    @property
    def operator(self) -> bool:
        """Whether it is the operator."""
        return not self.role


@dataclass(frozen=True)
class FromMoto:
    """What moto answered: the answer as it is, and read by botocore."""

    answer: HttpAnswer
    parsed: Json


@dataclass(frozen=True)
class Call:
    """A request that AWS's model accepts. `moto(params)` lets moto answer it, with other parameters if some are given.

    `moto` raises AwsError where moto refuses.
    """

    service: str
    operation: str
    params: Json
    caller: Caller
    moto: Callable[[Json | None], FromMoto] = field(compare=False)

    @property
    def id(self) -> str:
        """`ec2.RunInstances`."""
        return f"{self.service}.{self.operation}"


Result = Mapping[str, Any] | FromMoto | HttpAnswer | None
"""What a handler gives back: the members of the output, an answer that is whole already (moto's, a container's), or nothing for an
operation without output.
"""


@dataclass
class Trouble:
    """What goes wrong with the next calls that match, instead of what they would have done.

    `call` is a pattern on the id (`ec2.RunInstances`, `secretsmanager.*`), `where` narrows it by the call. `times` counts down;
    None: for ever. `capacity`: it is a stock-out, which capacity ends; `zone` is the zone it is armed for (empty: all);
    `foreseen`: the placement score knows of it.
    """

    call: str
    error: Callable[[Call], AwsError]
    times: int | None = 1
    where: Callable[[Call], bool] = lambda _: True
    capacity: bool = False
    zone: str = ""
    foreseen: bool = True

    def matches(self, call: Call) -> bool:
        """Whether it is still armed for this call."""
        return self.times != 0 and fnmatchcase(call.id, self.call) and self.where(call)

    def spend(self) -> None:
        """Count one use."""
        if self.times is not None:
            self.times -= 1
