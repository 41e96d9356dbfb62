"""What the machine and the clock may do: trust and policy documents. Pure."""

from __future__ import annotations

import json

from infra.targets.ec2_spot.names import BUILDS, ID_TAG

SSM_POLICY = "arn:aws:iam::aws:policy/AmazonSSMManagedInstanceCore"
SECRET_TAIL = "-??????"  # Secrets Manager adds a hyphen and six characters to every name
_VERSION = "2012-10-17"


def trust(service: str) -> str:
    """Who may take the role."""
    return _document({"Effect": "Allow", "Principal": {"Service": service}, "Action": "sts:AssumeRole"})


def machine(region: str, bucket: str, id_: str, secret: str | None, *, own_bucket: bool, made: str = "") -> str:
    """Read one secret (None: no secret), this deployment's objects and kept builds; write the one build that it may make (`made`).

    In a bucket of our own the machine may also list keys: without that right S3 answers 403 for a key that is not there.
    """
    objects = f"arn:aws:s3:::{bucket}"
    statements: list[dict[str, object]] = [
        {"Effect": "Allow", "Action": "s3:GetObject", "Resource": [f"{objects}/{id_}/*", f"{objects}/{BUILDS}*"]},
    ]
    if made:
        statements.append({"Effect": "Allow", "Action": "s3:PutObject", "Resource": f"{objects}/{BUILDS}{made}/*"})
    if own_bucket:
        statements.append({"Effect": "Allow", "Action": "s3:ListBucket", "Resource": objects})
    if secret is not None:
        arn = f"arn:aws:secretsmanager:{region}:*:secret:{secret}{SECRET_TAIL}"
        statements.append({"Effect": "Allow", "Action": "secretsmanager:GetSecretValue", "Resource": arn})
    return _document(*statements)


def builder(bucket: str, id_: str, key: str, *, own_bucket: bool) -> str:
    """Read its own script; write one build and its own report, and take away what it tried that with."""
    objects = f"arn:aws:s3:::{bucket}"
    statements: list[dict[str, object]] = [
        {"Effect": "Allow", "Action": "s3:GetObject", "Resource": f"{objects}/{id_}/*"},
        {"Effect": "Allow", "Action": "s3:PutObject", "Resource": [f"{objects}/{BUILDS}{key}/*", f"{objects}/{id_}/report"]},
        {"Effect": "Allow", "Action": "s3:DeleteObject", "Resource": f"{objects}/{BUILDS}{key}/probe"},
    ]
    if own_bucket:
        statements.append({"Effect": "Allow", "Action": "s3:ListBucket", "Resource": objects})
    return _document(*statements)


def clock(region: str, id_: str) -> str:
    """End machines that carry this deployment's id, and no others."""
    return _document(
        {
            "Effect": "Allow",
            "Action": "ec2:TerminateInstances",
            "Resource": f"arn:aws:ec2:{region}:*:instance/*",
            "Condition": {"StringEquals": {f"ec2:ResourceTag/{ID_TAG}": id_}},
        }
    )


def _document(*statements: dict[str, object]) -> str:
    return json.dumps({"Version": _VERSION, "Statement": list(statements)}, separators=(",", ":"))
