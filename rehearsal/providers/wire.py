"""Between the wire and the table of resources: configuration, drawn names, secrets, Terraform's private state."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Mapping
from typing import Any, Final

from rehearsal.providers import schema
from rehearsal.providers.diff import META
from rehearsal.providers.resource import Resource
from rehearsal.providers.schema import at
from rehearsal.providers.values import Secret, Values, decode, encode

_TIMEOUT_KEY: Final = "e2bfb730-ecaa-11e6-8f88-34363bc7c4c0"  # where Terraform keeps a resource's timeouts in its state


def stored(resource: Resource[Any], identifier: str, state: Values, meta: str) -> Any:
    """A state as the engine is to keep it."""
    return encode(sealed(resource, {**state, "id": identifier, **({META: meta} if meta else {})}))


def configuration(request: Any) -> Values:
    """Provider configuration as plain values: typed arguments come as JSON text."""
    values = decode(request.args) or {key.rpartition(":")[2]: value for key, value in request.variables.items()}
    return {key: _parsed(value) for key, value in values.items()}


def _parsed(value: Any) -> Any:
    if isinstance(value, str) and value[:1] in '[{tf"':
        try:
            return json.loads(value)
        except json.JSONDecodeError:
            return value
    return value


def name_for(request: Any, olds: Values, key: str = "name") -> str:
    """The name before, or a new one: the resource's own and seven random hexadecimal digits, the same for one seed."""
    if olds.get(key):
        return str(olds[key])
    if request.autonaming.proposed_name:
        return str(request.autonaming.proposed_name)
    digits = random.Random(request.randomSeed).getrandbits(28)
    return f"{request.urn.rpartition('::')[2]}-{digits:07x}"


def sealed(resource: Resource[Any], values: Values) -> Values:
    """The same values, those that the table calls secret marked as such."""
    return {
        key: Secret(value) if key in resource.fields and resource.fields[key].secret else _sealed_inside(resource, key, value)
        for key, value in values.items()
    }


def _sealed_inside(resource: Resource[Any], key: str, value: Any) -> Any:
    prop = resource.fields.get(key)
    if prop is None or not isinstance(value, dict) or prop.kind is not schema.Kind.BLOCK:
        return value
    return {name: Secret(item) if name in prop.fields and prop.fields[name].secret else item for name, item in value.items()}


def private_state(resource: Resource[Any], verb: str, asked: float) -> str:
    """Terraform's private part of the state: timeouts in nanoseconds and the schema's version."""
    timeouts = {**resource.timeouts, **({verb: asked} if verb and asked else {})}
    meta: Values = {}
    if timeouts:
        meta[_TIMEOUT_KEY] = {key: int(seconds * 1e9) for key, seconds in sorted(timeouts.items())}
    if resource.schema_version:
        meta["schema_version"] = str(resource.schema_version)
    return json.dumps(meta, separators=(",", ":")) if meta else ""


def keeps_its_name(fields: schema.Fields, inputs: Mapping[str, Any]) -> bool:
    """Whether old and new cannot stand side by side: the name is the program's own."""
    defaulted = inputs.get(schema.DEFAULTS, [])
    return any(prop.autoname and key in inputs and key not in defaulted for key, prop in fields.items())


def ignore(path: str, state: Mapping[str, Any], inputs: Values) -> None:
    """Take the state's value at a path (`bootDisk.initializeParams.image`), whatever the program says."""
    *way, last = re.findall(r"[^.\[\]\"]+", path)
    here: Any = inputs
    there: Any = state
    for key in way:
        here, there = (value.get(key) if isinstance(value, Mapping) else _element(value, key) for value in (here, there))
    if isinstance(here, dict) and isinstance(there, Mapping):
        here[last] = there.get(last)


def _element(values: Any, key: str) -> Any:
    return at(values, int(key)) if isinstance(values, list) and key.isdigit() else None


def top(path: str) -> str:
    """The property that a path begins with."""
    return path.split(".")[0].split("[")[0]
