"""A cloud that cannot be asked, a way that is gone: told once, with the cause, and again when it is over. Nothing ends by it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import httpx
import pytest

from flexserve.tunnel import ends
from flexserve.tunnel.dial import open_tunnel, tunnel
from flexserve.tunnel.events import Event
from flexserve.tunnel.iap import auth
from flexserve.tunnel.limits import Limits
from flexserve.tunnel.options import Options
from infra.access import Access, Iap, SageMaker, Ssm
from infra.clouds import http
from rehearsal.relay import Relay
from rehearsal.relay.server import UNTRUSTED
from rehearsal.ssm import Service
from tests.tunnel.backend import Backend
from tests.tunnel.conftest import LIMIT_S, SHORT, until
from tests.tunnel.fake_runtime import FakeRuntime
from tests.tunnel.test_tunnel_ssm import install
from verdict.errors import FlexserveError, Gone, NoAccess

QUICK = Limits(look_s=0.01, ask_s=0.02, answer_s=5)


class Cloud:
    """An API that says whether the machine exists, on a port of its own; `up` and `down` at will. Asked by the product's client."""

    def __init__(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        self._server: ThreadingHTTPServer | None = None

    def up(self) -> None:
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", self.port), Handler)
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()

    def down(self) -> None:
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None

    def expired(self) -> None:
        with http.client(trust_env=False) as client:
            http.ask(client, "GET", f"http://127.0.0.1:{self.port}/", tries=1)


@pytest.fixture
def cloud() -> Iterator[Cloud]:
    made = Cloud()
    made.up()
    yield made
    made.down()


@contextmanager
def iap(folder, monkeypatch) -> Iterator[tuple[Access, dict[str, object]]]:
    import ssl

    with Backend() as backend, Relay(backend.connect) as relay:
        context = ssl.create_default_context(cafile=str(relay.ca_file))
        yield Iap("demo-project", "us-central1-a", "vm", 8000), {"url": relay.url, "ssl": context, "token": "a-token"}


@contextmanager
def ssm(folder, monkeypatch) -> Iterator[tuple[Access, dict[str, object]]]:
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    with Backend() as backend, Service(lambda *_: socket.create_connection(("127.0.0.1", backend.port))) as service:
        install(folder, backend.port)
        yield Ssm("us-east-1", "i-0123456789abcdef0"), {"url": service.url}


@contextmanager
def sagemaker(folder, monkeypatch) -> Iterator[tuple[Access, dict[str, object]]]:
    with FakeRuntime() as runtime:
        yield SageMaker("us-east-1", "ok", "m"), {"url": runtime.url}


@pytest.fixture(autouse=True)
def aws(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {
        "ACCESS_KEY_ID": "AKIDEXAMPLE",
        "SECRET_ACCESS_KEY": "a-secret-key",
        "EC2_METADATA_DISABLED": "true",
    }.items():
        monkeypatch.setenv(f"AWS_{name}", value)


def wait(condition: Callable[[], bool]) -> bool:
    stop = time.monotonic() + 60
    while not condition() and time.monotonic() < stop:
        time.sleep(0.01)
    return condition()


@pytest.mark.parametrize("form", [iap, ssm, sagemaker])
def test_a_cloud_that_cannot_be_asked_is_told_once_a_spell_and_ends_nothing(form, cloud, tmp_path, monkeypatch) -> None:
    told: list[Event] = []

    def spells() -> list[str]:
        return [event.kind for event in told if event.kind in ("unanswered", "answered")]

    with form(tmp_path, monkeypatch) as (access, more):
        options = Options(expired=cloud.expired, on_event=told.append, limits=QUICK, **more)
        with tunnel(access, options=options) as opened:
            for spell in (1, 2):
                cloud.down()
                assert wait(lambda spell=spell: len(spells()) == 2 * spell - 1)
                time.sleep(0.2)  # asked some times more in that spell
                cloud.up()
                assert wait(lambda spell=spell: len(spells()) == 2 * spell)
            assert not opened.over.done()
    assert spells() == ["unanswered", "answered"] * 2
    first = next(event for event in told if event.kind == "unanswered")
    assert "127.0.0.1 does not answer" in str(first.fields["why"]) and first.fields["way_out"]


@pytest.mark.anyio
async def test_a_cloud_that_takes_the_question_and_says_nothing_is_told_and_holds_no_end_up() -> None:
    told, asked, release = [], [], threading.Event()

    def expired() -> None:
        asked.append(1)
        release.wait(60)

    with socket.create_server(("127.0.0.1", 0)):
        seen = ends.Ends(Options(expired=expired, on_event=told.append, limits=replace(QUICK, answer_s=0.05, look_s=3600)))
        async with seen.watched(lambda _: None):
            assert await seen.gone() is None
            assert await seen.gone() is None
    assert [event.kind for event in told] == ["unanswered"] and "no answer within 0.05 s" in str(told[0].fields["why"])
    assert len(asked) == 2  # both still wait, in threads that hold nothing up
    release.set()


@pytest.mark.anyio
@pytest.mark.parametrize(
    "error", [NoAccess("no login", why="it expired", way_out="log in"), ValueError(), OSError("no network"), SystemExit(3)]
)
async def test_whatever_is_raised_is_no_end_and_gone_is_one(error) -> None:
    told: list[Event] = []

    def expired() -> None:
        raise error

    options = Options(expired=expired, on_event=told.append)
    seen = ends.Ends(options)
    async with seen.watched(lambda _: None):
        assert await seen.gone() is None
    assert [event.kind for event in told] == ["unanswered"] and told[0].fields["why"]
    reclaimed = Gone("the machine was reclaimed")

    def gone() -> None:
        raise reclaimed

    assert await ends.Ends(replace(options, expired=gone)).gone() is reclaimed


@pytest.mark.anyio
async def test_the_relays_word_is_told_when_the_cloud_cannot_be_asked(world) -> None:
    """Before, the cloud's silence took the place of the cause."""

    def expired() -> None:
        raise OSError("no network")

    with pytest.raises(NoAccess) as caught:
        async with open_tunnel(world.access("vm-close4033"), options=world.options(expired=expired)):
            pass
    assert "may not open a tunnel" in caught.value.what
    assert caught.value.why.endswith("whether the machine still exists is not known: no network")
    assert "unanswered" not in world.kinds()  # no tunnel stays that could be told of it
    async with open_tunnel(world.access("vm-cl4033up10"), options=world.options(expired=expired)) as opened:
        reader, writer = await asyncio.open_connection("127.0.0.1", opened.port)
        writer.write(b"echo\n" + b"x" * 100)
        with contextlib.suppress(ConnectionResetError):
            await reader.read()
        async with asyncio.timeout(20):
            assert isinstance(await opened.over, NoAccess)


@pytest.mark.anyio
@pytest.mark.parametrize("instance", ["vm-close4003", "vm-close4033"])
async def test_a_cloud_that_says_nothing_holds_up_no_error_that_it_could_explain(world, instance) -> None:
    """Neither the question whether the machine has gone, nor that for its boot's phase, while nothing listens there yet."""
    release, asked = threading.Event(), []

    def silent(what: str) -> None:
        asked.append(what)
        release.wait(LIMIT_S)

    limits = replace(SHORT, open_s=0.1, answer_s=LIMIT_S, hint_s=0.05)
    options = world.options(limits=limits, expired=lambda: silent("gone"), boot_phase=lambda: silent("phase"))
    async with asyncio.timeout(LIMIT_S / 2):
        with pytest.raises(FlexserveError) as error:
            async with open_tunnel(world.access(instance), options=options):
                pass
    release.set()
    assert "gone" in asked and "no answer within 0.05 s" in str(error.value.why)


@pytest.mark.anyio
async def test_a_relay_that_is_gone_is_told_on_the_first_failed_connection_and_once(tmp_path) -> None:
    """Also to a client that does not wait for the end of the tries; and again once it is back. The tunnel stays."""
    import ssl

    told: list[Event] = []
    with Backend() as backend:
        relay = Relay(backend.connect, folder=tmp_path).start()
        context = ssl.create_default_context(cafile=str(relay.ca_file))
        options = Options(url=relay.url, ssl=context, token="a-token", on_event=told.append, limits=SHORT, ahead=False)
        async with open_tunnel(Iap("demo-project", "us-central1-a", "vm", 8000), options=options) as opened:
            await asyncio.to_thread(relay.stop)
            await until(lambda: opened._spare is None or not opened._spare.usable)
            for _ in range(2):
                reader, writer = await asyncio.open_connection("127.0.0.1", opened.port)
                writer.write(b"echo\nhello")
                assert await until(lambda: any(event.kind == "unreachable" for event in told), 20)
                writer.close()
            back = Relay(backend.connect, folder=tmp_path, port=relay.port).start()
            context.load_verify_locations(cafile=str(back.ca_file))
            reader, writer = await asyncio.open_connection("127.0.0.1", opened.port)
            writer.write(b"echo\nhello")
            assert await asyncio.wait_for(reader.readexactly(5), 20) == b"hello"
            writer.close()
            assert not opened.over.done()
        back.stop()
    kinds = [event.kind for event in told if event.kind in ("unreachable", "reachable")]
    assert kinds == ["unreachable", "reachable"]
    lost = next(event.fields for event in told if event.kind == "unreachable")
    assert lost["cause"] == "unreachable" and "refused" in str(lost["detail"]).lower() and lost["way_out"]


@pytest.mark.anyio
async def test_a_client_that_does_not_trust_the_local_relay_is_told_by_it_on_one_line(tmp_path, monkeypatch, capfd) -> None:
    """Each broken handshake was a page of a traceback, which could not be printed at that, on the terminal of a held rehearsal."""
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    with Backend() as backend, Relay(backend.connect, folder=tmp_path) as relay:
        for _ in range(2):
            with pytest.raises(FlexserveError, match="certificate is not trusted"):
                options = Options(url=relay.url, token="a-token")
                async with open_tunnel(Iap("demo-project", "us-central1-a", "vm", 8000), options=options):
                    pass
        said: list[str] = []
        assert await until(lambda: bool(said.extend(capfd.readouterr().err.splitlines()) or said), 20)
        await asyncio.sleep(0.1)
        said += capfd.readouterr().err.splitlines()
    assert said == [UNTRUSTED]


@pytest.mark.anyio
async def test_a_client_that_leaves_before_a_silent_relay_has_failed_is_told_too(world) -> None:
    limits = replace(SHORT, confirm_s=30)
    async with open_tunnel(world.access(), options=world.options(limits=limits, ahead=False)) as opened:
        opened._drop_spare()
        opened._dialer._connect_url = opened._dialer._connect_url.replace("vm", "vm-silent")
        _, writer = await asyncio.open_connection("127.0.0.1", opened.port)
        await asyncio.sleep(1.3)
        assert "unreachable" not in world.kinds()
        writer.close()
        assert await until(lambda: "unreachable" in world.kinds(), 20)
    assert "without a link" in str(world.last("unreachable")["detail"])


def test_an_endpoint_that_no_call_reaches_is_told_once_and_so_is_its_return() -> None:
    told: list[Event] = []
    chat = {"messages": [{"role": "user", "content": "x"}]}
    with FakeRuntime() as runtime:
        url = runtime.url
    options = Options(on_event=told.append, url=url)
    with tunnel(SageMaker("us-east-1", "ok", "m"), options=options) as opened, httpx.Client(base_url=opened.base_url) as client:
        for stream in (False, True):
            assert client.post("/chat/completions", json={**chat, "stream": stream}, timeout=60).status_code == 502
        with FakeRuntime(port=int(url.rpartition(":")[2])):
            for stream in (True, False):
                assert client.post("/chat/completions", json={**chat, "stream": stream}, timeout=60).status_code == 200
    kinds = [event.kind for event in told if event.kind in ("unreachable", "reachable")]
    assert kinds == ["unreachable", "reachable"]
    assert "not reached" in str(next(event.fields["why"] for event in told if event.kind == "unreachable"))


@pytest.mark.parametrize(
    ("endpoint", "told_of"),
    [("error-AccessDeniedException-403", True), ("error-ValidationError-400", True), ("error-ThrottlingException-429", False),
     ("error-ModelError-424", False)],
)  # fmt: skip
def test_a_refusal_that_every_call_meets_is_told_and_one_of_the_request_is_not(endpoint, told_of) -> None:
    told: list[str] = []
    with FakeRuntime() as runtime:
        options = Options(url=runtime.url, on_event=lambda event: told.append(event.kind))
        with tunnel(SageMaker("us-east-1", endpoint, "m"), options=options) as opened:
            httpx.post(f"{opened.base_url}/chat/completions", json={"messages": []}, timeout=60)
    assert ("unreachable" in told) == told_of


def test_a_session_that_cannot_be_opened_again_is_told_with_its_cause(tmp_path, monkeypatch, capfd) -> None:
    """And a cloud that cannot be asked then is no unhandled error of ours."""
    told: list[Event] = []

    def expired() -> None:
        raise OSError("no network")

    with ssm(tmp_path, monkeypatch) as (access, more):
        install(tmp_path, 0, once=True)  # the plugin ends under its first client
        options = Options(expired=expired, on_event=told.append, **more)
        manager = tunnel(access, options=options)
        opened = manager.__enter__()
    try:
        for _ in range(2):
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", opened.port), timeout=60) as client:
                client.sendall(b"echo\n")
                client.recv(10)
        assert wait(lambda: sum(event.kind == "reset" for event in told) >= 2)
        assert not opened.over.done()
    finally:
        manager.__exit__(None, None, None)
    resets = [str(event.fields["why"]) for event in told if event.kind == "reset"]
    assert "no session to i-0123456789abcdef0: " in resets[1]
    assert [event.kind for event in told if event.kind == "unanswered"] == ["unanswered"]
    assert "nhandled" not in capfd.readouterr().err


@pytest.mark.anyio
async def test_a_token_that_nobody_answers_for_is_waited_for(world, monkeypatch) -> None:
    """A machine that wakes up has no network for a while: that is no missing permission, and ends no tunnel."""
    import google.auth.exceptions

    answers: list[object] = ["a-token", google.auth.exceptions.TransportError("no route to host"), "a-token"]

    class Credentials:
        valid = False
        token = "a-token"

        def refresh(self, _: object) -> None:
            answer = answers.pop(0) if len(answers) > 1 else answers[0]
            if isinstance(answer, Exception):
                raise answer

    monkeypatch.setattr(auth, "_credentials", Credentials)
    monkeypatch.setattr(auth, "given", lambda: "")
    options = replace(world.options(ahead=False), token=None)
    async with open_tunnel(world.access(), options=options) as opened:
        opened._drop_spare()
        reader, writer = await asyncio.open_connection("127.0.0.1", opened.port)
        writer.write(b"echo\nhello")
        assert await asyncio.wait_for(reader.readexactly(5), 20) == b"hello"
        writer.close()
        assert not opened.over.done()
    assert world.last("unreachable")["cause"] == "token-unreachable" and "reachable" in world.kinds()


@pytest.mark.parametrize("words", [(), ("stdin",), ("json",), ("stdin", "json")])
def test_the_command_says_it_on_one_line_and_stays(started, words) -> None:
    process = started("vm", "unanswered", "quick", *words, stdin=subprocess.PIPE)
    stream = process.stdout if words == ("json",) else process.stderr
    for line in iter(stream.readline, b""):
        told = line.decode()
        if "unanswered" in told or "cannot be asked" in told:
            break
    if "json" in words:
        assert json.loads(told)["event"] == "unanswered"
    else:
        assert told.startswith("the cloud cannot be asked whether the machine still exists, the tunnel stays: 127.0.0.1 does not")
    time.sleep(0.5)
    assert process.poll() is None
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 130 and b"cannot be asked" not in err and b"unanswered" not in out + err
