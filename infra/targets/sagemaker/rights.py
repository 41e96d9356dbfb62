"""What the container, the build and the clock may do: trust and policy documents. Pure."""

from __future__ import annotations

import json

from infra.targets.sagemaker.names import Names

SAGEMAKER, CODEBUILD, SCHEDULER = "sagemaker.amazonaws.com", "codebuild.amazonaws.com", "scheduler.amazonaws.com"
PULL = ["ecr:BatchCheckLayerAvailability", "ecr:GetDownloadUrlForLayer", "ecr:BatchGetImage"]
PUSH = ["ecr:InitiateLayerUpload", "ecr:UploadLayerPart", "ecr:CompleteLayerUpload", "ecr:PutImage"]
WRITE_LOG = ["logs:CreateLogGroup", "logs:CreateLogStream", "logs:PutLogEvents", "logs:DescribeLogStreams"]
NAMESPACES = ["AWS/SageMaker", "/aws/sagemaker/Endpoints"]
_VERSION = "2012-10-17"


def trust(service: str) -> str:
    """Who may take the role."""
    return _document({"Effect": "Allow", "Principal": {"Service": service}, "Action": "sts:AssumeRole"})


def run(region: str, names: Names, repository_arn: str, secret_arn: str = "") -> str:
    """What the endpoint's container may: pull the one image, write its own log and figures, read the one secret.

    Source: SageMaker roles, "CreateModel API: Execution Role Permissions", without what a model from S3 or a network would need.
    """
    statements = [
        *_pull(repository_arn),
        _allow(WRITE_LOG, _log(region, names.logs)),
        {
            **_allow(["cloudwatch:PutMetricData"], "*"),
            "Condition": {"StringEquals": {"cloudwatch:namespace": NAMESPACES}},
        },
    ]
    if secret_arn:
        statements.append(_allow(["secretsmanager:GetSecretValue"], secret_arn))
    return _document(*statements)


def build(region: str, names: Names, base_arn: str, repository_arn: str, object_arn: str) -> str:
    """What the build may: read its files, pull AWS's image, push ours, write its log."""
    statements = [
        *_pull(base_arn),
        _allow([*PULL, *PUSH], repository_arn),
        _allow(["s3:GetObject", "s3:GetObjectVersion"], object_arn),
        _allow(WRITE_LOG, _log(region, names.build_logs)),
    ]
    return _document(*statements)


def clock(region: str, names: Names) -> str:
    """Delete this deployment's endpoint, and no other."""
    return _document(_allow(["sagemaker:DeleteEndpoint"], f"arn:aws:sagemaker:{region}:*:endpoint/{names.base}"))


def repository_arn(region: str, account: str, name: str) -> str:
    """An ECR repository's ARN; the account may be `*`."""
    return f"arn:aws:ecr:{region}:{account}:repository/{name}"


def _pull(arn: str) -> list[dict[str, object]]:
    """Pulling from one repository; the login itself is for all of them or none."""
    return [_allow(["ecr:GetAuthorizationToken"], "*"), _allow(PULL, arn)]


def _log(region: str, group: str) -> list[str]:
    return [f"arn:aws:logs:{region}:*:log-group:{group}", f"arn:aws:logs:{region}:*:log-group:{group}:*"]


def _allow(actions: list[str], resource: str | list[str]) -> dict[str, object]:
    return {"Effect": "Allow", "Action": actions, "Resource": resource}


def _document(*statements: dict[str, object]) -> str:
    return json.dumps({"Version": _VERSION, "Statement": list(statements)}, separators=(",", ":"))
