"""Service Usage (which APIs are on) and Artifact Registry (repositories)."""

from __future__ import annotations

from rehearsal.cloud.google.call import Call, Json
from rehearsal.cloud.google.errors import rpc_error
from rehearsal.cloud.google.state import State

TITLES = {
    "compute.googleapis.com": "Compute Engine API",
    "iam.googleapis.com": "Identity and Access Management (IAM) API",
    "iap.googleapis.com": "Cloud Identity-Aware Proxy API",
    "secretmanager.googleapis.com": "Secret Manager API",
    "artifactregistry.googleapis.com": "Artifact Registry API",
    "cloudresourcemanager.googleapis.com": "Cloud Resource Manager API",
    "serviceusage.googleapis.com": "Service Usage API",
}
"""The APIs that the local cloud has, all of them on unless switched off."""


def _service(state: State, name: str) -> Json:
    service = name.rsplit("/", 1)[-1]
    if service not in TITLES:
        raise rpc_error(403, f"Not found or permission denied for service(s): {service}.")
    return {
        "name": f"projects/{state.number}/services/{service}",
        "parent": f"projects/{state.number}",
        "config": {"name": service, "title": TITLES[service]},
        "state": "DISABLED" if service in state.disabled else "ENABLED",
    }


def services_get(state: State, call: Call) -> Json:
    """One service."""
    return _service(state, call.name)


def services_list(state: State, call: Call) -> Json:
    """All, or those of a state."""
    found = [_service(state, name) for name in TITLES]
    wanted = call.query.get("filter", "").removeprefix("state:")
    found = [s for s in found if not wanted or s["state"] == wanted]
    return {"services": found} if found else {}


def enable(state: State, call: Call) -> Json:
    """Switch on."""
    name = call.name.rsplit("/", 1)[-1]
    _service(state, name)
    state.disabled.discard(name)
    return _done(
        {
            "@type": "type.googleapis.com/google.api.serviceusage.v1.EnableServiceResponse",
            "service": _service(state, name),
        }
    )


def batch_enable(state: State, call: Call) -> Json:
    """Switch on several."""
    names = call.body.get("serviceIds", [])
    for name in names:
        _service(state, name)
        state.disabled.discard(name)
    services = [_service(state, name) for name in names]
    return _done({"@type": "type.googleapis.com/google.api.serviceusage.v1.BatchEnableServicesResponse", "services": services})


def batch_get(state: State, call: Call) -> Json:
    """Several at once."""
    names = [n for n in call.query.get("names", "").split(",") if n]
    return {"services": [_service(state, name) for name in names]}


def disable(state: State, call: Call) -> Json:
    """Switch off."""
    name = call.name.rsplit("/", 1)[-1]
    _service(state, name)
    state.disabled.add(name)
    return _done(
        {
            "@type": "type.googleapis.com/google.api.serviceusage.v1.DisableServiceResponse",
            "service": _service(state, name),
        }
    )


def _done(response: Json) -> Json:
    return {"name": "operations/noop.DONE_OPERATION", "done": True, "response": response}


def operation_get(state: State, call: Call) -> Json:  # noqa: ARG001
    """Operations of these APIs are over when they are answered."""
    return {"name": call.name, "done": True}


def _repository(state: State, call: Call) -> Json:
    if call.name not in state.repositories:
        raise rpc_error(404, f'Requested entity was not found: "{call.name}"')
    return state.repositories[call.name]


def _where(name: str) -> tuple[str, str]:
    return name.rsplit("/", 1)[-1], name.split("/")[3]


def repository_create(state: State, call: Call) -> Json:
    """An empty repository; it bills for what is stored, which is nothing here."""
    name = f"{call.name}/repositories/{call.query.get('repositoryId', '')}"
    if call.name.split("/")[1] != state.project:
        raise rpc_error(403, "The caller does not have permission")
    if name in state.repositories:
        raise rpc_error(409, "the repository already exists")
    now = state.zulu()
    state.repositories[name] = call.body | {"name": name, "createTime": now, "updateTime": now, "sizeBytes": "0"}
    state.ledger.created("repository", *_where(name), None, call.body.get("labels"))
    return _repository_done(call, state.repositories[name], "google.devtools.artifactregistry.v1.Repository")


def repository_get(state: State, call: Call) -> Json:
    """One repository."""
    return _repository(state, call)


def repository_list(state: State, call: Call) -> Json:
    """Those of a location."""
    found = [r for n, r in state.repositories.items() if n.startswith(f"{call.name}/")]
    return {"repositories": found} if found else {}


def repository_patch(state: State, call: Call) -> Json:
    """Labels, description and the like."""
    repository = _repository(state, call)
    repository.update({k: v for k, v in call.body.items() if k not in ("name", "createTime", "format")}, updateTime=state.zulu())
    return repository


def repository_delete(state: State, call: Call) -> Json:
    """Gone with all that is in it."""
    _repository(state, call)
    state.repositories.pop(call.name)
    state.ledger.deleted("repository", *_where(call.name))
    return _repository_done(call, {}, "google.protobuf.Empty")


def _repository_done(call: Call, response: Json, kind: str) -> Json:
    location = "/".join(call.name.split("/")[:4])
    return {
        "name": f"{location}/operations/done",
        "done": True,
        "response": {"@type": f"type.googleapis.com/{kind}", **response},
    }


_REPOSITORIES = "artifactregistry.projects.locations.repositories"
HANDLERS = {
    "serviceusage.services.get": services_get,
    "serviceusage.services.list": services_list,
    "serviceusage.services.enable": enable,
    "serviceusage.services.batchEnable": batch_enable,
    "serviceusage.services.batchGet": batch_get,
    "serviceusage.services.disable": disable,
    "serviceusage.operations.get": operation_get,
    f"{_REPOSITORIES}.create": repository_create,
    f"{_REPOSITORIES}.get": repository_get,
    f"{_REPOSITORIES}.list": repository_list,
    f"{_REPOSITORIES}.patch": repository_patch,
    f"{_REPOSITORIES}.delete": repository_delete,
    "artifactregistry.projects.locations.operations.get": operation_get,
}
