"""The two ways to attach, and what the provider refuses before it sends anything."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf import empty_pb2
from pulumi.runtime.proto import provider_pb2, provider_pb2_grpc

from rehearsal.cloud.google import LocalGoogleCloud
from rehearsal.providers.google import VERSION, google_provider
from rehearsal.providers.values import UNKNOWN, encode
from tests.providers.conftest import INSTANCE
from tests.providers.direct import Direct, failure

ROOT = Path(__file__).parents[2]


@contextmanager
def stub() -> Iterator[provider_pb2_grpc.ResourceProviderStub]:
    with google_provider(lambda _: None) as port, grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        yield provider_pb2_grpc.ResourceProviderStub(channel)


def test_as_a_program_it_prints_its_port_and_ends_when_told() -> None:
    command = [sys.executable, "-m", "rehearsal.providers.google"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            port = int(process.stdout.readline())
            with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
                info = provider_pb2_grpc.ResourceProviderStub(channel).GetPluginInfo(empty_pb2.Empty(), timeout=20)
            assert info.version == VERSION
            process.send_signal(signal.SIGTERM)
            assert process.wait(timeout=20) == 0
        finally:
            process.kill()


@pytest.mark.parametrize("address", ["https://compute.googleapis.com/compute/beta/", "http://10.0.0.1/compute/beta/"])
def test_it_never_speaks_to_a_real_cloud(address: str) -> None:
    with stub() as provider, pytest.raises(grpc.RpcError) as refused:
        provider.Configure(provider_pb2.ConfigureRequest(args=encode({"computeCustomEndpoint": address})))
    assert "loopback addresses only" in failure(refused.value)


def test_without_an_address_a_call_fails_by_the_key_that_is_missing(vm_args: dict[str, Any]) -> None:
    with stub() as provider, pytest.raises(grpc.RpcError) as refused:
        provider.Configure(provider_pb2.ConfigureRequest(args=encode({"project": "demo"})))
        Direct(provider).create(INSTANCE, vm_args)
    assert "set gcp:computeCustomEndpoint" in failure(refused.value)


def test_configuration_as_variables_is_the_same(cloud: LocalGoogleCloud, vm_args: dict[str, Any]) -> None:
    settings = {key.replace("gcp:", "gcp:config:"): value for key, value in cloud.stack_config().items()}
    with google_provider(cloud.clock.sleep) as port, grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        provider = provider_pb2_grpc.ResourceProviderStub(channel)
        provider.Configure(provider_pb2.ConfigureRequest(variables={**settings, "gcp:config:project": "demo"}))
        assert Direct(provider).create(INSTANCE, vm_args).id.startswith("projects/demo/")


def test_a_preview_shows_what_only_the_cloud_will_know_as_unknown(google: Direct, vm_args: dict[str, Any]) -> None:
    vm_args["serviceAccount"] = vm_args["serviceAccount"] | {"email": UNKNOWN}
    outputs = google.preview(INSTANCE, google.check(INSTANCE, vm_args))
    assert outputs["instanceId"] is outputs["serviceAccount"]["email"] is outputs["selfLink"] is UNKNOWN
    assert outputs["machineType"] == "ct6e-standard-1t" and outputs["description"] is None


@pytest.mark.parametrize(
    ("extra", "said"),
    [
        ({"colour": "blue"}, "colour is not in this stand-in's table of inputs"),
        ({"selfLink": "x"}, "selfLink is not in this stand-in's table of inputs"),
        ({"machineType": None}, "machineType is required"),
    ],
)
def test_inputs_beyond_the_table_are_refused_by_name(
    extra: dict[str, Any], said: str, google: Direct, vm_args: dict[str, Any]
) -> None:
    with pytest.raises(ValueError, match=said):
        google.check(INSTANCE, vm_args | extra)


def test_what_is_not_there_says_so(google: Direct) -> None:
    with pytest.raises(grpc.RpcError) as refused:
        google.check("gcp:storage/bucket:Bucket", {})
    assert "the stand-in has no resource gcp:storage/bucket:Bucket" in failure(refused.value)
    with pytest.raises(grpc.RpcError) as refused:
        google.invoke("gcp:storage/getBucket:getBucket", {})
    assert "the stand-in has no function gcp:storage/getBucket:getBucket" in failure(refused.value)


def test_a_family_is_looked_up_by_the_program(google: Direct) -> None:
    args = {"project": "ubuntu-os-accelerator-images", "family": "ubuntu-accel-2204-amd64-tpu-v5e-v5p-v6e"}
    found = google.invoke("gcp:compute/getImage:getImage", args)
    assert found["name"].startswith(args["family"]) and found["selfLink"].endswith(f"/images/{found['name']}")
