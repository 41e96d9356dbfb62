"""IAM: service accounts and their policies.

Project policies (Cloud Resource Manager); tunnel grants (IAP); who am I.
"""

from __future__ import annotations

import re

from rehearsal.cloud.google.call import Call, Json
from rehearsal.cloud.google.errors import rpc_error
from rehearsal.cloud.google.policies import answer_get, answer_set, answer_test
from rehearsal.cloud.google.state import State, new_id

ACCOUNT_ID = re.compile(r"[a-z]([-a-z0-9]{4,28}[a-z0-9])")


def add_account(state: State, account_id: str, body: Json) -> Json:
    """A new service account. Raises 400 for a bad id, 409 when it exists."""
    if not ACCOUNT_ID.fullmatch(account_id):
        raise rpc_error(400, f"The request was invalid: accountId '{account_id}' must match {ACCOUNT_ID.pattern}")
    email = f"{account_id}@{state.project}.iam.gserviceaccount.com"
    if email in state.accounts:
        text = f"Service account {account_id} already exists within project projects/{state.project}."
        raise rpc_error(409, text, status="ALREADY_EXISTS")
    unique = new_id()
    account = {k: v for k, v in body.items() if k in ("displayName", "description")} | {
        "name": f"projects/{state.project}/serviceAccounts/{email}",
        "projectId": state.project,
        "uniqueId": unique,
        "email": email,
        "etag": "MDEwMjE5MjA=",
        "oauth2ClientId": unique,
    }
    state.accounts[email] = account
    return account


def add_default_account(state: State) -> None:
    """The account that Compute Engine makes when it is switched on."""
    email = f"{state.number}-compute@developer.gserviceaccount.com"
    state.accounts[email] = {
        "name": f"projects/{state.project}/serviceAccounts/{email}",
        "projectId": state.project,
        "uniqueId": new_id(),
        "email": email,
        "displayName": "Compute Engine default service account",
        "etag": "MDEwMjE5MjA=",
    }


def _account(state: State, call: Call) -> Json:
    wanted = call.name.rsplit("/", 1)[-1]
    for account in state.accounts.values():
        if wanted in (account["email"], account["uniqueId"]):
            return account
    raise rpc_error(404, "Unknown service account")


def accounts_create(state: State, call: Call) -> Json:
    """A new service account."""
    project(state, call.name.split("/")[1])
    return add_account(state, str(call.body.get("accountId", "")), call.body.get("serviceAccount", {}))


def accounts_get(state: State, call: Call) -> Json:
    """By email or unique id."""
    return _account(state, call)


def accounts_list(state: State, call: Call) -> Json:  # noqa: ARG001
    """All of the project."""
    return {"accounts": list(state.accounts.values())} if state.accounts else {}


def accounts_patch(state: State, call: Call) -> Json:
    """Display name and description."""
    account = _account(state, call)
    account.update({k: v for k, v in call.body.get("serviceAccount", {}).items() if k in ("displayName", "description")})
    return account


def accounts_delete(state: State, call: Call) -> Json:
    """Its bindings stay, marked as a deleted account's."""
    account = _account(state, call)
    state.accounts.pop(account["email"])
    state.policies.account_deleted(account["email"], account["uniqueId"])
    return {}


def account_policy_get(state: State, call: Call) -> Json:
    """Who may act as the account."""
    return answer_get(state.policies, _account(state, call)["name"])


def account_policy_set(state: State, call: Call) -> Json:
    """Who may act as the account."""
    return answer_set(state.policies, _account(state, call)["name"], call)


def project(state: State, name: str) -> str:
    """The policy resource of the project by id or number.

    Raises 403, as Google does for what it will not admit to exist.
    """
    if name not in (state.project, state.number):
        raise rpc_error(403, "The caller does not have permission")
    return f"projects/{state.project}"


def _project_of(call: Call) -> str:
    return (call.params.get("projectId") or call.name).removeprefix("projects/")


def project_v1(state: State, call: Call) -> Json:
    """The project, as version 1 and version 3 describe it."""
    project(state, _project_of(call))
    if "projectId" in call.params:
        return {
            "projectNumber": state.number,
            "projectId": state.project,
            "lifecycleState": "ACTIVE",
            "name": state.project,
            "createTime": "2026-01-01T00:00:00.000Z",
        }
    return {
        "name": f"projects/{state.number}",
        "projectId": state.project,
        "state": "ACTIVE",
        "displayName": state.project,
        "createTime": "2026-01-01T00:00:00Z",
        "etag": 'W/"1"',
    }


def project_policy_get(state: State, call: Call) -> Json:
    """The project's own bindings."""
    return answer_get(state.policies, project(state, _project_of(call)))


def project_policy_set(state: State, call: Call) -> Json:
    """The project's own bindings."""
    return answer_set(state.policies, project(state, _project_of(call)), call)


def _tunnel(state: State, call: Call) -> str:
    """The resource of a tunnel grant, its project by id whichever way it was named."""
    parts = call.name.split("/")
    project(state, parts[1])
    if parts[2] != "iap_tunnel":
        raise rpc_error(404, f"Requested entity was not found: {call.name}")
    return "/".join(["projects", state.project, *parts[2:]])


def tunnel_policy_get(state: State, call: Call) -> Json:
    """Who may open a tunnel. IAP knows a policy for an instance that does not exist, as the real one does."""
    return answer_get(state.policies, _tunnel(state, call))


def tunnel_policy_set(state: State, call: Call) -> Json:
    """Who may open a tunnel."""
    return answer_set(state.policies, _tunnel(state, call), call)


def may_tunnel(state: State, member: str, zone: str, instance: str) -> bool:
    """Whether a member has a tunnel grant for the instance: its own, its zone's, or the project's."""
    top = f"projects/{state.project}"
    chain = (
        top,
        f"{top}/iap_tunnel",
        f"{top}/iap_tunnel/zones/{zone}",
        f"{top}/iap_tunnel/zones/{zone}/instances/{instance}",
    )
    return bool(state.policies.roles_of(member, chain) & {"roles/iap.tunnelResourceAccessor", "roles/owner"})


def test_permissions(state: State, call: Call) -> Json:
    """Which of these the operator has."""
    return answer_test(call, state.denied)


def userinfo(state: State, call: Call) -> Json:
    """Who the token is."""
    account = state.accounts.get(call.caller.email, {})
    return {"id": account.get("uniqueId", "100000000000000000001"), "email": call.caller.email, "verified_email": True}


def tokeninfo(state: State, call: Call) -> Json:  # noqa: ARG001
    """What the token is worth."""
    scopes = " ".join(call.caller.scopes) or "https://www.googleapis.com/auth/cloud-platform"
    return {"email": call.caller.email, "verified_email": True, "scope": scopes, "expires_in": 3599}


_ACCOUNTS = "iam.projects.serviceAccounts"
HANDLERS = {
    f"{_ACCOUNTS}.create": accounts_create,
    f"{_ACCOUNTS}.get": accounts_get,
    f"{_ACCOUNTS}.list": accounts_list,
    f"{_ACCOUNTS}.patch": accounts_patch,
    f"{_ACCOUNTS}.delete": accounts_delete,
    f"{_ACCOUNTS}.getIamPolicy": account_policy_get,
    f"{_ACCOUNTS}.setIamPolicy": account_policy_set,
    f"{_ACCOUNTS}.testIamPermissions": test_permissions,
    "cloudresourcemanager.projects.get": project_v1,
    "cloudresourcemanager.projects.getIamPolicy": project_policy_get,
    "cloudresourcemanager.projects.setIamPolicy": project_policy_set,
    "cloudresourcemanager.projects.testIamPermissions": test_permissions,
    "iap.getIamPolicy": tunnel_policy_get,
    "iap.setIamPolicy": tunnel_policy_set,
    "iap.testIamPermissions": test_permissions,
    "oauth2.userinfo.get": userinfo,
    "oauth2.userinfo.v2.me.get": userinfo,
    "oauth2.tokeninfo": tokeninfo,
}
