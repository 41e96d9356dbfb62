"""Rules about SageMaker: what would fail there after minutes, hours or money, by name and before anything is created. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence

from infra.image_facts import SECRET as SECRET_LABEL
from infra.image_facts import TURING as TURING_LABEL
from infra.rules.rule import Broken, Rule, Situation
from infra.targets.sagemaker.config import AUTO, Config, major
from infra.wording import nearest
from startup.endpoint import arch
from startup.turing import limits

TIMEOUT_S = (60, 3600)  # SageMaker API, ProductionVariant: both time-outs
ENTRIES, ENTRY_BYTES, ENVIRONMENT_BYTES = 100, 1024, 32 * 1024  # SageMaker API, ContainerDefinition.Environment
TURING = "7.5"
_ECR = re.compile(r"(?P<account>\d{12})\.dkr\.ecr\.(?P<region>[a-z0-9-]+)\.amazonaws\.com(\.cn)?/(?P<name>\S+)")


def config(s: Situation) -> Config | None:
    """The target's settings, where it is SageMaker's."""
    return s.deployment.target if isinstance(s.deployment.target, Config) else None


def ecr(name: str) -> re.Match[str] | None:
    """Account, region and name of an image in ECR; None for one of another registry."""
    return _ECR.fullmatch(name)


def image_not_in_ecr(s: Situation) -> Broken | None:
    """An image outside Amazon's registry: SageMaker pulls from nowhere else."""
    if config(s) is None or s.deployment.image is None or ecr(s.deployment.image.repository):
        return None
    return Broken(
        f"{s.deployment.image.repository} is not in Amazon ECR, and SageMaker pulls from nowhere else",
        f"use {_aws_image(s)}, or copy the image to an ECR repository of the region",
    )


def image_of_another_region(s: Situation) -> Broken | None:
    """An image in a registry of another region than the endpoint's."""
    c, found = config(s), ecr(s.deployment.image.repository) if s.deployment.image else None
    if c is None or found is None or found["region"] == c.region:
        return None
    there = s.deployment.image.name.replace(f".{found['region']}.", f".{c.region}.") if s.deployment.image else ""
    return Broken(
        f"the image is in {found['region']}, the endpoint in {c.region}: SageMaker does not pull across",
        f"set image.name to {there}",
    )


def host_image_unknown(s: Situation) -> Broken | None:
    """A host image that SageMaker does not offer, or none that is known to fit."""
    c = config(s)
    if c is None:
        return None
    rows = [row for row in s.catalog.host_images if row.project == c.service]
    if c.host_image != AUTO:
        names = [row.family for row in rows]
        return (
            None if c.host_image in names else Broken(f"SageMaker has no host image {c.host_image!r}", nearest(c.host_image, names))
        )
    if s.host_image != AUTO or (s.unread and not s.cuda):  # the image's own config says it, at `up`
        return None
    return Broken(
        f"no host image is known for CUDA {s.cuda or 'of unknown version'}; SageMaker's own default has driver 470",
        "name one: target.host_image",
    )


def cuda_driver_mismatch(s: Situation) -> Broken | None:
    """A container whose CUDA the host image's driver is not for: it ends before it can write a log."""
    c, of_image = config(s), s.cuda
    row = next((r for r in s.catalog.host_images if r.family == s.host_image), None) if c else None
    if c is None or row is None or not of_image or major(row.cuda) == major(of_image):
        return None
    has = f"driver {row.driver} for CUDA {row.cuda}" if row.driver else "no NVIDIA driver"
    fits = c.model_copy(update={"host_image": AUTO}).host(of_image, s.catalog.host_images)
    return Broken(
        f"the image has CUDA {of_image}, {row.family} has {has}: the container ends after some six minutes without a log",
        "set target.host_image to auto" + (f", which is {fits}" if fits != AUTO else ""),
    )


def image_lacks_card(s: Situation) -> Broken | None:
    """An image that has no code for the card, by its own config's list, else by the catalog's."""
    if config(s) is None or s.accelerator is None or not s.accelerator.capability:
        return None
    card, (cards, teller) = s.accelerator.capability, s.told_cards
    checked = s.read.checked if s.read is not None else ()
    if not cards or card in checked or arch.runs([f"sm_{kernel.replace('.', '')}" for kernel in cards], card):
        return None
    return Broken(
        f"the image has code for {', '.join(cards)} by {teller}, {s.accelerator.title} is {card}",
        f"use an image that has them, such as {_aws_image(s)}, or another machine type",
    )


def image_of_another_processor(s: Situation) -> Broken | None:
    """An image for another processor than the machine's, by its own config."""
    if config(s) is None or s.read is None or s.machine is None or s.machine.processor in s.read.processors:
        return None
    has = ", ".join(s.read.processors) or "no processor that it names"
    return Broken(f"the image is for {has}, {s.machine.name} is {s.machine.processor}", f"use one for {s.machine.processor}")


def image_not_ours(s: Situation) -> Broken | None:
    """An image that the stack file calls flexserve's own build, and whose config does not."""
    c = config(s)
    if c is None or c.image_source != "own" or s.read is None or s.read.turing or s.read.secret:
        return None
    return Broken(
        f"its config has neither the label {TURING_LABEL} nor {SECRET_LABEL}, which every image has that flexserve built",
        "name one that has them (the output `image` of a stack with target.image_source patched), or set image_source to patched",
    )


def turing_unpatched(s: Situation) -> Broken | None:
    """An image without the patch on Turing: vLLM's attention kernel asks for more shared memory than the card has."""
    c = config(s)
    if c is None or c.image_source == "patched" or s.accelerator is None or s.accelerator.capability != TURING or s.model is None:
        return None
    if c.image_source == "own" and (s.read is None or s.read.turing):  # its config says so, at `up`
        return None
    heads = s.model.query_heads or 1
    for layers in s.model.kv_layers:
        needs = limits.shared_bytes(layers.head_dim, -(-heads // layers.kv_heads), limits.USUAL_TILE)
        if needs > limits.SHARED_BYTES:
            return Broken(
                f"layers {layers.head_dim} wide ask for {needs:,} bytes of shared memory a block, {s.accelerator.title} has "
                f"{limits.SHARED_BYTES:,}: the engine stops at its start",
                "set target.image_source to patched; or to own, for an image that flexserve has patched before",
            )
    return None


def secret_needs_patched(s: Situation) -> Broken | None:
    """A secret with an image that reads none by name: it can only take a token's value, readable by DescribeModel."""
    c = config(s)
    if c is None or s.deployment.common.secret is None or c.image_source == "patched":
        return None
    if c.image_source == "own" and (s.read is None or s.read.secret):  # its config says so, at `up`
        return None
    if c.image_source == "own":
        return Broken(
            f"the image's config has no label {SECRET_LABEL}: nothing in it reads a secret by its name",
            "leave flexserve:secret out (Gemma 4 needs no token), or name an image that flexserve built",
        )
    return Broken(
        "AWS's image reads no secret by name: the token would have to stand in the model's environment, for everybody to read",
        "leave flexserve:secret out (Gemma 4 needs no token), or set target.image_source to patched",
    )


def timeout_bounds(s: Situation) -> Broken | None:
    """A time-out that SageMaker does not take."""
    c, (least, most) = config(s), TIMEOUT_S
    for name in ("start_timeout", "download_timeout") if c else ():
        if not least <= getattr(c, name) <= most:
            return Broken(f"target.{name} is {getattr(c, name)} s; SageMaker takes {least} to {most} s", "set it within that")
    return None


def environment_too_large(s: Situation) -> Broken | None:
    """A container environment over SageMaker's limits."""
    if config(s) is None or s.model is None or s.machine is None or s.accelerator is None:
        return None
    from infra.targets.sagemaker.environment import of_situation

    environment = of_situation(s)
    size = sum(len(k.encode()) + len(v.encode()) for k, v in environment.items())
    large = next((k for k, v in environment.items() if max(len(k.encode()), len(v.encode())) > ENTRY_BYTES), None)
    way_out = "shorten serving.extra_args or serving.environment"
    if len(environment) > ENTRIES:
        return Broken(f"the container's environment has {len(environment)} entries, SageMaker takes {ENTRIES}", way_out)
    if large is not None:
        return Broken(f"{large} is longer than the {ENTRY_BYTES} bytes that SageMaker takes", way_out)
    if size > ENVIRONMENT_BYTES:
        return Broken(f"the container's environment has {size:,} bytes, SageMaker takes {ENVIRONMENT_BYTES:,}", way_out)
    return None


def _aws_image(s: Situation) -> str:
    """AWS's own vLLM image in the endpoint's region, by the catalog."""
    row = next((i for i in s.catalog.images if "{region}" in i.repository), None)
    c = config(s)
    return f"{row.repository.replace('{region}', c.region)}:{row.tag}" if row and c else "AWS's vLLM image"


RULES: Sequence[Rule] = tuple(
    Rule(check.__name__.replace("_", "-"), (check.__doc__ or "").strip(), check, final)
    for check, final in (
        (image_not_in_ecr, True),
        (image_of_another_region, True),
        (image_of_another_processor, True),
        (host_image_unknown, False),
        (cuda_driver_mismatch, False),
        (image_lacks_card, False),
        (image_not_ours, False),
        (turing_unpatched, False),
        (secret_needs_patched, True),
        (timeout_bounds, True),
        (environment_too_large, True),
    )
)
