"""How a link to the relay can end, as data: whether to resume, and what to tell the operator.

Names and numbers of the close codes: Google's IAP Desktop. What is final: section "close codes" there, and one rule of
our own: anything unknown, and any end without a code, is resumed while a session id is held.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from infra.access import SERVER_PORT, SSH_PORT, Iap
from verdict.errors import BadConfig, FlexserveError, NoAccess, TimedOut


class After(Enum):
    """What follows the end of a link."""

    FINISHED = "the connection ended as it should"
    RESUME = "open a new link and go on where it broke"
    RESUME_FRESH_TOKEN = "the same, with a new access token"
    RESET = "the local connection is reset, the tunnel stays"
    STOP = "the whole tunnel ends: no connection can work"


@dataclass(frozen=True)
class Ending:
    """One row: `code` is a WebSocket close code (4xxx, 1000) or an HTTP status of the handshake."""

    code: int
    name: str
    after: After
    what: str
    way_out: str = ""
    error: type[FlexserveError] = FlexserveError


_RESET = After.RESET
NOT_LISTENING = 4003
SWITCHED, PROXY_LOGIN = 101, 407
_NOT_LISTENING = "nothing answers on port {port} of {instance}"
_NOT_LISTENING_OUT = (
    "wait until the server has started (flexserve status), or check that it listens on all interfaces and that"
    " a firewall rule lets 35.235.240.0/20 reach the port"
)
_SSH_OUT = "wait until the machine has booted (flexserve status --boot): its firewall rule lets ssh in through IAP"
_CLOSED_OUT = (
    "the machine's firewall rule lets IAP reach ssh (22) and the server (8000) only; reach others through ssh:"
    " ssh -L {port}:localhost:{port}"
)
_ROLE = (
    "grant roles/iap.tunnelResourceAccessor on {instance} in project {project} to {member} and check the project's access levels"
)
_LOGIN = "run: gcloud auth application-default login (or gcloud auth login), or check GOOGLE_APPLICATION_CREDENTIALS"
_FIND = "flexserve status says whether the machine still exists; check project {project} and zone {zone}"
_KEEP_OPEN = "let the client keep its side open until it has its answer, or ask the server to close (Connection: close)"
_KEEP_STDIN = "keep stdin open until the answer has come, or ask through a port: flexserve tunnel --port 0"
_AGAIN = "try again; if it stays, report it with the code"

ENDINGS: tuple[Ending, ...] = (
    Ending(1000, "normal", After.FINISHED, "the connection ended"),
    Ending(4001, "session-unknown", _RESET, "the relay no longer knows the session", "connect again"),
    Ending(4002, "session-in-use", _RESET, "the relay says that the session is in use elsewhere", "connect again"),
    Ending(NOT_LISTENING, "not-listening", _RESET, _NOT_LISTENING, _NOT_LISTENING_OUT),
    Ending(4004, "token-expired", After.RESUME_FRESH_TOKEN, "the relay wants a new access token", _LOGIN, NoAccess),
    Ending(4005, "bad-ack", _RESET, "the relay refused an acknowledgement of ours", _AGAIN),
    Ending(4006, "invalid-ack", _RESET, "the relay refused an acknowledgement of ours", _AGAIN),
    Ending(4007, "invalid-opcode", _RESET, "the relay refused a message of ours", _AGAIN),
    Ending(4008, "invalid-tag", _RESET, "the relay refused a message of ours", _AGAIN),
    Ending(4009, "write-failed", _RESET, "the machine's side went away while it was written to", "connect again"),
    Ending(4010, "read-failed", _RESET, "the machine's side went away while it was read from", "connect again"),
    Ending(4013, "invalid-data", _RESET, "the relay refused a message of ours", _AGAIN),
    Ending(4033, "not-authorised", After.STOP, "{member} may not open a tunnel to {instance}", _ROLE, NoAccess),
    Ending(4047, "no-such-instance", After.STOP, "there is no instance {instance} in {zone}", _FIND),
    Ending(4051, "instance-gone", After.STOP, "the instance {instance} in {zone} is gone", _FIND),
    Ending(4074, "cannot-rewind", _RESET, "the relay no longer has the bytes that are missing", "connect again"),
    Ending(400, "bad-request", After.STOP, "the relay did not understand the request", "check the relay's URL", BadConfig),
    Ending(401, "token-refused", After.STOP, "the relay refused the access token", _LOGIN, NoAccess),
    Ending(403, "forbidden", After.STOP, "{member} may not open a tunnel to {instance}", _ROLE, NoAccess),
    Ending(404, "not-found", After.STOP, "the relay knows nothing at its URL, or no instance {instance}", _FIND),
    Ending(
        PROXY_LOGIN,
        "proxy-login",
        After.STOP,
        "the HTTP proxy wants a login",
        "put user and password into HTTPS_PROXY",
        NoAccess,
    ),
)
UNKNOWN = Ending(0, "broken", After.RESUME, "the link to the relay broke", "check this machine's network")
REFUSED_STATUS = Ending(0, "refused", After.STOP, "the relay answered HTTP {code}", "check the relay's URL")
PROTOCOL = Ending(0, "protocol", _RESET, "the relay broke the protocol", _AGAIN)
SILENT = Ending(0, "silent", _RESET, "the relay took the connection and then said nothing", _AGAIN, TimedOut)
NO_ACKS = Ending(0, "no-acks", _RESET, "the relay takes data and acknowledges none", _AGAIN)
GAVE_UP = Ending(
    0,
    "gave-up",
    _RESET,
    "the link to the relay broke and could not be restored",
    "check this machine's network",
    TimedOut,
)
HALF_CLOSED = Ending(0, "half-closed", _RESET, "the client had closed its side and no more data came", _KEEP_OPEN)
NO_ANSWER = Ending(0, "no-answer", _RESET, "stdin had ended and no answer came", _KEEP_STDIN, TimedOut)
PROXY = Ending(0, "proxy", After.STOP, "the HTTP proxy did not connect to the relay", "check HTTPS_PROXY and NO_PROXY")
PROXY_UNREACHABLE = Ending(
    0,
    "proxy-unreachable",
    After.RESUME,
    "the HTTP proxy before the relay cannot be reached",
    "correct or unset the variable that names it (HTTPS_PROXY, ALL_PROXY), or name the relay's host in NO_PROXY",
)
UNREACHABLE = Ending(
    0, "unreachable", After.RESUME, "the relay cannot be reached", "check this machine's network, its proxy and FLEXSERVE_IAP_URL"
)
TOKEN_UNREACHABLE = Ending(
    0,
    "token-unreachable",
    After.RESUME,
    "no access token for the relay: whoever gives it does not answer",
    "check this machine's network and its proxy",
    NoAccess,
)
UNTRUSTED = Ending(
    0, "untrusted", After.STOP, "the relay's certificate is not trusted", "set SSL_CERT_FILE to the CA that signed it"
)

_BY_CODE = {row.code: row for row in ENDINGS}


def of_close(code: int) -> Ending:
    """The row for a WebSocket close code, 0 for an end without one. Unknown codes are resumed."""
    return _BY_CODE.get(code, UNKNOWN) if code >= 1000 else UNKNOWN


def of_status(status: int) -> Ending:
    """The row for an HTTP status at the handshake. 429 and 5xx are passing; other unknown ones are refusals."""
    if status == 429 or status >= 500:
        return UNKNOWN
    return _BY_CODE.get(status, REFUSED_STATUS)


class TunnelFailure(Exception):
    """A connection ended otherwise than it should. `ending` says how; `detail` is what the relay or the system said."""

    def __init__(self, ending: Ending, detail: str = "", code: int = 0) -> None:
        super().__init__(f"{ending.name}: {detail}" if detail else ending.name)
        self.ending = ending
        self.detail = detail
        self.code = code or ending.code

    def sentence(self, access: Iap, member: str = "") -> str:
        """What happened, for a person."""
        return self._fill(self.ending.what, access, member)

    def error(self, access: Iap, member: str = "") -> FlexserveError:
        """The same as the error that the command line prints."""
        # Only a close code and an HTTP status are the relay's word, and 407 is the proxy's; the rest we or the system found.
        said = self.detail
        if said and self.code and self.code not in (SWITCHED, PROXY_LOGIN):
            said = f"the relay said: {said} ({self.code})"
        error = self.ending.error(
            self.sentence(access, member), why=said, way_out=self._fill(self._way_out(access), access, member)
        )
        if type(error) is FlexserveError:
            error.kind = self.ending.name  # `failed` would say nothing
        return error

    def _way_out(self, access: Iap) -> str:
        if self.ending.code != NOT_LISTENING or access.port == SERVER_PORT:
            return self.ending.way_out
        return _SSH_OUT if access.port == SSH_PORT else _CLOSED_OUT

    def _fill(self, text: str, access: Iap, member: str) -> str:
        return text.format(
            port=access.port,
            instance=access.instance,
            zone=access.zone,
            project=access.project,
            member=member or "the account in use",
            code=self.code,
        )
