"""Boot specs of different kinds, for every test that renders one."""

from dataclasses import replace

from startup.spec import BootSpec, SecretRef

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

ALL = {"plain": PLAIN, "anonymous": ANONYMOUS, "text-only": TEXT_ONLY, "base": BASE, "unresolved": UNRESOLVED, "awkward": AWKWARD}
