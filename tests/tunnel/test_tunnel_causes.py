"""One verdict per cause: what happened, what to do, and the exit code."""

from __future__ import annotations

import asyncio
import errno
import socket
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from flexserve.tunnel import ends, listener
from flexserve.tunnel.dial import open_tunnel, tunnel
from flexserve.tunnel.iap import codes, proxy, urls
from flexserve.tunnel.iap.codes import After
from flexserve.tunnel.limits import Limits
from flexserve.tunnel.options import Options
from infra.access import Ssm
from rehearsal.relay import tls
from verdict.errors import BadConfig, FlexserveError, Gone, NoAccess, TimedOut
from verdict.exit_codes import ExitCode

pytestmark = pytest.mark.anyio

CAUSES = [
    ("vm-close4003", 8000, FlexserveError, "nothing answers on port 8000 of vm-close4003"),
    ("vm", 9999, FlexserveError, "nothing answers on port 9999 of vm"),
    ("vm-close4033", 8000, NoAccess, "may not open a tunnel"),
    ("vm-http403", 8000, NoAccess, "may not open a tunnel"),
    ("vm-http401", 8000, NoAccess, "refused the access token"),
    ("missing", 8000, FlexserveError, "there is no instance missing in us-central1-a"),
    ("vm-http404", 8000, FlexserveError, "no instance vm-http404"),
    ("vm-silent", 8000, TimedOut, "then said nothing"),
    ("vm-garbageearlydata", 8000, FlexserveError, "broke the protocol"),
    ("vm-frag", 8000, FlexserveError, "broke the protocol"),
]


@pytest.mark.parametrize(("instance", "port", "error", "text"), CAUSES)
async def test_the_check_names_the_cause(world, instance, port, error, text) -> None:
    with pytest.raises(error) as caught:
        async with open_tunnel(world.access(instance, port), options=world.options()):
            pass
    assert text in caught.value.what
    assert caught.value.way_out
    assert "listening" not in world.kinds()


async def test_nothing_listens_yet_is_retried_to_a_deadline_and_shows_the_phase(world, monkeypatch) -> None:
    monkeypatch.setattr("flexserve.tunnel.iap.tunnel._RETRY_S", 0.05)
    options = world.options(wait_s=1.5, boot_phase=lambda: "weights")
    with pytest.raises(FlexserveError) as caught:
        async with open_tunnel(world.access("vm", 9999), options=options):
            pass
    assert "phase weights" in caught.value.why
    assert world.kinds().count("waiting") > 1
    assert world.last("waiting")["phase"] == "weights"


async def test_no_permission_is_not_retried(world) -> None:
    with pytest.raises(NoAccess):
        async with open_tunnel(world.access("vm-close4033"), options=world.options(wait_s=60)):
            pass
    assert "waiting" not in world.kinds()


async def test_expired_wins_over_every_other_cause(world) -> None:
    options = world.options(expired=lambda: datetime(2026, 1, 2, 3, 4, tzinfo=UTC))
    with pytest.raises(Gone) as caught:
        async with open_tunnel(world.access("missing"), options=options):
            pass
    assert caught.value.exit_code == ExitCode.GONE
    assert "expired at " in caught.value.what


async def test_a_window_that_closes_ends_the_running_tunnel(world) -> None:
    closed: list[datetime] = []
    options = world.options(expired=lambda: closed[0] if closed else None)
    async with open_tunnel(world.access("vm-cl4051up10"), options=options) as opened:
        closed.append(datetime.now(UTC))
        reader, writer = await asyncio.open_connection("127.0.0.1", opened.port)
        writer.write(b"echo\n" + b"x" * 100)
        with pytest.raises(ConnectionResetError):
            while await reader.read(100):
                pass
        async with asyncio.timeout(5):
            assert isinstance(await opened.over, Gone)
    assert "expired" in world.kinds()


async def test_an_idle_tunnel_ends_when_the_machine_goes(world) -> None:
    """No connection breaks: the cloud is asked now and then."""
    answers = iter([None, None])
    options = world.options(expired=lambda: next(answers, datetime(2026, 1, 2, 3, 4, tzinfo=UTC)))
    options = replace(options, limits=replace(options.limits, look_s=0.01, ask_s=0.02))
    async with open_tunnel(world.access("vm"), options=options) as opened, asyncio.timeout(20):
        assert (await opened.over).what.startswith("expired at ")
    assert "expired" in world.kinds()


async def test_the_cloud_is_not_asked_before_it_is_time() -> None:
    """Neither the recorded end has passed nor the interval; once the end has, it is asked at each look."""
    asked: list[datetime] = []
    limits = Limits(look_s=0.005, ask_s=3600)
    options = Options(
        limits=limits, expires_at=datetime.now(UTC) + timedelta(hours=1), expired=lambda: asked.append(datetime.now(UTC))
    )
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(ends.Ends(options).until_gone(), 0.2)
    assert asked == []
    over = replace(options, expires_at=datetime.now(UTC), expired=lambda: datetime(2026, 1, 2, 3, 4, tzinfo=UTC))
    async with asyncio.timeout(20):
        assert (await ends.Ends(over).until_gone()).what.startswith("expired at ")


async def test_a_permission_taken_away_ends_the_running_tunnel(world) -> None:
    async with open_tunnel(world.access("vm-cl4033up10"), options=world.options()) as opened:
        reader, writer = await asyncio.open_connection("127.0.0.1", opened.port)
        writer.write(b"echo\n" + b"x" * 100)
        with pytest.raises(ConnectionResetError):
            while await reader.read(100):
                pass
        async with asyncio.timeout(5):
            assert isinstance(await opened.over, NoAccess)


async def test_a_busy_port_is_known_before_anything_is_dialled(world) -> None:
    before = len(world.relay.requests)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(listener.PortInUse) as caught:
            async with open_tunnel(world.access(), port=port, options=world.options()):
                pass
    assert f"port {port}" in caught.value.what
    assert "(pid " in caught.value.what
    assert len(world.relay.requests) == before


def test_the_holder_is_found_beside_descriptors_that_were_closed_meanwhile(tmp_path) -> None:
    """A process opens and closes files while it is looked at; ours does, by looking."""
    (tmp_path / "net").mkdir()
    (tmp_path / "net" / "tcp").write_text("head\n 0: 0100007F:1F90 00000000:0000 0A 0:0 0:0 0 0 0 77 1\n")
    descriptors = tmp_path / "42" / "fd"
    descriptors.mkdir(parents=True)
    (tmp_path / "42" / "cmdline").write_text("server\0")
    (descriptors / "3").symlink_to("socket:[77]")

    class Closed(type(descriptors)):  # type: ignore[misc]
        def readlink(self) -> Path:
            raise FileNotFoundError

    assert listener._link(Closed(descriptors / "4")) == ""
    assert listener.holder(0x1F90, tmp_path) == "server (pid 42)"


async def test_two_tunnels_never_share_a_port(world) -> None:
    async with open_tunnel(world.access(), options=world.options()) as first:
        with pytest.raises(listener.PortInUse):
            async with open_tunnel(world.access(), port=first.port, options=world.options()):
                pass


def test_a_port_below_1024_without_rights_is_named(monkeypatch) -> None:
    def forbidden(self: socket.socket, address: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(socket.socket, "bind", forbidden)
    with pytest.raises(listener.PortForbidden) as caught:
        listener.bind(80)
    assert caught.value.as_dict()["error"]["kind"] == "port-forbidden"


@pytest.mark.parametrize("port", [-1, 65536])
def test_a_port_that_cannot_be(port) -> None:
    with pytest.raises(BadConfig):
        listener.bind(port)


async def test_a_relay_that_is_not_there(world, monkeypatch) -> None:
    monkeypatch.setattr("flexserve.tunnel.iap.tunnel._PASSING_S", 0.2)
    monkeypatch.setattr("flexserve.tunnel.iap.tunnel._RETRY_S", 0.05)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with pytest.raises(FlexserveError) as caught:
        async with open_tunnel(world.access(), url=f"wss://127.0.0.1:{port}/v4", options=world.options()):
            pass
    assert (caught.value.what, caught.value.kind) == ("the relay cannot be reached", "unreachable")
    assert caught.value.why == f"127.0.0.1:{port}: Connection refused"


async def test_what_cannot_be_reached_is_named_with_the_variable_that_named_it(world, monkeypatch) -> None:
    monkeypatch.setattr("flexserve.tunnel.iap.tunnel._PASSING_S", 0.0)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]

    async def told() -> FlexserveError:
        with pytest.raises(FlexserveError) as caught:
            async with open_tunnel(world.access(), options=replace(world.options(), url=None)):
                pass
        return caught.value

    monkeypatch.setenv("FLEXSERVE_IAP_URL", f"wss://127.0.0.1:{port}/v4")
    assert (await told()).why == f"127.0.0.1:{port}, from FLEXSERVE_IAP_URL: Connection refused"
    for variable in ("ALL_PROXY", "https_proxy"):
        monkeypatch.setenv(variable, f"http://me:secret@127.0.0.1:{port}")
        monkeypatch.setenv("FLEXSERVE_IAP_URL", "wss://relay.test/v4")
        error = await told()
        assert (error.what, error.kind) == ("the HTTP proxy before the relay cannot be reached", "proxy-unreachable")
        assert error.why == f"127.0.0.1:{port}, from {variable}: Connection refused"


def test_only_what_the_relay_said_is_told_as_its_word(world) -> None:
    def why(ending: codes.Ending, code: int = 0) -> str:
        return codes.TunnelFailure(ending, "words", code).error(world.access()).why

    assert why(codes.of_close(4003)) == "the relay said: words (4003)"
    assert why(codes.of_close(1011), 1011) == "the relay said: words (1011)"
    assert why(codes.of_status(403)) == "the relay said: words (403)"
    ours = (codes.UNREACHABLE, codes.PROXY_UNREACHABLE, codes.PROXY, codes.UNTRUSTED, codes.PROTOCOL, codes.SILENT)
    assert {why(ending) for ending in (*ours, codes.of_status(407))} == {"words"}


async def test_a_relay_with_an_unknown_certificate(world) -> None:
    import ssl

    with pytest.raises(FlexserveError) as caught:
        async with open_tunnel(world.access(), ssl=ssl.create_default_context(), options=world.options()):
            pass
    assert "certificate is not trusted" in caught.value.what
    assert "SSL_CERT_FILE" in caught.value.way_out


async def test_no_token_at_all(world, monkeypatch, tmp_path) -> None:
    for name in ("GOOGLE_OAUTH_ACCESS_TOKEN", "CLOUDSDK_AUTH_ACCESS_TOKEN", "CLOUDSDK_AUTH_ACCESS_TOKEN_FILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "none.json"))
    monkeypatch.setenv("NO_GCE_CHECK", "true")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(NoAccess) as caught:
        async with open_tunnel(world.access(), options=world.options(token=None)):
            pass
    assert "no access token" in caught.value.what
    for word in ("application-default", "GOOGLE_APPLICATION_CREDENTIALS", "GOOGLE_IMPERSONATE_SERVICE_ACCOUNT"):
        assert word in caught.value.way_out


async def test_an_account_that_may_not_be_impersonated_is_named(world, monkeypatch) -> None:
    import google.auth.exceptions

    class Refusing:
        valid = False

        def refresh(self, request: object) -> None:
            raise google.auth.exceptions.RefreshError("Unable to acquire impersonated credentials")

    for name in ("GOOGLE_OAUTH_ACCESS_TOKEN", "CLOUDSDK_AUTH_ACCESS_TOKEN", "CLOUDSDK_AUTH_ACCESS_TOKEN_FILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("GOOGLE_IMPERSONATE_SERVICE_ACCOUNT", "box@acme-1.iam.gserviceaccount.com")
    monkeypatch.setattr("flexserve.tunnel.iap.auth._credentials", Refusing)
    with pytest.raises(NoAccess) as caught:
        async with open_tunnel(world.access(), options=world.options(token=None)):
            pass
    assert "roles/iam.serviceAccountTokenCreator on box@acme-1.iam.gserviceaccount.com" in caught.value.way_out


def test_another_access_has_no_opener_here_or_says_what_it_needs() -> None:
    with pytest.raises(FlexserveError), tunnel(Ssm("us-east-1", "i-0123456789abcdef0")):
        pass


@pytest.mark.parametrize("url", ["ws://relay.test/v4", "https://relay.test", "relay.test", "wss://"])
def test_a_relay_url_that_would_send_the_token_in_the_clear(url) -> None:
    with pytest.raises(BadConfig):
        urls.relay_root(url)


@pytest.mark.parametrize(
    ("url", "root"),
    [("wss://a.test", "wss://a.test/v4"), ("wss://a.test:1/", "wss://a.test:1/v4"), ("wss://a.test/x/", "wss://a.test/x")],
)
def test_a_relay_url_without_a_path_gets_the_protocols(url, root) -> None:
    assert urls.relay_root(url) == root


def test_urls_are_in_the_order_that_the_relay_sees_from_gcloud(world) -> None:
    assert urls.connect_url("wss://r/v4", world.access("vm", 80)) == (
        "wss://r/v4/connect?project=demo-project&port=80&newWebsocket=True&zone=us-central1-a&instance=vm&interface=nic0"
    )
    assert urls.reconnect_url("wss://r/v4", world.access(), "a/b", 12) == (
        "wss://r/v4/reconnect?sid=a%2Fb&ack=12&newWebsocket=True&zone=us-central1-a"
    )


FINAL = (1000, 4001, 4002, 4003, *range(4005, 4011), 4013, 4033, 4047, 4051, 4074)


@pytest.mark.parametrize("code", [*FINAL, 4004, 0, 1001, 1006, 1011, 4000, 4080, 4999])
def test_final_codes_end_and_everything_else_is_resumed(code) -> None:
    resumable = codes.of_close(code).after in (After.RESUME, After.RESUME_FRESH_TOKEN)
    assert resumable == (code not in FINAL)


@pytest.mark.parametrize(("status", "resumed"), [(400, False), (403, False), (418, False), (429, True), (500, True), (503, True)])
def test_http_refusals(status, resumed) -> None:
    assert (codes.of_status(status).after is After.RESUME) == resumed


def test_every_cause_can_be_told(world) -> None:
    for ending in codes.ENDINGS:
        error = codes.TunnelFailure(ending, "said").error(world.access())
        assert "{" not in str(error)
        assert error.way_out or ending.code == 1000


def test_proxies_are_http_only(monkeypatch) -> None:
    assert proxy.proxy_for("wss://relay.test/v4") is None
    monkeypatch.setenv("HTTPS_PROXY", "proxy.test:3128")
    found = proxy.proxy_for("wss://relay.test/v4")
    assert (found.url, found.variable) == ("http://proxy.test:3128", "HTTPS_PROXY")
    monkeypatch.setenv("NO_PROXY", "relay.test")
    assert proxy.proxy_for("wss://relay.test/v4") is None
    monkeypatch.delenv("NO_PROXY")
    monkeypatch.setenv("HTTPS_PROXY", "socks5://user:secret@proxy.test:1080")
    with pytest.raises(BadConfig) as caught:
        proxy.proxy_for("wss://relay.test/v4")
    assert "secret" not in str(caught.value)


def test_the_blocking_form_serves_and_leaves_nothing(world) -> None:
    with tunnel(world.access(), options=world.options()) as opened:
        with socket.create_connection(("127.0.0.1", opened.port)) as client:
            client.sendall(b"echo\nhello")
            assert client.recv(5) == b"hello"
        assert opened.base_url == f"http://127.0.0.1:{opened.port}/v1"
        assert opened.stats().connections == 1
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", opened.port))
    deadline = time.monotonic() + 5
    while world.relay.sessions and time.monotonic() < deadline:
        time.sleep(0.02)
    assert world.relay.sessions == 0


def test_the_blocking_form_raises_the_cause(world) -> None:
    with pytest.raises(NoAccess), tunnel(world.access("vm-close4033"), options=world.options()):
        pass


@pytest.mark.parametrize("trusted", ["ours", "another", "none", "another name"])
def test_a_relay_whose_certificate_is_not_trusted_is_refused(world, monkeypatch, tmp_path, trusted) -> None:
    """With the context that the product makes: it says about itself what its library asks, and verifies all the same."""
    another, _ = tls.make(tmp_path)
    empty = tmp_path / "empty.pem"
    empty.write_text("")
    files = {"ours": world.relay.ca_file, "another name": world.relay.ca_file, "another": another, "none": empty}
    monkeypatch.setenv("SSL_CERT_FILE", str(files[trusted]))
    monkeypatch.setenv("SSL_CERT_DIR", str(tmp_path))
    options = replace(world.options(), ssl=None)
    if trusted == "another name":  # a name that the certificate does not have, at the relay's address
        options = replace(options, url=world.relay.url.replace("localhost", "relay.test"))
        monkeypatch.setattr("flexserve.tunnel.iap.transport.Dialer._connected_socket", _to(world.relay.port))
    if trusted == "ours":
        with tunnel(world.access(), options=options) as opened:
            assert opened.port
        return
    with pytest.raises(FlexserveError) as caught, tunnel(world.access(), options=options):
        pass
    assert "certificate" in caught.value.what


def _to(port: int):
    async def connected(self: object, target: object) -> socket.socket:
        client = socket.create_connection(("127.0.0.1", port))
        client.setblocking(False)
        return client

    return connected
