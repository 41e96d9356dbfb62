"""A local Google cloud for each test."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from rehearsal.cloud.google import LocalGoogleCloud

ZONE = "us-central1-b"
FAMILY = "projects/ubuntu-os-accelerator-images/global/images/family/ubuntu-accel-2204-amd64-tpu-v5e-v5p-v6e"
ACCOUNT = "flexserve-vm@demo.iam.gserviceaccount.com"


@pytest.fixture
def cloud() -> Iterator[LocalGoogleCloud]:
    """A running cloud that has our service account; at the end every answer must have been one that Google could give."""
    with LocalGoogleCloud(price=lambda kind, _: 1.0 if kind == "instance" else None) as running:
        running.put_account("flexserve-vm")
        yield running
        assert running.own_errors() == ()


class Api:
    """Requests in process, through the same checks as over HTTP."""

    def __init__(self, cloud: LocalGoogleCloud, version: str = "beta") -> None:
        self.cloud = cloud
        self.compute = f"/compute/{version}/projects/demo"

    def __call__(self, method: str, path: str, body: object = None, query: str = "alt=json", **more: Any) -> tuple[int, Any]:
        raw = b"" if body is None else json.dumps(body).encode()
        return self.cloud.request(method, path if path.startswith("/") else f"{self.compute}/{path}", query, raw, **more)

    def done(self, method: str, path: str, body: object = None, query: str = "") -> Any:
        """Do it, wait on the cloud's clock, and answer the finished operation."""
        status, operation = self(method, path, body, query)
        assert status == 200, operation
        status, finished = self("POST", operation["selfLink"].split("/projects/demo/")[1] + "/wait")
        assert (status, finished["status"]) == (200, "DONE")
        return finished

    def create(self, **over: Any) -> Any:
        """The flex-start VM, RUNNING."""
        finished = self.done("POST", f"zones/{ZONE}/instances", instance(**over))
        assert "error" not in finished, finished
        return self("GET", f"zones/{ZONE}/instances/{over.get('name', 'vm')}")[1]


@pytest.fixture
def api(cloud: LocalGoogleCloud) -> Api:
    return Api(cloud)


def instance(**over: Any) -> dict[str, Any]:
    """The body of a flex-start VM as the real provider sends it; `over` replaces top-level fields."""
    body: dict[str, Any] = {
        "name": "vm",
        "machineType": f"projects/demo/zones/{ZONE}/machineTypes/ct6e-standard-1t",
        "disks": [
            {
                "autoDelete": True,
                "boot": True,
                "mode": "READ_WRITE",
                "initializeParams": {
                    "diskSizeGb": "200",
                    "diskType": f"projects/demo/zones/{ZONE}/diskTypes/hyperdisk-balanced",
                    "sourceImage": FAMILY,
                },
            }
        ],
        "labels": {"stack": "tpu-v6e"},
        "metadata": {"items": [{"key": "startup-script", "value": "#!/bin/sh\necho hi"}]},
        "networkInterfaces": [{"accessConfigs": [{"type": "ONE_TO_ONE_NAT"}], "network": "projects/demo/global/networks/default"}],
        "params": {},
        "scheduling": scheduling(),
        "serviceAccounts": [{"email": ACCOUNT, "scopes": ["https://www.googleapis.com/auth/cloud-platform"]}],
        "tags": {"items": ["flexserve"]},
    }
    return body | over


def scheduling(**over: Any) -> dict[str, Any]:
    """The flex-start block, nulls and all."""
    block: dict[str, Any] = {
        "automaticRestart": False,
        "gracefulShutdown": None,
        "instanceTerminationAction": "DELETE",
        "maxRunDuration": {"seconds": 14400},
        "nodeAffinities": [None],
        "onHostMaintenance": "TERMINATE",
        "preemptible": False,
        "provisioningModel": "FLEX_START",
    }
    return {k: v for k, v in (block | over).items() if v != "absent"}
