"""What the machine, the builder and the clock may do: policy documents. Pure."""

from __future__ import annotations

from infra.clouds.aws.marks import ID_TAG
from infra.clouds.aws.policies import allow, document
from infra.targets.ec2_spot.names import BUILDS

SSM_POLICY = "arn:aws:iam::aws:policy/AmazonSSMManagedInstanceCore"
SECRET_TAIL = "-??????"  # Secrets Manager adds a hyphen and six characters to every name


def machine(region: str, bucket: str, id_: str, secret: str | None, *, own_bucket: bool, made: str = "") -> str:
    """Read one secret (None: no secret), this deployment's objects and kept builds; write the one build that it may make (`made`).

    In a bucket of our own the machine may also list keys: without that right S3 answers 403 for a key that is not there.
    """
    objects = f"arn:aws:s3:::{bucket}"
    statements: list[dict[str, object]] = [
        allow("s3:GetObject", [f"{objects}/{id_}/*", f"{objects}/{BUILDS}*"]),
    ]
    if made:
        statements.append(allow("s3:PutObject", f"{objects}/{BUILDS}{made}/*"))
    if own_bucket:
        statements.append(allow("s3:ListBucket", objects))
    if secret is not None:
        arn = f"arn:aws:secretsmanager:{region}:*:secret:{secret}{SECRET_TAIL}"
        statements.append(allow("secretsmanager:GetSecretValue", arn))
    return document(*statements)


def builder(bucket: str, id_: str, key: str, *, own_bucket: bool) -> str:
    """Read its own script; write one build and its own report, and take away what it tried that with."""
    objects = f"arn:aws:s3:::{bucket}"
    statements: list[dict[str, object]] = [
        allow("s3:GetObject", f"{objects}/{id_}/*"),
        allow("s3:PutObject", [f"{objects}/{BUILDS}{key}/*", f"{objects}/{id_}/report"]),
        allow("s3:DeleteObject", f"{objects}/{BUILDS}{key}/probe"),
    ]
    if own_bucket:
        statements.append(allow("s3:ListBucket", objects))
    return document(*statements)


def clock(region: str, id_: str) -> str:
    """End machines that carry this deployment's id, and no others."""
    return document(
        {
            "Effect": "Allow",
            "Action": "ec2:TerminateInstances",
            "Resource": f"arn:aws:ec2:{region}:*:instance/*",
            "Condition": {"StringEquals": {f"ec2:ResourceTag/{ID_TAG}": id_}},
        }
    )
