"""One port-forwarding session: StartSession, then AWS's session-manager-plugin in a process group of its own.

The session's token goes to the plugin by an environment variable, never by its arguments (plugin 1.2.497 and newer read it there).
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import signal
import socket
from typing import Any

from infra.access import Ssm
from verdict.errors import FlexserveError, NoAccess, TimedOut

PLUGIN = "session-manager-plugin"
DOCUMENT = "AWS-StartPortForwardingSession"
RESPONSE_VARIABLE = "AWS_SSM_START_SESSION_RESPONSE"
_READY = b"Waiting for connections"
_READY_S, _END_S = 30.0, 3.0


class Session:
    """A running plugin that listens on `port`, on loopback."""

    def __init__(
        self, client: Any, session_id: str, process: asyncio.subprocess.Process, port: int, rest: asyncio.Task[None]
    ) -> None:
        self.port = port
        self._client, self._session_id, self._process, self._rest = client, session_id, process, rest

    @property
    def alive(self) -> bool:
        """Whether the plugin still runs: SSM ends a session that was idle for its limit (20 minutes unless set)."""
        return self._process.returncode is None

    async def ended(self, within_s: float) -> bool:
        """Whether the plugin ends within that time."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._process.wait(), within_s)
        return not self.alive

    async def stop(self) -> None:
        """End the plugin's whole group and the session. Returns when both are gone; a session that is gone already is fine."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            if self.alive:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(self._process.pid, number)
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._process.wait(), _END_S)
        self._rest.cancel()
        with contextlib.suppress(Exception):
            await asyncio.to_thread(self._client.terminate_session, SessionId=self._session_id)


def client(access: Ssm, url: str | None) -> Any:
    """The SSM client of the operator's credentials. Raises `NoAccess` when there are none, `FlexserveError` without the plugin."""
    if shutil.which(PLUGIN) is None:
        raise FlexserveError(
            f"{PLUGIN} is not on PATH", why="AWS's plugin carries the session", way_out="install AWS's Session Manager plugin"
        )
    import boto3  # type: ignore[import-untyped]

    session = boto3.Session(region_name=access.region)
    if session.get_credentials() is None:
        raise NoAccess("no AWS credentials", way_out="run: aws sso login, or set AWS_PROFILE")
    return session.client("ssm", endpoint_url=url)


async def start(ssm: Any, access: Ssm) -> Session:
    """A session whose plugin listens. Raises `NoAccess`, `TimedOut` or `FlexserveError` with the cause."""
    port = _free_port()
    request = {
        "Target": access.instance_id,
        "DocumentName": DOCUMENT,
        "Parameters": {"portNumber": [str(access.port)], "localPortNumber": [str(port)]},
    }
    try:
        answer = await asyncio.to_thread(lambda: ssm.start_session(**request))
    except Exception as error:  # botocore's
        raise _cause(error, access) from error
    response = {name: answer.get(name) for name in ("SessionId", "TokenValue", "StreamUrl")}
    process = await asyncio.create_subprocess_exec(
        PLUGIN, RESPONSE_VARIABLE, access.region, "StartSession", "", json.dumps(request), ssm.meta.endpoint_url,
        env={**os.environ, RESPONSE_VARIABLE: json.dumps(response)},
        stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
        start_new_session=True,
    )  # fmt: skip
    said: list[bytes] = []
    try:
        async with asyncio.timeout(_READY_S):
            await _ready(process, said)
    except TimeoutError:
        failure: FlexserveError | None = TimedOut(f"the session to {access.instance_id} did not open within {_READY_S:g} s")
    except EOFError:
        last = b"".join(said[-3:]).decode("utf-8", "replace").strip()
        failure = FlexserveError(f"the session to {access.instance_id} ended at once", why=last)
    else:
        failure = None
    session = Session(ssm, str(response["SessionId"]), process, port, asyncio.ensure_future(_drain(process)))
    if failure is not None:
        await session.stop()
        raise failure
    return session


async def _ready(process: asyncio.subprocess.Process, said: list[bytes]) -> None:
    assert process.stdout is not None
    while line := await process.stdout.readline():
        said.append(line)
        if _READY in line:
            return
    raise EOFError


async def _drain(process: asyncio.subprocess.Process) -> None:
    """Read what the plugin says, or it would stop on a full pipe."""
    assert process.stdout is not None
    while await process.stdout.read(65_536):
        pass


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
