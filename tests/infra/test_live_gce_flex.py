"""`LiveTarget` of gce_flex against the local Google cloud, over HTTP."""

from __future__ import annotations

import json
from typing import Any

import pytest

from infra.clouds.google.session import Session
from infra.targets.gce_flex.live import Live, connect, resolve
from infra.targets.protocol import DeploymentRef
from infra.targets.registry import live
from rehearsal.cloud.google import LocalGoogleCloud, troubles
from rehearsal.contracts import MachineSpec
from tests.contracts.live_target import LiveTargetContract, Scene
from verdict.errors import BadConfig, NoAccess

ID = "0123456789"
NAME = f"fs-{ID}"
ZONE, REGION = "europe-west4-a", "europe-west4"
WINDOW_S = 14400


class Quiet:
    """A machine that does nothing but have a console."""

    kind = "sandbox"

    def __init__(self, spec: MachineSpec) -> None:
        self.console, self.on = "", False
        MACHINES.append(self)

    def start(self) -> None:
        self.on = True

    def power_cut(self) -> None:
        self.on = False

    delete = power_cut

    def running(self) -> bool:
        return self.on

    def log(self) -> str:
        return self.console


MACHINES: list[Quiet] = []


class GceScene(Scene):
    def __init__(self, cloud: LocalGoogleCloud) -> None:
        self.cloud = cloud
        self.session = Session(environ=cloud.environment(), sleep=cloud.clock.sleep)
        self.live = Live(self.session, cloud.project, (ZONE, "us-east5-b"))
        self.ref = DeploymentRef(stack="tpu-v6e", id=ID)
        self.compute = f"projects/{cloud.project}"

    def make(self, path: str, body: dict[str, Any]) -> None:
        self.session.finish(self.session.call("compute", "POST", f"{self.compute}/{path}", body=body))

    def create(self) -> None:
        account = {"accountId": NAME, "serviceAccount": {"displayName": "x"}}
        self.session.call("iam", "POST", f"v1/{self.compute}/serviceAccounts", body=account)
        self.make("global/networks", {"name": NAME, "autoCreateSubnetworks": False})
        network = f"{self.compute}/global/networks/{NAME}"
        subnetwork = {"name": NAME, "network": network, "ipCidrRange": "10.9.0.0/24"}
        self.make(f"regions/{REGION}/subnetworks", subnetwork)
        allowed = [{"IPProtocol": "tcp", "ports": ["22"]}]
        self.make("global/firewalls", {"name": f"{NAME}-iap", "network": network, "allowed": allowed})
        self.make(f"regions/{REGION}/routers", {"name": NAME, "network": network})
        self.insert()

    def insert(self) -> None:
        self.make(f"zones/{ZONE}/instances", self.machine())

    def machine(self) -> dict[str, Any]:
        image = "projects/ubuntu-os-accelerator-images/global/images/family/ubuntu-accel-2204-amd64-tpu-v5e-v5p-v6e"
        disk = {"sourceImage": image, "diskSizeGb": "200", "diskType": f"{self.compute}/zones/{ZONE}/diskTypes/hyperdisk-balanced"}
        return {
            "name": NAME,
            "machineType": f"{self.compute}/zones/{ZONE}/machineTypes/ct6e-standard-1t",
            "labels": {"flexserve-id": ID, "app": "flexserve"},
            "disks": [{"boot": True, "autoDelete": True, "initializeParams": {**disk, "labels": {"flexserve-id": ID}}}],
            "networkInterfaces": [{"subnetwork": f"{self.compute}/regions/{REGION}/subnetworks/{NAME}"}],
            "metadata": {"items": [{"key": "enable-guest-attributes", "value": "TRUE"}]},
            "scheduling": {
                "provisioningModel": "FLEX_START",
                "maxRunDuration": {"seconds": str(WINDOW_S)},
                "instanceTerminationAction": "DELETE",
                "automaticRestart": False,
                "onHostMaintenance": "TERMINATE",
            },
            "reservationAffinity": {"consumeReservationType": "NO_RESERVATION"},
        }

    def report(self, key: str, document: str) -> None:
        self.cloud.guest(NAME).set_guest_attribute("flexserve", key, document)

    def speak(self, text: str) -> None:
        MACHINES[-1].console += text

    def end(self) -> None:
        self.cloud.clock.advance(WINDOW_S + 60)

    def fail(self) -> str:
        self.cloud.arm(troubles.stock_out(zone=ZONE, times=1))
        path = f"{self.compute}/zones/{ZONE}/instances"
        body = {**self.machine(), "networkInterfaces": [{"network": f"{self.compute}/global/networks/default"}]}
        with pytest.raises(Exception, match="the zone has none of this machine type now"):
            self.session.finish(self.session.call("compute", "POST", path, body=body))
        return ZONE

    def money_words(self) -> str:
        return "The zone 'projects/p/zones/z' does not have enough resources available to fulfill the request."


@pytest.fixture
def cloud():
    with LocalGoogleCloud(Quiet) as running:
        yield running
        assert running.own_errors() == ()


class TestGceFlex(LiveTargetContract):
    @pytest.fixture
    def scene(self, cloud) -> Scene:
        return GceScene(cloud)


def test_the_machine_is_told_as_it_was_really_given(cloud):
    scene = GceScene(cloud)
    scene.create()
    machine = scene.live.find(scene.ref)
    assert machine is not None and (machine.name, machine.where, machine.cloud_state) == (NAME, ZONE, "RUNNING")
    assert machine.provisioning == "flex_start"
    cloud.edit(
        NAME, {"scheduling": {**cloud.instances()[cloud.instance_path(NAME)]["scheduling"], "provisioningModel": "STANDARD"}}
    )
    assert scene.live.find(scene.ref).provisioning == "on_demand"


def test_every_kind_of_thing_is_in_the_inventory_with_its_price(cloud):
    scene = GceScene(cloud)
    scene.create()
    prices = {thing.kind: thing.price_per_hour for thing in scene.live.inventory(scene.ref)}
    assert prices == {
        "instance": 1.35,
        "disk": None,  # the catalog does not know it
        "router": 0.0,
        "firewall": 0.0,
        "subnetwork": 0.0,
        "network": 0.0,
        "service-account": 0.0,
    }


def test_a_disk_that_outlived_its_machine_is_found(cloud):
    scene = GceScene(cloud)
    cloud.put_disk(NAME, "us-east5-b")
    assert [(t.kind, t.name, t.where) for t in scene.live.inventory(scene.ref)] == [("disk", NAME, "us-east5-b")]


def test_a_name_that_only_begins_like_ours_is_not_ours(cloud):
    scene = GceScene(cloud)
    cloud.put_disk(f"{NAME}0", "us-east5-b")
    assert scene.live.inventory(scene.ref) == []


def test_a_delete_that_the_cloud_reports_as_failed_is_not_taken_for_done(cloud):
    scene = GceScene(cloud)
    scene.create()
    cloud.arm(troubles.delete_fails())
    (instance,) = [t for t in scene.live.inventory(scene.ref) if t.kind == "instance"]
    with pytest.raises(Exception, match="Google Cloud"):
        scene.live.delete(instance)
    assert scene.live.find(scene.ref) is not None


def test_a_transient_503_is_not_seen(cloud):
    scene = GceScene(cloud)
    cloud.arm(troubles.unavailable(call="compute.instances.aggregatedList", times=2))
    assert scene.live.find(scene.ref) is None


def test_without_permission_the_answer_is_no_access_not_nothing(cloud, monkeypatch):
    scene = GceScene(cloud)
    cloud.disable("compute.googleapis.com")
    with pytest.raises(NoAccess):
        scene.live.find(scene.ref)


def test_a_host_image_family_is_its_newest_image(cloud, tpu_v6e):
    session = Session(environ=cloud.environment())
    image = resolve("target.host_image", tpu_v6e(), session)
    assert image.startswith("projects/ubuntu-os-accelerator-images/global/images/ubuntu-accel-2204-amd64-tpu-v5e-v5p-v6e-v")
    with pytest.raises(BadConfig, match="has no image family 'none'"):
        resolve("target.host_image", tpu_v6e("target.host_image=projects/acme-1/global/images/family/none"), session)


def test_connect_reads_the_stack_file_and_the_outputs_over_it(cloud):
    connected = connect({"project": "p", "zones": ["a-1-a", "b-1-b"], "zone": "b-1-b"})
    assert (connected._project, connected._zones) == ("p", ("b-1-b", "a-1-a"))
    assert isinstance(live("gce_flex", {"project": "p"}), Live)
    with pytest.raises(BadConfig, match="project: missing"):
        connect({})


def test_the_console_is_read_by_offset():
    pages = {0: ("abc", 3), 3: ("", 3)}

    class Console:
        date = None

        def pages(self, *_, **__):
            yield {"items": {f"zones/{ZONE}": {"instances": [{"name": NAME, "zone": f"x/{ZONE}", "status": "RUNNING"}]}}}

        def call(self, api, method, path, **query):
            assert path.endswith(f"/zones/{ZONE}/instances/{NAME}/serialPort") and query["port"] == "1"
            text, following = pages[int(query["start"])]
            return json.loads(json.dumps({"contents": text, "next": str(following)}))

    target = Live(Console(), "p", (ZONE,))
    ref = DeploymentRef(stack="s", id=ID)
    assert target.log(ref) == ("abc", 3) and target.log(ref, since=3) == ("", 3)
