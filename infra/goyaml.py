"""YAML text -> values, read as Pulumi reads it. Pure.

Pulumi reads with Go's YAML, this does with Python's. What they read differently is refused or read as Go does: otherwise the plan
that the operator agrees to would be another than the one that is made.
"""

from __future__ import annotations

import math
import re
from typing import Any

import yaml

from verdict.errors import BadConfig

MOST_VALUES = 10_000
DEEPEST = 30
LARGEST_IN_DIGITS = 1e21  # from there on Go writes an exponent
_TIME = re.compile(r"[-+]?\d[\d_]*(:\d+)+(\.\d*)?")  # base 60 in YAML 1.1, text in Go


class Loader(yaml.SafeLoader):
    """Refuses a key that stands twice; reads `4:00:00`, `yes`, `no`, `on` and `off` as text, `0o17`, `1e3` and `08` as numbers."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """As ever; raises for a key that stands twice (merged keys may be overridden). In Go a quoted `<<` merges too."""
        seen = set()
        for key, _ in node.value if isinstance(node, yaml.MappingNode) else ():
            if isinstance(key, yaml.ScalarNode):
                if key.value == "<<":
                    key.tag = "tag:yaml.org,2002:merge"
                if key.value in seen:
                    raise yaml.constructor.ConstructorError(None, None, f"the key {key.value} stands twice", key.start_mark)
                seen.add(key.value)
        return super().construct_mapping(node, deep)

    def number(self, node: yaml.ScalarNode) -> Any:
        """An int or float, except for base 60. `1.0` is 1: what Pulumi hands to the program is JSON as Go writes it."""
        if _TIME.fullmatch(str(node.value)):
            return str(node.value)
        if node.tag.endswith(":int"):
            return self.construct_yaml_int(node)
        value = self.construct_yaml_float(node)
        if not math.isfinite(value):
            raise yaml.constructor.ConstructorError(None, None, "Pulumi takes no such number", node.start_mark)
        return int(value) if value.is_integer() and abs(value) < LARGEST_IN_DIGITS else value

    def truth(self, node: yaml.ScalarNode) -> Any:
        """The words of YAML 1.2 alone; those of 1.1 are text where Go has no bool to fill."""
        word = str(node.value)
        return word.lower() == "true" if word.lower() in ("true", "false") else word


Loader.add_implicit_resolver("tag:yaml.org,2002:int", re.compile(r"[-+]?0o[0-7_]+\Z"), list("-+0"))
Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"[-+]?(\.[0-9][0-9_]*|[0-9][0-9_]*(\.[0-9_]*)?)([eE][-+]?[0-9]+)?\Z"),
    list("-+.0123456789"),
)  # after the ints, as in Go
Loader.add_constructor("tag:yaml.org,2002:bool", Loader.truth)
Loader.add_constructor("tag:yaml.org,2002:int", Loader.number)
Loader.add_constructor("tag:yaml.org,2002:float", Loader.number)


def parse(text: str, what: str, way_out: str = "") -> Any:
    """One YAML document. Raises `BadConfig` that says where, never what stands there: it may be a secret's value."""
    try:
        value = yaml.load(text, Loader)  # a safe loader
        _bounded(value, what)
        return value
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        at = f" (line {mark.line + 1}, column {mark.column + 1})" if mark else ""
        raise BadConfig(f"{what} is not YAML", why=f"{error.problem or error.context}{at}", way_out=way_out) from error
    except yaml.YAMLError as error:
        raise BadConfig(f"{what} is not YAML", why=str(error).splitlines()[0], way_out=way_out) from error
    except RecursionError:
        raise BadConfig(f"{what} nests too deep", way_out=way_out) from None
    except ValueError as error:  # a date or a number that there is not
        raise BadConfig(f"{what} is not YAML", why=str(error).partition(";")[0], way_out=way_out) from error


def _bounded(value: Any, what: str) -> None:
    """An alias within itself has no end, and aliases of aliases have very many values: neither is a stack file."""
    left, level = [value], 0
    count = 0
    while left:
        count, level = count + len(left), level + 1
        if count > MOST_VALUES or level > DEEPEST:
            raise BadConfig(f"{what} nests too deep or holds too much", way_out="write the values out, without aliases")
        left = [inner for outer in left for inner in _inside(outer)]


def _inside(value: Any) -> list[Any]:
    return list(value.values()) if isinstance(value, dict) else value if isinstance(value, list) else []
