"""One port-forwarding session: StartSession, then AWS's session-manager-plugin in a process group of its own.

The session's token goes to the plugin by an environment variable, never by its arguments (plugin 1.2.497 and newer read it there).
It gets a temporary folder of its own: it leaves its socket there when it is killed.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import signal
import socket
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from flexserve.programs import require
from flexserve.tunnel.apart import apart
from flexserve.tunnel.ssm.said import Said
from infra.access import SESSION_MANAGER_PLUGIN, Ssm
from infra.clouds.aws import models
from verdict.errors import FlexserveError, NoAccess, TimedOut

PLUGIN = SESSION_MANAGER_PLUGIN.name
DOCUMENT = "AWS-StartPortForwardingSession"
RESPONSE_VARIABLE = "AWS_SSM_START_SESSION_RESPONSE"
_READY = b"Waiting for connections"
_ENDING = (b"Exiting session", b"SessionId: ", b" timed out", b"Terminate signal")  # said before it closes its connections
_PORT_TAKEN = b"address already in use"
_TRIES = 3  # the port that was free when we looked may be another's when the plugin binds it
_READY_S, _END_S = 30.0, 3.0
_LOST_S = 0.5  # where the system does not tell: a plugin that was killed is seen to have ended this soon after its connections
_SOCKET_NAME, _SOCKET_PATH = 44, 103  # bytes: of the plugin's socket with its slash, of a whole path (macOS: the shortest)
_FRAME, _FRAME_HEADER, _PIECE = 32_768, 8, 1024  # bytes: the plugin's multiplexing, and what it sends in a message
_EXITING = 0x4  # PF_EXITING among a process's flags: set before its sockets are closed


def would_change(data: bytes) -> bool:
    """Whether the plugin, when it reads `data` alone and at once, would send its last newline as a carriage return.

    It does that with every piece that is a newline and nothing else, and it cuts its frames into pieces of 1,024 bytes. Seen with
    1.3.0: a header block of 1,017 bytes arrives broken, each time.
    """
    frames = -(-len(data) // _FRAME)
    return data[-1:] == b"\n" and (len(data) + frames * _FRAME_HEADER) % _PIECE == 1


class Session:
    """A running plugin that listens on `port`, on loopback."""

    def __init__(
        self, client: Any, session_id: str, process: asyncio.subprocess.Process, port: int, said: Said, folder: Path
    ) -> None:
        self.port = port
        self._client, self._session_id, self._process, self._said, self._folder = client, session_id, process, said, folder

    @property
    def alive(self) -> bool:
        """Whether the plugin still runs: SSM ends a session that was idle for its limit (20 minutes unless set)."""
        return self._process.returncode is None and not any(words in self._said.text for words in _ENDING)

    async def lost(self) -> bool:
        """Whether a connection that just ended did so because the plugin ends, and not because the server closed it.

        It says so before it closes its connections, and when it is killed the kernel marks it before that: nothing to wait for.
        """
        self._said.read()
        if self.alive and not self._said.ended and sys.platform != "linux":
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._process.wait(), _LOST_S)
        return not self.alive or self._said.ended or _exiting(self._process.pid)

    async def stop(self) -> None:
        """End the plugin's whole group and the session. Returns when both are gone; a session that is gone already is fine."""
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):  # at the first it ends in order
            if self._process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(self._process.pid, number)
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._process.wait(), _END_S)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)  # what it started and left
        self._said.close()
        await asyncio.to_thread(shutil.rmtree, self._folder, True)
        with contextlib.suppress(Exception):
            await asyncio.to_thread(self._client.terminate_session, SessionId=self._session_id)


def _exiting(pid: int) -> bool:
    """Whether the process is on its way out or gone; False where the system does not tell."""
    if sys.platform != "linux":
        return False
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
    except OSError:
        return True
    return bool(int(stat.rpartition(")")[2].split()[6]) & _EXITING)


def client(access: Ssm, url: str | None) -> Any:
    """The SSM client of the operator's credentials. Raises `NoAccess` when there are none, `MissingProgram` without the plugin."""
    require((SESSION_MANAGER_PLUGIN,))
    from botocore.config import Config

    session = models.session(access.region)
    if session.get_credentials() is None:
        raise NoAccess("no AWS credentials", way_out="run: aws sso login, or set AWS_PROFILE")
    # Two short tries: behind botocore's own five, of a minute each, a client would wait in silence.
    config = Config(connect_timeout=10, read_timeout=20, retries={"mode": "standard", "total_max_attempts": 2})
    return session.client("ssm", endpoint_url=url, config=config)


async def start(ssm: Any, access: Ssm) -> Session:
    """A session whose plugin listens. Raises `NoAccess`, `TimedOut` or `FlexserveError` with the cause."""
    for _ in range(_TRIES - 1):
        with contextlib.suppress(_PortTaken):
            return await _start(ssm, access)
    return await _start(ssm, access)


class _PortTaken(FlexserveError):
    """Another process was faster with the plugin's port."""


async def _start(ssm: Any, access: Ssm) -> Session:
    port = _free_port()
    request = {
        "Target": access.instance_id,
        "DocumentName": DOCUMENT,
        "Parameters": {"portNumber": [str(access.port)], "localPortNumber": [str(port)]},
    }
    try:
        answer = await apart(lambda: ssm.start_session(**request))
    except Exception as error:  # botocore's
        raise _cause(error, access) from error
    response = {name: answer.get(name) for name in ("SessionId", "TokenValue", "StreamUrl")}
    folder = _folder()
    said = Said()
    try:
        process = await asyncio.create_subprocess_exec(
            PLUGIN, RESPONSE_VARIABLE, access.region, "StartSession", "", json.dumps(request), ssm.meta.endpoint_url,
            env={**os.environ, RESPONSE_VARIABLE: json.dumps(response), "TMPDIR": str(folder)},
            stdin=asyncio.subprocess.DEVNULL, stdout=said.writer, stderr=said.writer,
            start_new_session=True, preexec_fn=_with_us(),
        )  # fmt: skip
    finally:
        said.given()
    session = Session(ssm, str(response["SessionId"]), process, port, said, folder)
    failure: FlexserveError | None = None
    try:
        async with asyncio.timeout(_READY_S):
            if not await said.until(_READY):
                kind = _PortTaken if _PORT_TAKEN in said.text else FlexserveError
                last = said.text.decode("utf-8", "replace").strip().splitlines()[-1:]
                failure = kind(f"the session to {access.instance_id} ended at once", why="".join(last))
    except TimeoutError:
        failure = TimedOut(f"the session to {access.instance_id} did not open within {_READY_S:g} s")
    except asyncio.CancelledError:
        await session.stop()
        raise
    if failure is not None:
        await session.stop()
        raise failure
    return session


def _folder() -> Path:
    """A temporary folder whose path leaves room for the plugin's socket: the name of a Unix socket is short."""
    folder = Path(tempfile.mkdtemp(prefix="flexserve-"))
    if len(os.fsencode(folder)) + _SOCKET_NAME <= _SOCKET_PATH:
        return folder
    folder.rmdir()
    return Path(tempfile.mkdtemp(prefix="flexserve-", dir="/tmp"))


def _with_us() -> Callable[[], None] | None:
    """What the child does first: ask Linux to end it when the thread that forks it ends; that one lives as long as the tunnel."""
    if sys.platform != "linux":
        return None
    import ctypes

    libc = ctypes.CDLL(None)  # loaded here: the child of a process with threads should do little
    return lambda: libc.prctl(1, signal.SIGTERM, 0, 0, 0)  # PR_SET_PDEATHSIG


def _cause(error: Exception, access: Ssm) -> FlexserveError:
    response = getattr(error, "response", None)
    code = str(response["Error"].get("Code", "")) if isinstance(response, dict) and "Error" in response else type(error).__name__
    why = (str(error).splitlines() or [code])[0]
    if code == "TargetNotConnected":
        return FlexserveError(
            f"{access.instance_id} is not connected to Session Manager",
            why=why,
            way_out="flexserve status says whether it still exists; its agent connects about a minute after the start",
        )
    if "Access" in code or "Token" in code or "Credential" in code or "Signature" in code:
        return NoAccess(f"you may not start a session to {access.instance_id}", why=why, way_out="grant ssm:StartSession on it")
    return FlexserveError(f"no session to {access.instance_id}", why=why)


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])
