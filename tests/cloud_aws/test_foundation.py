"""Network, bucket, secrets, roles: what moto keeps, with what it forgives refused, and all of it on the bill and on the clock."""

import json
from typing import Any

import pytest
from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from rehearsal.cloud.aws import OPERATOR
from tests.cloud_aws.conftest import ZONE, World, refused


def network(world: World) -> dict[str, str]:
    """An own network with a way out, as the stack makes it; ids by kind."""
    vpc = world.ec2.create_vpc(CidrBlock="10.60.0.0/16")["Vpc"]["VpcId"]
    subnet = world.ec2.create_subnet(VpcId=vpc, CidrBlock="10.60.1.0/24", AvailabilityZone=ZONE)["Subnet"]["SubnetId"]
    gateway = world.ec2.create_internet_gateway()["InternetGateway"]["InternetGatewayId"]
    world.ec2.attach_internet_gateway(InternetGatewayId=gateway, VpcId=vpc)
    table = world.ec2.create_route_table(VpcId=vpc)["RouteTable"]["RouteTableId"]
    world.ec2.create_route(RouteTableId=table, DestinationCidrBlock="0.0.0.0/0", GatewayId=gateway)
    association = world.ec2.associate_route_table(RouteTableId=table, SubnetId=subnet)["AssociationId"]
    group = world.ec2.create_security_group(GroupName="fs", Description="no way in", VpcId=vpc)["GroupId"]
    return {"vpc": vpc, "subnet": subnet, "gateway": gateway, "table": table, "association": association, "group": group}


def nic(made: dict[str, str], *, public: bool) -> dict[str, Any]:
    interface = {"DeviceIndex": 0, "SubnetId": made["subnet"], "Groups": [made["group"]], "AssociatePublicIpAddress": public}
    return {"NetworkInterfaces": [interface]}


def test_a_way_out_needs_an_address_and_a_route(world: World) -> None:
    made = network(world)
    world.running(**nic(made, public=True))
    world.running(**nic(made, public=False))
    assert [m.spec.egress for m in world.made] == [True, False]
    assert [m.spec.private_google_access for m in world.made] == [False, False]
    world.ec2.create_vpc_endpoint(VpcId=made["vpc"], ServiceName="com.amazonaws.us-east-1.s3", RouteTableIds=[made["table"]])
    world.running(**nic(made, public=False))
    assert (world.made[2].spec.egress, world.made[2].spec.private_google_access) == (False, True)
    assert world.left().count("address") == 1


def test_nothing_goes_while_something_hangs_on_it(world: World) -> None:
    made = network(world)
    vm = world.running(**nic(made, public=True))
    for forbidden in (
        lambda: world.ec2.delete_security_group(GroupId=made["group"]),
        lambda: world.ec2.delete_subnet(SubnetId=made["subnet"]),
        lambda: world.ec2.detach_internet_gateway(InternetGatewayId=made["gateway"], VpcId=made["vpc"]),
        lambda: world.ec2.delete_vpc(VpcId=made["vpc"]),
    ):
        with refused("DependencyViolation"):
            forbidden()
    world.ec2.terminate_instances(InstanceIds=[vm])
    with refused("DependencyViolation"):
        world.ec2.delete_security_group(GroupId=made["group"])
    world.cloud.clock.advance(10)
    world.ec2.delete_security_group(GroupId=made["group"])
    world.ec2.disassociate_route_table(AssociationId=made["association"])
    world.ec2.delete_route_table(RouteTableId=made["table"])
    world.ec2.delete_subnet(SubnetId=made["subnet"])
    with refused("DependencyViolation"):
        world.ec2.delete_vpc(VpcId=made["vpc"])
    world.ec2.detach_internet_gateway(InternetGatewayId=made["gateway"], VpcId=made["vpc"])
    world.ec2.delete_internet_gateway(InternetGatewayId=made["gateway"])
    world.ec2.delete_vpc(VpcId=made["vpc"])


def test_what_bills_besides_machines(world: World) -> None:
    made = network(world)
    address = world.ec2.allocate_address(Domain="vpc")["AllocationId"]
    nat = world.ec2.create_nat_gateway(SubnetId=made["subnet"], AllocationId=address)["NatGateway"]["NatGatewayId"]
    end = world.ec2.create_vpc_endpoint(
        VpcId=made["vpc"], ServiceName="com.amazonaws.us-east-1.ssm", VpcEndpointType="Interface", SubnetIds=[made["subnet"]]
    )["VpcEndpoint"]["VpcEndpointId"]
    volume = world.cloud.put_volume(ZONE)
    world.cloud.put_secret("hf-token", "x")
    world.s3.create_bucket(Bucket="flexserve-x")
    assert sorted(world.left()) == ["address", "endpoint", "nat", "secret", "volume"]
    world.s3.put_object(Bucket="flexserve-x", Key="a", Body=b"x" * 1000)
    world.s3.put_object(Bucket="flexserve-x", Key="b", Body=b"x" * 24)
    (bucket,) = [item for item in world.cloud.ledger.left() if item.kind == "bucket"]
    assert bucket.name == "flexserve-x"
    world.ec2.delete_nat_gateway(NatGatewayId=nat)
    world.ec2.delete_vpc_endpoints(VpcEndpointIds=[end])
    world.ec2.release_address(AllocationId=address)
    world.ec2.delete_volume(VolumeId=volume)
    world.cloud.drop_secret("hf-token")
    assert world.left() == ["bucket"]
    with refused("BucketNotEmpty"):
        world.s3.delete_bucket(Bucket="flexserve-x")
    world.s3.delete_objects(Bucket="flexserve-x", Delete={"Objects": [{"Key": "a"}, {"Key": "b"}]})
    assert world.left() == []
    world.s3.delete_bucket(Bucket="flexserve-x")


def test_labels_follow_tags(world: World) -> None:
    vm = world.running(TagSpecifications=[{"ResourceType": "instance", "Tags": [{"Key": "flexserve-id", "Value": "abc"}]}])
    world.ec2.create_tags(Resources=[vm], Tags=[{"Key": "flexserve-expires", "Value": "1"}])
    labels = [dict(item.labels) for item in world.cloud.ledger.left() if item.kind == "instance"]
    assert labels == [{"flexserve-id": "abc", "flexserve-expires": "1"}]
    found = world.ec2.describe_instances(Filters=[{"Name": "tag:flexserve-id", "Values": ["abc"]}])["Reservations"]
    assert [i["InstanceId"] for r in found for i in r["Instances"]] == [vm]


def test_times_are_the_clouds(world: World) -> None:
    world.cloud.clock.advance(7 * 86400)
    now = world.cloud.clock.now()
    vm = world.run()
    world.cloud.put_secret("hf-token", "x")
    world.s3.create_bucket(Bucket="flexserve-x")
    world.s3.put_object(Bucket="flexserve-x", Key="a", Body=b"x")
    role = world.iam.create_role(RoleName="r", AssumeRolePolicyDocument='{"Statement": []}')["Role"]
    times = [
        world.ec2.describe_instances(InstanceIds=[vm])["Reservations"][0]["Instances"][0]["LaunchTime"],
        world.ec2.describe_volumes()["Volumes"][0]["CreateTime"],
        world.secretsmanager.describe_secret(SecretId="hf-token")["CreatedDate"],
        world.s3.head_object(Bucket="flexserve-x", Key="a")["LastModified"],
        world.s3.list_buckets()["Buckets"][0]["CreationDate"],
        role["CreateDate"],
    ]
    assert all(abs(when.timestamp() - now) < 60 for when in times), times


def test_secrets(world: World) -> None:
    arn = world.secretsmanager.create_secret(Name="hf-token", SecretString="one")["ARN"]
    assert arn.startswith("arn:aws:secretsmanager:us-east-1:123456789012:secret:hf-token-") and len(arn.rsplit("-", 1)[-1]) == 6
    world.cloud.put_secret("hf-token", "two")
    assert world.secretsmanager.get_secret_value(SecretId=arn)["SecretString"] == "two"
    world.cloud.empty_secret("hf-token")
    assert world.secretsmanager.get_secret_value(SecretId="hf-token")["SecretString"].strip() == ""
    world.cloud.drop_secret("hf-token")
    with refused("ResourceNotFoundException"):
        world.secretsmanager.get_secret_value(SecretId="hf-token")
    with refused("ResourceExistsException"):
        for _ in range(2):
            world.secretsmanager.create_secret(Name="x", SecretString="y")


def test_the_bucket_as_the_stack_makes_it(world: World) -> None:
    name = "flexserve-x"
    world.s3.create_bucket(Bucket=name)
    world.s3.put_public_access_block(
        Bucket=name,
        PublicAccessBlockConfiguration={
            "BlockPublicAcls": True,
            "IgnorePublicAcls": True,
            "BlockPublicPolicy": True,
            "RestrictPublicBuckets": True,
        },
    )
    assert world.s3.get_public_access_block(Bucket=name)["PublicAccessBlockConfiguration"]["BlockPublicPolicy"] is True
    world.s3.put_bucket_tagging(Bucket=name, Tagging={"TagSet": [{"Key": "flexserve-id", "Value": "abc"}]})
    assert world.s3.get_bucket_tagging(Bucket=name)["TagSet"] == [{"Key": "flexserve-id", "Value": "abc"}]
    world.s3.put_object(Bucket=name, Key="abc/script", Body=b"#!/bin/bash\n", ContentType="text/x-shellscript", Tagging="a=b")
    head = world.s3.head_object(Bucket=name, Key="abc/script")
    assert head["ContentLength"] == 12 and head["ContentType"] == "text/x-shellscript"
    with refused("404"):
        world.s3.head_object(Bucket=name, Key="abc/none")
    with refused("NoSuchBucket"):
        world.s3.list_objects_v2(Bucket="flexserve-y")


def test_a_new_bucket_is_private_and_encrypted(world: World) -> None:
    world.s3.create_bucket(Bucket="flexserve-x")
    block = world.s3.get_public_access_block(Bucket="flexserve-x")["PublicAccessBlockConfiguration"]
    assert set(block.values()) == {True} and len(block) == 4
    rules = world.s3.get_bucket_encryption(Bucket="flexserve-x")["ServerSideEncryptionConfiguration"]["Rules"]
    assert rules[0]["ApplyServerSideEncryptionByDefault"]["SSEAlgorithm"] == "AES256"
    owner = world.s3.get_bucket_ownership_controls(Bucket="flexserve-x")["OwnershipControls"]["Rules"]
    assert owner == [{"ObjectOwnership": "BucketOwnerEnforced"}]
    with refused("NoSuchBucket"):
        world.s3.get_bucket_encryption(Bucket="flexserve-y")


@pytest.mark.parametrize("name", ["Flexserve", "fs_1", "a..b", "-fs", "fs-", "f" * 64])
def test_names_that_no_bucket_can_have(world: World, name: str) -> None:
    host = {"Host": "s3.us-east-1.amazonaws.com"}
    made = AWSRequest("PUT", f"http://{host['Host']}/{name}", data=b"")
    S3SigV4Auth(Credentials(OPERATOR.key_id, OPERATOR.secret), "s3", "us-east-1").add_auth(made)
    answer = world.cloud.request("PUT", f"/{name}", host | dict(made.headers.items()))
    assert answer.status == 400 and b"InvalidBucketName" in answer.body


def test_a_snapshot_bills(world: World) -> None:
    volume = world.cloud.put_volume(ZONE)
    snapshot = world.ec2.create_snapshot(VolumeId=volume)["SnapshotId"]
    world.ec2.delete_volume(VolumeId=volume)
    assert world.left() == ["snapshot"]
    world.ec2.delete_snapshot(SnapshotId=snapshot)
    assert world.left() == []


def test_an_object_in_parts(world: World) -> None:
    world.s3.create_bucket(Bucket="flexserve-x")
    upload = world.s3.create_multipart_upload(Bucket="flexserve-x", Key="builds/venv")["UploadId"]
    parts = []
    for number, body in ((1, b"a" * 5 * 1024 * 1024), (2, b"b")):
        sent = world.s3.upload_part(Bucket="flexserve-x", Key="builds/venv", UploadId=upload, PartNumber=number, Body=body)
        parts.append({"PartNumber": number, "ETag": sent["ETag"]})
    world.s3.complete_multipart_upload(Bucket="flexserve-x", Key="builds/venv", UploadId=upload, MultipartUpload={"Parts": parts})
    assert len(world.cloud.stored("flexserve-x")["builds/venv"]) == 5 * 1024 * 1024 + 1
    part = world.s3.get_object(Bucket="flexserve-x", Key="builds/venv", Range="bytes=5242880-")
    assert part["Body"].read() == b"b"


def test_a_role_goes_after_what_hangs_on_it(world: World) -> None:
    world.profile("vm", {"Effect": "Allow", "Action": "s3:GetObject", "Resource": "*"})
    with refused("DeleteConflict"):
        world.iam.delete_role(RoleName="vm")
    world.iam.remove_role_from_instance_profile(InstanceProfileName="vm", RoleName="vm")
    world.iam.delete_instance_profile(InstanceProfileName="vm")
    world.iam.detach_role_policy(RoleName="vm", PolicyArn="arn:aws:iam::aws:policy/AmazonSSMManagedInstanceCore")
    world.iam.delete_role_policy(RoleName="vm", PolicyName="own")
    world.iam.delete_role(RoleName="vm")
    with refused("NoSuchEntity"):
        world.iam.get_role(RoleName="vm")


@pytest.mark.parametrize("name", ["DescribePrefixLists", "DescribeNetworkAcls", "DescribeAddresses", "DescribeNatGateways"])
def test_what_the_official_provider_reads(world: World, name: str) -> None:
    from botocore import xform_name

    assert getattr(world.ec2, xform_name(name))()


def test_tags_of_an_association(world: World) -> None:
    made = world.ssm.create_association(
        Name="AWS-RunShellScript",
        Targets=[{"Key": "InstanceIds", "Values": ["i-1"]}],
        Parameters={"commands": ["true"]},
        Tags=[{"Key": "a", "Value": "1"}],
    )
    resource = {"ResourceType": "Association", "ResourceId": made["AssociationDescription"]["AssociationId"]}
    world.ssm.add_tags_to_resource(**resource, Tags=[{"Key": "b", "Value": "2"}])
    world.ssm.remove_tags_from_resource(**resource, TagKeys=["a"])
    assert world.ssm.list_tags_for_resource(**resource)["TagList"] == [{"Key": "b", "Value": "2"}]


def test_the_request_log_tells_everything_but_secrets(world: World) -> None:
    world.secretsmanager.create_secret(Name="hf-token", SecretString="hf_sentinel")
    world.secretsmanager.get_secret_value(SecretId="hf-token")
    world.s3.create_bucket(Bucket="flexserve-x")
    world.s3.put_object(Bucket="flexserve-x", Key="k", Body=b"hf_sentinel")
    log = world.cloud.requests()
    assert [entry["operation"] for entry in log] == [
        "secretsmanager.CreateSecret",
        "secretsmanager.GetSecretValue",
        "s3.CreateBucket",
        "s3.PutObject",
    ]
    assert all(entry["accepted"] and entry["bearer"] and entry["status"] == 200 for entry in log)
    assert log[0]["body"]["Name"] == "hf-token" and "hf_sentinel" not in json.dumps(list(log), default=str)  # type: ignore[index]
