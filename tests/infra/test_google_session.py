"""The operator's token and network settings, odd as they may be: a sentence with the way out, and never the token in it."""

import json
import socket

import httpx
import pytest

from infra.clouds.google import token as tokens
from infra.clouds.google.session import Session
from infra.clouds.http import NoNetwork, ask, client
from verdict.errors import BadConfig, FlexserveError, NoAccess

VALUE = "secret-part-of-it"


@pytest.mark.parametrize(
    "text", [f"warning: x\n{VALUE}", f"{VALUE}\n{VALUE}", f"{VALUE} {VALUE}", f"{VALUE}\u00f6", f"{VALUE}\x00", f"{VALUE}\r{VALUE}"]
)
def test_what_no_header_can_carry_is_no_token_and_is_not_repeated(tmp_path, text):
    (tmp_path / "token").write_text(text, encoding="utf-8")
    for environ in ({"GOOGLE_OAUTH_ACCESS_TOKEN": text}, {"CLOUDSDK_AUTH_ACCESS_TOKEN_FILE": str(tmp_path / "token")}):
        with pytest.raises(NoAccess, match="holds no access token") as error:
            Session(environ=environ).call("compute", "GET", "projects/p")
        assert VALUE not in str(error.value)


def test_the_environments_token(tmp_path):
    (tmp_path / "token").write_text("third\n", encoding="utf-8")
    environ = {"CLOUDSDK_AUTH_ACCESS_TOKEN_FILE": str(tmp_path / "token")}
    assert tokens.given({}) == ""
    assert tokens.given(environ) == "third"
    assert tokens.given({**environ, "CLOUDSDK_AUTH_ACCESS_TOKEN": " second\n"}) == "second"
    assert tokens.given({**environ, "CLOUDSDK_AUTH_ACCESS_TOKEN": "second", "GOOGLE_OAUTH_ACCESS_TOKEN": "first"}) == "first"
    with pytest.raises(NoAccess, match="cannot be read"):
        tokens.given({"CLOUDSDK_AUTH_ACCESS_TOKEN_FILE": str(tmp_path)})


@pytest.mark.parametrize(
    "content", [None, "", "[]", "7", "{", "{}", '{"type": "service_account"}', '{"type": "authorized_user", "client_id": 7}']
)
def test_an_odd_file_of_credentials_is_no_access(tmp_path, monkeypatch, content):
    file = tmp_path if content is None else tmp_path / "credentials.json"
    if content is not None:
        file.write_text(content, encoding="utf-8")
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(file))
    with pytest.raises(NoAccess, match="no Google credentials") as error:
        tokens.from_google({})
    assert error.value.way_out and error.value.exit_code == 5


def test_a_sign_in_that_does_not_answer_is_no_network(tmp_path, monkeypatch):
    """It is waited for; lacking credentials are not."""
    with socket.create_server(("127.0.0.1", 0)) as closed:
        nobody = f"http://127.0.0.1:{closed.getsockname()[1]}/token"
    user = {"type": "authorized_user", "client_id": "c", "client_secret": "s", "refresh_token": "r", "token_uri": nobody}
    (tmp_path / "user.json").write_text(json.dumps(user), encoding="utf-8")
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "user.json"))
    with pytest.raises(NoNetwork, match="sign-in does not answer"):
        tokens.from_google({})


def test_the_account_that_is_to_be_impersonated_is_the_one_that_asks(tmp_path, monkeypatch):
    """The provider does so too: `status` and `down` see what `pulumi up` has made, with the same rights."""
    user = {"type": "authorized_user", "client_id": "c", "client_secret": "s", "refresh_token": "r"}
    (tmp_path / "user.json").write_text(json.dumps(user), encoding="utf-8")
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "user.json"))
    found = tokens._credentials("deployer@p.iam.gserviceaccount.com")
    assert found.service_account_email == "deployer@p.iam.gserviceaccount.com"
    assert found._source_credentials.refresh_token == tokens._credentials("").refresh_token == "r"


@pytest.mark.parametrize("name", ["HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY"])
@pytest.mark.parametrize("value", ["foo://x:1", "http://[::1", "http://x:port"])
def test_an_odd_proxy_is_bad_config(monkeypatch, name, value):
    monkeypatch.setenv(name, value)
    with pytest.raises(BadConfig, match="cannot be used") as error, client():
        pass
    assert name in error.value.way_out


@pytest.mark.parametrize("value", ["garbage", "http://[::1/", "ftp://host/", "http://", "http://h:x/"])
def test_an_endpoint_that_is_no_address_is_bad_config(value):
    environ = {"GOOGLE_OAUTH_ACCESS_TOKEN": "t", "CLOUDSDK_API_ENDPOINT_OVERRIDES_COMPUTE": value}
    with pytest.raises(BadConfig, match="is no address"):
        Session(environ=environ, sleep=lambda s: None).call("compute", "GET", "projects/p")


@pytest.mark.parametrize("content", [b"<html>sign in</html>", b"[]", b"\xff", b"7"])
def test_a_network_that_answers_in_the_clouds_place_is_said(content):
    http = httpx.Client(transport=httpx.MockTransport(lambda request: httpx.Response(200, content=content)))
    with pytest.raises(FlexserveError, match="not the cloud's") as error:
        Session(environ={"GOOGLE_OAUTH_ACCESS_TOKEN": "t"}, http=http).call("compute", "GET", "projects/p", filter="x")
    assert "login page" in error.value.way_out and "filter" not in str(error.value)


def test_a_good_address_is_asked():
    http = httpx.Client(transport=httpx.MockTransport(lambda request: httpx.Response(200, content=b"{}")))
    assert ask(http, "GET", "http://localhost:1/x").status_code == 200
