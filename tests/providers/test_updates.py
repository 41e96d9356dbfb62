"""Changes in place: the cloud has the new value, what is read back asks for nothing more, and nothing else is dropped."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import grpc
import pytest

from rehearsal.cloud.google import LocalGoogleCloud
from tests.providers import recordings
from tests.providers.conftest import INSTANCE, bare
from tests.providers.direct import Direct, Made, failure, provider_for
from tests.providers.test_changes import GONE, edited

FIREWALL, SECRET, REPOSITORY = (
    "gcp:compute/firewall:Firewall",
    "gcp:secretmanager/secret:Secret",
    "gcp:artifactregistry/repository:Repository",
)
ACCOUNT, NETWORK = "gcp:serviceaccount/account:Account", "gcp:compute/network:Network"

CASES: list[tuple[str, dict[str, Any]]] = [
    (INSTANCE, {"metadata.startup-script": "#!/bin/sh\necho there"}),
    (INSTANCE, {"metadata": GONE}),
    (INSTANCE, {"labels": {"app": "other", "new": "one"}}),
    (INSTANCE, {"tags": ["b", "a"]}),
    (INSTANCE, {"scheduling.instanceTerminationAction": "STOP"}),
    (INSTANCE, {"bootDisk.initializeParams.size": 200}),
    (INSTANCE, {"bootDisk.autoDelete": False}),
    (INSTANCE, {"deletionProtection": True}),
    (INSTANCE, {"networkInterfaces.0.accessConfigs": GONE}),
    (FIREWALL, {"sourceRanges": ["35.235.240.0/20", "10.0.0.0/8"]}),
    (FIREWALL, {"priority": 7, "description": "seven"}),
    (FIREWALL, {"targetTags": GONE}),
    (SECRET, {"labels": {"app": "flexserve"}}),
    (REPOSITORY, {"description": "images", "labels": {"app": "flexserve"}}),
    (ACCOUNT, {"displayName": "another name"}),
    (NETWORK, {"routingMode": "GLOBAL"}),
]

KEEP_IT = {"bootDisk.autoDelete", "deletionProtection"}  # a delete would leave the disk, or not be done at all


@pytest.fixture(scope="module")
def cloud() -> Iterator[LocalGoogleCloud]:
    with LocalGoogleCloud() as running:
        running.put_account("other-vm")
        yield running
        assert running.own_errors() == ()


@pytest.fixture(scope="module")
def google(cloud: LocalGoogleCloud) -> Iterator[Direct]:
    with provider_for(cloud) as direct:
        yield direct


def args_of(kind: str) -> dict[str, Any]:
    recorded = recordings.instance() if kind == INSTANCE else recordings.other_states()[kind]
    args: dict[str, Any] = bare(recorded["inputs"])
    if kind == INSTANCE:
        args["serviceAccount"]["email"] = "other-vm@demo.iam.gserviceaccount.com"
    return args


@pytest.mark.parametrize(
    ("kind", "edits"), CASES, ids=lambda value: value.rpartition(":")[2] if isinstance(value, str) else "+".join(value)
)
def test_in_place(kind: str, edits: dict[str, Any], google: Direct) -> None:
    made = google.create(kind, args_of(kind))
    inputs = google.check(kind, edited(args_of(kind), edits), olds=made.inputs)
    assert google.diff(made, inputs).op == "update"
    changed = google.update(made, inputs)
    assert google.diff(changed, inputs).op == "same"
    read = google.read(changed)
    assert read is not None and google.diff(read, inputs).op == "same"
    assert google.check(kind, edited(args_of(kind), edits), olds=read.inputs) == inputs
    if KEEP_IT & set(edits):
        changed = google.update(changed, google.check(kind, args_of(kind), olds=inputs))
    google.delete(changed)


def test_a_subnetwork_may_grow_and_not_shrink(google: Direct) -> None:
    network = google.create(NETWORK, {"name": "n2", "autoCreateSubnetworks": False})
    kind = "gcp:compute/subnetwork:Subnetwork"
    args = {"name": "s", "network": network.id, "region": "us-central1", "ipCidrRange": "10.9.0.0/24"}
    made = google.create(kind, args)
    for wanted, op in (("10.9.0.0/20", "update"), ("10.9.0.0/28", "replace"), ("10.8.0.0/24", "replace")):
        assert google.diff(made, google.check(kind, args | {"ipCidrRange": wanted})).op == op


def test_what_it_cannot_change_is_said_by_its_path(google: Direct) -> None:
    made = google.create(REPOSITORY, args_of(REPOSITORY) | {"repositoryId": "other"})
    inputs = google.check(REPOSITORY, args_of(REPOSITORY) | {"repositoryId": "other", "dockerConfig": {"immutableTags": True}})
    with pytest.raises(grpc.RpcError) as refused:
        google.update(made, inputs)
    assert "dockerConfig" in str(dict(refused.value.trailing_metadata())) or "dockerConfig" in failure(refused.value)


def test_a_tpu_machine_is_not_stopped_for_a_change(google: Direct) -> None:
    """The provider would; the cloud refuses."""
    made = google.create(INSTANCE, args_of(INSTANCE))
    wanted = edited(args_of(INSTANCE), {"allowStoppingForUpdate": True, "machineType": "ct6e-standard-4t"})
    with pytest.raises(grpc.RpcError) as refused:
        google.update(made, google.check(INSTANCE, wanted, olds=made.inputs))
    assert b"Error stopping instance: googleapi: Error 400" in dict(refused.value.trailing_metadata())["grpc-status-details-bin"]
    google.delete(made)


def test_drift_is_seen_and_taken_back(google: Direct, cloud: LocalGoogleCloud) -> None:
    made: Made = google.create(INSTANCE, args_of(INSTANCE))
    cloud.edit("flexserve-v6e", {"labels": {"app": "hand"}})
    read = google.read(made)
    assert read is not None and read.inputs["labels"] == {"app": "hand"}
    inputs = google.check(INSTANCE, args_of(INSTANCE), olds=read.inputs)
    assert google.diff(read, inputs).op == "update"
    assert google.update(read, inputs).outputs["labels"] == args_of(INSTANCE)["labels"]
    google.delete(made)
