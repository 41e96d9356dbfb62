"""One root for everything that flexserve raises on purpose.

Each error says what happened, why, and the way out; the command line prints it in one place, as a sentence or as JSON.
"""

from __future__ import annotations

from verdict.exit_codes import ExitCode


class FlexserveError(Exception):
    """Something went wrong that the operator can understand.

    `what` is one sentence; `why` and `way_out` may be empty when they would only repeat it; an `error: ` that
    somebody else's message begins with is left out of `why`. What looks like a secret's value
    is in none of them, whoever the words are from.
    """

    exit_code = ExitCode.FAILED
    kind = "failed"
    elsewhere = ""
    """Where asking again may help at once: `place` (any other one), `quota` (one that counts against another quota); else empty."""

    def __init__(self, what: str, *, why: str = "", way_out: str = "", exit_code: ExitCode | None = None) -> None:
        from verdict.secrets import hidden  # most commands end without an error

        self.what, self.why, self.way_out = hidden(what), hidden(why.removeprefix("error: ")), hidden(way_out)
        super().__init__(self.what)
        if exit_code is not None:
            self.exit_code = exit_code

    def __str__(self) -> str:
        return "\n".join(
            part
            for part in (
                self.what,
                f"  why: {self.why}" if self.why else "",
                f"  way out: {self.way_out}" if self.way_out else "",
            )
            if part
        )

    def as_dict(self) -> dict[str, object]:
        """The same error for `--json`."""
        return {
            "error": {
                "kind": self.kind,
                "what": self.what,
                "why": self.why,
                "way_out": self.way_out,
                "exit_code": int(self.exit_code),
            }
        }


class BadConfig(FlexserveError):
    """A key, type or value that the stack file or the command line may not hold."""

    exit_code = ExitCode.USAGE
    kind = "bad-config"


class Refused(FlexserveError):
    """The plan breaks a rule. Raised before anything is created."""

    exit_code = ExitCode.REFUSED
    kind = "refused"

    def __init__(self, rule: str, *, why: str, way_out: str) -> None:
        super().__init__(f"refused by rule {rule}", why=why, way_out=way_out)
        self.rule = rule

    def as_dict(self) -> dict[str, object]:
        """The contract's shape: `refused{rule,why,way_out}`."""
        return {"refused": {"rule": self.rule, "why": self.why, "way_out": self.way_out}}


class NoCapacity(FlexserveError):
    """The cloud has none where it was asked for."""

    exit_code = ExitCode.NO_CAPACITY
    kind = "no-capacity"
    elsewhere = "place"


class MissingProgram(FlexserveError):
    """A program that this machine lacks; no waiting brings it."""

    kind = "missing-program"


class NoAccess(FlexserveError):
    """Credentials, a permission or a quota are missing."""

    exit_code = ExitCode.NO_ACCESS
    kind = "no-access"


class TimedOut(FlexserveError):
    """A stated limit passed."""

    exit_code = ExitCode.TIMED_OUT
    kind = "timed-out"


class LeftBehind(FlexserveError):
    """Something of this deployment still bills."""

    exit_code = ExitCode.LEFT_BEHIND
    kind = "left-behind"


class Gone(FlexserveError):
    """The window closed or the cloud took the machine back: a normal state."""

    exit_code = ExitCode.GONE
    kind = "gone"


class Reclaimed(Gone):
    """The cloud took the machine back before its window closed."""

    kind = "reclaimed"


class CannotTell(FlexserveError):
    """The evidence is not enough for a verdict."""

    exit_code = ExitCode.CANNOT_TELL
    kind = "cannot-tell"


class Interrupted(FlexserveError):
    """The operator pressed Ctrl-C; what was finished first is in `what`."""

    exit_code = ExitCode.INTERRUPTED
    kind = "interrupted"
