"""Where the stand-in sends requests, in whose name, and the words of what goes wrong."""

from __future__ import annotations

import json
from typing import Any

import boto3
import grpc
import pytest

from rehearsal.providers.aws.api import Aws
from rehearsal.providers.aws.config import Config
from rehearsal.providers.resource import ProviderError
from tests.providers.direct import Direct, failure
from tests.providers_aws.account import Account, provider_for
from tests.providers_aws.program import PARTS, TAGS, Program, trust

GOOD: dict[str, Any] = {
    "region": "us-east-1",
    "accessKey": "AKID",
    "secretKey": "secret",
    "endpoints": [{"ec2": "http://127.0.0.1:5000", "iam": ""}],
}


@pytest.fixture(autouse=True)
def no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name, raising=False)


def test_an_address_elsewhere_is_refused() -> None:
    with pytest.raises(ProviderError, match="loopback addresses only"):
        Config.of(GOOD | {"endpoints": [{"ec2": "https://ec2.us-east-1.amazonaws.com"}]})


def test_a_service_without_an_address_is_named() -> None:
    config = Config.of(GOOD)
    assert config.endpoint("ec2") == "http://127.0.0.1:5000"
    with pytest.raises(ProviderError, match="no address for iam: set it in aws:endpoints"):
        config.endpoint("iam")


@pytest.mark.parametrize(
    ("key", "words"), [("region", "Missing region configuration"), ("secretKey", "No valid credential sources")]
)
def test_what_must_be_said(key: str, words: str) -> None:
    with pytest.raises(ProviderError, match=words):
        Config.of({name: value for name, value in GOOD.items() if name != key})


def test_keys_may_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDENV")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    assert Config.of({key: value for key, value in GOOD.items() if "Key" not in key}).access_key == "AKIDENV"


def test_nothing_else_of_the_environment_counts(owner: Account, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_PROFILE", "nobody")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-west-1")
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:1")
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    with provider_for(owner) as direct:
        assert direct.invoke("aws:index/getCallerIdentity:getCallerIdentity", {})["accountId"] == owner.cloud.account


def test_a_modelled_error_reads_as_gos_client_prints_it(owner: Account, aws: Direct) -> None:
    arguments = {"name": "twice", "assumeRolePolicy": trust("ec2.amazonaws.com")}
    aws.create(PARTS["role"][0], arguments)
    with pytest.raises(grpc.RpcError) as caught:
        aws.create(PARTS["role"][0], arguments)
    said = failure(caught.value)
    assert said.startswith(
        "1 error occurred:\n\t* creating IAM Role (twice): operation error IAM: CreateRole, https response error "
    )
    assert "StatusCode: 409, RequestID: " in said
    assert ", EntityAlreadyExists: " in said
    assert "api error" not in said


def test_an_error_that_no_model_names_is_an_api_error(owner: Account, aws: Direct) -> None:
    arguments = Program(owner, aws).arguments("vm")[1] | {"subnetId": "subnet-00000000000000000"}
    with pytest.raises(grpc.RpcError) as caught:
        aws.create(PARTS["vm"][0], arguments)
    assert "* creating EC2 Instance: operation error EC2: RunInstances, https response error StatusCode: 400, " in failure(
        caught.value
    )
    assert ", api error InvalidSubnetID.NotFound: " in failure(caught.value)


def test_a_request_that_aws_could_not_take_is_refused_before_it_is_sent(owner: Account, aws: Direct) -> None:
    arguments = Program(owner, aws).arguments("script")[1] | {"key": ""}
    with pytest.raises(grpc.RpcError, match="operation error S3: PutObject, Parameter validation failed"):
        aws.create(PARTS["script"][0], arguments)


def test_inputs_that_would_have_no_effect_are_refused(aws: Direct) -> None:
    with pytest.raises(ValueError, match="hibernation is not in this stand-in's table of inputs"):
        aws.check(PARTS["vm"][0], {"instanceType": "g5g.xlarge", "hibernation": True})


def test_default_tags_are_under_the_programs_own(owner: Account) -> None:
    with provider_for(owner, defaultTags=json.dumps({"tags": {"team": "inference", "app": "default"}})) as direct:
        made = direct.create(PARTS["vpc"][0], {"cidrBlock": "10.9.0.0/16", "tags": TAGS}, "vpc")
        assert made.inputs["tags"] == made.outputs["tags"] == made.outputs["tagsAll"] == {"team": "inference", **TAGS}
        read = direct.read(made)
        assert read is not None
        assert read.outputs["tags"] == made.outputs["tags"]


def test_a_name_is_drawn_or_made_from_a_prefix(aws: Direct) -> None:
    kind, arguments = PARTS["role"][0], {"assumeRolePolicy": trust("ec2.amazonaws.com")}
    drawn = aws.create(kind, arguments, "machine")
    assert drawn.id.startswith("machine-")
    assert len(drawn.id) == len("machine-") + 7
    prefixed = aws.create(kind, arguments | {"namePrefix": "fs-"}, "other")
    assert prefixed.id.startswith("fs-20")
    assert len(prefixed.id) == len("fs-") + 26
    bucket = aws.create(PARTS["bucket"][0], {}, "Own")
    assert bucket.id == bucket.id.lower()
    assert bucket.inputs["__defaults"] == ["bucket", "forceDestroy"]


def test_functions(owner: Account, aws: Direct) -> None:
    assert aws.invoke("aws:index/getRegion:getRegion", {})["name"] == "us-east-1"
    zones = aws.invoke("aws:index/getAvailabilityZones:getAvailabilityZones", {"state": "available"})
    assert "us-east-1a" in zones["names"]
    filters = [{"name": "architecture", "values": ["arm64"]}]
    image = aws.invoke("aws:ec2/getAmi:getAmi", {"filters": filters, "nameRegex": "Nvidia Driver", "mostRecent": True})
    assert image["architecture"] == "arm64"
    name = "/aws/service/deeplearning/ami/arm64/oss-nvidia-driver-gpu-pytorch-2.12-ubuntu-24.04/latest/ami-id"
    assert aws.invoke("aws:ssm/getParameter:getParameter", {"name": name})["value"] == image["id"]
    with pytest.raises(grpc.RpcError, match="couldn't find resource"):
        aws.invoke("aws:ssm/getParameter:getParameter", {"name": "/not/there"})
    with pytest.raises(grpc.RpcError, match="Your query returned no results"):
        aws.invoke("aws:ec2/getAmi:getAmi", {"nameRegex": "no such image"})


def test_a_bucket_that_is_not_empty_goes_only_by_force(owner: Account, aws: Direct) -> None:
    program = Program(owner, aws)
    bucket, script = program.make("bucket"), program.make("script")
    with pytest.raises(grpc.RpcError, match="BucketNotEmpty"):
        aws.delete(bucket)
    bucket.outputs["forceDestroy"] = True
    aws.delete(bucket)
    assert aws.read(bucket) is None
    assert aws.read(script) is None


def test_clients_of_two_sessions_share_their_methods_and_nothing_that_a_session_is_told() -> None:
    told = [
        GOOD | {"accessKey": f"AKID{n}", "secretKey": f"secret{n}", "endpoints": [{"ec2": f"http://127.0.0.1:{n}"}]} for n in (1, 2)
    ]
    one, two = (Aws(Config.of(arguments), lambda _: None)._client("ec2", "us-east-1") for arguments in told)
    assert type(one).describe_instances is type(two).describe_instances and type(one) is not type(two)
    keys = [client._request_signer._credentials.access_key for client in (one, two)]
    assert keys == ["AKID1", "AKID2"] and [client.meta.endpoint_url[-1] for client in (one, two)] == ["1", "2"]
    theirs = boto3.session.Session(aws_access_key_id="A", aws_secret_access_key="B", region_name="us-east-1").client("s3")
    ours = Aws(Config.of(GOOD | {"endpoints": [{"s3": "http://127.0.0.1:3"}]}), lambda _: None)._client("s3", "us-east-1")
    assert hasattr(theirs, "upload_file") and not hasattr(ours, "upload_file")  # boto3's own addition
