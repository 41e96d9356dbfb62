"""Changes to a live instance, each against its fingerprint; lists and filters; networks."""

import json
from typing import Any

import pytest

from rehearsal.cloud.google import LocalGoogleCloud, troubles
from tests.cloud.conftest import ZONE, Api, instance, scheduling

VM = f"zones/{ZONE}/instances/vm"


def test_metadata_against_its_fingerprint(cloud: LocalGoogleCloud, api: Api) -> None:
    vm = api.create()
    guest, items = cloud.guest("vm"), [{"key": "startup-script", "value": "#!/bin/sh\necho there"}]
    before = guest.etag()
    api.done("POST", f"{VM}/setMetadata", {"fingerprint": vm["metadata"]["fingerprint"], "items": items})
    assert guest.metadata()["instance"]["attributes"] == {"startup-script": "#!/bin/sh\necho there"}  # type: ignore[index]
    assert guest.etag() != before and guest.wait_for_change(before, timeout=0) == guest.etag()
    status, body = api("POST", f"{VM}/setMetadata", {"fingerprint": vm["metadata"]["fingerprint"], "items": []})
    assert (status, body["error"]["errors"][0]["reason"]) == (412, "conditionNotMet")
    assert api("GET", VM)[1]["metadata"]["items"] == items


@pytest.mark.parametrize(
    ("verb", "body", "field"),
    [("setLabels", {"labels": {"a": "b"}}, "labelFingerprint"), ("setTags", {"items": ["x"]}, "fingerprint")],
)
def test_labels_and_tags_against_their_fingerprints(api: Api, verb: str, body: dict[str, Any], field: str) -> None:
    vm = api.create()
    current = vm["labelFingerprint"] if verb == "setLabels" else vm["tags"]["fingerprint"]
    for wrong in ({field: "c3RhbGU="}, {}):
        assert api("POST", f"{VM}/{verb}", body | wrong)[0] == 412
    api.done("POST", f"{VM}/{verb}", body | {field: current})
    assert api("POST", f"{VM}/{verb}", body | {field: current})[0] == 412


def test_labels_reach_the_ledger(cloud: LocalGoogleCloud, api: Api) -> None:
    vm = api.create()
    api.done("POST", f"{VM}/setLabels", {"labels": {"owner": "me"}, "labelFingerprint": vm["labelFingerprint"]})
    assert {i.kind: dict(i.labels) for i in cloud.ledger.left()} == {
        "disk": {},
        "instance": {"owner": "me"},
        "address": {"owner": "me"},
    }


@pytest.mark.parametrize("labels", [{"Stack": "x"}, {"stack": "X"}, {"stack": "a:b"}, {"stack": "x" * 64}, {"1a": "x"}])
def test_labels_that_google_does_not_take(api: Api, labels: dict[str, str]) -> None:
    status, body = api("POST", f"zones/{ZONE}/instances", instance(labels=labels))
    assert status == 400 and "violates format constraints" in body["error"]["message"]


def test_scheduling_in_place(api: Api) -> None:
    api.create()
    api.done("POST", f"{VM}/setScheduling", scheduling())
    assert api("POST", f"{VM}/setScheduling", scheduling(maxRunDuration={"seconds": 7200}))[0] == 400
    assert api("POST", f"{VM}/setScheduling", scheduling(provisioningModel="SPOT"))[0] == 400


def test_access_config_away_and_back(cloud: LocalGoogleCloud, api: Api) -> None:
    api.create()
    api.done("POST", f"{VM}/deleteAccessConfig", query="accessConfig=External+NAT&networkInterface=nic0")
    assert "accessConfigs" not in api("GET", VM)[1]["networkInterfaces"][0]
    assert "address" not in {i.kind for i in cloud.ledger.left()}
    api.done("POST", f"{VM}/addAccessConfig", {"type": "ONE_TO_ONE_NAT"}, query="networkInterface=nic0")
    assert api("GET", VM)[1]["networkInterfaces"][0]["accessConfigs"][0]["natIP"] == "203.0.113.7"
    assert "address" in {i.kind for i in cloud.ledger.left()}


def test_a_tpu_machine_cannot_be_stopped(api: Api) -> None:
    api.create()
    status, body = api("POST", f"{VM}/stop")
    assert status == 400 and "cannot be stopped" in body["error"]["message"]


def test_another_machine_can_be_and_keeps_its_disk_on_the_bill(cloud: LocalGoogleCloud, api: Api) -> None:
    machine = f"zones/{ZONE}/machineTypes/e2-small"
    disks = [
        {
            "boot": True,
            "autoDelete": True,
            "initializeParams": {"sourceImage": "projects/debian-cloud/global/images/family/debian-12"},
        }
    ]
    api.create(machineType=machine, disks=disks, scheduling={"onHostMaintenance": "TERMINATE"})
    api.done("POST", f"{VM}/stop")
    assert api("GET", VM)[1]["status"] == "TERMINATED"
    assert [i.kind for i in cloud.ledger.left()] == ["disk"]
    api.done("POST", f"{VM}/start")
    assert api("GET", VM)[1]["status"] == "RUNNING"


def test_deletion_protection(api: Api) -> None:
    api.create()
    api.done("POST", f"{VM}/setDeletionProtection", query="deletionProtection=true")
    assert api("DELETE", VM)[0] == 400
    api.done("POST", f"{VM}/setDeletionProtection", query="deletionProtection=false")
    api.done("DELETE", VM)


@pytest.mark.parametrize(
    ("expression", "names"),
    [
        ("labels.stack=tpu-v6e", ["one", "two"]),
        ("labels.stack=tpu-v6e AND labels.id=b", ["two"]),
        ("labels.id:*", ["one", "two"]),
        ("labels.id=a OR labels.id=b", ["one", "two"]),
        ("(labels.id = a) (labels.stack = tpu-v6e)", ["one"]),
        ("labels.id != a", ["two", "three"]),
        ("NOT labels.id:*", ["three"]),
        ("name eq t.*", ["two", "three"]),
        ("name=t*", ["two", "three"]),
        ('status = "RUNNING"', ["one", "two", "three"]),
        ("status=TERMINATED", []),
    ],
)
def test_filters(api: Api, expression: str, names: list[str]) -> None:
    for name, labels in (("one", {"stack": "tpu-v6e", "id": "a"}), ("two", {"stack": "tpu-v6e", "id": "b"}), ("three", {"x": "y"})):
        api.create(name=name, labels=labels)
    from urllib.parse import urlencode

    query = urlencode({"filter": expression})
    assert [i["name"] for i in api("GET", f"zones/{ZONE}/instances", query=query)[1].get("items", [])] == names
    every = api("GET", "aggregated/instances", query=query)[1]["items"]
    assert [i["name"] for i in every[f"zones/{ZONE}"].get("instances", [])] == names
    assert every["zones/us-east5-a"]["warning"]["code"] == "NO_RESULTS_ON_PAGE"


def test_a_broken_filter_and_pages(api: Api) -> None:
    assert api("GET", f"zones/{ZONE}/instances", query="filter=labels.x+%3D")[0] == 400
    first = api("GET", "zones", query="maxResults=2")[1]
    rest = api("GET", "zones", query=f"pageToken={first['nextPageToken']}")[1]
    names = [z["name"] for z in first["items"] + rest["items"]]
    assert len(first["items"]) == 2 and len(names) == len(set(names)) and ZONE in names
    assert api("GET", "zones", query="fields=items/name")[1]["items"][0] == {"name": names[0]}


@pytest.mark.parametrize(
    ("over", "words"),
    [
        ({"machineType": f"zones/{ZONE}/machineTypes/ct9-nothing"}, "Machine type with name 'ct9-nothing' does not exist"),
        ({"networkInterfaces": [{"network": "global/networks/nowhere"}]}, "network resource cannot be found"),
        ({"networkInterfaces": []}, "network interface"),
        ({"disks": []}, "boot disk"),
        ({"name": "Upper"}, "resource.name"),
        (
            {"disks": [{"boot": True, "initializeParams": {"sourceImage": "projects/x/global/images/y"}}]},
            "image resource cannot be found",
        ),
        ({"serviceAccounts": [{"email": "nobody@demo.iam.gserviceaccount.com"}]}, "of type 'serviceAccount' was not found"),
        ({"metadata": {"items": [{"key": "k", "value": "x" * 262_145}]}}, "too long"),
    ],
)
def test_what_an_insert_is_refused_for(cloud: LocalGoogleCloud, api: Api, over: dict[str, Any], words: str) -> None:
    status, body = api("POST", f"zones/{ZONE}/instances", instance(**over))
    assert status in (400, 404) and words in body["error"]["message"], body
    assert cloud.ledger.items() == ()


def test_a_disk_smaller_than_its_image_and_a_kind_that_tpus_do_not_boot_from(api: Api) -> None:
    for field, value in (("diskSizeGb", "5"), ("diskType", f"zones/{ZONE}/diskTypes/pd-standard")):
        body = instance()
        body["disks"][0]["initializeParams"][field] = value
        assert api("POST", f"zones/{ZONE}/instances", body)[0] == 400


def test_an_unknown_zone_and_an_unknown_project(api: Api) -> None:
    status, body = api("POST", "zones/mars-north1-a/instances", instance())
    assert status == 400 and body["error"]["message"] == "Invalid value for field 'zone': 'mars-north1-a'. Unknown zone."
    assert api("GET", "/compute/v1/projects/other/zones")[0] == 404


def test_twice_the_same_name(api: Api) -> None:
    api.create()
    status, body = api("POST", f"zones/{ZONE}/instances", instance())
    assert (status, body["error"]["errors"][0]["reason"]) == (409, "alreadyExists")


def test_own_network_with_nat_and_its_teardown(cloud: LocalGoogleCloud, api: Api) -> None:
    api.done("POST", "global/networks", {"name": "n", "autoCreateSubnetworks": False})
    subnet = {"name": "n", "network": "global/networks/n", "ipCidrRange": "10.9.0.0/24", "privateIpGoogleAccess": True}
    api.done("POST", "regions/us-central1/subnetworks", subnet)
    api.done("POST", "regions/us-central1/routers", {"name": "n", "network": "projects/demo/global/networks/n", "bgp": None})
    api.done(
        "PATCH",
        "regions/us-central1/routers/n",
        {"nats": [{"name": "nat", "natIpAllocateOption": "AUTO_ONLY", "initialNatIps": []}]},
    )
    assert [(i.kind, i.name) for i in cloud.ledger.left()] == [("nat", "n/nat")]
    status, body = api("DELETE", "global/networks/n")
    assert status == 400 and body["error"]["errors"][0]["reason"] == "resourceInUseByAnotherResource"
    api.done("PATCH", "regions/us-central1/routers/n", {"nats": []})
    assert cloud.ledger.left() == ()
    for path in ("regions/us-central1/routers/n", "regions/us-central1/subnetworks/n", "global/networks/n"):
        api.done("DELETE", path)
        assert api("GET", path)[0] == 404


def test_a_subnetwork_that_overlaps(api: Api) -> None:
    api.done("POST", "global/networks", {"name": "n", "autoCreateSubnetworks": False})
    body = {"name": "a", "network": "global/networks/n", "ipCidrRange": "10.9.0.0/24"}
    api.done("POST", "regions/us-central1/subnetworks", body)
    assert api("POST", "regions/us-central1/subnetworks", body | {"name": "b", "ipCidrRange": "10.9.0.0/16"})[0] == 400
    assert api("POST", "regions/us-central1/subnetworks", body | {"name": "b", "ipCidrRange": "10.9.0.0/33"})[0] == 400


def test_a_firewall_is_open_to_all_when_it_says_nothing(api: Api) -> None:
    body = {"name": "f", "network": "global/networks/default", "allowed": [{"IPProtocol": "tcp"}]}
    api.done("POST", "global/firewalls", body)
    assert api("GET", "global/firewalls/f")[1]["sourceRanges"] == ["0.0.0.0/0"]
    assert api("POST", "global/firewalls", body | {"name": "g", "denied": [{"IPProtocol": "tcp"}]})[0] == 400


def test_a_delete_whose_operation_fails_leaves_the_instance(cloud: LocalGoogleCloud, api: Api) -> None:
    api.create()
    cloud.arm(troubles.delete_fails())
    assert api.done("DELETE", VM)["error"]["errors"]
    assert api("GET", VM)[1]["status"] == "RUNNING" and cloud.ledger.left()
    assert "error" not in api.done("DELETE", VM)


def test_services_and_repositories(cloud: LocalGoogleCloud, api: Api) -> None:
    cloud.disable("compute.googleapis.com")
    status, body = api("GET", f"zones/{ZONE}/instances")
    assert status == 403 and json.dumps(body).count("SERVICE_DISABLED") == 1
    assert api("POST", "/serviceusage/v1/projects/demo/services/compute.googleapis.com:enable", {})[1]["done"] is True
    assert api("GET", f"zones/{ZONE}/instances")[0] == 200
    url = "/artifactregistry/v1/projects/demo/locations/us-central1/repositories"
    assert api("POST", url, {"format": "DOCKER", "mode": "STANDARD_REPOSITORY"}, "repository_id=flexserve")[0] == 200
    assert [i.kind for i in cloud.ledger.left()] == ["repository"]
    assert api("GET", f"{url}/flexserve")[1]["format"] == "DOCKER"
    assert api("DELETE", f"{url}/flexserve")[0] == 200 and cloud.ledger.left() == ()
