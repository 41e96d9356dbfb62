"""Plan -> arguments, by tables: what each resource says, and what it never says."""

import base64
import gzip
import json
import re
from dataclasses import dataclass

import pytest

from catalog.loader import Catalog
from infra.settle import settle
from infra.targets.gce_flex import resources as r
from infra.targets.gce_flex.names import Names, account_email, label, resource_path
from tests.infra.test_settle import TODAY, answers, at

ID = "0123456789"
BASE = f"fs-{ID}"


@dataclass(frozen=True)
class Boot:
    stub: bytes = b"#!/bin/sh\n"
    script: bytes = b"#!/bin/bash\n"
    sha256: str = "5" * 64


@pytest.fixture
def make(tpu_v6e):
    def settled(*sets):
        return settle(tpu_v6e(*sets), Catalog.load(), None, at(), answers(TODAY))

    return settled


def everything(s):
    """All argument dictionaries that the component may register."""
    return {
        "account": r.service_account(s.plan),
        "grant": r.secret_grant(s.plan, "serviceAccount:E"),
        "network": r.network(s.plan),
        "subnetwork": r.subnetwork(s.plan, "N"),
        "firewalls": r.firewalls(s.plan, "N"),
        "router": r.router(s.plan, "N"),
        "nat": r.nat(s.plan, "R", "S"),
        "instance": r.instance(s.plan, s.kept, Boot(), subnetwork_id="S", email="E"),
        "tunnel": r.tunnel_grants(s.plan, BASE),
        "outputs": r.outputs(s.plan, s.kept, Boot()),
    }


def test_snapshot(make, root):
    """The whole of it, as one file to read in review."""
    path = root / "tests" / "infra" / "snapshots" / "tpu-v6e.json"
    assert json.loads(json.dumps(everything(make()))) == json.loads(path.read_text(encoding="utf-8"))


def test_flex_start_asks_for_all_that_belongs_together(make):
    assert r.scheduling(make("window=2h").plan) == {
        "provisioning_model": "FLEX_START",
        "max_run_duration": {"seconds": 7200},
        "instance_termination_action": "DELETE",
        "automatic_restart": False,
        "on_host_maintenance": "TERMINATE",
    }


@pytest.mark.parametrize(("egress", "address"), [("address", [{}]), ("nat", None), ("existing", None)])
def test_only_the_address_way_out_has_an_address(make, egress, address):
    s = make(f"egress={egress}", "allow=[no-way-out]")
    interface = r.instance(s.plan, s.kept, Boot(), subnetwork_id="S", email="E")["network_interfaces"][0]
    assert interface.get("access_configs") == address


def test_on_our_own_network_one_rule_lets_the_tunnel_in_and_nothing_else(make):
    (rule,) = r.firewalls(make().plan, "N").values()
    assert rule["source_ranges"] == ["35.235.240.0/20"] and rule["target_tags"] == [BASE]
    assert rule["allows"] == [{"protocol": "tcp", "ports": ["22", "8000"]}] and rule["direction"] == "INGRESS"


def test_on_a_network_of_yours_everybody_else_is_kept_out_above_its_own_rules(make):
    rules = r.firewalls(make("target.network={name: shared, subnetwork: eu}").plan, "N")
    assert (rules["iap"]["priority"], rules["deny"]["priority"]) == (0, 1)
    assert rules["deny"]["denies"] == [{"protocol": "all"}] and rules["deny"]["source_ranges"] == ["0.0.0.0/0"]
    assert {tuple(rule["target_tags"]) for rule in rules.values()} == {(BASE,)}


@pytest.mark.parametrize(
    ("network", "project", "paths"),
    [
        (
            "{name: shared, subnetwork: eu}",
            "acme-1",
            ("projects/acme-1/global/networks/shared", "projects/acme-1/regions/europe-west4/subnetworks/eu"),
        ),
        (
            "{name: projects/acme-host/global/networks/n, subnetwork: eu}",
            "acme-host",
            ("projects/acme-host/global/networks/n", "projects/acme-host/regions/europe-west4/subnetworks/eu"),
        ),
    ],
)
def test_a_network_of_yours_may_lie_in_another_project(make, network, project, paths):
    plan = make(f"target.network={network}").plan
    assert r.existing_network(plan) == paths
    assert all(rule["project"] == project for rule in r.firewalls(plan, "N").values())


@pytest.mark.parametrize(
    ("setting", "role"),
    [("secret.name=hf-token", "roles/secretmanager.secretAccessor"), ("secret.grant=existing", None), ("secret=null", None)],
)
def test_the_machine_may_read_one_secret_or_none(make, setting, role):
    grant = r.secret_grant(make(setting).plan, "serviceAccount:E")
    assert (grant and grant["role"]) == role
    assert grant is None or grant["secret_id"] == "hf-token"


def test_each_member_gets_the_tunnel_to_this_machine_only(make):
    grants = r.tunnel_grants(make('access.members=["user:a@x.test","group:b@x.test"]').plan, BASE)
    assert [(g["member"], g["instance"], g["role"]) for g in grants.values()] == [
        ("user:a@x.test", BASE, "roles/iap.tunnelResourceAccessor"),
        ("group:b@x.test", BASE, "roles/iap.tunnelResourceAccessor"),
    ]
    assert r.tunnel_grants(make("access.grants=existing").plan, BASE) == {}


def test_members_whose_names_are_alike_are_two_grants(make):
    grants = r.tunnel_grants(make('access.members=["user:a.b@x.test","user:a-b@x.test"]').plan, BASE)
    assert sorted(g["member"] for g in grants.values()) == ["user:a-b@x.test", "user:a.b@x.test"]


def test_labels_are_labels(make):
    s = make("owner=Ops.Team@Acme")
    for key, value in r.labels(s.plan, s.kept).items():
        assert re.fullmatch(r"[a-z][a-z0-9_-]{0,62}", key) and re.fullmatch(r"[a-z0-9_-]{1,63}", value)
    assert r.labels(s.plan, s.kept)["flexserve-expires"] == str(1000 + 14400)


def test_every_name_carries_the_id(make):
    args = everything(make())
    for part in ("network", "subnetwork", "router", "nat", "instance"):
        assert args[part]["name"].startswith(BASE)
    assert args["account"]["account_id"] == BASE and 6 <= len(BASE) <= 30
    assert all(rule["name"].startswith(BASE) for rule in args["firewalls"].values())


def test_metadata_is_the_stub_the_script_and_its_hash(make):
    assert r.metadata(Boot()) == {
        "startup-script": "#!/bin/sh\n",
        "flexserve-script": "#!/bin/bash\n",
        "flexserve-script-sha256": "5" * 64,
        "enable-guest-attributes": "TRUE",
        "enable-oslogin": "TRUE",
    }


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("projects/p/zones/z/instances/n", {"projects": "p", "zones": "z", "instances": "n"}),
        ("https://www.googleapis.com/compute/v1/projects/p/regions/r", {"projects": "p", "regions": "r"}),
        ("name", {}),
    ],
)
def test_resource_paths(path, words):
    assert resource_path(path) == words


@pytest.mark.parametrize(
    ("project", "email"), [("p", "fs-1@p.iam.gserviceaccount.com"), ("acme.test:p", "fs-1@p.acme.test.iam.gserviceaccount.com")]
)
def test_account_addresses(project, email):
    assert account_email(project, Names("1").base) == email


@pytest.mark.parametrize(("text", "value"), [("Ops@Acme", "ops-acme"), ("", "unknown"), ("x" * 80, "x" * 63), ("§", "unknown")])
def test_label_values(text, value):
    assert label(text) == value


def unpacked(text):
    """A text, and what base64 and gzip hide in it."""
    yield text
    for word in re.findall(r"[A-Za-z0-9+/=]{16,}", text):
        try:
            raw = base64.b64decode(word, validate=True)
        except ValueError:
            continue
        yield raw.decode(errors="replace")
        if raw[:2] == b"\x1f\x8b":
            yield gzip.decompress(raw).decode(errors="replace")


SENTINEL = "hf_SENTINELsentinel0123456789"


@pytest.mark.parametrize(
    "planted",
    [SENTINEL, base64.b64encode(SENTINEL.encode()).decode(), base64.b64encode(gzip.compress(SENTINEL.encode(), mtime=0)).decode()],
)
def test_the_hunt_for_a_secret_value_finds_a_planted_one(planted):
    assert any(SENTINEL in text for text in unpacked(json.dumps({"metadata": planted})))


def test_no_input_holds_a_secret_value(make, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", SENTINEL)
    s = make()
    text = json.dumps([everything(s), s.kept.as_state(), repr(s.plan)])
    assert not any(SENTINEL in found for found in unpacked(text))
