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
        "`flexserve build` makes it, then `flexserve up` runs the boot again; or set target.build",
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
    Cause(
        "build-not-kept",
        "the build serves here and is not kept: bucket {bucket} did not take {key} ({detail})",
        "the next boot of this machine tries again; or copy {folder} by hand",
        phases=BUILD,
    ),
    Cause(
        "bucket-not-writable",
        "bucket {bucket} takes no build {key} from this machine ({detail})",
        "grant the role s3:PutObject below builds/, or set target.bucket",
    ),
    # build, where a machine makes it
    Cause("build-other-machine", "the build is for {wanted}, this machine is {found}", "check target.machine_type", phases=BUILD),
    Cause(
        "build-no-torch",
        "the host image has no torch to build on ({detail})",
        "take a deep learning image with PyTorch: target.host_image",
        phases=BUILD,
    ),
    Cause(
        "build-torch-cpu",
        "the host image's torch {found} knows no CUDA",
        "take a deep learning image for GPUs: target.host_image",
        phases=BUILD,
    ),
    Cause(
        "build-torch-without-arch",
        "the host image's torch holds {found}, and this card needs {wanted}",
        "take an image line whose torch holds it: target.host_image",
        phases=BUILD,
    ),
    Cause(
        "build-torch-other",
        "{name} is {found}, the build is named for {wanted}",
        "take the host image that the catalog describes: target.host_image",
        phases=BUILD,
    ),
    Cause(
        "build-no-space",
        "{free} GB are free, making the build needs {wanted} GB",
        "raise target.disk_gb",
        phases=BUILD,
    ),
    Cause("build-no-nvcc", "no CUDA compiler of torch's version at {path} ({detail})", "see the log", phases=BUILD),
    Cause(
        "build-commit",
        "vLLM's repository gave {found} for commit {wanted}",
        "check target.build.commit",
        r"not our ref (?P<wanted>[0-9a-f]+)|couldn't find remote ref (?P<wanted2>\S+)",
        BUILD,
    ),
    Cause(
        "build-unknown-release",
        "this release of vLLM has no {detail}",
        "take a release from 0.27.2rc0 on: target.build",
        phases=BUILD,
    ),
    Cause(
        "build-memory",
        "a compiler ran out of memory",
        "fewer go on at a time; with one at a time take a larger machine type: target.machine_type",
        r"\bKilled\b|[Oo]ut of memory|virtual memory exhausted|Cannot allocate memory|died of signal 9|status 137",
        BUILD,
    ),
    Cause(
        "build-compiler",
        "vLLM does not compile ({detail})",
        "the log shows more; another release or commit: target.build",
        r"(?P<detail>\S+\(\d+\): error: .*|\S+:\d+:\d+: (?:fatal )?error: .*|error(?:\[E\d+\])?: could not compile .*)",
        BUILD,
    ),
    Cause(
        "build-source-unreachable",
        "a repository does not answer ({detail})",
        "give the machine a way out: egress `address` or `nat`",
        r"(?P<detail>unable to access '[^']*'|Could not resolve host\S* \S+|Failed to connect to \S+|Failed to fetch \S+"
        r"|Temporary failure resolving \S+|Max retries exceeded|Temporary failure in name resolution"
        r"|RPC failed|early EOF|Read timed out)",
        BUILD,
        retry=True,
        tries=8,
    ),
    Cause(
        "build-does-not-load",
        "vLLM was compiled and does not load ({detail})",
        "see the log; another release: target.build",
        phases=BUILD,
    ),
    Cause("build-not-packed", "the build could not be packed ({detail})", "see the log", phases=BUILD),
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
