"""`secret put` and `check` against the local Google cloud; the value is in no argument, no output and no request but the one."""

from __future__ import annotations

import base64
import io
import json
import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from rehearsal.cloud.google import LocalGoogleCloud, troubles
from tests.cli.conftest import document

SENTINEL = "hf_SENTINEL0123456789"


class Stdin(io.StringIO):
    """What is piped in; not a terminal."""


@pytest.fixture
def cloud(project, monkeypatch) -> Iterator[LocalGoogleCloud]:
    with LocalGoogleCloud(project="acme-1") as running:
        for name, value in running.environment().items():
            monkeypatch.setenv(name, value)
        for name in ("PULUMI_BACKEND_URL", "PULUMI_ACCESS_TOKEN"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv("PULUMI_HOME", str(project / "nobody"))
        yield running
        assert running.own_errors() == ()


@pytest.fixture
def piped(monkeypatch):
    return lambda text: monkeypatch.setattr(sys, "stdin", Stdin(text))


def test_put_makes_the_secret_and_adds_versions(cloud, flexserve, piped):
    piped(f"  {SENTINEL}\n")
    code, out, err = flexserve("secret", "put", "hf-token", "-s", "tpu-v6e", "--json")
    assert code == 0 and document(out)["version"] == "1", err
    piped(f"{SENTINEL}2\n")
    code, out, _ = flexserve("secret", "put", "hf-token", "-s", "tpu-v6e", "--json")
    assert code == 0 and document(out)["version"] == "2"
    added = [r for r in cloud.requests() if str(r["path"]).endswith(":addVersion")]
    assert len(added) == 2
    assert SENTINEL not in out + err
    status, answer = cloud.request("GET", "/secretmanager/v1/projects/acme-1/secrets/hf-token/versions/1:access")
    assert status == 200 and base64.b64decode(answer["payload"]["data"]).decode() == SENTINEL  # trimmed


@pytest.mark.parametrize("value", ["", "   \n", "\n"])
def test_an_empty_value_is_refused_by_the_secrets_name(cloud, flexserve, piped, value):
    piped(value)
    code, out, err = flexserve("secret", "put", "hf-token", "-s", "tpu-v6e")
    assert (code, out) == (2, "") and "the value for hf-token is empty" in err
    assert not cloud.secret_names()


def test_a_value_where_the_name_belongs_is_refused_and_not_repeated(cloud, flexserve, piped):
    piped("x")
    code, out, err = flexserve("secret", "put", SENTINEL, "-s", "tpu-v6e")
    assert code == 2 and SENTINEL not in out + err and "not its name" in err


def test_another_name_than_the_stack_reads_is_said(cloud, flexserve, piped):
    piped(SENTINEL)
    code, _, err = flexserve("secret", "put", "other", "-s", "tpu-v6e")
    assert code == 0 and "reads hf-token, not other" in err


def test_check(cloud, flexserve):
    code, out, _ = flexserve("secret", "check", "hf-token", "-s", "tpu-v6e", "--json")
    assert code == 1 and document(out)["exists"] is False
    cloud.put_secret("hf-token", SENTINEL)
    code, out, _ = flexserve("secret", "check", "hf-token", "-s", "tpu-v6e", "--json")
    checked = document(out)
    assert code == 0 and checked["exists"] and checked["enabled"] and checked["readable"] is None and checked["version"] == "1"
    assert SENTINEL not in out
    assert not any(str(r["path"]).endswith(":access") for r in cloud.requests())


def test_check_says_disabled(cloud, flexserve):
    cloud.put_secret("hf-token", SENTINEL)
    status, _ = cloud.request("POST", "/secretmanager/v1/projects/acme-1/secrets/hf-token/versions/1:disable", body=b"{}")
    assert status == 200
    code, out, _ = flexserve("secret", "check", "hf-token", "-s", "tpu-v6e", "--json")
    assert code == 1 and document(out)["enabled"] is False and "version 1 is disabled" in document(out)["why"]


@pytest.mark.parametrize(("granted", "readable", "code"), [(True, True, 0), (False, False, 1)])
def test_check_reads_the_policy_when_the_machines_account_is_known(cloud, flexserve, monkeypatch, granted, readable, code):
    from flexserve.commands import secret as command

    reader = cloud.put_account("flexserve-vm")
    cloud.put_secret("hf-token", SENTINEL)
    if granted:
        binding = {"role": "roles/secretmanager.secretAccessor", "members": [f"serviceAccount:{reader}"]}
        body = json.dumps({"policy": {"bindings": [binding]}}).encode()
        assert cloud.request("POST", "/secretmanager/v1/projects/acme-1/secrets/hf-token:setIamPolicy", body=body)[0] == 200
    monkeypatch.setattr(command, "_reader", lambda *args: reader)
    got, out, _ = flexserve("secret", "check", "hf-token", "-s", "tpu-v6e", "--json")
    assert got == code and document(out)["readable"] is readable


@pytest.mark.parametrize("command", [("check", "hf-token"), ("put", "hf-token")])
def test_bad_credentials_and_an_api_that_is_off_are_no_access(cloud, flexserve, piped, command):
    piped(SENTINEL)
    cloud.arm(troubles.bad_token(call="secretmanager.projects.secrets.get"))
    code, out, err = flexserve("secret", *command, "-s", "tpu-v6e")
    assert code == 5 and "credentials" in err, out + err
    cloud.disarm()
    piped(SENTINEL)
    cloud.disable("secretmanager.googleapis.com")
    code, out, err = flexserve("secret", *command, "-s", "tpu-v6e")
    assert code == 5 and "not enabled" in err, out + err


def test_the_value_is_in_no_argument_as_a_real_process(cloud, project, root):
    argv = [sys.executable, "-m", "flexserve", "secret", "put", "hf-token", "-s", "tpu-v6e"]
    env = {**os.environ, "PYTHONPATH": str(root)}
    done = subprocess.run(
        argv, cwd=project, env=env, input=f"{SENTINEL}\n", capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    assert SENTINEL not in done.stdout + done.stderr + " ".join(argv)
    assert not any(SENTINEL in p.read_text(errors="replace") for p in project.rglob("*") if p.is_file())


@pytest.mark.parametrize("command", [("check", "hf-token"), ("put", "hf-token")])
@pytest.mark.parametrize("where", ["http://127.0.0.1:9/", "http://[::1/"], ids=["nobody", "no address"])
def test_a_store_that_cannot_be_reached_is_said(cloud, project, flexserve, piped, monkeypatch, command, where):
    piped(SENTINEL)
    monkeypatch.setenv("CLOUDSDK_API_ENDPOINT_OVERRIDES_SECRETMANAGER", where)
    code, out, err = flexserve("secret", *command, "-s", "tpu-v6e")
    assert (code, out) == (1, "") and "does not answer" in err and "unexpected" not in err and SENTINEL not in err


def test_bytes_that_are_no_text_are_no_value(cloud, project, root):
    argv = [sys.executable, "-m", "flexserve", "secret", "put", "hf-token", "-s", "tpu-v6e", "--debug"]
    env = {**os.environ, "PYTHONPATH": str(root), "LC_ALL": "C.UTF-8"}
    done = subprocess.run(argv, cwd=project, env=env, input=b"hf_bytes\xff\xfe\n", capture_output=True, timeout=120, check=False)
    assert done.returncode == 2 and b"is no text" in done.stderr and b"hf_bytes" not in done.stdout + done.stderr
