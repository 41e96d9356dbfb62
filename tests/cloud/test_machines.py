"""An instance has a machine: made when it runs, deleted with it, and it sees the cloud through its guest."""

import json
import threading
from collections.abc import Sequence

import pytest

from rehearsal.cloud.google import LocalGoogleCloud
from rehearsal.cloud.google.cloud import OwnError
from rehearsal.contracts import Completed, HostInventory, MachineSpec
from rehearsal.faults import FAULTS, gce_flex
from tests.cloud.conftest import ACCOUNT, ZONE, Api, instance

VM = f"zones/{ZONE}/instances/vm"


class Recorded:
    """A machine that only remembers what was done to it."""

    kind = "sandbox"

    def __init__(self, spec: MachineSpec, made: list["Recorded"]) -> None:
        self.spec, self.did = spec, []
        made.append(self)

    did: list[str]

    def start(self) -> None:
        self.spec.guest.metadata()  # a machine asks at once, from the thread that starts it
        self.did.append("start")

    def power_cut(self) -> None:
        self.did.append("power_cut")

    def reboot(self) -> None:
        self.did.append("reboot")

    def exec(self, argv: Sequence[str], timeout: float = 20.0) -> Completed:
        return Completed(0, "", "")

    def connect(self, port: int, timeout: float = 5.0) -> int:
        raise ConnectionRefusedError

    def log(self) -> str:
        return "booted\n"

    def running(self) -> bool:
        return self.did[-1] == "start"

    def delete(self) -> None:
        self.did.append("delete")

    def inventory(self) -> HostInventory:
        return HostInventory()


class World:
    def __init__(self) -> None:
        self.made: list[Recorded] = []
        self.cloud = LocalGoogleCloud(lambda spec: Recorded(spec, self.made))
        self.api = Api(self.cloud)
        self.cloud.put_account("flexserve-vm")


@pytest.fixture
def world():  # type: ignore[no-untyped-def]
    world = World()
    with world.cloud:
        yield world
        assert world.cloud.own_errors() == ()
    assert all(machine.did[-1] == "delete" for machine in world.made)


def test_made_at_running_and_deleted_with_the_instance(world: World) -> None:
    world.api.create()
    machine = world.made[0]
    assert machine.did == ["start"] and dict(world.cloud.machines()) == {"vm": machine}
    assert (machine.spec.name, machine.spec.disk_gb, machine.spec.egress) == ("vm", 200, True)
    world.api.done("DELETE", VM)
    assert machine.did == ["start", "delete"] and world.cloud.machines() == {}


def test_the_window_deletes_the_machine(world: World) -> None:
    world.api.create()
    world.cloud.clock.advance(14400)
    assert world.made[0].did == ["start", "delete"] and world.cloud.ledger.left() == ()


def test_what_a_machine_sees(world: World) -> None:
    world.api.create()
    tree = world.made[0].spec.guest.metadata()
    vm, project = tree["instance"], tree["project"]
    assert vm["name"] == "vm" and vm["zone"] == f"projects/123456789012/zones/{ZONE}"  # type: ignore[index]
    assert vm["attributes"] == {"startup-script": "#!/bin/sh\necho hi"}  # type: ignore[index]
    assert vm["service-accounts"]["default"]["email"] == ACCOUNT  # type: ignore[index]
    assert vm["network-interfaces"]["0"]["access-configs"]["0"]["external-ip"] == "203.0.113.7"  # type: ignore[index]
    assert project == {"project-id": "demo", "numeric-project-id": "123456789012", "attributes": {}}
    assert set(map(type, _leaves(tree))) == {str}


def _leaves(node: object) -> list[object]:
    return [leaf for value in node.values() for leaf in _leaves(value)] if isinstance(node, dict) else [node]


def test_a_change_of_metadata_wakes_who_waits(world: World) -> None:
    vm = world.api.create()
    guest, woken = world.made[0].spec.guest, threading.Event()
    etag = world.cloud.guest("vm").etag()

    def wait() -> None:
        if guest.wait_for_change(etag, 60) != etag:
            woken.set()

    thread = threading.Thread(target=wait)
    thread.start()
    world.api.done("POST", f"{VM}/setMetadata", {"fingerprint": vm["metadata"]["fingerprint"], "items": []})
    assert woken.wait(30)
    thread.join(30)
    assert guest.wait_for_change(world.cloud.guest("vm").etag(), 0.01) == world.cloud.guest("vm").etag()


def test_waiting_and_changing_at_once_do_not_lock_each_other(world: World) -> None:
    world.api.create()
    guest, over = world.cloud.guest("vm"), threading.Event()

    def wait() -> None:
        while not over.is_set():
            guest.wait_for_change(guest.etag(), 0.2)

    waiters = [threading.Thread(target=wait, daemon=True) for _ in range(4)]
    for waiter in waiters:
        waiter.start()
    for turn in range(60):
        fingerprint = world.api("GET", VM)[1]["metadata"]["fingerprint"]
        items = [{"key": "turn", "value": str(turn)}]
        assert world.api("POST", f"{VM}/setMetadata", {"fingerprint": fingerprint, "items": items})[0] == 200
    over.set()
    for waiter in waiters:
        waiter.join(30)
        assert not waiter.is_alive()


def test_guest_attributes_only_when_enabled(world: World) -> None:
    world.api.create()
    with pytest.raises(ValueError, match="disabled"):
        world.made[0].spec.guest.set_guest_attribute("flexserve", "state", "x")
    assert world.api("GET", f"{VM}/getGuestAttributes", query="queryPath=flexserve/")[0] == 404


def test_guest_attributes_are_read_back(world: World) -> None:
    world.api.create(metadata={"items": [{"key": "enable-guest-attributes", "value": "TRUE"}]})
    guest = world.made[0].spec.guest
    guest.set_guest_attribute("flexserve", "state", "booting")
    guest.set_guest_attribute("flexserve", "phase-docker", "{}")
    answer = world.api("GET", f"{VM}/getGuestAttributes", query="queryPath=flexserve/")[1]
    assert {i["key"]: i["value"] for i in answer["queryValue"]["items"]} == {"state": "booting", "phase-docker": "{}"}
    assert world.api("GET", f"{VM}/getGuestAttributes", query="variableKey=flexserve/state")[1]["variableValue"] == "booting"
    assert world.api("GET", f"{VM}/getGuestAttributes", query="variableKey=flexserve/none")[0] == 404


def test_the_console_from_an_offset(world: World) -> None:
    world.api.create()
    answer = world.api("GET", f"{VM}/serialPort", query="start=4")[1]
    assert (answer["contents"], answer["next"]) == ("ed\n", "7")
    assert world.api("GET", f"{VM}/serialPort", query="start=99")[1]["contents"] == ""


def test_a_machine_that_turns_itself_off(world: World) -> None:
    world.api.create()
    world.made[0].spec.guest.powered_off()
    assert world.api("GET", VM)[1]["status"] == "TERMINATED"
    assert [i.kind for i in world.cloud.ledger.left()] == ["disk"]
    assert world.made[0].did == ["start"]  # it was off already


def test_a_machine_that_does_not_start_is_said_and_stops_nothing() -> None:
    def broken(spec: MachineSpec) -> Recorded:
        raise OSError("no loop device left")

    with pytest.raises(OwnError, match="no loop device left"), LocalGoogleCloud(broken) as cloud:
        cloud.put_account("flexserve-vm")
        Api(cloud).create()
        assert [text.strip().splitlines()[-1] for text in cloud.own_errors()] == ["OSError: no loop device left"]
        Api(cloud).done("DELETE", VM)


def test_an_instance_that_goes_while_its_machine_is_made() -> None:
    made: list[Recorded] = []

    def slow(spec: MachineSpec) -> Recorded:
        cloud.reclaim("vm")
        return Recorded(spec, made)

    with LocalGoogleCloud(slow) as cloud:
        cloud.put_account("flexserve-vm")
        Api(cloud).done("POST", f"zones/{ZONE}/instances", instance())
        assert made[0].did == ["delete"] and cloud.machines() == {} and cloud.own_errors() == ()


def test_reset_is_a_power_cut_on_the_same_disk(world: World) -> None:
    world.api.create()
    world.api.done("POST", f"{VM}/reset")
    assert world.made[0].did == ["start", "power_cut", "start"] and len(world.made) == 1


def test_no_way_out_without_address_or_nat(world: World) -> None:
    world.api.done("POST", "global/networks", {"name": "n", "autoCreateSubnetworks": False})
    subnet = {"name": "n", "network": "global/networks/n", "ipCidrRange": "10.9.0.0/24", "privateIpGoogleAccess": True}
    world.api.done("POST", "regions/us-central1/subnetworks", subnet)
    nics = [{"subnetwork": "regions/us-central1/subnetworks/n"}]
    world.api.create(networkInterfaces=nics)
    assert (world.made[0].spec.egress, world.made[0].spec.private_google_access) == (False, True)
    router = {"name": "n", "network": "global/networks/n", "nats": [{"name": "nat", "natIpAllocateOption": "AUTO_ONLY"}]}
    world.api.done("POST", "regions/us-central1/routers", router)
    world.api.create(name="second", networkInterfaces=nics)
    assert world.made[1].spec.egress is True


def test_without_an_account_there_is_no_token(world: World) -> None:
    world.api.create(serviceAccounts=[])
    with pytest.raises(LookupError):
        world.made[0].spec.guest.access_token([])


@pytest.mark.parametrize(
    ("name", "operation"), [("reclaimed", "compute.instances.preempted"), ("window-closes", "compute.instances.delete")]
)
def test_gone_once_it_serves(world: World, name: str, operation: str) -> None:
    FAULTS[name].apply(world.cloud)
    world.api.create(metadata={"items": [{"key": "enable-guest-attributes", "value": "TRUE"}]})
    guest = world.made[0].spec.guest
    guest.set_guest_attribute("flexserve", "state", json.dumps({"state": "booting"}))
    world.cloud.clock.advance(10)
    assert world.api("GET", VM)[0] == 200
    guest.set_guest_attribute("flexserve", "state", json.dumps({"state": "serving"}))
    world.cloud.clock.advance(1)
    assert world.api("GET", VM)[0] == 404 and world.cloud.ledger.left() == ()
    assert world.api("GET", f"zones/{ZONE}/operations")[1]["items"][-1]["operationType"] == operation


@pytest.mark.parametrize("name", [fault.name for fault in gce_flex.FAULTS])
def test_every_fault_of_the_cloud_can_be_armed(world: World, name: str) -> None:
    world.cloud.put_secret("hf-token", "s3cret")
    FAULTS[name].apply(world)  # type: ignore[arg-type]  # a stage is taken too: it has a cloud
    world.api("POST", f"zones/{ZONE}/instances", {})


def test_a_fault_of_this_cloud_breaks_no_other() -> None:
    with pytest.raises(TypeError, match="local Google cloud"):
        FAULTS["quota"].apply(object())  # type: ignore[arg-type]
