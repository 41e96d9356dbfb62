"""deployment + catalog -> plan, or `Refused(rule, why, way_out)`. Pure: no cloud, no clock, nothing is resolved."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct
from msgspec.structs import asdict, replace

from catalog.loader import Catalog
from catalog.rows import Accelerator, Image, MachineType, Model
from infra.building import Building, building
from infra.deployment import Deployment
from infra.fit import KvFit, kv_fit
from infra.image_facts import ImageFacts
from infra.pricing import Cost, Part, Stay, cost, first, stay
from infra.rules.every import all_rules, rules
from infra.rules.rule import Situation, apply
from infra.settings import Serving
from infra.shape import fields
from infra.targets import registry
from startup.spec import BootSpec
from startup.vllm import VllmArgs, check_environment, cli_argv
from verdict.errors import BadConfig

OURS = frozenset({"model", "revision", "host", "port", "tensor_parallel_size"})
"""vLLM options that follow from the rest of the stack file."""


class Plan(Struct, frozen=True):
    """All that decides the environment. `boot` is unresolved (no digest, no revision) until the first `up`."""

    deployment: Deployment
    machine: MachineType
    accelerator: Accelerator
    model: Model
    image: Image | None
    vllm: VllmArgs
    kv: KvFit
    disk_needed_gb: int | None
    cost: Cost
    boot: BootSpec
    allowed: tuple[str, ...]
    host_image: str = ""  # as far as it can be told without asking a cloud
    most: Cost | None = None  # with as many machines as it may grow to; None where the number is fixed
    making_minutes: float | None = None  # that the machine compiles the first time; None: it does not, or nobody knows
    building: Building | None = None  # what making the build takes, on a machine of its own; None: no such machine
    facts: ImageFacts | None = None  # what the container image says of itself; None: nobody has read it
    cuda: tuple[str, str] = ("", "")  # of the container image, and who says so; empty where nobody does
    cards: tuple[tuple[str, ...], str] = ((), "")  # CUDA capabilities that the image holds code for, and who says so
    firsts: tuple[Part, ...] = ()  # paid once, where it is not there yet
    stays: tuple[Stay, ...] = ()  # after `down`, by the month

    @property
    def disk_gb(self) -> int:
        """The disk in GB: the one that comes with the machine, or the one that is asked for."""
        return self.machine.local_disk_gb or self.deployment.target.disk_gb

    @property
    def region(self) -> str:
        """The region of the first place asked for."""
        target = self.deployment.target
        return target.region_of(target.places[0])

    def as_dict(self) -> dict[str, object]:
        """The `plan --json` document of the contract."""
        d = self.deployment
        return {
            "stack": d.stack,
            "target": d.target.kind,
            "accelerator": self.accelerator.name,
            "machine_type": self.machine.name,
            "places": list(d.target.places),
            "model": {"name": self.model.name, "revision": self.boot.model_revision},
            "image": {"name": d.image.name, "digest": self.boot.image_digest, **self._said()} if d.image else None,
            "build": self._build(),
            "argv": list(cli_argv(self.vllm)),
            "disk_gb": self.disk_gb,
            "disk_needed_gb": self.disk_needed_gb,
            "host_image": self.host_image,
            "egress": None if "egress" in d.target.without else d.common.egress,
            "price": {
                "per_hour": self.cost.per_hour,
                "window": self.cost.window,
                "unknown": list(self.cost.unknown),
                "parts": [asdict(part) for part in self.cost.parts],
                "once": [{"name": p.name, "usd": p.once, "evidence": p.evidence, "why": p.why} for p in self.firsts],
                "stays": [{"name": s.name, "per_month": s.per_month, "evidence": s.evidence, "why": s.why} for s in self.stays],
                "most": {"per_hour": self.most.per_hour, "window": self.most.window} if self.most else None,
            },
            "machines": dict(zip(("min", "max"), d.target.machines, strict=True)),
            "window_s": d.common.window,
            "kv": {
                "pool_bytes": self.kv.pool_bytes,
                "bytes_per_token": self.kv.bytes_per_token,
                "tokens": self.kv.tokens,
                "max_model_len": self.kv.max_model_len,
            },
            "allowed": list(self.allowed),
            "notes": list(d.notes),
        }

    def _said(self) -> dict[str, object]:
        """What is known of the container image, and by whom, where a target asks the image itself."""
        if not self.deployment.target.reads_image:
            return {}
        (cuda, cuda_by), (cards, cards_by) = self.cuda, self.cards
        told = {"cuda": cuda or None, "cuda_by": cuda_by or None, "cards": list(cards) or None, "cards_by": cards_by or None}
        return {**told, "read": self.facts is not None}

    def _build(self) -> dict[str, object] | None:
        """Which build serves, where no image does: the name under which it is kept, and what making it here would take."""
        if self.boot.ec2 is None:
            return None
        where = "builder" if self.building else "machine" if self.boot.ec2.may_build else "by_hand"
        document: dict[str, object] = {"key": self.boot.ec2.build_key, "where": where}
        if self.building is not None:
            document["builder"] = self.building.as_dict()
        if self.making_minutes is not None:
            hour = None if self.cost.unknown else self.cost.per_hour
            usd = None if hour is None else round(hour * self.making_minutes / 60, 2)
            document |= {"making_minutes": round(self.making_minutes), "making_usd": usd}
        return document


def make_plan(deployment: Deployment, catalog: Catalog, allow: Iterable[str] = (), read: ImageFacts | None = None) -> Plan:
    """Check every rule, then fill in everything. Raises `Refused` (exit 3) or `BadConfig` (exit 2).

    `read`: what the image says of itself, where somebody has asked its registry.
    """
    target, common = deployment.target, deployment.common
    machine = catalog.machine_types.get(target.machine_type)
    accelerator = catalog.accelerators.get(machine.accelerator) if machine else None
    image = catalog.image(common.image.repository, common.image.tag) if common.image else None
    situation = Situation(deployment, catalog, machine, accelerator, catalog.models.get(common.model.name), image, read)
    allowed = apply(rules([target.kind]), situation, (*common.allow, *allow), all_rules)
    model = situation.model
    assert machine is not None and accelerator is not None and model is not None  # the final rules saw to it
    check_extra_args(common.serving.extra_args)
    vllm = vllm_args(deployment, model, machine, accelerator)
    check_environment(list(common.serving.environment))
    boot = BootSpec(
        template=target.kind,
        stack=deployment.stack,
        deployment_id="",
        image=common.image.repository if common.image else "",
        image_tag=common.image.tag if common.image else None,
        image_digest=common.image.digest if common.image else None,
        model=model.name,
        model_revision=common.model.revision if is_commit(common.model.revision) else None,
        vllm_options=cli_argv(vllm)[1:],
        environment=common.serving.environment,
        chat=model.chat,
        window_s=common.window,
        min_free_gb=situation.disk_needed_gb or 0,
        throttled_s=common.image.throttled_wait if common.image else 0,
    )
    serving = common.serving
    fewest, most = target.machines

    def costs(machines: int) -> Cost:
        return cost(
            catalog,
            machine,
            model,
            (image.compressed_gib if image else None) if common.image else 0.0,
            region=target.region_of(target.places[0]),
            provisioning=target.provisioning,
            egress="" if "egress" in target.without else common.egress,
            disk_gb=situation.disk_gb,
            disk_type=target.disk_type,
            window_s=common.window,
            billed=target.billed,
            machines=machines,
        )

    region = target.region_of(target.places[0])
    gib = image.compressed_gib if image else None
    secret = ((f"secret {common.secret.name}", f"{target.cloud}-secret", 1.0),) if common.secret else ()
    plan = Plan(
        deployment,
        machine,
        accelerator,
        model,
        image,
        vllm,
        kv_fit(
            model,
            machine,
            accelerator,
            serving.gpu_memory_utilization,
            serving.max_model_len,
            serving.kv_cache_dtype,
            serving.max_num_batched_tokens,
        ),
        situation.disk_needed_gb,
        costs(fewest),
        boot,
        allowed,
        situation.host_image,
        costs(most) if most > fewest else None,
        target.making_minutes(machine, catalog.host_images),
        building(target, catalog, common.egress),
        read,
        situation.told_cuda,
        situation.told_cards,
        tuple(first(catalog, name, item, _seconds(catalog, target.kind, part), region) for name, item, part in target.firsts),
        tuple(stay(catalog, name, item, units, region) for name, item, units in (*target.stays(gib), *secret)),
    )
    return replace(plan, boot=registry.module(target.kind, "resources").boot_spec(plan))


def _seconds(catalog: Catalog, kind: str, part: str) -> int:
    """How long that part of a recorded start took; 0 where nobody recorded it."""
    return sum(row.seconds for row in catalog.boot(kind, (part,)))


def vllm_args(deployment: Deployment, model: Model, machine: MachineType, accelerator: Accelerator) -> VllmArgs:
    """What vLLM is started with: the stack file's settings, the model's parsers, the machine's chips.

    Checkpoints are in bfloat16: where the chip does not compute in it, `auto` is the chip's first format, in so many words.
    """
    s = deployment.serving
    off = {medium: 0 for medium in model.modalities if medium != "text"}
    media: dict[str, int] = off if s.text_only else {medium: most for medium, most in s.limit_mm_per_prompt.items()}
    tools = s.tool_calls and model.tool_call_parser is not None
    return VllmArgs(
        model=model.name,
        served_model_name=model.name,
        port=deployment.target.server_port,
        host=deployment.target.server_host,
        dtype=s.dtype if s.dtype != "auto" else None if "bfloat16" in accelerator.dtypes else accelerator.dtypes[0],
        tensor_parallel_size=machine.accelerators,
        max_model_len=s.max_model_len,
        gpu_memory_utilization=s.gpu_memory_utilization,
        max_num_batched_tokens=s.max_num_batched_tokens,
        max_num_seqs=s.max_num_seqs,
        kv_cache_dtype=None if s.kv_cache_dtype == "auto" else s.kv_cache_dtype,
        attention_backend=next(iter(accelerator.attention_backends), None),
        disable_chunked_mm_input=len(model.modalities) > 1,
        enable_auto_tool_choice=tools,
        tool_call_parser=model.tool_call_parser if tools else None,
        reasoning_parser=model.reasoning_parser if s.reasoning else None,
        limit_mm_per_prompt=media if len(model.modalities) > 1 else None,
        extra=s.extra_args,
    )


def check_extra_args(extra: Iterable[str]) -> None:
    """Refuse an option that is decided elsewhere: it would go past the rules, or the server would not be where it is looked for."""
    for given in extra:
        name = given.replace("-", "_")
        if name in OURS:
            raise BadConfig(f"flexserve:serving.extra_args.{given}: flexserve decides it", way_out="leave it out")
        if name in fields(Serving):
            raise BadConfig(f"flexserve:serving.extra_args.{given} has a key of its own", way_out=f"set flexserve:serving.{name}")


def is_commit(revision: str) -> bool:
    """A full commit hash: nothing to resolve."""
    return len(revision) == 40 and all(c in "0123456789abcdef" for c in revision)
