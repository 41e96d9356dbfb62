"""Data sources: what a program asks of the cloud while it runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from rehearsal.providers.google.compute import compute
from rehearsal.providers.google.http import Google
from rehearsal.providers.google.names import last, v1
from rehearsal.providers.resource import Function, ProviderError
from rehearsal.providers.values import Values


def _image(api: Google, args: Mapping[str, Any]) -> Values:
    """An image by name, or the newest of a family, as it is now."""
    project = args.get("project") or api.config.project
    images = f"projects/{project}/global/images"
    if args.get("name"):
        found = compute(api, "GET", f"{images}/{args['name']}")
    elif args.get("family"):
        found = compute(api, "GET", f"{images}/family/{args['family']}")
    else:
        raise ProviderError("one of name, family or filters must be set")
    texts = ("archiveSizeBytes", "creationTimestamp", "description", "family", "labelFingerprint", "name", "status")
    return {key: str(found.get(key, "")) for key in texts if key != "archiveSizeBytes"} | {
        "archiveSizeBytes": int(found.get("archiveSizeBytes") or 0),
        "diskSizeGb": int(found.get("diskSizeGb") or 0),
        "id": f"{images}/{found['name']}",
        "imageEncryptionKeySha256": "",
        "imageId": str(found.get("id", "")),
        "labels": found.get("labels") or {},
        "licenses": [v1(link) for link in found.get("licenses", [])],
        "mostRecent": bool(args.get("mostRecent")),
        "project": project,
        "selfLink": v1(found.get("selfLink")),
        "sourceDisk": v1(found.get("sourceDisk")),
        "sourceDiskEncryptionKeySha256": "",
        "sourceDiskId": str(found.get("sourceDiskId", "")),
        "sourceImageId": str(found.get("sourceImageId", "")),
    }


def _network(api: Google, args: Mapping[str, Any]) -> Values:
    """A network that is there."""
    project = args.get("project") or api.config.project
    identifier = f"projects/{project}/global/networks/{last(args['name'])}"
    found = compute(api, "GET", identifier)
    return {
        "description": found.get("description", ""),
        "gatewayIpv4": found.get("gatewayIPv4", ""),
        "id": identifier,
        "internalIpv6Range": found.get("internalIpv6Range", ""),
        "name": found["name"],
        "networkId": int(found.get("id") or 0),
        "networkProfile": found.get("networkProfile", ""),
        "numericId": str(found.get("id", "")),
        "project": project,
        "selfLink": v1(found.get("selfLink")),
        "subnetworksSelfLinks": [v1(link) for link in found.get("subnetworks", [])],
    }


def _project(api: Google, args: Mapping[str, Any]) -> Values:
    """A project's number and name."""
    project = args.get("projectId") or api.config.project
    found = api.call("crm", "GET", f"projects/{project}")
    return {
        "id": f"projects/{project}",
        "name": found.get("name", ""),
        "number": str(found.get("projectNumber", "")),
        "projectId": project,
        "labels": found.get("labels") or {},
        "effectiveLabels": found.get("labels") or {},
        "pulumiLabels": found.get("labels") or {},
    }


FUNCTIONS: Final[Mapping[str, Function[Google]]] = {
    function.token: function
    for function in (
        Function("gcp:compute/getImage:getImage", _image),
        Function("gcp:compute/getNetwork:getNetwork", _network),
        Function("gcp:organizations/getProject:getProject", _project),
    )
}
