"""Why a phase failed that only a boot on EC2 has, or fails in a way of its own."""

from __future__ import annotations

from startup.onboard.cause import Cause

TOKEN = ("token",)
BUILD = ("build",)

ROWS: tuple[Cause, ...] = (
    # host
    Cause(
        "swap-refused",
        "the system takes no swap ({detail})",
        "take a larger machine type: target.machine_type",
        r"(?P<detail>(?:swapon|mkswap|fallocate): .*(?:failed|cannot|denied|not permitted|No space).*)",
        ("host",),
    ),
    # driver
    Cause(
        "no-driver",
        "the host image has no NVIDIA driver",
        "take a deep learning image with one: target.host_image",
        r"nvidia-smi: (?:command )?not found",
        ("driver",),
    ),
    Cause("driver-down", "the NVIDIA driver does not answer ({detail})", "it goes on when it does", phases=("driver",), retry=True),
    Cause("wrong-gpu", "the machine has {found}, the plan was made for {wanted}", "check target.machine_type", phases=("driver",)),
    # credentials of the machine's own role
    Cause(
        "no-instance-role",
        "the machine has no role to ask with ({detail})",
        "it goes on when the instance profile is there; `flexserve up` attaches it",
        retry=True,
    ),
    # build
    Cause(
        "no-build",
        "bucket {bucket} holds no build {key} that this machine may read",
        "make it: docs/operator/g5g-spot.md, or set target.build",
        phases=BUILD,
    ),
    Cause("bucket-unreachable", "the bucket does not answer ({detail})", "it goes on when it does", phases=BUILD, retry=True),
    Cause(
        "build-damaged",
        "the kept build {key} is not what its manifest says ({detail})",
        "delete it and make it again",
        phases=BUILD,
    ),
    Cause(
        "build-without-arch",
        "the kept build holds {found}, and this card needs {wanted}",
        "make it with TORCH_CUDA_ARCH_LIST={wanted}",
        phases=BUILD,
    ),
    # token
    Cause(
        "aws-secret-missing",
        "secret {secret} does not exist in {region}, or has no value",
        "flexserve secret put {secret}",
        phases=TOKEN,
        retry=True,
    ),
    Cause(
        "aws-secret-permission",
        "{account} may not read secret {secret}, or there is no such secret",
        "flexserve secret put {secret}; or grant the role secretsmanager:GetSecretValue on it (secret.grant `own`)",
        phases=TOKEN,
        retry=True,
    ),
    Cause(
        "aws-secret-unreachable", "Secrets Manager does not answer ({detail})", "it goes on when it does", phases=TOKEN, retry=True
    ),
    # patch
    Cause(
        "patch-refused",
        "vLLM's attention kernel is not one that the Turing patch knows ({detail})",
        "make the build from a release that `python -m startup.turing prove` lists",
        r"why: (?P<detail>looked for .*)",
        ("patch",),
    ),
)
