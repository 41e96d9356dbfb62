"""Secret Manager: secrets, versions, access. Every version that is not destroyed bills."""

from __future__ import annotations

import re

from rehearsal.cloud.google.call import Call, Json
from rehearsal.cloud.google.errors import rpc_error
from rehearsal.cloud.google.policies import answer_get, answer_set, answer_test
from rehearsal.cloud.google.state import State, new_id

SECRET_ID = re.compile(r"[A-Za-z0-9_-]{1,255}")
LONGEST_PAYLOAD = 64 * 1024


def canonical(state: State, name: str) -> str:
    """The name with the project's number, under which Secret Manager keeps everything."""
    parts = name.split("/")
    if parts[1] not in (state.project, state.number):
        raise rpc_error(403, f"Permission denied on resource project {parts[1]}.")
    return "/".join(["projects", state.number, *parts[2:]])


def policy_resource(state: State, name: str) -> str:
    """The secret (not its version) whose policy decides."""
    return "/".join(canonical(state, name).split("/")[:4])


def _secret(state: State, name: str) -> Json:
    path = policy_resource(state, name)
    if path not in state.secrets:
        raise rpc_error(404, f"Secret [{path}] not found.")
    return state.secrets[path]


def create(state: State, call: Call) -> Json:
    """A secret without a version. Its `replication` must be given."""
    secret_id = call.query.get("secretId", "")
    if not SECRET_ID.fullmatch(secret_id):
        raise rpc_error(400, f"Secret ID [{secret_id}] must match the pattern {SECRET_ID.pattern}.")
    if not call.body.get("replication"):
        raise rpc_error(400, "The field [replication] must be provided.")
    path = f"{canonical(state, call.name)}/secrets/{secret_id}"
    if path in state.secrets:
        raise rpc_error(409, f"Secret [{path}] already exists.")
    state.secrets[path] = call.body | {"name": path, "createTime": state.zulu(), "etag": f'"{new_id()[:12]}"'}
    return state.secrets[path]


def get(state: State, call: Call) -> Json:
    """The secret, never its value."""
    return _secret(state, call.name)


def list_(state: State, call: Call) -> Json:
    """All of the project."""
    canonical(state, call.name)
    found = list(state.secrets.values())
    return ({"secrets": found} if found else {}) | {"totalSize": len(found)}


def patch(state: State, call: Call) -> Json:
    """The fields of the update mask."""
    secret = _secret(state, call.name)
    mask = call.query.get("updateMask", "")
    names = [_camel(m) for m in mask.split(",") if m] or [k for k in call.body if k not in ("name", "createTime", "etag")]
    for name in names:
        secret.pop(name, None)
        if name in call.body:
            secret[name] = call.body[name]
    return secret


def _camel(name: str) -> str:
    return re.sub(r"_(\w)", lambda m: m[1].upper(), name)


def delete(state: State, call: Call) -> Json:
    """The secret and all its versions."""
    drop(state, _secret(state, call.name)["name"])
    return {}


def drop(state: State, secret: str) -> None:
    """Remove a secret by its canonical name, with its versions and its policy."""
    for path in [p for p in state.versions if p.startswith(f"{secret}/")]:
        _off_the_bill(state, path)
        state.versions.pop(path)
    state.secrets.pop(secret, None)
    state.policies.forget(secret)


def add_version(state: State, call: Call) -> Json:
    """A new version with the payload, enabled."""
    secret = _secret(state, call.name)
    data = str(call.body.get("payload", {}).get("data", ""))
    if not data and "payload" not in call.body:
        raise rpc_error(400, "The field [payload] must be provided.")
    if len(data) * 3 // 4 > LONGEST_PAYLOAD:
        raise rpc_error(400, f"The secret payload is too large, at most {LONGEST_PAYLOAD} bytes.")
    return public(add(state, secret["name"], data))


def add(state: State, secret: str, data: str) -> Json:
    """Store a version's payload (base64) under the secret's canonical name."""
    taken = [int(p.rsplit("/", 1)[-1]) for p in state.versions if p.startswith(f"{secret}/versions/")]
    path = f"{secret}/versions/{max(taken, default=0) + 1}"
    state.versions[path] = {
        "name": path,
        "createTime": state.zulu(),
        "state": "ENABLED",
        "replicationStatus": {"automatic": {}},
        "etag": f'"{new_id()[:12]}"',
        "_data": data,
    }
    labels = state.secrets[secret].get("labels")
    state.ledger.created("secret_version", "/".join(path.split("/")[3:]), "global", None, labels)
    return state.versions[path]


def public(version: Json) -> Json:
    """A version as answered: without its payload."""
    return {k: v for k, v in version.items() if k != "_data"}


def _version(state: State, call: Call) -> Json:
    secret = _secret(state, call.name)
    wanted = call.name.rsplit("/", 1)[-1]
    if wanted == "latest":
        enabled = [v for p, v in state.versions.items() if p.startswith(f"{secret['name']}/") and v["state"] != "DESTROYED"]
        if enabled:
            return enabled[-1]
    path = f"{secret['name']}/versions/{wanted}"
    if path not in state.versions:
        raise rpc_error(404, f"Secret Version [{path}] not found.")
    return state.versions[path]


def version_get(state: State, call: Call) -> Json:
    """The version, never its value."""
    return public(_version(state, call))


def version_list(state: State, call: Call) -> Json:
    """Newest first."""
    secret = _secret(state, call.name)
    found = [public(v) for p, v in state.versions.items() if p.startswith(f"{secret['name']}/")][::-1]
    return ({"versions": found} if found else {}) | {"totalSize": len(found)}


def access(state: State, call: Call) -> Json:
    """The value, in base64, with its checksum."""
    version = _version(state, call)
    if version["state"] != "ENABLED":
        text = f"Secret Version [{version['name']}] is in {version['state']} state."
        raise rpc_error(400, text, status="FAILED_PRECONDITION")
    payload = {"data": version["_data"]} if version["_data"] else {}
    return {"name": version["name"], "payload": payload}


def _state_to(value: str) -> object:
    def change(state: State, call: Call) -> Json:
        version = _version(state, call)
        if version["state"] == "DESTROYED":
            text = f"Secret Version [{version['name']}] is in DESTROYED state."
            raise rpc_error(400, text, status="FAILED_PRECONDITION")
        version["state"] = value
        if value == "DESTROYED":
            version.update(_data="", destroyTime=state.zulu())
            _off_the_bill(state, version["name"])
        return public(version)

    return change


def _off_the_bill(state: State, path: str) -> None:
    state.ledger.deleted("secret_version", "/".join(path.split("/")[3:]), "global")


def policy_get(state: State, call: Call) -> Json:
    """Who may do what with the secret."""
    return answer_get(state.policies, _secret(state, call.name)["name"])


def policy_set(state: State, call: Call) -> Json:
    """Who may do what with the secret."""
    return answer_set(state.policies, _secret(state, call.name)["name"], call)


def policy_test(state: State, call: Call) -> Json:
    """Which of these the operator has."""
    _secret(state, call.name)
    return answer_test(call, state.denied)


_SECRETS = "secretmanager.projects.secrets"
HANDLERS = {
    f"{_SECRETS}.create": create,
    f"{_SECRETS}.get": get,
    f"{_SECRETS}.list": list_,
    f"{_SECRETS}.patch": patch,
    f"{_SECRETS}.delete": delete,
    f"{_SECRETS}.addVersion": add_version,
    f"{_SECRETS}.getIamPolicy": policy_get,
    f"{_SECRETS}.setIamPolicy": policy_set,
    f"{_SECRETS}.testIamPermissions": policy_test,
    f"{_SECRETS}.versions.get": version_get,
    f"{_SECRETS}.versions.list": version_list,
    f"{_SECRETS}.versions.access": access,
    f"{_SECRETS}.versions.enable": _state_to("ENABLED"),
    f"{_SECRETS}.versions.disable": _state_to("DISABLED"),
    f"{_SECRETS}.versions.destroy": _state_to("DESTROYED"),
}
