"""What the local cloud says when a fault is armed is what the product has a meaning, and the fault's exit code, for."""

import json

import pytest

from infra.clouds.google import errors
from rehearsal.cloud.google import LocalGoogleCloud
from rehearsal.faults import FAULTS
from tests.cloud.conftest import ZONE, Api, instance

CREATES = ["stock-out", "stock-out-details", "machine-type-gone", "quota", "quota-at-once", "no-permission", "api-off", "bad-token"]


@pytest.mark.parametrize("name", CREATES)
def test_a_failed_create(cloud: LocalGoogleCloud, api: Api, name: str) -> None:
    fault = FAULTS[name]
    fault.apply(cloud)
    status, body = api("POST", f"zones/{ZONE}/instances", instance())
    if status == 200:
        problem = api("POST", f"zones/{ZONE}/operations/{body['name']}/wait")[1]["error"]["errors"][0]
        by_code, by_words = errors.from_words("", problem["code"]), errors.from_words(problem["message"])
        assert by_code.kind == by_words.kind  # Pulumi's text has lost the code, the Compute API has not
    else:
        by_words = errors.from_answer(status, json.dumps(body).encode())
        assert errors.from_words(body["error"]["message"]).kind == by_words.kind
    assert by_words.exit_code == fault.expect_exit
    assert cloud.instances() == {} and cloud.ledger.items() == ()


def test_a_missing_secret_is_named(api: Api) -> None:
    status, body = api("POST", "/secretmanager/v1/projects/demo/secrets/hf-token:setIamPolicy", {"policy": {}})
    meaning = errors.from_answer(status, json.dumps(body).encode())
    assert meaning.what == "the secret that the stack names does not exist" and "hf-token" in meaning.why
    assert meaning.exit_code == FAULTS["secret-missing"].expect_exit
