"""What a rehearsal found: one document for `--json`, one page for people."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from rehearsal.contracts import Ledger, LedgerItem
from rehearsal.stage import Part
from verdict.exit_codes import ExitCode

LOG = "commands.log"


@dataclass(frozen=True)
class Failure:
    """The first command that failed: its own error, in the order what, why, way out, and the last lines that it wrote."""

    command: str
    exit: int
    error: tuple[str, ...]
    log_tail: tuple[str, ...]

    def as_dict(self, kept_at: str) -> dict[str, object]:
        """For the verdict; `log` is where all of it is kept."""
        return {**vars(self), "error": list(self.error), "log_tail": list(self.log_tail), "log": f"{kept_at}/{LOG}"}


@dataclass
class Verdict:
    """Filled in as the rehearsal goes; `exit_code` is the product's own, and 7 over all others when anything is left."""

    stack: str
    phases: list[Mapping[str, object]] = field(default_factory=list)
    build: list[Mapping[str, object]] = field(default_factory=list)  # the phases of a builder, where one made something
    nonce: str = ""
    answer: str = ""
    served: bool = False
    product_exit: int = 0
    cause: str = ""
    items: Sequence[LedgerItem] = ()
    left: Sequence[LedgerItem] = ()
    total: float = 0.0
    host_left: Sequence[str] = ()
    parts: Mapping[str, Part] = field(default_factory=dict)
    seconds: float = 0.0
    steps: list[Mapping[str, object]] = field(default_factory=list)
    kept_at: str = ""
    failure: Failure | None = None

    def read(self, ledger: Ledger, before: Collection[tuple[str, str, str]] = ()) -> None:
        """Take the ledger's word for what bills; `before` is what the operator had already (kind, name, where)."""
        self.items = [i for i in ledger.items() if (i.kind, i.name, i.where) not in before]
        self.left = [i for i in ledger.left() if (i.kind, i.name, i.where) not in before]
        self.total = ledger.total()

    @property
    def gone(self) -> bool:
        """Nothing bills and nothing is left on this host."""
        return not self.left and not self.host_left

    @property
    def exit_code(self) -> int:
        """The product's own code; 7 when something is left."""
        return self.product_exit if self.gone else int(ExitCode.LEFT_BEHIND)

    @property
    def text(self) -> str:
        """`served and gone` when all went well."""
        served = "served" if self.served else f"not served ({self.cause or 'no answer'})"
        left = [f"{i.kind} {i.name} in {i.where}" for i in self.left] + list(self.host_left)
        return f"{served} and {'gone' if self.gone else 'left behind: ' + ', '.join(left)}"

    def as_dict(self) -> dict[str, object]:
        """The `rehearse --json` document of the contract."""
        return {
            "stack": self.stack,
            "verdict": self.text,
            "phases": self.phases,
            **({"build": self.build} if self.build else {}),
            "nonce": self.nonce,
            "answer": self.answer,
            "ledger": {
                "items": [_item(i) for i in self.items],
                "left": [_item(i) for i in self.left],
                "total": round(self.total, 4),
            },
            "host_left": list(self.host_left),
            "parts": {name: part.as_dict() for name, part in self.parts.items()},
            "steps": self.steps,
            "seconds": round(self.seconds, 1),
            "exit_code": self.exit_code,
            "kept_at": self.kept_at,
            "failure": self.failure.as_dict(self.kept_at) if self.failure else None,
        }


def _item(item: LedgerItem) -> dict[str, object]:
    return {
        "kind": item.kind,
        "name": item.name,
        "where": item.where,
        "created_at": item.created_at,
        "deleted_at": item.deleted_at,
        "price_per_hour": item.price_per_hour,
    }
