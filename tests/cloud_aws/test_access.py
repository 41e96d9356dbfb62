"""Who asks and what he may: signatures, the machine's role, the operator's denials, real clients."""

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from rehearsal.cloud.aws import OPERATOR
from rehearsal.cloud.aws.signature import SKEW_S
from tests.cloud_aws.conftest import World, refused

READ = {"Effect": "Allow", "Action": "secretsmanager:GetSecretValue"}


def secret(name: str) -> str:
    return f"arn:aws:secretsmanager:us-east-1:123456789012:secret:{name}-??????"


def test_who_am_i(world: World) -> None:
    assert world.sts.get_caller_identity()["Arn"] == "arn:aws:iam::123456789012:user/operator"
    vm = world.running(IamInstanceProfile={"Name": world.profile("vm")})
    assert world.as_machine("sts", vm).get_caller_identity()["Arn"] == f"arn:aws:sts::123456789012:assumed-role/vm/{vm}"


@pytest.mark.parametrize(
    ("service", "call", "code"),
    [
        ("ec2", "describe_instances", "SignatureDoesNotMatch"),
        ("s3", "list_buckets", "SignatureDoesNotMatch"),
        ("secretsmanager", "list_secrets", "SignatureDoesNotMatch"),
        ("iam", "list_roles", "SignatureDoesNotMatch"),
        ("scheduler", "list_schedules", "SignatureDoesNotMatch"),
    ],
)
def test_a_wrong_signature(world: World, service: str, call: str, code: str) -> None:
    with refused(code):
        getattr(world.client(service, OPERATOR.key_id, "wrong" * 8), call)()


def test_an_unknown_key(world: World) -> None:
    with refused("AuthFailure"):
        world.client("ec2", "AKIAAAAAAAAAAAAAAAAA", "x").describe_instances()
    with refused("UnrecognizedClientException"):
        world.client("ssm", "AKIAAAAAAAAAAAAAAAAA", "x").describe_instance_information()


def test_no_signature_and_a_stale_one(world: World) -> None:
    nobody = world.cloud.request(
        "POST",
        "/",
        {"Host": "ec2.us-east-1.amazonaws.com", "Content-Type": "application/x-www-form-urlencoded"},
        b"Action=DescribeVpcs",
    )
    assert nobody.status == 403 and b"MissingAuthenticationToken" in nobody.body
    from rehearsal.cloud.aws import signature
    from rehearsal.cloud.aws.errors import AwsError
    from rehearsal.cloud.aws.http import request

    claimed = signature.Scope("k", "20200101", "us-east-1", "ec2", ("host",), "0" * 64)
    with pytest.raises(AwsError, match="expired"):
        signature.verify(request("GET", "/", {"x-amz-date": "20200101T000000Z"}, b""), claimed, "s", lambda: 2e9)
    assert SKEW_S == 900


def test_a_changed_body_is_not_what_was_signed(world: World) -> None:
    seen: dict[str, Any] = {}
    client = world.client("secretsmanager", OPERATOR.key_id, OPERATOR.secret)
    client.meta.events.register("before-send.secretsmanager", lambda request, **_: seen.update(request=request) or None)
    client.list_secrets()
    request = seen["request"]
    headers = {k: v if isinstance(v, str) else v.decode() for k, v in request.headers.items()} | {"Host": world.cloud.base[7:]}
    assert world.cloud.request("POST", "/", headers, b"{}").status == 200
    assert world.cloud.request("POST", "/", headers, b"{ }").status == 403


def test_the_clock_may_be_turned_and_keys_expire_with_it(world: World) -> None:
    vm = world.running(IamInstanceProfile={"Name": world.profile("vm")})
    client = world.as_machine("sts", vm)
    world.cloud.clock.advance(5 * 3600)
    assert client.get_caller_identity()
    fresh = world.as_machine("sts", vm)
    world.cloud.clock.advance(3600)
    with refused("ExpiredTokenException"):
        client.get_caller_identity()
    assert fresh.get_caller_identity()


def test_keys_go_with_the_instance(world: World) -> None:
    vm = world.running(IamInstanceProfile={"Name": world.profile("vm")})
    client = world.as_machine("sts", vm)
    world.ec2.terminate_instances(InstanceIds=[vm])
    world.cloud.clock.advance(10)
    with refused("InvalidClientTokenId"):
        client.get_caller_identity()


def test_one_secret_and_no_other(world: World) -> None:
    world.cloud.put_secret("hf-token", "s3cret")
    world.cloud.put_secret("hf-token-of-others", "no")
    vm = world.running(IamInstanceProfile={"Name": world.profile("vm", READ | {"Resource": secret("hf-token")})})
    client = world.as_machine("secretsmanager", vm)
    assert client.get_secret_value(SecretId="hf-token")["SecretString"] == "s3cret"
    with refused("AccessDeniedException"):
        client.get_secret_value(SecretId="hf-token-of-others")
    with refused("AccessDeniedException"):
        client.put_secret_value(SecretId="hf-token", SecretString="x")
    with refused("AccessDeniedException"):
        client.list_secrets()
    assert "s3cret" not in json.dumps(list(world.cloud.requests()), default=str)


def test_one_prefix_and_no_other(world: World) -> None:
    world.s3.create_bucket(Bucket="flexserve-x")
    for key in ("id/script", "other/script"):
        world.s3.put_object(Bucket="flexserve-x", Key=key, Body=b"echo")
    read = {"Effect": "Allow", "Action": "s3:GetObject", "Resource": "arn:aws:s3:::flexserve-x/id/*"}
    write = {"Effect": "Allow", "Action": "s3:PutObject", "Resource": "arn:aws:s3:::flexserve-x/builds/*"}
    vm = world.running(IamInstanceProfile={"Name": world.profile("vm", read, write)})
    client = world.as_machine("s3", vm)
    assert client.get_object(Bucket="flexserve-x", Key="id/script")["Body"].read() == b"echo"
    assert client.head_object(Bucket="flexserve-x", Key="id/script")["ContentLength"] == 4
    client.put_object(Bucket="flexserve-x", Key="builds/k/manifest.json", Body=b"{}")
    for forbidden in (
        lambda: client.get_object(Bucket="flexserve-x", Key="other/script"),
        lambda: client.put_object(Bucket="flexserve-x", Key="id/script", Body=b"x"),
        lambda: client.list_objects_v2(Bucket="flexserve-x"),
        lambda: client.delete_object(Bucket="flexserve-x", Key="id/script"),
    ):
        with refused("AccessDenied"):
            forbidden()
    assert world.cloud.stored("flexserve-x")["id/script"] == b"echo"


def test_changes_of_iam_are_seen_late(world: World) -> None:
    world.cloud.put_secret("hf-token", "x")
    world.cloud.delay_iam(30)
    name = world.profile("vm", READ | {"Resource": secret("hf-token")})
    with refused("InvalidParameterValue"):
        world.run(IamInstanceProfile={"Name": name})
    world.cloud.clock.advance(31)
    vm = world.running(IamInstanceProfile={"Name": name})
    client = world.as_machine("secretsmanager", vm)
    assert client.get_secret_value(SecretId="hf-token")
    world.iam.delete_role_policy(RoleName="vm", PolicyName="own")
    assert client.get_secret_value(SecretId="hf-token")
    world.cloud.clock.advance(31)
    with refused("AccessDeniedException"):
        client.get_secret_value(SecretId="hf-token")


def test_the_operator_may_be_denied(world: World) -> None:
    world.cloud.deny("ec2:Run*")
    with refused("UnauthorizedOperation"):
        world.run()
    world.cloud.deny("iam:*")
    with refused("AccessDenied"):
        world.iam.list_roles()


def test_what_a_call_needs_besides_its_own_permission(world: World) -> None:
    profile, tags = world.profile("vm"), [{"ResourceType": "instance", "Tags": [{"Key": "a", "Value": "b"}]}]
    world.cloud.deny("iam:PassRole")
    assert world.run()
    with refused("UnauthorizedOperation"):
        world.run(IamInstanceProfile={"Name": profile})
    world.cloud.deny("ec2:CreateTags")
    with refused("UnauthorizedOperation"):
        world.run(TagSpecifications=tags)


def curl(world: World, service: str, *arguments: str, keys: tuple[str, str, str] | None = None) -> str:
    """curl's own signature, as the boot script uses it: the keys stand in a file, not in its arguments."""
    key_id, secret_key, token = keys or (OPERATOR.key_id, OPERATOR.secret, "")
    lines = [
        f'user = "{key_id}:{secret_key}"',
        f'aws-sigv4 = "aws:amz:us-east-1:{service}"',
        "silent",
        "show-error",
        "max-time = 20",
    ]
    if token:
        lines.append(f'header = "x-amz-security-token: {token}"')
    done = subprocess.run(
        ["curl", "--config", "-", *arguments], input="\n".join(lines), capture_output=True, text=True, timeout=30, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_curl_signs_for_s3_and_secrets(world: World, tmp_path: Path) -> None:
    world.s3.create_bucket(Bucket="flexserve-x")
    world.s3.put_object(Bucket="flexserve-x", Key="id/script", Body=b"echo ok\n")
    world.cloud.put_secret("hf-token", "s3cret")
    empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    got = curl(world, "s3", "-H", f"x-amz-content-sha256: {empty}", f"{world.cloud.base}/flexserve-x/id/script")
    assert got == "echo ok\n"
    (tmp_path / "wheel").write_bytes(b"w" * 2_000_000)
    curl(
        world,
        "s3",
        "-H",
        "x-amz-content-sha256: UNSIGNED-PAYLOAD",
        "-T",
        str(tmp_path / "wheel"),
        f"{world.cloud.base}/flexserve-x/builds/wheel",
    )
    assert world.cloud.stored("flexserve-x")["builds/wheel"] == b"w" * 2_000_000
    json_1 = ["-H", "Content-Type: application/x-amz-json-1.1", "-H", "X-Amz-Target: secretsmanager.GetSecretValue"]
    got = curl(world, "secretsmanager", *json_1, "-d", '{"SecretId": "hf-token"}', world.cloud.base)
    assert json.loads(got)["SecretString"] == "s3cret"


def test_the_machine_speaks_to_real_names(world: World) -> None:
    world.s3.create_bucket(Bucket="flexserve-x")
    world.s3.put_object(Bucket="flexserve-x", Key="id/a b", Body=b"echo")
    read = {"Effect": "Allow", "Action": "s3:GetObject", "Resource": "arn:aws:s3:::flexserve-x/id/*"}
    vm = world.running(IamInstanceProfile={"Name": world.profile("vm", read)})
    from botocore.auth import S3SigV4Auth
    from botocore.awsrequest import AWSRequest
    from botocore.credentials import Credentials

    guest = world.cloud.guest(vm)
    tree: Any = guest.metadata()
    keys = json.loads(tree["meta-data"]["iam"]["security-credentials"]["vm"])
    for host, path in (
        ("s3.us-east-1.amazonaws.com", "/flexserve-x/id/a%20b"),
        ("flexserve-x.s3.us-east-1.amazonaws.com", "/id/a%20b"),
    ):
        made = AWSRequest("GET", f"https://{host}{path}")
        S3SigV4Auth(Credentials(keys["AccessKeyId"], keys["SecretAccessKey"], keys["Token"]), "s3", "us-east-1").add_auth(made)
        answer = guest.service(host, "GET", path, dict(made.headers.items()), b"")
        assert (answer.status, answer.body) == (200, b"echo")
    unsigned = guest.service("s3.us-east-1.amazonaws.com", "GET", "/flexserve-x/id/a%20b", {}, b"")
    assert unsigned.status == 403 and b"AccessDenied" in unsigned.body


def test_the_command_line_works_unchanged(world: World) -> None:
    aws = shutil.which("aws")
    if aws is None:
        pytest.skip("no aws command here")
    environment = {**world.cloud.environment(), "PATH": os.environ["PATH"], "HOME": os.environ["HOME"]}
    for command, wanted in (("sts get-caller-identity", "user/operator"), ("ec2 describe-images --owners amazon", "PyTorch 2.12")):
        done = subprocess.run([aws, *command.split()], env=environment, capture_output=True, text=True, timeout=90, check=False)
        if "command not found" in done.stderr:
            pytest.skip(done.stderr)
        assert wanted in done.stdout, done.stderr
