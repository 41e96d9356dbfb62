"""One of everything, as the product's program would make it: arguments, and what each depends on."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from tests.providers.direct import Direct, Made
from tests.providers_aws.account import Account

Arguments = dict[str, Any]


def trust(service: str) -> str:
    statement = {"Effect": "Allow", "Principal": {"Service": service}, "Action": "sts:AssumeRole"}
    return json.dumps({"Version": "2012-10-17", "Statement": [statement]})


def policy(action: str = "s3:GetObject") -> str:
    return json.dumps({"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": action, "Resource": "*"}]})


TAGS = {"app": "flexserve", "flexserve-id": "k3x9q2"}


class Program:
    """Makes a thing with all that it needs; each only once."""

    def __init__(self, owner: Account, provider: Direct) -> None:
        self.owner = owner
        self.provider = provider
        self.made: dict[str, Made] = {}

    def make(self, name: str, **more: Any) -> Made:
        """The thing of that name (`vpc`, `vm`), made when it is not there yet."""
        if name not in self.made:
            kind, arguments = self.arguments(name)
            self.made[name] = self.provider.create(kind, arguments | more, name)
        return self.made[name]

    def id(self, name: str) -> str:
        return self.make(name).id

    def arguments(self, name: str) -> tuple[str, Arguments]:
        """Type and arguments; makes what it depends on."""
        kind, arguments = PARTS[name]
        return kind, arguments(self)


def _vm(program: Program) -> Arguments:
    return {
        "ami": program.owner.image(),
        "associatePublicIpAddress": True,
        "iamInstanceProfile": program.id("profile"),
        "instanceInitiatedShutdownBehavior": "terminate",
        "instanceMarketOptions": {
            "marketType": "spot",
            "spotOptions": {"spotInstanceType": "one-time", "instanceInterruptionBehavior": "terminate"},
        },
        "instanceType": "g5g.xlarge",
        "metadataOptions": {"httpTokens": "required", "httpPutResponseHopLimit": 2},
        "rootBlockDevice": {
            "encrypted": True,
            "iops": 6000,
            "tags": TAGS,
            "throughput": 500,
            "volumeSize": 100,
            "volumeType": "gp3",
        },
        "subnetId": program.id("subnet"),
        "tags": {**TAGS, "Name": "fs-k3x9q2"},
        "userData": "#!/bin/bash\nexec /var/lib/flexserve/stub\n",
        "vpcSecurityGroupIds": [program.id("group")],
    }


def _schedule(program: Program) -> Arguments:
    return {
        "actionAfterCompletion": "DELETE",
        "flexibleTimeWindow": {"mode": "OFF"},
        "name": "fs-k3x9q2",
        "scheduleExpression": "at(2030-01-01T00:00:00)",
        "target": {
            "arn": "arn:aws:scheduler:::aws-sdk:ec2:terminateInstances",
            "input": json.dumps({"InstanceIds": [program.id("vm")]}),
            "roleArn": program.make("clock").outputs["arn"],
        },
    }


def _hosting_policy() -> str:
    actions = ["ecr:GetAuthorizationToken", "ecr:BatchGetImage", "ecr:GetDownloadUrlForLayer", "ecr:BatchCheckLayerAvailability"]
    statement = {"Effect": "Allow", "Action": [*actions, "logs:CreateLogStream", "logs:PutLogEvents"], "Resource": "*"}
    return json.dumps({"Version": "2012-10-17", "Statement": [statement]})


def _model(program: Program) -> Arguments:
    program.make("hosting policy")
    return {
        "executionRoleArn": program.make("hosting").outputs["arn"],
        "primaryContainer": {
            "environment": {"SM_VLLM_MODEL": "google/gemma-4-E2B-it"},
            "image": f"{program.make('repository').outputs['repositoryUrl']}:one",
        },
        "tags": TAGS,
    }


def _config(program: Program) -> Arguments:
    return {
        "namePrefix": "fs-k3x9q2-",
        "productionVariants": [
            {
                "containerStartupHealthCheckTimeoutInSeconds": 900,
                "inferenceAmiVersion": "al2023-ami-sagemaker-inference-gpu-4-1",
                "initialInstanceCount": 1,
                "instanceType": "ml.g4dn.xlarge",
                "modelDataDownloadTimeoutInSeconds": 900,
                "modelName": program.make("model").outputs["name"],
                "routingConfigs": [{"routingStrategy": "LEAST_OUTSTANDING_REQUESTS"}],
                "variantName": "main",
            }
        ],
        "tags": TAGS,
    }


def _endpoint(program: Program) -> Arguments:
    routing = {"type": "ALL_AT_ONCE", "waitIntervalInSeconds": 0}
    return {
        "deploymentConfig": {"blueGreenUpdatePolicy": {"terminationWaitInSeconds": 60, "trafficRoutingConfiguration": routing}},
        "endpointConfigName": program.make("configuration").outputs["name"],
        "name": "fs-k3x9q2",
        "tags": TAGS,
    }


def _project(program: Program) -> Arguments:
    return {
        "artifacts": {"type": "NO_ARTIFACTS"},
        "buildTimeout": 60,
        "environment": {
            "computeType": "BUILD_GENERAL1_LARGE",
            "environmentVariables": [{"name": "FLEXSERVE_REPOSITORY", "value": "x"}],
            "image": "aws/codebuild/amazonlinux-x86_64-standard:5.0",
            "privilegedMode": True,
            "type": "LINUX_CONTAINER",
        },
        "logsConfig": {"cloudwatchLogs": {"groupName": program.id("log")}},
        "name": "fs-k3x9q2",
        "queuedTimeout": 30,
        "serviceRole": program.make("builder").outputs["arn"],
        "source": {"location": f"{program.id('bucket')}/k3x9q2/context.zip", "type": "S3"},
        "tags": TAGS,
    }


def _scaled(program: Program) -> Arguments:
    program.make("endpoint hosted")
    return {
        "resourceId": "endpoint/fs-k3x9q2/variant/main",
        "scalableDimension": "sagemaker:variant:DesiredInstanceCount",
        "serviceNamespace": "sagemaker",
    }


def _policy(program: Program) -> Arguments:
    program.make("scaled")
    return {
        **_scaled(program),
        "name": "fs-k3x9q2",
        "policyType": "TargetTrackingScaling",
        "targetTrackingScalingPolicyConfiguration": {
            "predefinedMetricSpecification": {"predefinedMetricType": "SageMakerVariantInvocationsPerInstance"},
            "scaleInCooldown": 600,
            "scaleOutCooldown": 300,
            "targetValue": 8,
        },
    }


def _budget(program: Program) -> Arguments:
    return {
        "budgetType": "COST",
        "costFilters": [{"name": "TagKeyValue", "values": ["user:flexserve-id$k3x9q2"]}],
        "limitAmount": "30",
        "limitUnit": "USD",
        "name": "fs-k3x9q2",
        "notifications": [
            {
                "comparisonOperator": "GREATER_THAN",
                "notificationType": "ACTUAL",
                "subscriberEmailAddresses": ["ops@example.com"],
                "threshold": 100,
                "thresholdType": "PERCENTAGE",
            }
        ],
        "tags": TAGS,
        "timeUnit": "MONTHLY",
    }


PARTS: Mapping[str, tuple[str, Callable[[Program], Arguments]]] = {
    "role": (
        "aws:iam/role:Role",
        lambda _: {"name": "fs-k3x9q2", "assumeRolePolicy": trust("ec2.amazonaws.com"), "tags": TAGS},
    ),
    "clock": (
        "aws:iam/role:Role",
        lambda _: {"name": "fs-k3x9q2-clock", "assumeRolePolicy": trust("scheduler.amazonaws.com")},
    ),
    "rolePolicy": ("aws:iam/rolePolicy:RolePolicy", lambda program: {"role": program.id("role"), "policy": policy()}),
    "attachment": (
        "aws:iam/rolePolicyAttachment:RolePolicyAttachment",
        lambda program: {"role": program.id("role"), "policyArn": "arn:aws:iam::aws:policy/AmazonSSMManagedInstanceCore"},
    ),
    "profile": (
        "aws:iam/instanceProfile:InstanceProfile",
        lambda program: {"name": "fs-k3x9q2", "role": program.id("role"), "tags": TAGS},
    ),
    "vpc": ("aws:ec2/vpc:Vpc", lambda _: {"cidrBlock": "10.9.0.0/16", "enableDnsHostnames": True, "tags": TAGS}),
    "subnet": (
        "aws:ec2/subnet:Subnet",
        lambda program: {
            "availabilityZone": "us-east-1a",
            "cidrBlock": "10.9.1.0/24",
            "tags": TAGS,
            "vpcId": program.id("vpc"),
        },
    ),
    "gateway": ("aws:ec2/internetGateway:InternetGateway", lambda program: {"vpcId": program.id("vpc"), "tags": TAGS}),
    "table": (
        "aws:ec2/routeTable:RouteTable",
        lambda program: {
            "routes": [{"cidrBlock": "0.0.0.0/0", "gatewayId": program.id("gateway")}],
            "tags": TAGS,
            "vpcId": program.id("vpc"),
        },
    ),
    "association": (
        "aws:ec2/routeTableAssociation:RouteTableAssociation",
        lambda program: {"routeTableId": program.id("table"), "subnetId": program.id("subnet")},
    ),
    "endpoint": (
        "aws:ec2/vpcEndpoint:VpcEndpoint",
        lambda program: {
            "routeTableIds": [program.id("table")],
            "serviceName": "com.amazonaws.us-east-1.s3",
            "tags": TAGS,
            "vpcId": program.id("vpc"),
        },
    ),
    "group": (
        "aws:ec2/securityGroup:SecurityGroup",
        lambda program: {
            "egress": [
                {"protocol": "tcp", "fromPort": 443, "toPort": 443, "cidrBlocks": ["0.0.0.0/0"]},
                {"protocol": "udp", "fromPort": 53, "toPort": 53, "cidrBlocks": ["0.0.0.0/0"]},
            ],
            "name": "fs-k3x9q2",
            "tags": TAGS,
            "vpcId": program.id("vpc"),
        },
    ),
    "address": ("aws:ec2/eip:Eip", lambda _: {"domain": "vpc", "tags": TAGS}),
    "nat": (
        "aws:ec2/natGateway:NatGateway",
        lambda program: {"allocationId": program.id("address"), "subnetId": program.id("subnet"), "tags": TAGS},
    ),
    "bucket": ("aws:s3/bucket:Bucket", lambda program: {"bucket": f"fs-{program.owner.cloud.account}", "tags": TAGS}),
    "block": (
        "aws:s3/bucketPublicAccessBlock:BucketPublicAccessBlock",
        lambda program: {
            "blockPublicAcls": True,
            "blockPublicPolicy": True,
            "bucket": program.id("bucket"),
            "ignorePublicAcls": True,
            "restrictPublicBuckets": True,
        },
    ),
    "script": (
        "aws:s3/bucketObjectv2:BucketObjectv2",
        lambda program: {"bucket": program.id("bucket"), "content": "echo 1\n", "key": "k3x9q2/script", "tags": TAGS},
    ),
    "vm": ("aws:ec2/instance:Instance", _vm),
    "schedule": ("aws:scheduler/schedule:Schedule", _schedule),
    "run": (
        "aws:ssm/association:Association",
        lambda program: {
            "associationName": "fs-k3x9q2",
            "name": "AWS-RunShellScript",
            "parameters": {"commands": "bash /var/lib/flexserve/stub again 0123"},
            "tags": TAGS,
            "targets": [{"key": "InstanceIds", "values": [program.id("vm")]}],
        },
    ),
    "hosting": (
        "aws:iam/role:Role",
        lambda _: {"name": "fs-k3x9q2-run", "assumeRolePolicy": trust("sagemaker.amazonaws.com")},
    ),
    "hosting policy": (
        "aws:iam/rolePolicy:RolePolicy",
        lambda program: {"role": program.id("hosting"), "policy": _hosting_policy()},
    ),
    "builder": (
        "aws:iam/role:Role",
        lambda _: {"name": "fs-k3x9q2-build", "assumeRolePolicy": trust("codebuild.amazonaws.com")},
    ),
    "repository": (
        "aws:ecr/repository:Repository",
        lambda _: {"name": "fs-k3x9q2", "imageTagMutability": "IMMUTABLE", "tags": TAGS},
    ),
    "log": (
        "aws:cloudwatch/logGroup:LogGroup",
        lambda _: {"name": "/aws/sagemaker/Endpoints/fs-k3x9q2", "retentionInDays": 14, "tags": TAGS},
    ),
    "project": ("aws:codebuild/project:Project", _project),
    "model": ("aws:sagemaker/model:Model", _model),
    "configuration": ("aws:sagemaker/endpointConfiguration:EndpointConfiguration", _config),
    "endpoint hosted": ("aws:sagemaker/endpoint:Endpoint", _endpoint),
    "scaled": (
        "aws:appautoscaling/target:Target",
        lambda program: {**_scaled(program), "maxCapacity": 3, "minCapacity": 1, "tags": TAGS},
    ),
    "scaling": ("aws:appautoscaling/policy:Policy", _policy),
    "budget": ("aws:budgets/budget:Budget", _budget),
}
