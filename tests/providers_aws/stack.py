"""A small program of a machine and what it needs, run by the real engine with the installed pulumi_aws."""

import atexit
import gc
import json

import pulumi
import pulumi_aws as aws

atexit.register(gc.freeze)  # as the product's own program
config = pulumi.Config()
TAGS = {"app": "flexserve", "flexserve-id": "k3x9q2"}


def trust(service: str) -> str:
    statement = {"Effect": "Allow", "Principal": {"Service": service}, "Action": "sts:AssumeRole"}
    return json.dumps({"Version": "2012-10-17", "Statement": [statement]})


role = aws.iam.Role("machine", name="fs-k3x9q2", assume_role_policy=trust("ec2.amazonaws.com"), tags=TAGS)
aws.iam.RolePolicyAttachment("ssm", role=role.name, policy_arn="arn:aws:iam::aws:policy/AmazonSSMManagedInstanceCore")
profile = aws.iam.InstanceProfile("machine", name="fs-k3x9q2", role=role.name, tags=TAGS)

vpc = aws.ec2.Vpc("net", cidr_block="10.9.0.0/16", tags=TAGS)
subnet = aws.ec2.Subnet("net", vpc_id=vpc.id, cidr_block="10.9.1.0/24", availability_zone="us-east-1a", tags=TAGS)
gateway = aws.ec2.InternetGateway("net", vpc_id=vpc.id, tags=TAGS)
table = aws.ec2.RouteTable(
    "net",
    vpc_id=vpc.id,
    routes=[aws.ec2.RouteTableRouteArgs(cidr_block="0.0.0.0/0", gateway_id=gateway.id)],
    tags=TAGS,
)
aws.ec2.RouteTableAssociation("net", subnet_id=subnet.id, route_table_id=table.id)
none = aws.ec2.SecurityGroup(
    "none",
    name="fs-k3x9q2",
    vpc_id=vpc.id,
    egress=[aws.ec2.SecurityGroupEgressArgs(protocol="-1", from_port=0, to_port=0, cidr_blocks=["0.0.0.0/0"])],
    tags=TAGS,
)

bucket = aws.s3.Bucket("own", force_destroy=True, tags=TAGS)
aws.s3.BucketPublicAccessBlock("own", bucket=bucket.id, block_public_acls=True, block_public_policy=True)
aws.s3.BucketObjectv2("script", bucket=bucket.id, key="k3x9q2/script", content=config.require("script"))

vm = aws.ec2.Instance(
    "vm",
    ami=config.require("ami"),
    associate_public_ip_address=True,
    iam_instance_profile=profile.name,
    instance_initiated_shutdown_behavior="terminate",
    instance_market_options=aws.ec2.InstanceInstanceMarketOptionsArgs(
        market_type="spot",
        spot_options=aws.ec2.InstanceInstanceMarketOptionsSpotOptionsArgs(
            spot_instance_type="one-time", instance_interruption_behavior="terminate"
        ),
    ),
    instance_type="g5g.xlarge",
    metadata_options=aws.ec2.InstanceMetadataOptionsArgs(http_tokens="required", http_put_response_hop_limit=2),
    root_block_device=aws.ec2.InstanceRootBlockDeviceArgs(
        encrypted=True, iops=6000, tags=TAGS, throughput=500, volume_size=100, volume_type="gp3"
    ),
    subnet_id=subnet.id,
    tags=TAGS | {"Name": "fs-k3x9q2"},
    user_data="#!/bin/bash\nexec /var/lib/flexserve/stub\n",
    vpc_security_group_ids=[none.id],
)

clock = aws.iam.Role("clock", name="fs-k3x9q2-clock", assume_role_policy=trust("scheduler.amazonaws.com"), tags=TAGS)
aws.scheduler.Schedule(
    "clock",
    name="fs-k3x9q2",
    action_after_completion="DELETE",
    flexible_time_window=aws.scheduler.ScheduleFlexibleTimeWindowArgs(mode="OFF"),
    schedule_expression="at(2030-01-01T00:00:00)",
    target=aws.scheduler.ScheduleTargetArgs(
        arn="arn:aws:scheduler:::aws-sdk:ec2:terminateInstances",
        input=vm.id.apply(lambda identifier: json.dumps({"InstanceIds": [identifier]})),
        role_arn=clock.arn,
    ),
)
aws.ssm.Association(
    "script",
    association_name="fs-k3x9q2",
    name="AWS-RunShellScript",
    parameters={"commands": "bash /var/lib/flexserve/stub again 0123"},
    tags=TAGS,
    targets=[aws.ssm.AssociationTargetArgs(key="InstanceIds", values=[vm.id])],
)

pulumi.export("instance", vm.id)
