"""`flexserve plan`: what a stack would be, without asking any cloud."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from flexserve.output import Output, canonical, dollars, table
from flexserve.project import Project, find
from infra.duration import words
from verdict.exit_codes import ExitCode

if TYPE_CHECKING:
    from infra.building import Building
    from infra.deployment import Deployment
    from infra.image_facts import ImageFacts
    from infra.places import Place
    from infra.plan import Plan
    from infra.pricing import Cost


def run(stack: str, sets: Sequence[str], allow: Sequence[str], output: Output, *, manifest: bool = False) -> ExitCode:
    """Print the plan, or raise `Refused` or `BadConfig`."""
    project = find()
    plan = load(project, stack, sets, allow)
    if manifest:
        from flexserve.manifest import manifest as document

        text = canonical(document(plan, project.root))
        output.exact(f"{text}\n")
        output.say(f"sha256 {hashlib.sha256(text.encode()).hexdigest()}")
        return ExitCode.DONE
    found = where(plan, allow)
    document = {**plan.as_dict(), "price_by_place": [place.as_dict() for place in found], "unresolved": unresolved(plan)}
    output.result(document, page(plan, output, found))
    return ExitCode.DONE


def load(
    project: Project,
    stack: str,
    sets: Sequence[str] = (),
    allow: Sequence[str] = (),
    read: Callable[[Deployment], ImageFacts] | None = None,
) -> Plan:
    """Read the stack file and check every rule. `read` asks an image's registry, for a target that has rules about the answer."""
    from catalog.loader import Catalog
    from infra.deployment import from_stack_file
    from infra.plan import make_plan

    deployment = from_stack_file(project.root, stack, sets)
    facts = read(deployment) if read and deployment.image is not None and deployment.target.reads_image else None
    return make_plan(deployment, Catalog.load(), allow, facts)


def where(plan: Plan, allow: Sequence[str]) -> tuple[Place, ...]:
    """The places in which `up` asks for a machine, with their prices. Raises `Refused` for one that breaks a rule."""
    from catalog.loader import Catalog
    from infra.places import places

    return places(plan.deployment, Catalog.load(), allow, plan.facts)


def unresolved(plan: Plan) -> list[str]:
    """What is only pinned when the stack is created, and kept from then on."""
    from infra.settle import unresolved as keys

    names = {"image": "image digest", "model": "model revision"}
    found = [names.get(key, key.removeprefix("target.").replace("_", " ")) for key in keys(plan.deployment)]
    return [*found, *(["image config"] if unread(plan) else [])]


def unread(plan: Plan) -> bool:
    """Whether the image's own config will be asked at `up`, and was not yet."""
    return plan.facts is None and plan.deployment.image is not None and plan.deployment.target.reads_image


def page(plan: Plan, output: Output, places: Sequence[Place] = ()) -> str:
    """The plan for people. `places`: with a price for each where they differ."""
    target, serving, kv = plan.deployment.target, plan.deployment.serving, plan.kv
    rows = [
        ("target", f"{target.kind}, {plan.machine.name} ({plan.accelerator.name}) in {', '.join(target.places)}"),
        ("model", f"{plan.model.name} @ {plan.boot.model_revision or plan.deployment.model.revision + ' (unresolved until up)'}"),
        _server(plan),
        *([("machines", f"{target.machines[0]} to {target.machines[1]}")] if target.machines != (1, 1) else []),
        *image_says(plan),
        ("host image", _host_image(plan)),
        ("disk", f"{plan.disk_gb} GB {target.disk_type}, {_needed(plan.disk_needed_gb)}"),
        ("KV cache", f"{_count(kv.tokens)} tokens in {_gib(kv.pool_bytes)}; the longest request takes {serving.max_model_len}"),
        *([("", "what text_only frees is unknown and not counted")] if serving.text_only else []),
        *([] if "egress" in target.without else [("way out", plan.deployment.common.egress)]),
        ("window", words(plan.deployment.common.window)),
        ("flags", " ".join(plan.as_dict()["argv"])),  # type: ignore[arg-type]
        *([("allowed", ", ".join(plan.allowed))] if plan.allowed else []),
        *(("to set", note) for note in plan.deployment.notes),
    ]
    head = output.style(plan.deployment.stack, "bold")
    return "\n".join((head, table([(f"  {name}", text) for name, text in rows]), "", price_table(plan), *_prices(places)))


def _host_image(plan: Plan) -> str:
    """Its own name, or that the image decides it."""
    if unread(plan) and not plan.cuda[0] and plan.host_image == "auto":
        return "auto: by the image's CUDA, at up"
    return plan.host_image if plan.host_image.startswith("/") else plan.host_image.rpartition("/")[2]


def image_says(plan: Plan) -> list[tuple[str, str]]:
    """CUDA and cards of the image with who tells them, for a target that reads the image's own config at `up`."""
    if plan.deployment.image is None or not plan.deployment.target.reads_image:
        return []
    (cuda, cuda_by), (cards, cards_by) = plan.cuda, plan.cards
    later = unread(plan)
    nobody = "unread until up" if later else "its config does not say"
    rows = [
        ("image's CUDA", f"{cuda} by {cuda_by}" if cuda else nobody),
        ("image's cards", f"{', '.join(cards)} by {cards_by}" if cards else nobody),
    ]
    return [(name, f"{text}; its own config is read at up" if later and text != nobody else text) for name, text in rows]


def price_table(plan: Plan) -> str:
    """What it costs, each part with its evidence."""
    cost = plan.cost
    rows = [
        (f"  {part.name}", dollars(part.per_hour, "/h") if part.once is None else dollars(part.once, " once"), part.evidence)
        for part in cost.parts
    ]
    rows.append(("  all of it", in_all(cost), ""))
    if plan.most is not None:
        rows.append((f"  with {plan.deployment.target.machines[1]} machines", in_all(plan.most), ""))
    if plan.building is not None:
        rows.append(("  the build, where it is not kept yet", dollars(plan.building.usd, " once"), "inferred"))
    rows += [(f"  {part.name}, where it is not there yet", dollars(part.once, " once"), part.evidence) for part in plan.firsts]
    rows += [(f"  stays after down: {s.name}", dollars(s.per_month, " a month"), s.evidence) for s in plan.stays]
    unknown = f"\n  not counted, price unknown: {', '.join(cost.unknown)}" if cost.unknown else ""
    why = "".join(f"\n    {part.why}" for part in cost.parts if part.name in cost.unknown and part.why)
    return "  price\n" + table([("  " + a, b, c) for a, b, c in rows]) + unknown + why


def in_all(cost: Cost) -> str:
    """An hour's price and the window's, of what is known."""
    return (
        "unknown" if cost.per_hour is None else f"{dollars(cost.per_hour, '/h')}, {dollars(cost.window)} for {words(cost.window_s)}"
    )


def _prices(places: Sequence[Place]) -> list[str]:
    """What each place costs, where that is not the same everywhere."""
    if len({(place.per_hour, place.unknown) for place in places}) < 2:
        return []
    rows = [
        (
            f"    {p.name}",
            f"{dollars(p.per_hour, '/h')}, {dollars(p.window)}",
            f"without {', '.join(p.unknown)}" if p.unknown else "",
        )
        for p in places
    ]
    return [f"  all of it, by place\n{table(rows)}"]


def _server(plan: Plan) -> tuple[str, str]:
    """What serves: an image, or a build that is kept."""
    if plan.deployment.image is not None:
        return "image", plan.deployment.image.name + ("" if plan.boot.image_digest else " (digest unresolved until up)")
    build = plan.as_dict()["build"]
    assert isinstance(build, dict)
    if plan.building is not None:
        takes = once(plan.building)
        return "build", f"{build['key']} (kept in the bucket; where it is not, flexserve build makes it, once: {takes})"
    if build["where"] != "machine":
        return "build", f"{build['key']} (must be kept in the bucket)"
    minutes, usd = build.get("making_minutes"), build.get("making_usd")
    time = "of paid time that nobody has measured" if minutes is None else f"about {minutes} minutes of paid time"
    cost = ", at a price that is not known" if usd is None else f", {dollars(usd)}"
    return "build", f"{build['key']} (made on the machine where the bucket has none: {time}{cost}, the first time)"


def once(building: Building) -> str:
    """How long the builder takes and what that costs: `about 27 minutes on m7g.8xlarge, spot, at most $0.60`."""
    time = "nobody has measured how long" if building.minutes is None else f"about {building.minutes:.0f} minutes"
    way = building.provisioning.replace("_", "-")
    if building.usd is not None:
        price = dollars(building.usd)
    elif building.usd_at_most is not None:
        price = f"its price is unknown, at most {dollars(building.usd_at_most)}"
    else:
        price = "its price is unknown"
    return f"{time} on {building.machine_type}, {way}, {price}"


def _count(value: int | None) -> str:
    return "?" if value is None else f"{value:,}"


def _needed(gb: int | None) -> str:
    return "how much is needed is not known" if gb is None else f"{gb} GB needed"


def _gib(value: int | None) -> str:
    return "an unknown pool" if value is None else f"{value / (1 << 30):.1f} GiB"
