"""An input that is accepted is sent: one that would have no effect is refused instead."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from rehearsal.providers.google.resources import firewall, router
from rehearsal.providers.google.resources.instance_body import insert_body
from rehearsal.providers.google.resources.instance_table import FIELDS
from rehearsal.providers.plan import known, plan
from rehearsal.providers.schema import Fields, Kind, Prop, with_defaults

NOT_IN_THE_BODY = {"project", "zone", "region", "router"}  # these are in the path
SWITCHES = {"allowStoppingForUpdate"}  # the provider's own
COMPUTED_FROM = {"labels": "effectiveLabels"}

MINIMAL: dict[str, Any] = {
    "name": "vm",
    "machineType": "ct6e-standard-1t",
    "bootDisk": {"initializeParams": {"image": "projects/p/global/images/i"}},
    "networkInterfaces": [{"network": "default", "subnetwork": "s", "accessConfigs": [{}]}],
    "scheduling": {"provisioningModel": "FLEX_START"},
    "reservationAffinity": {"type": "NO_RESERVATION"},
    "serviceAccount": {"scopes": ["cloud-platform"]},
    "shieldedInstanceConfig": {},
}
RULE = {"name": "f", "network": "default", "allows": [{"protocol": "tcp"}]}
NAT = {
    "name": "n",
    "router": "r",
    "sourceSubnetworkIpRangesToNat": "LIST_OF_SUBNETWORKS",
    "subnetworks": [{"name": "s", "sourceIpRangesToNats": ["ALL"]}],
}

BUILDERS: dict[str, tuple[Fields, dict[str, Any], Callable[[dict[str, Any]], dict[str, Any]]]] = {
    "instance": (FIELDS, MINIMAL, lambda given: insert_body("p", "z-a", given)),
    "firewall": (firewall.FIELDS, RULE, lambda given: firewall.body("p", given)),
    "nat": (router.NAT, NAT, router.nat_body),
}


def settable(fields: Fields, given: dict[str, Any], path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Prop]]:
    """Every input at its place; inside blocks as well, where the example has the block."""
    for name, prop in fields.items():
        if prop.output or name in NOT_IN_THE_BODY | SWITCHES:
            continue
        inner = given.get(name)
        yield (*path, name), prop
        if prop.kind is Kind.BLOCK and isinstance(inner, dict):
            yield from settable(prop.fields, inner, (*path, name))
        if prop.kind is Kind.BLOCKS and inner:
            yield from settable(prop.fields, inner[0], (*path, name, 0))


def sample(prop: Prop, name: str) -> Any:
    """A value unlike the property's nothing and its default."""
    if prop.kind is Kind.BLOCK:
        return {key: sample(sub, key) for key, sub in prop.fields.items() if not sub.output}
    if prop.kind is Kind.BLOCKS:
        return [sample(Prop(Kind.BLOCK, fields=prop.fields), name)]
    if prop.kind in (Kind.LIST, Kind.SET):
        return ["7"]
    if prop.kind is Kind.MAP:
        return {"other": "7"}
    if isinstance(prop.zero, bool) or isinstance(prop.default, bool):
        return prop.default is not True
    return 7 if isinstance(prop.zero, int) else "projects/p/global/images/other"


def cases() -> Iterator[tuple[str, tuple[Any, ...]]]:
    for what, (fields, given, _) in BUILDERS.items():
        yield from ((what, path) for path, _ in settable(fields, given))


@pytest.mark.parametrize(
    ("what", "path"), cases(), ids=lambda value: value if isinstance(value, str) else ".".join(map(str, value))
)
def test_the_body_shows_it(what: str, path: tuple[Any, ...]) -> None:
    fields, given, build = BUILDERS[what]
    prop = dict(settable(fields, given))[path]
    more = copy.deepcopy(given)
    *way, last = path
    at: Any = more
    for key in way:
        at = at[key]
    at[last] = sample(prop, last)
    bodies = []
    for inputs in (given, more):
        planned = known(plan(fields, None, with_defaults(fields, inputs)))
        bodies.append(build(planned | {to: planned.get(of) for of, to in COMPUTED_FROM.items() if of in planned}))
    assert bodies[0] != bodies[1]
