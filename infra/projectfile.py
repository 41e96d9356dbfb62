"""What `Pulumi.yaml` says below `config:`: values that hold for every stack whose file does not set them. Pure.

Source: Pulumi 3.274, `sdk/go/common/workspace/project.go` (`RewriteShorthandConfigValues`, `Validate`) and
`pkg/workspace/config.go` (`mergeConfig`). A key is the stack file's as a whole or the project's; nothing within it is merged.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from infra.stackfile import NAMESPACE
from verdict.errors import BadConfig

FILE = "Pulumi.yaml"
_DECLARES = ("type", "description", "items", "default", "value", "secret")


def says_nothing(text: str) -> bool:
    """Whether the text cannot have a `config:`: then it need not be read."""
    return "config" not in text and "\\" not in text


def applied(config: Mapping[str, Any], document: Any) -> dict[str, Any]:
    """The stack file's configuration with the project's below it. Raises `BadConfig` for what Pulumi would not take either.

    `config`: full key -> value, as `stackfile.config_in` gives it. A key of the project may be a path: `flexserve:target.project`.
    """
    declared = (document.get("config") or {}) if isinstance(document, Mapping) else {}
    if not isinstance(declared, Mapping) or not all(isinstance(key, str) for key in declared):
        raise BadConfig(f"{FILE}: config is no group of keys", way_out="where the stack files are is said by stackConfigDir")
    full = dict(config)
    for key in sorted(declared):
        name = key if ":" in key else f"{NAMESPACE}:{key}"
        namespace, _, path = name.partition(":")
        if "[" in path:
            raise BadConfig(f"{FILE}: {key}: a path with brackets is not read", way_out=f"write {path.partition('[')[0]} in full")
        head, *rest = path.split(".")
        _set(full, (f"{namespace}:{head}", *rest), _Declared(key, declared[key], ours=namespace == NAMESPACE))
    return full


class _Declared:
    """One key of the project: the value that it gives, if it gives one."""

    def __init__(self, key: str, said: Any, *, ours: bool) -> None:
        self.key, self.ours = key, ours
        self.value: Any = None
        if isinstance(said, str | int | list) or said is None:  # in short: neither a float nor a group of keys, as in Pulumi
            self.value = said
        elif not isinstance(said, Mapping) or not set(said) <= set(_DECLARES):
            way_out = "write `value:` before it, one level in"
            raise BadConfig(f"{FILE}: {key}: Pulumi does not take a value of this kind as it stands", way_out=way_out)
        elif said.get("default") is not None and said.get("value") is not None:
            raise BadConfig(f"{FILE}: {key} has both a default and a value", way_out="leave out one of them")
        elif not ours and (said.get("default") is not None or said.get("type") is not None):
            raise BadConfig(f"{FILE}: {key} is not a key of this project: it may have a value only", way_out="write `value:`")
        else:
            self.value = said.get("default") if said.get("value") is None else said["value"]


def _set(config: dict[str, Any], path: tuple[str, ...], declared: _Declared) -> None:
    """Where the stack file does not say it."""
    *groups, last = path
    at = config
    for depth, name in enumerate(groups, 1):
        inner = at.get(name, {})
        if not isinstance(inner, dict):
            raise BadConfig(f"{FILE}: {declared.key}: {'.'.join(path[:depth])} is not a group of keys in the stack file")
        if declared.value is not None:
            at[name] = inner = dict(inner)
        at = inner
    if last in at:
        return
    if declared.value is not None:
        at[last] = declared.value
    elif declared.ours:
        why = f"{FILE} declares it without a value, so every stack has to have one"
        raise BadConfig(f"{'.'.join(path)}: missing", why=why, way_out="set it in the stack file")
    else:
        raise BadConfig(f"{FILE}: {declared.key} has no value", way_out="write `value:`")
