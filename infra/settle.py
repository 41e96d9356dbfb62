"""From what the stack file asks for to what holds: kept choices first, then what has to be resolved."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from catalog.loader import Catalog
from infra.deployment import Deployment
from infra.duration import parse_seconds, words
from infra.image_facts import ImageFacts, from_text
from infra.kept import FACTS, Choice, Kept, OnChange, Wanted, reconcile
from infra.plan import Plan, is_commit, make_plan
from infra.targets import registry
from verdict.errors import BadConfig

if TYPE_CHECKING:
    from infra.settings import Image

Resolve = Callable[[str, Deployment], str]
"""Key and deployment -> what the key's name means today; called only for keys that nothing pins and nothing keeps."""


class Settled(Struct, frozen=True):
    """A plan in which nothing is open, the state to keep, and what the operator should hear.

    `replaces`: the keys for which a live machine is given up, with the operator's consent.
    """

    plan: Plan
    kept: Kept
    words: tuple[str, ...]
    replaces: tuple[str, ...] = ()


class Circumstances(Struct, frozen=True):
    """What a run brings besides the stack file. `place`: the one to ask now, when several are listed. `allow`: rules to pass.

    `now`: epoch seconds, asked when a window begins, after what is resolved. `rerun`: the boot is to run again on the live machine,
    whose script gets another attempt number.
    """

    live: bool
    consent: bool
    now: Callable[[], int]
    new_id: str
    login: str
    place: str = ""
    allow: tuple[str, ...] = ()
    rerun: bool = False


def settle(deployment: Deployment, catalog: Catalog, kept: Kept | None, at: Circumstances, resolve: Resolve) -> Settled:
    """Check the rules, decide every key, resolve what is open. Raises `Refused` or `BadConfig` before anything is resolved."""
    make_plan(deployment, catalog, at.allow)
    wanted = wanted_of(deployment, at)
    verdict = reconcile(kept, wanted, live=at.live, consent=at.consent, stack=deployment.stack)
    named = _owned(deployment, verdict.choices["owner"])
    choices = {k: c or Choice(wanted[k].asked, resolve(k, named)) for k, c in verdict.choices.items()}
    choices |= _read(named, kept, choices, resolve)
    stays = kept is not None and at.live and not verdict.replaces
    attempt = kept.attempt + at.rerun if kept and stays else 0
    began, prices = (kept.started, kept.prices) if kept and stays else (at.now(), ())
    state = Kept(kept.id if kept else at.new_id, began, choices, attempt, prices)
    plan = make_plan(_pinned(deployment, state), catalog, at.allow, _facts(state))
    state = state.priced(plan.cost.per_hour, at.now)
    ends_at = state.started + plan.deployment.common.window
    plan = replace(plan, boot=replace(plan.boot, deployment_id=state.id, attempt=state.attempt, ends_at=ends_at))
    plan = replace(plan, boot=registry.module(deployment.target.kind, "resources").boot_spec(plan))  # names hold the id
    passed = tuple(f"rule {rule} is passed, on your word" for rule in plan.allowed)
    return Settled(plan, state, (*passed, *verdict.words), verdict.replaces)


def wanted_of(deployment: Deployment, at: Circumstances) -> dict[str, Wanted]:
    """Every key that is decided at create: those of all targets, then the target's own."""
    common, target = deployment.common, deployment.target
    if at.place and at.place not in target.places:
        raise BadConfig(f"{at.place} is not among the places of the stack file", way_out=f"one of {', '.join(target.places)}")
    model, image = common.model, common.image
    own: Mapping[str, Wanted] = registry.module(target.kind, "resources").wanted(deployment, at.place)
    return {
        "window": Wanted(words(common.window), words(common.window), OnChange.IGNORE),
        **({"image": _wants(image)} if image else {}),
        "model": Wanted(f"{model.name}@{model.revision}", model.revision if is_commit(model.revision) else None, OnChange.FOLLOW),
        "owner": Wanted(common.owner, common.owner or at.login, OnChange.FOLLOW),
        **own,
    }


def unresolved(deployment: Deployment) -> list[str]:
    """The keys whose values are only decided when the stack is created, in the order of the stack file."""
    at = Circumstances(live=False, consent=False, now=lambda: 0, new_id="", login="")
    return [key for key, want in wanted_of(deployment, at).items() if want.value is None]


def image_facts(deployment: Deployment, kept: Kept | None, read: Callable[[Deployment], ImageFacts]) -> ImageFacts:
    """What the image says of itself, for a look before `settle`: a tag that has moved since does not name the image that runs."""
    image = deployment.common.image
    choice = kept.choices.get("image") if kept else None
    if kept is None or image is None or choice is None or not _wants(image).satisfied_by(choice):
        return read(deployment)
    known = kept.choices.get(FACTS)
    if known is not None and known.asked == choice.value:
        return from_text(known.value)
    pinned = deployment.common.model_copy(update={"image": _by_digest(image, choice.value)})
    return read(Deployment(deployment.stack, deployment.target, pinned))


def _wants(image: Image) -> Wanted:
    """The key `image`: its name as the stack file has it, and the digest where it pins one."""
    return Wanted(image.name, image.digest, OnChange.FOLLOW)


def _owned(deployment: Deployment, owner: Choice | None) -> Deployment:
    """The deployment with its owner's name, which what is there already may be looked for by."""
    common = deployment.common.model_copy(update={"owner": owner.value if owner else deployment.common.owner})
    return Deployment(deployment.stack, deployment.target, common)


def _read(deployment: Deployment, kept: Kept | None, choices: Mapping[str, Choice], resolve: Resolve) -> dict[str, Choice]:
    """What the image's own config says, where the target has rules about it: read again only for another image."""
    image = deployment.image
    if image is None or not deployment.target.reads_image:
        return {}
    digest, old = choices["image"].value, kept.choices.get(FACTS) if kept else None
    if old is not None and old.asked == digest:
        return {FACTS: old}
    pinned = deployment.common.model_copy(update={"image": _by_digest(image, digest)})
    return {FACTS: Choice(digest, resolve(FACTS, Deployment(deployment.stack, deployment.target, pinned)))}


def _facts(kept: Kept) -> ImageFacts | None:
    return from_text(kept.value(FACTS)) if FACTS in kept.choices else None


def _by_digest(image: Image, digest: str) -> Image:
    """The image as it was asked for, and its digest."""
    return image.model_copy(update={"name": f"{image.name.partition('@')[0]}@{digest}"})


def _pinned(deployment: Deployment, kept: Kept) -> Deployment:
    """The deployment as it was decided: every open name replaced by what it means."""
    common, image = deployment.common, deployment.common.image
    pinned = common.model_copy(
        update={
            "window": parse_seconds(kept.value("window")),
            "image": _by_digest(image, kept.value("image")) if image else None,
            "model": common.model.model_copy(update={"revision": kept.value("model")}),
            "owner": kept.value("owner"),
        }
    )
    target = registry.module(deployment.target.kind, "resources").settled(deployment.target, kept.choices)
    return Deployment(deployment.stack, target, pinned)
