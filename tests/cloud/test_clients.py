"""Google's own client libraries work against it, over HTTP; and it stands many at once."""

import os
import shutil
import socket
import subprocess
import threading
import urllib.error
import urllib.request
from collections.abc import Sequence
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any

import google.api_core.exceptions
import pytest
from google.api_core.client_options import ClientOptions
from google.cloud import secretmanager
from google.oauth2.credentials import Credentials
from googleapiclient.discovery import build
from googleapiclient.errors import HttpError

from rehearsal.cloud.google import OPERATOR_TOKEN, LocalGoogleCloud
from rehearsal.contracts import Clock, Guest, Ledger, LocalCloud
from tests.cloud.conftest import ZONE, Api, instance


def secrets_client(endpoint: str) -> secretmanager.SecretManagerServiceClient:
    return secretmanager.SecretManagerServiceClient(
        credentials=Credentials(OPERATOR_TOKEN), transport="rest", client_options=ClientOptions(api_endpoint=endpoint)
    )


@pytest.mark.parametrize("path", ["", "/secretmanager"])
def test_secret_manager_client(cloud: LocalGoogleCloud, path: str) -> None:
    client = secrets_client(f"{cloud.base}{path}")
    secret = client.create_secret(
        request={"parent": "projects/demo", "secret_id": "hf-token", "secret": {"replication": {"automatic": {}}}}
    )
    assert secret.name == "projects/123456789012/secrets/hf-token"
    version = client.add_secret_version(request={"parent": secret.name, "payload": {"data": b"s3cret"}})
    answer = client.access_secret_version(request={"name": "projects/demo/secrets/hf-token/versions/latest"})
    assert (answer.name, answer.payload.data) == (version.name, b"s3cret")
    assert [v.state.name for v in client.list_secret_versions(request={"parent": secret.name})] == ["ENABLED"]
    with pytest.raises(google.api_core.exceptions.Conflict):
        client.create_secret(
            request={"parent": "projects/demo", "secret_id": "hf-token", "secret": {"replication": {"automatic": {}}}}
        )
    with pytest.raises(google.api_core.exceptions.NotFound):
        client.access_secret_version(request={"name": "projects/demo/secrets/other/versions/latest"})


def test_compute_client(cloud: LocalGoogleCloud) -> None:
    options = ClientOptions(api_endpoint=f"{cloud.base}/compute/v1/")
    compute = build("compute", "v1", credentials=Credentials(OPERATOR_TOKEN), client_options=options, cache_discovery=False)
    where: dict[str, Any] = {"project": "demo", "zone": ZONE}
    body = instance()
    body.pop("params")
    operation = compute.instances().insert(**where, body=body).execute()
    assert compute.zoneOperations().wait(**where, operation=operation["name"]).execute()["status"] == "DONE"
    assert compute.instances().get(**where, instance="vm").execute()["status"] == "RUNNING"
    listed = compute.instances().aggregatedList(project="demo", filter="labels.stack=tpu-v6e").execute()
    assert [i["name"] for i in listed["items"][f"zones/{ZONE}"]["instances"]] == ["vm"]
    with pytest.raises(HttpError) as gone:
        compute.instances().get(**where, instance="other").execute()
    assert gone.value.status_code == 404


@pytest.mark.skipif(shutil.which("gcloud") is None, reason="gcloud is not on PATH")
def test_gcloud(cloud: LocalGoogleCloud, api: Api, tmp_path: Path) -> None:
    api.create()
    cloud.put_secret("hf-token", "s3cret")
    (tmp_path / "token").write_text(OPERATOR_TOKEN)
    environment = (
        dict(os.environ)
        | dict(cloud.environment())
        | {
            "CLOUDSDK_CONFIG": str(tmp_path / "config"),
            "CLOUDSDK_AUTH_ACCESS_TOKEN_FILE": str(tmp_path / "token"),
            "CLOUDSDK_CORE_DISABLE_PROMPTS": "1",
            "CLOUDSDK_CORE_CHECK_GCE_METADATA": "false",
            "CLOUDSDK_CORE_DISABLE_USAGE_REPORTING": "true",
            "CLOUDSDK_CORE_DISABLE_FILE_LOGGING": "true",
            "CLOUDSDK_COMPONENT_MANAGER_DISABLE_UPDATE_CHECK": "true",
        }
    )

    def gcloud(*words: str) -> str:
        ran = subprocess.run(["gcloud", *words], env=environment, capture_output=True, text=True, timeout=240)
        assert ran.returncode == 0 and "WARNING" not in ran.stderr, ran.stderr
        return ran.stdout.strip()

    assert gcloud("compute", "instances", "list", "--filter=labels.stack=tpu-v6e", "--format=value(name,status)") == "vm\tRUNNING"
    assert gcloud("secrets", "versions", "access", "latest", "--secret=hf-token") == "s3cret"
    gcloud("compute", "instances", "delete", "vm", f"--zone={ZONE}")
    assert gcloud("compute", "operations", "list", "--format=value(operationType)").split() == ["insert", "delete"]
    assert all(entry.accepted for entry in cloud.log.entries())


def test_the_environment_and_the_stack_config_point_here(cloud: LocalGoogleCloud) -> None:
    environment, config = cloud.environment(), cloud.stack_config()
    assert environment["CLOUDSDK_API_ENDPOINT_OVERRIDES_COMPUTE"] == f"{cloud.base}/compute/v1/"
    assert environment["CLOUDSDK_API_ENDPOINT_OVERRIDES_SECRETMANAGER"] == f"{cloud.base}/secretmanager/"
    assert config["gcp:computeCustomEndpoint"] == f"{cloud.base}/compute/beta/"
    assert cloud.base.startswith("http://127.0.0.1:")


def test_date_is_the_cloud_s(cloud: LocalGoogleCloud) -> None:
    cloud.clock.advance(86_400)
    request = urllib.request.Request(f"{cloud.base}/compute/v1/projects/demo/zones", headers={"Authorization": "Bearer x"})
    with urllib.request.urlopen(request, timeout=20) as answer:
        date = parsedate_to_datetime(answer.headers["Date"])
    assert 86_000 < (date - datetime.now(UTC)).total_seconds() < 87_000


def test_many_at_once_make_each_name_once(cloud: LocalGoogleCloud, api: Api) -> None:
    results: list[int] = []

    def one(index: int) -> None:
        status, _ = api("POST", f"zones/{ZONE}/instances", instance(name=f"vm-{index % 5}"))
        results.append(status)

    threads = [threading.Thread(target=one, args=(i,)) for i in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sorted(results) == [200] * 5 + [409] * 15
    cloud.clock.advance(60)
    vms = list(cloud.instances().values())
    assert {v["status"] for v in vms} == {"RUNNING"}
    assert len({v["networkInterfaces"][0]["networkIP"] for v in vms}) == 5
    assert len({v["networkInterfaces"][0]["accessConfigs"][0]["natIP"] for v in vms}) == 5


def test_stopped_means_nobody_listens_and_twice_is_fine() -> None:
    cloud = LocalGoogleCloud()
    cloud.start()
    port = int(cloud.base.rsplit(":", 1)[-1])
    cloud.stop()
    cloud.stop()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), timeout=5)


def control(cloud: LocalGoogleCloud, name: str, body: str = "{}", method: str = "POST") -> tuple[int, str]:
    request = urllib.request.Request(
        f"{cloud.base}/_control/{name}", data=body.encode() if method == "POST" else None, method=method
    )
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as refused:
        return refused.code, refused.read().decode()


def test_control_by_http(cloud: LocalGoogleCloud, api: Api) -> None:
    assert control(cloud, "arm", '{"trouble": "stock_out", "times": 1}')[0] == 200
    assert "error" in api.done("POST", f"zones/{ZONE}/instances", instance())
    api.create()
    before = cloud.clock.now()
    assert control(cloud, "advance", '{"seconds": 100}')[0] == 200 and cloud.clock.now() >= before + 100
    assert control(cloud, "vm", '{"name": "vm", "set": {"status": "TERMINATED", "labels": {"app": "hand"}}}')[0] == 200
    assert api("GET", f"zones/{ZONE}/instances/vm")[1]["status"] == "TERMINATED"
    assert control(cloud, "vm", '{"name": "vm", "drop": true}')[0] == 200 and cloud.instances() == {}
    assert control(cloud, "secret", '{"name": "hf", "value": "s3cret"}')[0] == 200
    state = control(cloud, "state", method="GET")[1]
    assert "projects/123456789012/secrets/hf" in state and "czNjcmV0" not in state
    assert "secret_version" in control(cloud, "ledger", method="GET")[1]
    assert control(cloud, "vm", '{"name": "none", "drop": true}')[0] == 400
    assert control(cloud, "arm", '{"trouble": "rain"}')[0] == 400
    assert control(cloud, "nothing")[0] == 404


def test_connections_are_kept_open(cloud: LocalGoogleCloud) -> None:
    import http.client

    connection = http.client.HTTPConnection("127.0.0.1", int(cloud.base.rsplit(":", 1)[-1]), timeout=20)
    sockets: list[Sequence[object]] = []
    for _ in range(3):
        connection.request("GET", "/compute/v1/projects/demo/zones", headers={"Authorization": "Bearer x"})
        connection.getresponse().read()
        assert connection.sock is not None
        sockets.append(connection.sock.getsockname())
    assert len(set(sockets)) == 1
    connection.close()


def test_it_keeps_the_contracts(cloud: LocalGoogleCloud, api: Api) -> None:
    """Assigned to the contracts' types: mypy and, at run time, every member must be there."""
    api.create()
    local: LocalCloud = cloud
    guest: Guest = cloud.guest("vm")
    for contract, kept in ((LocalCloud, local), (Guest, guest), (Clock, local.clock), (Ledger, local.ledger)):
        members = [name for name in vars(contract) if not name.startswith("_")]
        assert members and all(hasattr(kept, name) for name in members)
