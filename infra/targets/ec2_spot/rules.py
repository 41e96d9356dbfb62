"""Rules about spot requests and images on EC2, by name and before anything is created. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from infra.rules.rule import Broken, Rule, Situation
from infra.targets.ec2_spot.config import Config


def config(s: Situation) -> Config | None:
    """The target's settings, where it is this one's."""
    return s.deployment.target if isinstance(s.deployment.target, Config) else None


def spot_persistent(s: Situation) -> Broken | None:
    """A persistent spot request: one that outlives its machine and makes another one, unseen."""
    c = config(s)
    if c is None or c.spot_instance_type != "persistent":
        return None
    if c.interruption_behavior == "terminate":
        why = "EC2 takes no persistent request whose machine is terminated when it is taken back (RunInstances)"
    else:
        why = "a persistent request makes another machine when this one is gone, also after `down`, and that one bills unseen"
    return Broken(why, "leave target.spot_instance_type out: one-time; `flexserve up` asks for a new machine after a reclaim")


def interruption_unsupported(s: Situation) -> Broken | None:
    """Hibernating or stopping a spot machine that is taken back."""
    c = config(s)
    if c is None or c.interruption_behavior == "terminate":
        return None
    why = (
        f"no {c.machine_type.partition('.')[0]} machine hibernates (DescribeInstanceTypes: HibernationSupported is false)"
        if c.interruption_behavior == "hibernate"
        else "a one-time request cannot be stopped, only terminated (RunInstances)"
    )
    return Broken(why, "leave target.interruption_behavior out: terminate; kept builds make the next boot quick")


def image_processor(s: Situation) -> Broken | None:
    """An image for another processor than the machine's, by the image's own config."""
    if config(s) is None or s.read is None or s.machine is None or s.machine.processor in s.read.processors:
        return None
    has = ", ".join(s.read.processors) or "no processor that it names"
    return Broken(
        f"the image ({s.read.digest}) is for {has}, {s.machine.name} is {s.machine.processor}",
        f"use one for {s.machine.processor}; or leave flexserve:image out: target.build says which vLLM serves",
    )


def image_without_card(s: Situation) -> Broken | None:
    """An image whose code is not for the card, by the list in the image's own config."""
    if config(s) is None or s.read is None or s.accelerator is None or s.accelerator.capability in s.read.cards:
        return None
    card = s.accelerator.capability
    listed = f"lists code for {', '.join(s.read.cards)}" if s.read.cards else "does not say for which cards its code is"
    return Broken(
        f"the image ({s.read.digest}) {listed}, {s.accelerator.title} is {card}",
        f"build one with TORCH_CUDA_ARCH_LIST={card}, and keep that in its environment; or leave flexserve:image out",
    )


def image_not_run(s: Situation) -> Broken | None:
    """An image on a target that runs vLLM from a build: starting a container there is not written yet."""
    if config(s) is None or s.deployment.image is None:
        return None
    return Broken(
        "a machine of this target runs vLLM from a build, not from a container: nothing here would start the image",
        "leave flexserve:image out; target.build says which vLLM serves",
    )


RULES: Sequence[Rule] = tuple(
    Rule(check.__name__.replace("_", "-"), (check.__doc__ or "").strip(), check, final=True)
    for check in (spot_persistent, interruption_unsupported, image_processor, image_without_card, image_not_run)
)
