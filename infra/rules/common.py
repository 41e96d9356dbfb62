"""The rules that hold for every target, in the order in which they are checked."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from catalog.rows import MachineType, Model, Zone
from infra.duration import words
from infra.fit import GIB, kv_fit
from infra.rules.rule import Broken, Rule, Situation
from infra.wording import nearest
from verdict.secrets import SECRET_VALUE

IAP_RANGE = "35.235.240.0/20"
PLACEHOLDERS = re.compile(r"^your-|(^|:)you@example\.com$")
MEMBER = re.compile(r"(user|group|serviceAccount|principal|principalSet):[^\s:]\S*")
SERVICES = {"": "EC2", "sagemaker": "SageMaker"}  # of AWS; no other cloud's machines are divided
TOKENS = re.compile(r"(HF|HUGGING_?FACE)(_HUB)?_?TOKEN|HF_API_KEY|hf[-_]token", re.IGNORECASE)
ASKED = 2048  # tokens that a checkpoint has to hold beside its weights before it is called fitting
UTILIZATIONS = (0.92, 0.95)  # more leaves nothing for what else takes memory on a card
USE_S = 600  # that a window has to hold beside the start: less was never worth the price of it
SHORT_DTYPES = {"half": "float16", "float": "float32"}  # vLLM's other words for them
MEMBERS = "`user:…`, `group:…` or `serviceAccount:…`"


def secret_value(s: Situation) -> Broken | None:
    """A secret's value where its name belongs."""
    for path, value in _strings(s):
        if SECRET_VALUE.search(value):
            return Broken(
                f"{path} holds what looks like a secret's value",
                f"put it in the store with `flexserve secret put NAME -s {s.deployment.stack}`, and write NAME",
            )
    return None


def token_in_environment(s: Situation) -> Broken | None:
    """A setting that would hold the Hub token's value, in the open."""
    serving = s.deployment.serving
    for key, names in (("environment", serving.environment), ("extra_args", serving.extra_args)):
        name = next((n for n in names if TOKENS.fullmatch(n)), None)
        if name is not None:
            return Broken(
                f"serving.{key}.{name} would hold the token's value, for everybody to read who may look at the machine",
                "leave it out and name the secret: flexserve:secret.name",
            )
    return None


def placeholder(s: Situation) -> Broken | None:
    """A placeholder of the shipped stack file that was not filled in."""
    for path, value in _strings(s):
        if PLACEHOLDERS.search(value):
            return Broken(f"{path} is still the placeholder {value!r}", f"set it in stacks/Pulumi.{s.deployment.stack}.yaml")
    return None


def _within(text: str, other: str) -> bool:
    import ipaddress  # most stack files leave the range as it is

    network, outer = ipaddress.ip_network(text), ipaddress.ip_network(other)
    return network.version == outer.version and network.subnet_of(outer)  # type: ignore[arg-type]


def ingress_open(s: Situation) -> Broken | None:
    """A source range outside IAP's."""
    access = s.deployment.common.access
    for text in access.source_ranges if access else ():
        if text != IAP_RANGE and not _within(text, IAP_RANGE):
            return Broken(f"{text} lets others than the tunnel reach the server, which has no password", f"use {IAP_RANGE}")
    return None


def member_not_named(s: Situation) -> Broken | None:
    """A tunnel for everybody, a whole domain, or somebody who is written as nobody is."""
    access = s.deployment.common.access
    for member in access.members if access else ():
        if member in ("allUsers", "allAuthenticatedUsers") or member.startswith("domain:"):
            return Broken(f"{member} lets more than named members reach the server, which has no password", f"name them: {MEMBERS}")
        if not MEMBER.fullmatch(member):
            return Broken(f"{member!r} in flexserve:access.members names nobody", f"write {MEMBERS}")
    return None


def no_way_out(s: Situation) -> Broken | None:
    """`egress: existing` on a network of our own: nothing there leads out."""
    if s.deployment.common.egress != "existing" or getattr(s.deployment.target, "network", None) != "own":
        return None
    return Broken(
        "a network that flexserve makes has no other way out than the one that it makes: the machine could fetch nothing",
        "set egress to address or nat, or target.network to a network of yours",
    )


def unknown_machine_type(s: Situation) -> Broken | None:
    """A machine type that the catalog does not have for this cloud."""
    name, cloud = s.deployment.target.machine_type, s.deployment.target.cloud
    kinds = (cloud, s.deployment.target.service)
    known = [m.name for m in s.catalog.machine_types.values() if (m.cloud, m.service) == kinds]
    if s.machine is not None and s.machine.cloud == cloud:
        return None
    return Broken(f"the catalog has no machine type {name!r} on {cloud}", nearest(name, known))


def machine_of_another_service(s: Situation) -> Broken | None:
    """A machine type that another service of the cloud rents out."""
    target, machine = s.deployment.target, s.machine
    if machine is None or machine.cloud != target.cloud or machine.service == target.service:
        return None
    known = [m.name for m in s.catalog.machine_types.values() if (m.cloud, m.service) == (target.cloud, target.service)]
    asked, there = (SERVICES.get(name, "the cloud's service for plain machines") for name in (target.service, machine.service))
    return Broken(f"{asked} rents out no {machine.name}: it is a machine of {there}", nearest(machine.name, known))


def unknown_builder(s: Situation) -> Broken | None:
    """A machine type for making the build that the catalog does not have for this cloud."""
    name, cloud = s.deployment.target.builder, s.deployment.target.cloud
    known = [b.name for b in s.catalog.builder_types.values() if b.cloud == cloud]
    if not name or name in known:
        return None
    return Broken(f"the catalog has no machine type {name!r} to build on", f"target.build.machine_type: {nearest(name, known)}")


def unknown_model(s: Situation) -> Broken | None:
    """A model that the catalog does not have."""
    name = s.deployment.model.name
    return None if s.model else Broken(f"the catalog has no model {name!r}", nearest(name, s.catalog.models))


def unknown_zone(s: Situation) -> Broken | None:
    """A zone that is not known to offer the accelerator in this way."""
    known = [z.name for z in _zones(s)]
    for place in s.deployment.target.places:
        zone = s.deployment.target.zone(place)
        if zone not in known:
            accelerator = s.machine.accelerator if s.machine else "it"
            way = s.deployment.target.provisioning
            return Broken(f"no source says that {zone} offers {accelerator} as {way}", nearest(zone, known))
    return None


def zone_without_size(s: Situation) -> Broken | None:
    """A zone that offers the accelerator, but not in this machine type."""
    target, sizes = s.deployment.target, {z.name: z.machine_types for z in _zones(s)}
    for place in target.places:
        size, there = target.size(place) or target.machine_type, sizes.get(target.zone(place), ())
        if there and size not in there:
            return Broken(f"{target.zone(place)} has no {size}", f"there: {', '.join(there)}; or another zone")
    return None


def unknown_image(s: Situation) -> Broken | None:
    """A container image that the catalog does not have for this accelerator."""
    if s.deployment.image is None or not s.deployment.target.catalogued:
        return None
    name = s.deployment.image.name
    target = s.deployment.target
    known = [
        f"{i.repository.replace('{region}', target.region_of(target.places[0]))}:{i.tag}"
        for i in s.catalog.images
        if s.accelerator and s.accelerator.name in i.accelerators
    ]
    if s.image is not None and s.accelerator is not None and s.accelerator.name in s.image.accelerators:
        return None
    return Broken(f"the catalog has no image {name!r} for {s.accelerator.name if s.accelerator else 'it'}", nearest(name, known))


def window_bounds(s: Situation) -> Broken | None:
    """A window that this way of asking does not allow, or in which a start as recorded leaves no 10 minutes of use."""
    target, window = s.deployment.target, s.deployment.common.window
    row = s.catalog.provisionings.get(target.provisioning)
    start = s.catalog.boot(target.kind, target.starts)
    least = sum(part.seconds for part in start) + USE_S
    if row is None or row.window_min_s <= window <= row.window_max_s:
        if not start or window >= least:
            return None
        took = " and ".join(f"{words(part.seconds)} for its {part.part}" for part in start)
        return Broken(
            f"the window of {words(window)} closes before there is any use of it: a recorded start took {took}",
            f"set flexserve:window to {words(-(-least // 60) * 60)} or more",
        )
    return Broken(
        f"the window of {target.provisioning} is {words(row.window_min_s)} to {words(row.window_max_s)}, not {words(window)}",
        "set flexserve:window within that",
    )


def quantization_unsupported(s: Situation) -> Broken | None:
    """A quantised checkpoint that vLLM cannot run on the accelerator."""
    if s.model is None or s.accelerator is None or s.model.quantization in s.accelerator.quantization:
        return None
    other = s.model.unquantized
    return Broken(
        f"{s.model.name} needs {s.model.quantization} kernels, which vLLM does not have on {s.accelerator.name}",
        f"use {other}" if other else "use an unquantised checkpoint",
    )


def dtype_unsupported(s: Situation) -> Broken | None:
    """A number format that the accelerator does not compute in."""
    wanted = s.deployment.serving.dtype
    if s.accelerator is None or SHORT_DTYPES.get(wanted, wanted) in ("auto", *s.accelerator.dtypes):
        return None
    return Broken(f"{s.accelerator.name} does not compute in {wanted}", f"use {s.accelerator.dtypes[0]} or auto")


def kv_dtype_unsupported(s: Situation) -> Broken | None:
    """A KV cache format that the accelerator does not keep."""
    wanted = s.deployment.serving.kv_cache_dtype
    if s.accelerator is None or wanted in s.accelerator.kv_cache_dtypes:
        return None
    return Broken(f"{s.accelerator.name} keeps no KV cache in {wanted}", "one of " + ", ".join(s.accelerator.kv_cache_dtypes))


def over_context(s: Situation) -> Broken | None:
    """A length that is over the model's own."""
    wanted = s.deployment.serving.max_model_len
    if s.model is None or wanted <= s.model.context:
        return None
    return Broken(
        f"{s.model.name} reads {s.model.context} tokens, not {wanted}",
        f"set serving.max_model_len to {s.model.context} or less",
    )


def length_does_not_fit(s: Situation) -> Broken | None:
    """A length whose KV cache does not fit beside the weights."""
    if s.model is None or s.machine is None or s.accelerator is None:
        return None
    serving = s.deployment.serving
    fit = kv_fit(
        s.model,
        s.machine,
        s.accelerator,
        serving.gpu_memory_utilization,
        serving.max_model_len,
        serving.kv_cache_dtype,
        serving.max_num_batched_tokens,
    )
    if fit.fits is not False:
        return None
    if not fit.longest:
        return Broken(
            f"the weights of {s.model.name} do not fit on {s.machine.name}",
            _what_fits(s),
        )
    return Broken(
        f"{serving.max_model_len} tokens need {serving.max_model_len * fit.bytes_per_token / GIB:.1f} GiB of KV cache, "
        f"{(fit.pool_bytes or 0) / GIB:.1f} GiB are left",
        f"set serving.max_model_len to {fit.longest} or less",
    )


def disk_too_small(s: Situation) -> Broken | None:
    """A boot disk smaller than image and weights and 30 %."""
    needed, has = s.disk_needed_gb, s.disk_gb
    if needed is None or has >= needed:
        return None
    server = "image" if s.deployment.image else "the host's own files, swap"
    return Broken(
        f"{server}, weights and 30 % need {needed} GB, the boot disk has {has}",
        "take a larger machine type" if s.machine and s.machine.local_disk_gb else f"set target.disk_gb to {needed} or more",
    )


def disk_too_large(s: Situation) -> Broken | None:
    """A boot disk larger than the cloud makes one of this type."""
    target = s.deployment.target
    row = s.catalog.disk_types.get(target.disk_type)
    if row is None or row.cloud != target.cloud or s.disk_gb <= row.max_gb:
        return None
    return Broken(f"the largest {row.name} disk has {row.max_gb} GB, not {s.disk_gb}", "set target.disk_gb to what is needed")


def disk_type_unsupported(s: Situation) -> Broken | None:
    """A boot disk type that the machine type does not take."""
    if s.machine is None or s.deployment.target.disk_type in s.machine.disk_types:
        return None
    return Broken(f"{s.machine.name} does not boot from {s.deployment.target.disk_type}", f"use {', '.join(s.machine.disk_types)}")


COMMON: Sequence[Rule] = tuple(
    Rule(check.__name__.replace("_", "-"), (check.__doc__ or "").strip(), check, final)
    for check, final in (
        (secret_value, True),
        (token_in_environment, True),
        (placeholder, False),
        (ingress_open, False),
        (member_not_named, False),
        (no_way_out, False),
        (unknown_machine_type, True),
        (machine_of_another_service, True),
        (unknown_builder, True),
        (unknown_model, True),
        (unknown_image, False),
        (unknown_zone, False),
        (zone_without_size, False),
        (window_bounds, False),
        (quantization_unsupported, False),
        (dtype_unsupported, False),
        (kv_dtype_unsupported, False),
        (over_context, False),
        (length_does_not_fit, False),
        (disk_too_small, False),
        (disk_too_large, False),
        (disk_type_unsupported, False),
    )
)


def _what_fits(s: Situation) -> str:
    """What to take instead, each tried: more of the memory, a larger machine, smaller weights; else another model."""
    assert s.model is not None and s.machine is not None
    serving, ways = s.deployment.serving, []
    for utilization in (u for u in UTILIZATIONS if u > serving.gpu_memory_utilization):
        if _holds(s, s.model, s.machine, utilization):
            ways.append(f"raise serving.gpu_memory_utilization to {utilization}")
            break
    larger = [m.name for m in _larger(s) if _holds(s, s.model, m, serving.gpu_memory_utilization)]
    ways += [f"take {larger[0]}"] if larger else []
    ways += [f"take {name}, which fits" for name in _quantised(s, s.machine)]
    if not ways:
        ways = [f"take {name} on {m.name}" for m in _larger(s) for name in _quantised(s, m)][:1]
    return "; or ".join((*ways, "take a smaller model"))


def _quantised(s: Situation, machine: MachineType) -> tuple[str, ...]:
    """The same model with smaller weights, where the catalog has one that fits there; one that was measured here first."""
    assert s.model is not None and s.accelerator is not None
    model, accelerator, utilization = s.model, s.accelerator, s.deployment.serving.gpu_memory_utilization
    others = [m for m in s.catalog.models.values() if m.unquantized == model.name and m.quantization in accelerator.quantization]
    ranked = sorted(others, key=lambda m: accelerator.name not in m.reserve_gib)
    return tuple(m.name for m in ranked if _holds(s, m, machine, utilization))[:1]


def _larger(s: Situation) -> Iterator[MachineType]:
    """Other machine types of the same service with the same accelerator, those with fewer chips and less memory first."""
    assert s.machine is not None
    ours, target = s.machine, s.deployment.target
    rows = sorted(s.catalog.machine_types.values(), key=lambda m: (m.accelerators, m.memory_gib, m.name))
    for m in rows:
        if (m.cloud, m.service, m.accelerator) == (
            target.cloud,
            ours.service,
            ours.accelerator,
        ) and m.accelerators > ours.accelerators:
            yield m


def _holds(s: Situation, model: Model, machine: MachineType, utilization: float) -> bool:
    assert s.accelerator is not None
    return kv_fit(model, machine, s.accelerator, utilization, ASKED, "auto", ASKED).fits is True


def _zones(s: Situation) -> Iterator[Zone]:
    """The catalog's zones that offer the machine's accelerator in the target's way."""
    target = s.deployment.target
    for zone in s.catalog.zones:
        ours = zone.cloud == target.cloud and target.provisioning in zone.provisioning
        if ours and s.machine and s.machine.accelerator in zone.accelerators:
            yield zone


def _strings(s: Situation) -> Iterator[tuple[str, str]]:
    """Every string of the deployment with the key that holds it, and every key of the operator's own making."""
    yield from _walk("flexserve:target", s.deployment.target.model_dump())
    for key, value in s.deployment.common.model_dump().items():
        yield from _walk(f"flexserve:{key}", value)


def _walk(path: str, value: object) -> Iterator[tuple[str, str]]:
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield f"a key of {path}", key
            yield from _walk(f"{path}.{key}", inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _walk(path, inner)
