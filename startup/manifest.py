"""What of an image SageMaker takes: one image, one platform, Docker's own manifest of version 2. Pure, over a registry's bytes.

SageMaker refuses an index (what newer builders push by default) only after the endpoint was asked for.
Source: aws/amazon-sagemaker-feedback issue 180.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

DOCKER_V2 = "application/vnd.docker.distribution.manifest.v2+json"
DOCKER_LIST = "application/vnd.docker.distribution.manifest.list.v2+json"
OCI = "application/vnd.oci.image.manifest.v1+json"
OCI_INDEX = "application/vnd.oci.image.index.v1+json"
ACCEPTED = (DOCKER_V2, DOCKER_LIST, OCI, OCI_INDEX)
"""What to ask a registry for, so that it shows what is there and converts nothing."""
PLATFORM = ("linux", "amd64")  # every GPU instance that SageMaker hosts on; there is no ml.g5g


def problem(manifest: bytes, media_type: str = "") -> str:
    """Why SageMaker would not take it, in words; empty when it does. `media_type` is what the registry said, where it did."""
    document = _object(manifest)
    if document is None:
        return "its manifest cannot be read"
    kind = str(document.get("mediaType") or media_type)
    if "manifests" in document or kind in (DOCKER_LIST, OCI_INDEX):
        return f"it is an index of {len(document.get('manifests') or ())} images ({kind or 'no media type'}), not one image"
    if document.get("schemaVersion") != 2:
        return f"its manifest is of schema version {document.get('schemaVersion')}, not 2"
    if kind != DOCKER_V2 or (media_type and media_type != kind):
        return f"its manifest is {media_type or kind or 'of no media type'}, not {DOCKER_V2}"
    if not isinstance(document.get("config"), Mapping) or not document.get("layers"):
        return "its manifest names no configuration or no layers"
    return ""


def config_problem(config: bytes) -> str:
    """The same for the image's configuration, the blob that the manifest names: the platform."""
    document = _object(config)
    if document is None:
        return "its configuration cannot be read"
    found = (str(document.get("os", "")), str(document.get("architecture", "")))
    return "" if found == PLATFORM else f"it is for {'/'.join(found)}, not {'/'.join(PLATFORM)}"


def size(manifest: bytes) -> int:
    """Bytes that a pull moves: configuration and layers as they are packed. 0 for what is no single image."""
    document = _object(manifest) or {}
    parts = [document.get("config"), *(document.get("layers") or ())]
    return sum(int(part.get("size", 0)) for part in parts if isinstance(part, Mapping))


def _object(data: bytes) -> dict[str, Any] | None:
    try:
        value = json.loads(data)
    except (ValueError, UnicodeDecodeError):
        return None
    return value if isinstance(value, dict) else None
