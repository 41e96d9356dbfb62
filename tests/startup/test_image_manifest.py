"""What of an image SageMaker takes, by a registry's bytes."""

import json

import pytest

from startup import manifest

CONFIG = {"mediaType": "application/vnd.docker.container.image.v1+json", "size": 7, "digest": "sha256:" + "a" * 64}
LAYER = {"mediaType": "application/vnd.docker.image.rootfs.diff.tar.gzip", "size": 35, "digest": "sha256:" + "b" * 64}
GOOD = {"schemaVersion": 2, "mediaType": manifest.DOCKER_V2, "config": CONFIG, "layers": [LAYER]}
ENTRY = {"mediaType": manifest.OCI, "digest": "sha256:" + "c" * 64, "platform": {"os": "linux", "architecture": "amd64"}}
UNKNOWN = {"platform": {"os": "unknown", "architecture": "unknown"}}  # how BuildKit adds its provenance

BAD = {
    "an OCI index, as BuildKit pushes it": (
        {"schemaVersion": 2, "mediaType": manifest.OCI_INDEX, "manifests": [ENTRY, UNKNOWN]},
        "index of 2",
    ),
    "an index that names no media type": ({"schemaVersion": 2, "manifests": [ENTRY]}, "index of 1"),
    "Docker's list of platforms": ({"schemaVersion": 2, "mediaType": manifest.DOCKER_LIST, "manifests": [ENTRY]}, "index of 1"),
    "one OCI image": ({**GOOD, "mediaType": manifest.OCI}, "not application/vnd.docker"),
    "no media type": ({"schemaVersion": 2, "config": CONFIG, "layers": [LAYER]}, "no media type"),
    "schema version 1": ({"schemaVersion": 1, "mediaType": manifest.DOCKER_V2}, "schema version 1"),
    "no layers": ({**GOOD, "layers": []}, "no layers"),
    "a list": ([GOOD], "cannot be read"),
}


@pytest.mark.parametrize(("document", "words"), BAD.values(), ids=BAD)
def test_refused(document, words):
    assert words in manifest.problem(json.dumps(document).encode())


@pytest.mark.parametrize("data", [b"", b"{", b"\xff\xfe", b"null"])
def test_what_is_no_manifest_is_refused(data):
    assert "cannot be read" in manifest.problem(data) and "cannot be read" in manifest.config_problem(data)
    assert manifest.size(data) == 0


def test_taken():
    data = json.dumps(GOOD).encode()
    assert manifest.problem(data) == manifest.problem(data, manifest.DOCKER_V2) == ""
    assert manifest.size(data) == 42


def test_what_the_registry_says_counts_too():
    assert "index" in manifest.problem(json.dumps({**GOOD, "mediaType": ""}).encode(), manifest.OCI_INDEX)
    assert "not application/vnd.docker" in manifest.problem(json.dumps(GOOD).encode(), manifest.OCI)


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({"os": "linux", "architecture": "amd64"}, ""),
        ({"os": "linux", "architecture": "arm64", "variant": "v8"}, "linux/arm64"),
        ({"os": "windows", "architecture": "amd64"}, "windows/amd64"),
        ({}, "it is for"),
    ],
)
def test_the_platform(config, words):
    found = manifest.config_problem(json.dumps(config).encode())
    assert words in found and bool(found) == bool(words)
