"""What the container, the build and the clock may do: policy documents. Pure."""

from __future__ import annotations

from datetime import UTC, datetime

from infra.clouds.aws.policies import allow, document
from infra.targets.sagemaker.names import Names

SAGEMAKER, CODEBUILD, SCHEDULER = "sagemaker.amazonaws.com", "codebuild.amazonaws.com", "scheduler.amazonaws.com"
PULL = ["ecr:BatchCheckLayerAvailability", "ecr:GetDownloadUrlForLayer", "ecr:BatchGetImage"]
PUSH = ["ecr:InitiateLayerUpload", "ecr:UploadLayerPart", "ecr:CompleteLayerUpload", "ecr:PutImage"]
WRITE_LOG = ["logs:CreateLogGroup", "logs:CreateLogStream", "logs:PutLogEvents", "logs:DescribeLogStreams"]
EARLY_S = 60  # by how much one service's clock may be behind the other's
UNSCALE = ["application-autoscaling:DeregisterScalableTarget", "application-autoscaling:DeleteScalingPolicy"]
VARIANTS = "sagemaker:variant:DesiredInstanceCount"
NAMESPACES = ["AWS/SageMaker", "/aws/sagemaker/Endpoints"]


def run(region: str, names: Names, repository_arn: str | list[str], secret_arn: str = "") -> str:
    """What the endpoint's container may: pull the one image, write its own log and figures, read the one secret.

    Source: SageMaker roles, "CreateModel API: Execution Role Permissions", without what a model from S3 or a network would need.
    """
    statements = [
        *_pull(repository_arn),
        allow(WRITE_LOG, _log(region, names.logs)),
        {
            **allow(["cloudwatch:PutMetricData"], "*"),
            "Condition": {"StringEquals": {"cloudwatch:namespace": NAMESPACES}},
        },
    ]
    if secret_arn:
        statements.append(allow(["secretsmanager:GetSecretValue"], secret_arn))
    return document(*statements)


def build(region: str, names: Names, base_arn: str, repository_arn: str, object_arn: str) -> str:
    """What the build may: read its files, pull AWS's image, push ours, write its log."""
    statements = [
        *_pull(base_arn),
        allow([*PULL, *PUSH], repository_arn),
        allow(["s3:GetObject", "s3:GetObjectVersion"], object_arn),
        allow(WRITE_LOG, _log(region, names.build_logs)),
    ]
    return document(*statements)


def clock(region: str, names: Names, ends_at: int) -> str:
    """Delete this deployment's endpoint, and no other, from the end of its window on (`ends_at`, epoch seconds).

    A delete that was refused is tried again for a day. One of an earlier window, whose endpoint was not there at its time, must not
    find the next endpoint of that name.

    It may also take the endpoint out of scaling, whoever put it there: a variant that scales is deregistered with its endpoint, by
    the rights of whoever deletes it, and without them SageMaker refuses the delete. A target's ARN is known only once it is
    registered. Source: SageMaker, "Delete endpoints configured for auto scaling"; the refusal in its own words:
    awslabs/stable-diffusion-aws-extension issue 161.
    """
    named = {"application-autoscaling:service-namespace": "sagemaker", "application-autoscaling:scalable-dimension": VARIANTS}
    begins = datetime.fromtimestamp(ends_at - EARLY_S, UTC)
    return document(
        {
            **allow(["sagemaker:DeleteEndpoint"], f"arn:aws:sagemaker:{region}:*:endpoint/{names.base}"),
            "Condition": {"DateGreaterThanEquals": {"aws:CurrentTime": f"{begins:%Y-%m-%dT%H:%M:%SZ}"}},
        },
        {
            **allow(UNSCALE, f"arn:aws:application-autoscaling:{region}:*:scalable-target/*"),
            "Condition": {"StringEquals": named},
        },
    )


def repository_arn(region: str, account: str, name: str) -> str:
    """An ECR repository's ARN; the account may be `*`."""
    return f"arn:aws:ecr:{region}:{account}:repository/{name}"


def _pull(arn: str | list[str]) -> list[dict[str, object]]:
    """Pulling from one repository; the login itself is for all of them or none."""
    return [allow(["ecr:GetAuthorizationToken"], "*"), allow(PULL, arn)]


def _log(region: str, group: str) -> list[str]:
    return [f"arn:aws:logs:{region}:*:log-group:{group}", f"arn:aws:logs:{region}:*:log-group:{group}:*"]
