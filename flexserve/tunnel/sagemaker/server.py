"""The loopback HTTP server: chat, completions and models for OpenAI's clients, each request a signed call."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

import h11

from flexserve.tunnel import listener
from flexserve.tunnel.ends import Ends
from flexserve.tunnel.events import Event, Stats, end_of
from flexserve.tunnel.options import Options, Tunnel
from flexserve.tunnel.reach import Reach
from flexserve.tunnel.sagemaker import problems
from flexserve.tunnel.sagemaker.assemble import CutStream, NotAStream, assemble, events
from flexserve.tunnel.sagemaker.problems import Problem, problem
from flexserve.tunnel.sagemaker.pump import Pump
from flexserve.tunnel.sagemaker.runtime import Runtime
from infra.access import SageMaker
from verdict.errors import Gone, NoAccess

_BODY_LIMIT = 6 * 1024 * 1024  # the service refuses more
_GENERATING = ("/v1/chat/completions", "/v1/completions")
_LOOPBACK = ("localhost", "127.0.0.1", "::1")
_WORKERS = 64
_CHUNK = 65_536


@asynccontextmanager
async def open_sagemaker(access: SageMaker, options: Options) -> AsyncIterator[Tunnel]:
    """See `flexserve.tunnel.dial.open_tunnel`. Nothing is sent before the first request: a call costs."""
    sock = listener.bind(options.port)
    try:
        runtime = await asyncio.to_thread(Runtime, access, options.url)
        if not runtime.has_credentials:
            raise NoAccess("no AWS credentials", way_out="run: aws sso login, or set AWS_PROFILE")
        proxy = Proxy(sock.getsockname()[1], access, runtime, options)
        server = await asyncio.start_server(proxy.serve, sock=sock)
    except BaseException:
        sock.close()
        raise
    proxy.tell("listening", port=proxy.port, base_url=proxy.base_url)
    try:
        async with proxy.ends.watched(proxy.end):
            yield proxy
    finally:
        server.close()
        await proxy.stop()


class Proxy(Tunnel):
    """The tunnel of an endpoint: no connection of its own, so nothing to resume."""

    def __init__(self, port: int, access: SageMaker, runtime: Runtime, options: Options) -> None:
        super().__init__(port)
        self._access, self._runtime, self._options = access, runtime, options
        self.ends = Ends(options)
        self._reach = Reach(options.on_event)
        self._threads = ThreadPoolExecutor(_WORKERS, thread_name_prefix="sagemaker")
        self._count, self._up, self._down = 0, 0, 0
        self._open: set[asyncio.Task[Any]] = set()

    def stats(self) -> Stats:
        """Counters so far; bytes are HTTP bodies."""
        return Stats(connections=self._count, open=len(self._open), bytes_up=self._up, bytes_down=self._down)

    def tell(self, kind: str, **fields: object) -> None:
        """One event."""
        if self._options.on_event is not None:
            self._options.on_event(Event(kind, fields))

    def end(self, gone: Gone) -> None:
        """End the tunnel for good."""
        if not self.over.done():
            if self._options.on_event is not None:
                self._options.on_event(end_of(gone))
            self.over.set_result(gone)

    async def stop(self) -> None:
        """End every connection."""
        for task in list(self._open):
            task.cancel()
        await asyncio.gather(*self._open, return_exceptions=True)
        self._threads.shutdown(wait=False, cancel_futures=True)
        self.tell("stopped", connections=self._count, bytes_up=self._up, bytes_down=self._down)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One client connection, kept alive between requests."""
        task = asyncio.current_task()
        assert task is not None
        self._open.add(task)
        self._count += 1
        connection = h11.Connection(h11.SERVER)
        try:
            while True:
                request, body = await _request(connection, reader)
                if request is None:
                    return
                self._up += len(body)
                await self._answer(Exchange(connection, writer, self._counted, _shared_with(request)), request, body)
                if connection.our_state is not h11.DONE or connection.their_state is not h11.DONE:
                    return
                connection.start_next_cycle()
        except (OSError, h11.RemoteProtocolError, asyncio.CancelledError):
            pass  # the client is gone, speaks no HTTP, or the tunnel ends
        finally:
            self._open.discard(task)
            writer.close()

    def _counted(self, size: int) -> None:
        self._down += size

    async def _answer(self, exchange: Exchange, request: h11.Request, body: bytes) -> None:
        refused = _refused(request, body)
        path = urlsplit(request.target.decode("ascii", "replace")).path
        method = request.method.decode("ascii", "replace")
        if refused is not None:
            await exchange.error(refused)
        elif method == "OPTIONS":  # a page of this machine, served from another port, asks before it posts
            await exchange.allowed(_header(request, b"access-control-request-headers"))
        elif method == "GET" and path == "/v1/models":
            model = {"id": self._access.model, "object": "model", "created": 0, "owned_by": "sagemaker"}
            await exchange.document(200, {"object": "list", "data": [model]})
        elif method == "POST" and path in _GENERATING:
            await self._generate(exchange, request, body)
        else:
            await exchange.error(problem(404, f"no {method} {path} here: {', '.join(_GENERATING)}, /v1/models", code="not_found"))

    async def _generate(self, exchange: Exchange, request: h11.Request, raw: bytes) -> None:
        try:
            body = json.loads(raw)
            if not isinstance(body, dict):
                raise ValueError("the body is not an object")
        except ValueError as error:
            return await exchange.error(problem(400, f"the body is not JSON: {error}"))
        streamed = bool(body.get("stream"))
        if not streamed:
            body = {**body, "stream": True, "stream_options": {"include_usage": True}}
        body.setdefault("model", self._access.model)
        asked = _header(request, b"x-request-id")
        if streamed:
            await self._stream(exchange, body, asked)
        else:
            answer = await asyncio.get_running_loop().run_in_executor(self._threads, self._whole, body, asked)
            self._noted(answer)
            await exchange.document(answer.status, answer.body, answer.request_id)

    def _noted(self, said: Problem | None) -> None:
        """Tell the operator what every client will meet, once; the client has it in its answer."""
        if said is not None and said.lost:
            inner = said.body["error"]
            self._reach.lost(str(inner.get("code") or said.status), str(inner["message"]))
        else:
            self._reach.found()

    def _whole(self, body: dict[str, Any], asked: str) -> Problem:
        """One whole completion, or what went wrong. Blocking: in a thread, all of it in one go."""
        try:
            ident, parts, _ = self._runtime.invoke(body, asked)
            answer = _whole(parts)
            for _ in parts:  # to its end: the connection goes back to the pool
                pass
            return Problem(*answer, ident)
        except Exception as error:  # botocore's: all become OpenAI's errors
            return problems.of(error)

    async def _stream(self, exchange: Exchange, body: dict[str, Any], asked: str) -> None:
        """Hand on the server's own events. A stream that breaks ends in an error event and an unfinished body."""
        pump = Pump(self._runtime, body, asked)
        self._threads.submit(pump.run)
        began = False
        try:
            first = await pump.next()
            self._noted(None)
            if first[:1] == b"{" or first.lstrip()[:1] == b"{":  # not a stream: the model refused in JSON
                while part := await pump.next():
                    first += part
                return await exchange.document(*_model_said(first), pump.ident)
            await exchange.begin_events(pump.ident, first)
            began = True
            while part := await pump.next():
                await exchange.events(part)
            await exchange.end_events()
        except OSError:  # the client is gone
            raise
        except Exception as error:
            said = problems.of(error)
            if not began:
                self._noted(said)
                return await exchange.error(said)
            await exchange.events(b"data: " + json.dumps(said.body).encode() + b"\n\n")
            exchange.abort()
        finally:
            pump.stop()


class Exchange:
    """One answer on its way to the client."""

    def __init__(
        self,
        connection: h11.Connection,
        writer: asyncio.StreamWriter,
        counted: Callable[[int], None],
        shared: list[tuple[str, str]],
    ) -> None:
        self._connection, self._writer, self._counted, self._shared = connection, writer, counted, shared

    async def allowed(self, headers: str) -> None:
        """The answer to a page's preflight."""
        said = [("access-control-allow-methods", "GET, POST"), ("access-control-max-age", "600"), ("content-length", "0")]
        if headers:
            said.append(("access-control-allow-headers", headers))
        await self._send(h11.Response(status_code=204, headers=[*said, *self._shared]), h11.EndOfMessage())

    async def document(self, status: int, document: object, request_id: str = "") -> None:
        """A JSON answer."""
        body = json.dumps(document).encode()
        headers = [("content-type", "application/json"), ("content-length", str(len(body)))]
        await self._send(
            h11.Response(status_code=status, headers=self._with(headers, request_id)), h11.Data(data=body), h11.EndOfMessage()
        )
        self._counted(len(body))

    async def error(self, said: Problem) -> None:
        """An error in OpenAI's shape."""
        await self.document(said.status, said.body, said.request_id)

    async def begin_events(self, request_id: str, first: bytes) -> None:
        """Headers of an event stream and what there is of it, in one write."""
        headers = [("content-type", "text/event-stream"), ("cache-control", "no-cache"), ("transfer-encoding", "chunked")]
        await self._send(h11.Response(status_code=200, headers=self._with(headers, request_id)), h11.Data(data=first))
        self._counted(len(first))

    async def events(self, part: bytes) -> None:
        """Bytes of the stream, at once."""
        await self._send(h11.Data(data=part))
        self._counted(len(part))

    async def end_events(self) -> None:
        """The stream's end."""
        await self._send(h11.EndOfMessage())

    def abort(self) -> None:
        """End without an end: the client must not take the answer for whole."""
        self._writer.transport.abort() if self._writer.transport.get_write_buffer_size() == 0 else self._writer.close()
        self._connection.send_failed()

    def _with(self, headers: list[tuple[str, str]], request_id: str) -> list[tuple[str, str]]:
        return [*headers, *self._shared, *([("x-request-id", request_id)] if request_id else [])]

    async def _send(self, *parts: h11.Event) -> None:
        self._writer.write(b"".join(self._connection.send(part) or b"" for part in parts))
        await self._writer.drain()


async def _request(connection: h11.Connection, reader: asyncio.StreamReader) -> tuple[h11.Request | None, bytes]:
    """The next request and its body; None when the client is done. A body above the limit is read and dropped."""
    request: h11.Request | None = None
    body = bytearray()
    while True:
        event = connection.next_event()
        if event is h11.NEED_DATA:
            if connection.they_are_waiting_for_100_continue:
                connection.send(h11.InformationalResponse(status_code=100, headers=[]))
            connection.receive_data(await reader.read(_CHUNK))
        elif isinstance(event, h11.Request):
            request = event
        elif isinstance(event, h11.Data):
            if len(body) <= _BODY_LIMIT:
                body += event.data
        elif isinstance(event, h11.EndOfMessage):
            return request, bytes(body)
        else:
            return None, b""


def _refused(request: h11.Request, body: bytes) -> Problem | None:
    """A page of the web must not spend the operator's money: only this machine's names, and no foreign origin."""
    host = urlsplit(f"//{_header(request, b'host')}").hostname or ""
    origin = _header(request, b"origin")
    if host not in _LOOPBACK or (origin and urlsplit(origin).hostname not in _LOOPBACK):
        return problem(403, "only requests from this machine are served", "permission_error", "foreign_origin")
    if len(body) > _BODY_LIMIT:
        return problem(413, f"SageMaker takes at most {_BODY_LIMIT} bytes in a request", code="too_large")
    return None


def _shared_with(request: h11.Request) -> list[tuple[str, str]]:
    """Headers that let a page of this machine read the answer. One from elsewhere was refused before."""
    origin = _header(request, b"origin")
    if not origin or urlsplit(origin).hostname not in _LOOPBACK:
        return []
    return [("access-control-allow-origin", origin), ("access-control-expose-headers", "x-request-id"), ("vary", "origin")]


def _header(request: h11.Request, name: bytes) -> str:
    return next((value.decode("latin-1") for key, value in request.headers if key == name), "")


def _whole(parts: Iterator[bytes]) -> tuple[int, dict[str, Any]]:
    """Status and document of a completion that was streamed to us."""
    try:
        document = assemble(events(parts))
    except NotAStream as error:
        return _model_said(error.body)
    except CutStream as error:
        return 502, problem(502, str(error), "server_error", "cut").body
    if "error" in document or document.get("object") == "error":
        return _model_said(json.dumps(document).encode())
    document.setdefault("created", int(time.time()))
    return 200, document


def _model_said(body: bytes) -> tuple[int, dict[str, Any]]:
    """What the model answered instead of a stream: its error with its own code, or a plain completion."""
    try:
        document = json.loads(body)
    except ValueError:
        return 502, problem(502, f"the model answered {body[:200]!r}", "server_error", "no_json").body
    inner = document.get("error", document) if isinstance(document, dict) else {}
    if isinstance(document, dict) and ("error" in document or document.get("object") == "error"):
        code = inner.get("code") if isinstance(inner, dict) else None
        status = code if isinstance(code, int) and 400 <= code < 600 else 400
        return status, document if "error" in document else {"error": document}
    return 200, document
