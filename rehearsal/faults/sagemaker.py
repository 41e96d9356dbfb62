"""What can happen to an endpoint. `expect_exit` is the code with which the rehearsal must end.

Nothing of the local AWS is imported before a fault is armed: all faults are listed for every stack, and moto takes a second.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING

from rehearsal.contracts import Fault
from verdict.exit_codes import ExitCode

if TYPE_CHECKING:
    from rehearsal.targets.sagemaker import SageMakerStage

TARGET = ("sagemaker",)
LATE_ROLE_S = 15.0  # the provider asks for two minutes
NEVER_S = 1e6
OLD_HOST = "al2-ami-sagemaker-inference-gpu-3-1"
BARE_ROLE = "rehearsal-bare"


def _nothing(_: SageMakerStage) -> None:
    """Its settings alone break it."""


def _vllm(switch: str) -> Callable[[SageMakerStage], None]:
    def apply(stage: SageMakerStage) -> None:
        stage.behaviour.faults.vllm = switch  # type: ignore[assignment]

    return apply


def _once(call: str, text: str) -> Callable[[SageMakerStage], None]:
    """One call is refused so."""

    def apply(stage: SageMakerStage) -> None:
        from rehearsal.cloud.aws.call import Trouble
        from rehearsal.cloud.aws.errors import AwsError

        stage.aws.arm(Trouble(call, lambda _: AwsError("ValidationException", text)))

    return apply


def _bare_role(stage: SageMakerStage) -> None:
    """A role of the operator's that SageMaker may take and that may do nothing."""
    statement = {"Effect": "Allow", "Principal": {"Service": "sagemaker.amazonaws.com"}, "Action": "sts:AssumeRole"}
    trust = json.dumps({"Version": "2012-10-17", "Statement": [statement]})
    stage.aws.call("iam", "CreateRole", RoleName=BARE_ROLE, AssumeRolePolicyDocument=trust)


def _without_turing(stage: SageMakerStage) -> None:
    from rehearsal.sagemaker.base import ARCHES, Base

    stage.seed(Base(arches=tuple(arch for arch in ARCHES if arch != "sm_75")))


def _quota(stage: SageMakerStage) -> None:
    for kind in ("ml.g4dn.xlarge", "ml.g6.xlarge", stage.config().machine_type):
        stage.aws.set_endpoint_quota(kind, 0)


def _no_secret(stage: SageMakerStage) -> None:
    for name in stage.aws.secret_names():
        stage.aws.drop_secret(name)


FAULTS = (
    Fault(
        "wrong-host-image",
        TARGET,
        "the host image's driver is too old for the container's CUDA: it ends before it can write a log",
        _nothing,
        ExitCode.FAILED,
        "host image",
        sets=(f"target.host_image={OLD_HOST}",),
        allows=("cuda-driver-mismatch",),
    ),
    Fault(
        "crash-loop-start",
        TARGET,
        "the server ends while it loads, again and again; the endpoint stays in Creating until the health check's window closes",
        _vllm("crash-loop"),
        ExitCode.FAILED,
        "the server ended 3 times",
    ),
    Fault(
        "out-of-memory",
        TARGET,
        "the model does not fit: CUDA is out of memory once the weights are read, again and again",
        _vllm("out-of-memory"),
        ExitCode.FAILED,
        "does not fit",
    ),
    Fault(
        "no-instance-capacity",
        TARGET,
        "SageMaker has no machine of any type, which it says after half an hour",
        lambda stage: stage.aws.take_endpoint_type("*"),
        ExitCode.NO_CAPACITY,
        "SageMaker has no",
    ),
    Fault(
        "endpoint-quota",
        TARGET,
        "the account may have no machine of the type for endpoints",
        _quota,
        ExitCode.NO_ACCESS,
        "the account may have 0 ml.",
    ),
    Fault(
        "late-role",
        TARGET,
        f"roles are known {LATE_ROLE_S:.0f} s late; provider, build and container ask again until they are",
        lambda stage: stage.aws.delay_iam(LATE_ROLE_S),
        ExitCode.DONE,
    ),
    Fault(
        "role-never",
        TARGET,
        "roles are never known to the other services",
        lambda stage: stage.aws.delay_iam(NEVER_S),
        ExitCode.NO_ACCESS,
        "cannot take",
    ),
    Fault(
        "image-not-pullable",
        TARGET,
        "the execution role, one of the operator's own, may not pull the image",
        _bare_role,
        ExitCode.NO_ACCESS,
        "pull",
        sets=(f"target.execution_role=arn:aws:iam::123456789012:role/{BARE_ROLE}",),
    ),
    Fault(
        "build-fails",
        TARGET,
        "torch in AWS's image has no kernels for the card any more: the build looks, and fails",
        _without_turing,
        ExitCode.FAILED,
        "image was not built",
        sets=("target.image_source=patched", "target.machine_type=ml.g4dn.xlarge"),
    ),
    Fault(
        "endpoint-busy",
        TARGET,
        "the first DeleteEndpoint is refused, as for an endpoint in the middle of a change; down asks again",
        _once("sagemaker.DeleteEndpoint", "Cannot update in-progress endpoint."),
        ExitCode.DONE,
    ),
    Fault(
        "endpoint-secret-missing",
        TARGET,
        "the secret that the stack names does not exist; refused before anything is made",
        _no_secret,
        ExitCode.USAGE,
        "has no secret hf-token",
        sets=("secret.name=hf-token",),
    ),
)
