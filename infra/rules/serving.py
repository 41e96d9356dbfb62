"""Rules about what vLLM can do on a chip: from the chip's catalog row, so that they hold on every target that has it."""

from __future__ import annotations

from collections.abc import Sequence

from infra.rules import backends
from infra.rules.rule import Broken, Rule, Situation
from startup.spec import MAKING_LIMIT
from startup.turing import limits

TURING = "7.5"


def attention_backend_unsupported(s: Situation) -> Broken | None:
    """An attention backend that does not work on the accelerator, in any of vLLM's spellings."""
    card, extra = s.accelerator, s.deployment.serving.extra_args
    if card is None or not card.attention_backends:
        return None
    works = " or ".join(card.attention_backends)
    for wanted in backends.for_text(extra):
        if wanted.upper() not in card.attention_backends:  # vLLM reads it in either case
            return Broken(f"{wanted} does not work on {card.title}", f"use {works}, or leave it out of serving.extra_args")
    for wanted in backends.for_encoders(extra):
        if wanted.upper() not in card.encoder_backends:
            return Broken(
                f"{wanted} for images and sound does not work on {card.title}",
                f"use {' or '.join(card.encoder_backends)}, or leave mm_encoder_attn_backend out",
            )
    if backends.in_config(extra):
        return Broken(
            f"vLLM takes a backend by --attention-backend or by --attention-config, and the first is set to {works} here",
            "leave it out of attention_config",
        )
    return None


def group_too_large(s: Situation) -> Broken | None:
    """More query heads a KV head than the attention kernel has shared memory for on Turing."""
    if s.accelerator is None or s.accelerator.capability != TURING or s.model is None or s.model.query_heads is None:
        return None
    for layers in s.model.kv_layers:
        group, most = -(-s.model.query_heads // layers.kv_heads), limits.largest_group(layers.head_dim)
        if group > most:
            needs = limits.shared_bytes(layers.head_dim, group, limits.patched_tile(layers.head_dim))
            return Broken(
                f"{s.model.name} has {group} query heads a KV head of {layers.head_dim}: a block needs {needs:,} bytes of shared "
                f"memory, {s.accelerator.title} has {limits.SHARED_BYTES:,}",
                f"take a model with at most {most}, or a newer card",
            )
    return None


def vllm_too_old(s: Situation) -> Broken | None:
    """A vLLM release that is known not to serve on the accelerator, or not to read the model."""
    needs = [(s.accelerator.oldest_vllm, f"does not serve on {s.accelerator.title}")] if s.accelerator else []
    needs += [(s.model.oldest_vllm, f"does not read {s.model.name}")] if s.model else []
    if not any(oldest for oldest, _ in needs):
        return None
    has = s.deployment.target.server_version or (s.image.vllm if s.image else "")
    if not has:
        return None
    from packaging.version import Version

    for oldest, what in needs:
        if oldest and Version(has) < Version(oldest):
            return Broken(f"vLLM {has} {what}: it is older than {oldest}", f"take {oldest} or newer")
    return None


def build_too_long(s: Situation) -> Broken | None:
    """A build that takes longer than its phase may, or the window where the machine itself makes it."""
    target = s.deployment.target
    maker = s.catalog.builder_types.get(target.builder) if target.builder else s.machine
    minutes = target.making_minutes(maker, s.catalog.host_images) if maker else None
    most = (MAKING_LIMIT if target.builder else min(MAKING_LIMIT, s.deployment.common.window)) / 60
    if minutes is None or maker is None or minutes <= most:
        return None
    return Broken(
        f"vLLM would compile for some {minutes:.0f} minutes on {maker.name} (scaled from a measured run), and {most:.0f} "
        "are allowed",
        "take a larger target.build.machine_type, as m7g.8xlarge"
        if target.builder
        else "let a builder make it: target.build.where; or take a larger machine type for the first time, as g5g.4xlarge",
    )


SERVING: Sequence[Rule] = tuple(
    Rule(check.__name__.replace("_", "-"), (check.__doc__ or "").strip(), check)
    for check in (attention_backend_unsupported, group_too_large, vllm_too_old, build_too_long)
)
