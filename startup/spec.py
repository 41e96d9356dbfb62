"""Everything that a boot script depends on. The plan fills it; the renderer turns it into bytes and adds nothing."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct, field

SERVER_PORT = 8000
CONTAINER = "flexserve-vllm"
STATE_DIR = "/var/lib/flexserve"

PHASE_LIMITS: Mapping[str, int] = {
    "host": 300,
    "driver": 300,
    "packages": 600,
    "docker": 300,
    "token": 1800,
    "build": 1800,
    "patch": 120,
    "image": 1800,
    "weights": 1800,
    "load": 1200,
    "compile": 1800,
    "serving": 600,
    "checks": 300,
    "toolkit": 1800,
    "source": 900,
    "rust": 600,
    "venv": 900,
    "wheel": 7200,
    "install": 1800,
    "keep": 1800,
}
MAKING_LIMIT = 7200  # seconds of phase `build` where the machine may make it
BUILDER_LIMIT = 10800  # seconds after which a builder ends, whatever it does


class SecretRef(Struct, frozen=True):
    """Where the Hub token is kept; never what it is.

    `store`: `google-secret-manager`, with `project`; or `aws-secrets-manager`, whose `project` is a region.
    """

    store: str
    project: str
    name: str


class Recipe(Struct, frozen=True):
    """What the machine makes where the bucket holds no build, on the torch that its image has; an empty one is not compared."""

    vllm: str
    commit: str
    torch: str
    cuda: str
    python: str
    free_gb: int  # of the disk, for toolkit, source, what is compiled, and the archive

    @property
    def words(self) -> tuple[str, ...]:
        """As the machine's command takes it."""
        return (self.vllm, self.commit, self.torch, self.cuda, self.python, str(self.free_gb))


class Ec2Boot(Struct, frozen=True):
    """What a boot on EC2 needs besides: where its script and the kept builds are, the card it expects, and when it must end."""

    region: str
    bucket: str
    script_key: str
    builds_prefix: str  # ends in a slash; a build is the folder BUILDS_PREFIX/BUILD_KEY/
    build_key: str
    deadline: int  # epoch seconds, UTC: the machine turns itself off
    gpu: str = "T4G"
    capability: str = "7.5"
    swap_gb: int = 0
    recipe: Recipe | None = None  # how the machine makes a build that is not kept yet; None: it does not

    @property
    def may_build(self) -> bool:
        """Whether the machine makes a build that is not kept yet."""
        return self.recipe is not None


class SageMakerBoot(Struct, frozen=True):
    """What an endpoint's container needs besides: where it runs, the card it expects, and how its image comes about.

    The spec's `image` is AWS's own, and its `environment` is the container's (`SM_VLLM_*`).
    """

    region: str
    gpu: str  # T4, L4
    capability: str  # of the card; torch's kernels are held against it while the image is built
    repository: str = ""  # ECR repository of the image that is built from AWS's; empty: AWS's is run as it is
    patch: bool = False  # whether the built image carries the Turing patch
    wrapped: bool = False  # whether the image is one that was built so before, and is run as it is
    secret_arn: str = ""  # of the spec's `secret`; only a built image reads it

    @property
    def built(self) -> bool:
        """Whether an image is built from AWS's."""
        return bool(self.repository)


class BootSpec(Struct, frozen=True):
    """One boot. `image_digest` and `model_revision` are None while they are unresolved: such a script is shown, never run."""

    template: str  # templates/TEMPLATE.sh.j2
    stack: str
    deployment_id: str
    image: str  # repository without tag; empty where the server comes from a build
    image_tag: str | None
    image_digest: str | None
    model: str
    model_revision: str | None
    vllm_options: tuple[str, ...]  # after the model's place, which only the machine knows
    environment: Mapping[str, str] = field(default_factory=dict)
    docker_options: tuple[str, ...] = ()
    secret: SecretRef | None = None
    chat: bool = True  # the checkpoint has a chat template; a base model is asked over plain completions
    port: int = SERVER_PORT
    window_s: int = 14400
    min_free_gb: int = 0
    throttled_s: int = 60  # how long a registry that throttles is asked again: the machine bills meanwhile
    attempt: int = 0  # how often the operator had the boot run again on this machine; another number is another script
    phase_limits: Mapping[str, int] = field(default_factory=lambda: dict(PHASE_LIMITS))
    ends_at: int = 0  # when the window closes, epoch seconds (UTC); 0 while it is not known
    ec2: Ec2Boot | None = None
    sagemaker: SageMakerBoot | None = None

    @property
    def image_reference(self) -> str:
        """What docker pulls: by digest when it is known."""
        return f"{self.image}@{self.image_digest}" if self.image_digest else f"{self.image}:{self.image_tag or 'latest'}"

    @property
    def resolved(self) -> bool:
        """Image (where there is one) and model are pinned."""
        return (self.image_digest is not None or not self.image) and self.model_revision is not None
