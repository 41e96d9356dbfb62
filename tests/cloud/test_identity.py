"""Who may read a secret, and what a policy remembers."""

import base64
import json

import pytest

from rehearsal.cloud.google import LocalGoogleCloud
from rehearsal.faults import FAULTS
from tests.cloud.conftest import ACCOUNT, ZONE, Api, instance

SECRET = "/secretmanager/v1/projects/demo/secrets/hf-token"
LATEST = "projects/demo/secrets/hf-token/versions/latest"
GRANT = {"role": "roles/secretmanager.secretAccessor", "members": [f"serviceAccount:{ACCOUNT}"]}


def grant(api: Api, *bindings: object) -> tuple[int, object]:
    etag = api("GET", f"{SECRET}:getIamPolicy", query="options.requestedPolicyVersion=3")[1]["etag"]
    return api("POST", f"{SECRET}:setIamPolicy", {"policy": {"bindings": list(bindings), "etag": etag, "version": 3}})


def machine_token(cloud: LocalGoogleCloud, api: Api, **over: object) -> str:
    api.create(**over)
    return cloud.guest("vm").access_token([])[0]


def test_a_machine_reads_a_secret_only_with_a_grant(cloud: LocalGoogleCloud, api: Api) -> None:
    cloud.put_secret("hf-token", "s3cret")
    token = machine_token(cloud, api)
    status, body = cloud.access_secret(token, LATEST)
    assert status == 403 and "secretmanager.versions.access" in str(body)
    assert grant(api, GRANT)[0] == 200
    status, body = cloud.access_secret(token, LATEST)
    assert status == 200 and base64.b64decode(body["payload"]["data"]) == b"s3cret"  # type: ignore[index]
    assert grant(api)[0] == 200
    assert cloud.access_secret(token, LATEST)[0] == 403


def test_another_account_s_grant_does_not_help(cloud: LocalGoogleCloud, api: Api) -> None:
    cloud.put_secret("hf-token", "s3cret")
    other = cloud.put_account("somebody")
    grant(api, GRANT | {"members": [f"serviceAccount:{other}"]})
    assert cloud.access_secret(machine_token(cloud, api), LATEST)[0] == 403


def test_a_grant_of_another_role_does_not_help(cloud: LocalGoogleCloud, api: Api) -> None:
    cloud.put_secret("hf-token", "s3cret")
    grant(api, GRANT | {"role": "roles/secretmanager.viewer"})
    assert cloud.access_secret(machine_token(cloud, api), LATEST)[0] == 403


def test_scopes_of_the_instance_bound_what_its_token_may(cloud: LocalGoogleCloud, api: Api) -> None:
    cloud.put_secret("hf-token", "s3cret")
    grant(api, GRANT)
    accounts = [{"email": ACCOUNT, "scopes": ["https://www.googleapis.com/auth/logging.write"]}]
    status, body = cloud.access_secret(machine_token(cloud, api, serviceAccounts=accounts), LATEST)
    assert status == 403 and "ACCESS_TOKEN_SCOPE_INSUFFICIENT" in json.dumps(body)


def test_a_machine_s_token_is_not_the_operator_s(cloud: LocalGoogleCloud, api: Api) -> None:
    token = machine_token(cloud, api)
    assert api("DELETE", f"zones/{ZONE}/instances/vm", bearer=token)[0] == 403
    assert api("GET", "/oauth2/v2/userinfo", query="", bearer=token)[1]["email"] == ACCOUNT


@pytest.mark.parametrize("bearer", ["", "ya29.c.made-up"])
def test_no_token_no_answer(cloud: LocalGoogleCloud, api: Api, bearer: str) -> None:
    status, body = api("GET", f"zones/{ZONE}/instances", bearer=bearer)
    assert (status, body["error"]["status"]) == (401, "UNAUTHENTICATED")


def test_a_token_expires_on_the_cloud_s_clock(cloud: LocalGoogleCloud, api: Api) -> None:
    cloud.put_secret("hf-token", "s3cret")
    grant(api, GRANT)
    token = machine_token(cloud, api)
    cloud.clock.advance(3601)
    assert cloud.access_secret(token, LATEST)[0] == 401


def test_a_late_grant(cloud: LocalGoogleCloud, api: Api) -> None:
    cloud.delay_grants(60)
    cloud.put_secret("hf-token", "s3cret")
    token = machine_token(cloud, api)
    grant(api, GRANT)
    assert cloud.access_secret(token, LATEST)[0] == 403
    cloud.clock.advance(60)
    assert cloud.access_secret(token, LATEST)[0] == 200


def test_a_missing_and_an_empty_secret(cloud: LocalGoogleCloud, api: Api) -> None:
    status, body = api("GET", f"{SECRET}/versions/latest:access")
    assert status == 404 and "not found" in body["error"]["message"]
    cloud.put_secret("hf-token", "s3cret")
    billed = cloud.ledger.left()
    FAULTS["secret-empty"].apply(cloud)
    assert cloud.ledger.left() == billed  # the fault itself leaves nothing on the bill
    status, body = api("GET", f"{SECRET}/versions/latest:access")
    assert (status, body["payload"]) == (200, {})


def test_versions_bill_until_they_are_destroyed(cloud: LocalGoogleCloud, api: Api) -> None:
    cloud.put_secret("hf-token", "one")
    cloud.put_secret("hf-token", "two")
    assert [i.name for i in cloud.ledger.left()] == ["hf-token/versions/1", "hf-token/versions/2"]
    assert api("POST", f"{SECRET}/versions/1:destroy", {})[1]["state"] == "DESTROYED"
    assert [i.name for i in cloud.ledger.left()] == ["hf-token/versions/2"]
    assert api("GET", f"{SECRET}/versions/1:access")[0] == 400
    assert api("DELETE", SECRET)[0] == 200 and cloud.ledger.left() == ()


def test_a_stale_etag_changes_nothing(api: Api) -> None:
    url = "/crm/v1/projects/demo"
    stale = api("POST", f"{url}:getIamPolicy", {})[1]
    binding = {"role": "roles/logging.logWriter", "members": ["user:a@example.com"]}
    assert api("POST", f"{url}:setIamPolicy", {"policy": stale | {"bindings": [binding]}})[0] == 200
    status, body = api("POST", f"{url}:setIamPolicy", {"policy": stale | {"bindings": []}})
    assert (status, body["error"]["status"]) == (409, "ABORTED")
    assert api("POST", f"{url}:getIamPolicy", {})[1]["bindings"] == [binding]


def test_members_must_exist_and_deleted_ones_are_marked(cloud: LocalGoogleCloud, api: Api) -> None:
    url = "/crm/v3/projects/demo"
    nobody = {"role": "roles/viewer", "members": ["serviceAccount:nobody@demo.iam.gserviceaccount.com"]}
    status, body = api("POST", f"{url}:setIamPolicy", {"policy": {"bindings": [nobody]}})
    assert status == 400 and "does not exist" in body["error"]["message"]
    assert (
        api("POST", f"{url}:setIamPolicy", {"policy": {"bindings": [{**nobody, "members": [f"serviceAccount:{ACCOUNT}"]}]}})[0]
        == 200
    )
    assert api("DELETE", f"/iam/v1/projects/demo/serviceAccounts/{ACCOUNT}")[0] == 200
    member = api("POST", f"{url}:getIamPolicy", {})[1]["bindings"][0]["members"][0]
    assert member.startswith(f"deleted:serviceAccount:{ACCOUNT}?uid=")


def test_a_permission_that_the_operator_lacks(cloud: LocalGoogleCloud, api: Api) -> None:
    asked = {"permissions": ["compute.instances.create", "compute.instances.get"]}
    assert api("POST", "/crm/v1/projects/demo:testIamPermissions", asked)[1] == asked
    cloud.deny("compute.instances.create")
    assert api("POST", "/crm/v1/projects/demo:testIamPermissions", asked)[1] == {"permissions": ["compute.instances.get"]}
    status, body = api("POST", f"zones/{ZONE}/instances", instance())
    words = f"Required 'compute.instances.create' permission for 'projects/demo/zones/{ZONE}/instances/vm'"
    assert (status, body["error"]["message"]) == (403, words)


def test_tunnel_grants(cloud: LocalGoogleCloud, api: Api) -> None:
    url = f"/iap/v1/projects/demo/iap_tunnel/zones/{ZONE}/instances/vm"
    assert cloud.may_tunnel(ZONE, "vm", "user:a@example.com") is False
    binding = {"role": "roles/iap.tunnelResourceAccessor", "members": ["user:a@example.com"]}
    etag = api("POST", f"{url}:getIamPolicy", {"options": {"requestedPolicyVersion": 3}})[1]["etag"]
    assert api("POST", f"{url}:setIamPolicy", {"policy": {"bindings": [binding], "etag": etag}})[0] == 200
    assert cloud.may_tunnel(ZONE, "vm", "user:a@example.com") is True
    assert cloud.may_tunnel(ZONE, "other", "user:a@example.com") is False


def test_a_secret_s_value_is_in_no_log(cloud: LocalGoogleCloud, api: Api) -> None:
    encoded = base64.b64encode(b"hf_sentinel_value").decode()
    api("POST", "/secretmanager/v1/projects/demo/secrets", {"replication": {"automatic": {}}}, "secretId=hf-token")
    api("POST", f"{SECRET}:addVersion", {"payload": {"data": encoded}})
    assert api("GET", f"{SECRET}/versions/1:access")[1]["payload"]["data"] == encoded
    logged = json.dumps(cloud.requests())
    assert encoded not in logged and "hf_sentinel_value" not in logged and "sha256:" in logged
