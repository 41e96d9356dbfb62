"""Google's own documents decide what may be asked and what may be answered."""

import json
from pathlib import Path
from typing import Any

import pytest

from rehearsal.cloud.google import LocalGoogleCloud
from rehearsal.cloud.google.api import APIS
from rehearsal.cloud.google.cloud import OwnError
from rehearsal.cloud.google.discovery import document
from rehearsal.cloud.google.schema import TOLERATED, normalise, violations
from rehearsal.cloud.google.table import BEFORE, handlers
from tests.cloud.conftest import ZONE, Api, instance, scheduling

RECORDED = Path(__file__).parent.parent / "providers" / "recorded" / "gcp-requests.jsonl"


def test_every_handler_is_a_method_of_google() -> None:
    known = {id_ for api in APIS for version in api.versions for id_ in document(api.name, version).methods}
    assert set(handlers()) - known == set()
    assert set(BEFORE) <= set(handlers())


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"colour": "red"}, 'Unknown name "colour": Cannot find field.'),
        ({"scheduling": scheduling(provisionningModel="SPOT")}, "Unknown name \"provisionningModel\" at 'scheduling'"),
        ({"scheduling": scheduling(provisioningModel="FLEX")}, "Invalid value at 'scheduling.provisioningModel' (TYPE_ENUM)"),
        ({"scheduling": scheduling(maxRunDuration={"seconds": "4h"})}, "'scheduling.maxRunDuration.seconds' (TYPE_INT64)"),
        ({"scheduling": scheduling(maxRunDuration={"seconds": 1.5})}, "'scheduling.maxRunDuration.seconds' (TYPE_INT64)"),
        ({"scheduling": scheduling(automaticRestart="false")}, "'scheduling.automaticRestart' (TYPE_BOOL)"),
        ({"labels": ["stack"]}, "Invalid value at 'labels'"),
        ({"labels": {"stack": 1}}, "Invalid value at 'labels[stack]'"),
        ({"disks": {"boot": True}}, "Invalid value at 'disks'"),
        ({"networkInterfaces": [{"netwrok": "x"}]}, "Unknown name \"netwrok\" at 'networkInterfaces[0]'"),
    ],
)
def test_a_body_that_google_does_not_know(cloud: LocalGoogleCloud, api: Api, change: dict[str, Any], complaint: str) -> None:
    status, body = api("POST", f"zones/{ZONE}/instances", instance(**change))
    assert status == 400 and complaint in body["error"]["message"], body
    assert cloud.log.entries()[-1].accepted is False and cloud.log.entries()[-1].complaints
    assert cloud.instances() == {}


def test_a_query_that_google_does_not_know(cloud: LocalGoogleCloud, api: Api) -> None:
    status, body = api("GET", f"zones/{ZONE}/instances", query="alt=json&colour=red")
    assert status == 400 and 'Unknown name "colour"' in body["error"]["message"]
    assert api("GET", f"zones/{ZONE}/instances", query="maxResults=many")[0] == 400
    assert api("GET", f"zones/{ZONE}/instances/vm", query="view=HALF")[0] == 400
    assert [e.accepted for e in cloud.log.entries()] == [False, False, False]


def test_a_field_of_beta_is_unknown_to_v1(cloud: LocalGoogleCloud) -> None:
    beta, v1 = (set(document("compute", v).schemas["Instance"]["properties"]) for v in ("beta", "v1"))
    only = sorted(beta - v1)[0]
    assert Api(cloud, "v1")("POST", f"zones/{ZONE}/instances", instance(**{only: None} | {only: {}}))[0] == 400


def test_a_method_that_google_does_not_have(cloud: LocalGoogleCloud, api: Api) -> None:
    assert api("GET", f"zones/{ZONE}/virtualMachines")[0] == 404
    assert api("PUT", f"zones/{ZONE}/instances")[0] == 404
    assert [e.accepted for e in cloud.log.entries()] == [False, False]


def test_a_method_that_only_google_has_is_said_to_be_missing_here(cloud: LocalGoogleCloud, api: Api) -> None:
    status, body = api("GET", "global/urlMaps")
    assert (status, body["error"]["status"]) == (501, "UNIMPLEMENTED")
    assert "compute.urlMaps.list" in body["error"]["message"] and cloud.log.entries()[-1].accepted


def test_an_answer_that_google_could_not_give_is_recorded() -> None:
    with pytest.raises(OwnError, match="mood"), LocalGoogleCloud() as cloud:
        api = Api(cloud)
        cloud.put_account("flexserve-vm")
        api.create()
        assert cloud.own_errors() == ()
        cloud.edit("vm", {"mood": "fine"})
        api("GET", f"zones/{ZONE}/instances/vm")
        assert cloud.own_errors() == ('compute.instances.get: Unknown name "mood": Cannot find field.',)


def test_a_bug_of_ours_is_a_500_and_is_recorded() -> None:
    with pytest.raises(OwnError, match="TypeError"), LocalGoogleCloud() as cloud:
        cloud.state.compute.clear()
        cloud.state.compute[f"projects/demo/zones/{ZONE}/instances/vm"] = {"name": object()}
        assert Api(cloud)("GET", f"zones/{ZONE}/instances/vm")[0] == 500
        assert "TypeError" in cloud.own_errors()[0]


def test_normal_form() -> None:
    doc = document("compute", "beta")
    value = {"maxRunDuration": {"seconds": 14400, "nanos": 0}, "gracefulShutdown": None, "nodeAffinities": [None]}
    assert normalise(doc, "Scheduling", value) == {"maxRunDuration": {"seconds": "14400", "nanos": 0}}
    assert normalise(doc, "Router", {"nats": [{"initialNatIps": []}]}) == {"nats": [{}]}
    assert normalise(doc, "Router", {"nats": []}) == {"nats": []}  # an empty list takes the NATs away


def test_what_is_tolerated_is_no_field_of_google_and_only_when_empty() -> None:
    doc = document("compute", "beta")
    for schema, field in TOLERATED:
        assert field not in doc.schemas[schema]["properties"]
        assert violations(doc, schema, {field: []}) == [] and violations(doc, schema, {field: ["x"]})


def test_the_recorded_requests_of_the_real_provider_are_all_accepted(cloud: LocalGoogleCloud) -> None:
    if not RECORDED.is_file():
        pytest.skip("the provider's recordings are not here yet")
    with RECORDED.open() as lines:
        for record in map(json.loads, lines):
            if "instanceGroupManagers" in record["path"] or "instanceTemplates" in record["path"]:
                continue
            raw = json.dumps(record["body"]).encode() if record.get("body") else b""
            cloud.request(record["method"], record["path"], record.get("query") or "", raw)
            assert cloud.log.entries()[-1].complaints == (), record
            assert cloud.log.entries()[-1].operation, record
