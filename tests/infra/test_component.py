"""What the component registers, under Pulumi's mocks: rules over the inputs, and a check that breaking any one is seen."""

from __future__ import annotations

import ipaddress
import json
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from infra.targets.gce_flex import resources as r
from tests.infra.mocked import registered
from tests.infra.test_resources import BASE, ID, Boot
from tests.infra.test_settle import TODAY, answers, at

IAP = ipaddress.ip_network("35.235.240.0/20")
LABELS = {"app", "flexserve-id", "flexserve-owner", "flexserve-stack", "flexserve-expires"}


@pytest.fixture
def register(tpu_v6e):
    from catalog.loader import Catalog
    from infra.settle import settle
    from infra.targets.gce_flex.component import Stack

    def run(*sets):
        s = settle(tpu_v6e(*sets), Catalog.load(), None, at(), answers(TODAY))
        resources, outputs = registered(lambda: Stack("serve", s.plan, s.kept, Boot()))
        kinds: dict[str, list[Mapping[str, Any]]] = {}
        for resource in resources:
            kinds.setdefault(resource.typ.rpartition(":")[2], []).append(resource.inputs)
        return kinds, outputs

    return run


def problems(kinds: Mapping[str, list[Mapping[str, Any]]]) -> Iterator[str]:
    """What is wrong with a set of registered inputs; nothing when all is well."""
    vms = kinds.get("Instance", [])
    if len(vms) != 1:
        yield "there is one VM"
        return
    vm = vms[0]
    scheduling = vm.get("scheduling", {})
    expected = {
        "provisioningModel": "FLEX_START",
        "maxRunDuration": {"seconds": 14400.0},
        "instanceTerminationAction": "DELETE",
        "automaticRestart": False,
        "onHostMaintenance": "TERMINATE",
    }
    if scheduling != expected:
        yield "flex-start fields belong together"
    if set(vm.get("labels", {})) != LABELS or vm["labels"]["flexserve-id"] != ID:
        yield "ours by id"
    if not vm.get("bootDisk", {}).get("autoDelete"):
        yield "the disk goes with the VM"
    if vm.get("bootDisk", {}).get("initializeParams", {}).get("labels", {}).get("flexserve-id") != ID:
        yield "the disk is found by id"
    if vm.get("reservationAffinity") != {"type": "NO_RESERVATION"}:
        yield "no reservation is consumed"
    if "metadataStartupScript" in vm or "startup-script" not in vm.get("metadata", {}):
        yield "the script can change in place"
    if vm.get("metadata", {}).get("enable-guest-attributes") != "TRUE":
        yield "the boot can be seen"
    if vm.get("serviceAccount", {}).get("scopes") != ["cloud-platform"]:
        yield "the machine's identity reaches the secret store"
    for rule in kinds.get("Firewall", []):
        ranges = [ipaddress.ip_network(text) for text in rule["sourceRanges"]]
        if rule.get("targetTags") != vm.get("tags"):
            yield "rules are for our tag only"
        if rule.get("allows") and not all(n.subnet_of(IAP) for n in ranges):
            yield "only the tunnel may enter"
        if {p for a in rule.get("allows") or [] for p in a.get("ports", ["all"])} - {"22", "8000"}:
            yield "only ssh and the server"
    for grant in kinds.get("SecretIamMember", []):
        if grant.get("role") != "roles/secretmanager.secretAccessor" or grant.get("secretId") != "hf-token":
            yield "one secret, read only"
    for grant in kinds.get("TunnelInstanceIAMMember", []):
        if grant.get("instance") != BASE or grant.get("member") != "user:ops@acme.test":
            yield "the tunnel is for named members, to this VM"
    if any(net.get("autoCreateSubnetworks") is not False for net in kinds.get("Network", [])):
        yield "no subnetworks that nobody asked for"


def test_all_is_well_with_the_shipped_stack(register):
    kinds, outputs = register()
    assert list(problems(kinds)) == []
    counts = {kind: len(items) for kind, items in kinds.items()}
    assert counts == {
        "Stack": 1, "Account": 1, "SecretIamMember": 1, "Network": 1, "Subnetwork": 1, "Firewall": 1, "Instance": 1,
        "TunnelInstanceIAMMember": 1,
    }  # fmt: skip
    assert outputs["expires_at"] == "2026-11-29T22:34:04Z" and outputs["provisioning"] == "flex_start"
    assert kinds["Instance"][0]["serviceAccount"]["email"] == "fs-0123456789@acme-1.iam.gserviceaccount.com"
    assert kinds["SecretIamMember"][0]["member"] == "serviceAccount:fs-0123456789@acme-1.iam.gserviceaccount.com"


@pytest.mark.parametrize(
    ("sets", "made"),
    [
        (["egress=nat"], {"Router": 1, "RouterNat": 1}),
        (["egress=existing", "allow=[no-way-out]"], {"Router": 0}),
        (["target.network={name: mine, subnetwork: mine}"], {"Network": 0, "Subnetwork": 0, "Firewall": 2}),
        (["target.service_account=vllm-box@acme-1.iam.gserviceaccount.com"], {"Account": 0, "SecretIamMember": 1}),
        (["secret.grant=existing"], {"SecretIamMember": 0}),
        (["secret=null"], {"SecretIamMember": 0}),
        (["access.grants=existing"], {"TunnelInstanceIAMMember": 0}),
    ],
)
def test_each_part_may_be_yours(register, sets, made):
    kinds, _ = register(*sets)
    assert {kind: len(kinds.get(kind, [])) for kind in made} == made
    assert list(problems(kinds)) == []


BREAKS = [
    ("scheduling", lambda a: {**a, "provisioning_model": "STANDARD"}),
    ("scheduling", lambda a: {k: v for k, v in a.items() if k != "instance_termination_action"}),
    ("scheduling", lambda a: {k: v for k, v in a.items() if k != "max_run_duration"}),
    ("labels", lambda a: {k: v for k, v in a.items() if k != "flexserve-id"}),
    ("labels", lambda a: {**a, "flexserve-id": "somebody"}),
    ("instance", lambda a: {**a, "boot_disk": {**a["boot_disk"], "auto_delete": False}}),
    ("instance", lambda a: {k: v for k, v in a.items() if k != "reservation_affinity"}),
    ("instance", lambda a: {**a, "metadata_startup_script": "x"}),
    ("instance", lambda a: {**a, "tags": ["everybody"]}),
    ("instance", lambda a: {**a, "service_account": {**a["service_account"], "scopes": []}}),
    ("metadata", lambda a: {k: v for k, v in a.items() if k != "enable-guest-attributes"}),
    ("firewalls", lambda a: {"iap": {**a["iap"], "source_ranges": ["0.0.0.0/0"]}}),
    ("firewalls", lambda a: {"iap": {**a["iap"], "allows": [{"protocol": "tcp"}]}}),
    ("firewalls", lambda a: {"iap": {**a["iap"], "target_tags": []}}),
    ("secret_grant", lambda a: {**a, "role": "roles/secretmanager.admin"}),
    ("tunnel_grants", lambda a: {"x": {**next(iter(a.values())), "member": "allAuthenticatedUsers"}}),
    ("network", lambda a: {**a, "auto_create_subnetworks": True}),
]


@pytest.mark.parametrize(("function", "change"), BREAKS, ids=[f"{n}-{name}" for n, (name, _) in enumerate(BREAKS)])
def test_a_broken_value_is_seen(register, monkeypatch, function, change):
    right = getattr(r, function)
    monkeypatch.setattr(r, function, lambda *a, **k: change(right(*a, **k)))
    kinds, _ = register()
    assert list(problems(kinds)) != []


def test_no_registered_input_holds_a_secret_value(register, monkeypatch):
    sentinel = "hf_SENTINELsentinel0123456789"
    for name in ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"):
        monkeypatch.setenv(name, sentinel)
    kinds, outputs = register()
    assert sentinel not in json.dumps([kinds, outputs], default=str)
