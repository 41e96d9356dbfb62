"""Boot specs of different kinds, for every test that renders one."""

from msgspec.structs import replace

from startup.spec import MAKING_LIMIT, BootSpec, Ec2Boot, Recipe, SageMakerBoot, SecretRef

PLAIN = BootSpec(
    template="gce_flex",
    stack="tpu-v6e",
    deployment_id="k3j9x2",
    image="vllm/vllm-tpu",
    image_tag="v0.27.0",
    image_digest="sha256:" + "0123456789abcdef" * 4,
    model="google/gemma-4-E2B-it",
    model_revision="89abcdef01" * 4,
    vllm_options=(
        *("--served-model-name", "google/gemma-4-E2B-it", "--port", "8000", "--max-model-len", "65536"),
        *("--enable-auto-tool-choice", "--limit-mm-per-prompt", '{"image":4,"audio":1}'),
    ),
    docker_options=("--privileged", "--net=host", "-v", "/dev/shm:/dev/shm", "--shm-size", "10gb"),
    secret=SecretRef("google-secret-manager", "your-project", "hf-token"),
    min_free_gb=44,
)
ANONYMOUS = replace(PLAIN, secret=None)
TEXT_ONLY = replace(PLAIN, vllm_options=(*PLAIN.vllm_options[:-1], '{"image":0,"audio":0}'))
BASE = replace(PLAIN, model="google/gemma-4-E2B", chat=False, secret=None)
UNRESOLVED = replace(PLAIN, image_digest=None, model_revision=None)
AWKWARD = replace(
    PLAIN,
    vllm_options=(
        *(*PLAIN.vllm_options, "--hf-overrides"),
        """{"a": "it's \\"quoted\\" $HOME `id` && \\u00e9 é ${#x[@]} {{ y }} {% z %}"}""",
        *("--chat-template", "line\none\ttab\r"),
    ),
    environment={"VLLM_LOGGING_PREFIX": "a && b 'c'", "VLLM_CACHE_ROOT": "/x y"},
)

SPOT = BootSpec(
    template="ec2_spot",
    stack="g5g-spot",
    deployment_id="k3j9x2",
    image="",
    image_tag=None,
    image_digest=None,
    model="google/gemma-4-E2B-it",
    model_revision="89abcdef01" * 4,
    vllm_options=(
        *("--served-model-name", "google/gemma-4-E2B-it", "--port", "8000", "--dtype", "float16", "--max-model-len", "16384"),
        *("--attention-backend", "TRITON_ATTN"),
    ),
    secret=SecretRef("aws-secrets-manager", "us-east-1", "hf-token"),
    min_free_gb=40,
    ec2=Ec2Boot(
        region="us-east-1",
        bucket="fs-k3j9x2",
        script_key="k3j9x2/script",
        builds_prefix="builds/",
        build_key="0123456789ab-torch2.12.0-cu132-sm75-py312-patch1",
        deadline=1_796_000_000,
        swap_gb=16,
    ),
)
assert SPOT.ec2 is not None
MAKES = replace(
    SPOT,
    ec2=replace(SPOT.ec2, recipe=Recipe("0.27.2rc0", "0123456789" * 4, "2.12.0", "13.2", "3.12", free_gb=1)),
    phase_limits={**SPOT.phase_limits, "build": MAKING_LIMIT},
)
"""A machine that makes the build where the bucket has none."""
BUILDER = replace(
    MAKES, template="ec2_builder", deployment_id="bu1lder", ec2=replace(MAKES.ec2, script_key="bu1lder/script", swap_gb=0)
)
"""A machine that makes the build for others."""
SPOT_ANONYMOUS = replace(SPOT, secret=None)

ENDPOINT = BootSpec(
    template="sagemaker",
    stack="sagemaker-t4",
    deployment_id="k3j9x2",
    image="763104351884.dkr.ecr.us-east-2.amazonaws.com/vllm",
    image_tag="0.30.0-gpu-py312-cu130-ubuntu24.04-sagemaker-v1.3",
    image_digest="sha256:" + "0123456789abcdef" * 4,
    model="google/gemma-4-E2B-it",
    model_revision="89abcdef01" * 4,
    vllm_options=(),
    environment={"SM_VLLM_MODEL": "google/gemma-4-E2B-it", "SM_VLLM_DTYPE": "float16", "SM_VLLM_MAX_MODEL_LEN": "8192"},
    secret=SecretRef("aws-secrets-manager", "us-east-2", "hf-token"),
    sagemaker=SageMakerBoot("us-east-2", "T4", "7.5", "fs-k3j9x2", patch=True),
)
"""An endpoint's container: not among `ALL`, since no machine runs it as a script."""

ALL = {
    "plain": PLAIN,
    "anonymous": ANONYMOUS,
    "text-only": TEXT_ONLY,
    "base": BASE,
    "unresolved": UNRESOLVED,
    "awkward": AWKWARD,
    "spot": SPOT,
    "makes": MAKES,
    "builder": BUILDER,
}
