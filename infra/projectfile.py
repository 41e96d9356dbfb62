"""What `Pulumi.yaml` says below `config:`: values that hold for every stack whose file does not set them. Pure.

Source: Pulumi 3.274, `sdk/go/common/workspace/project.go` (`RewriteShorthandConfigValues`, `Validate`) and
`pkg/workspace/config.go` (`mergeConfig`). A key is the stack file's as a whole or the project's; nothing within it is merged.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from infra import projecttypes as types
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
        path = _path(key)
        said = _Declared(key, declared[key], ours=":" not in key or key.startswith(f"{NAMESPACE}:"))
        said.check(path, _set(full, path, said))
    return full


def _path(key: str) -> tuple[str, ...]:
    """`target.zone` as the full key and the names below it; dots that follow each other count as one, as in Pulumi."""
    namespace, _, name = (key if ":" in key else f"{NAMESPACE}:{key}").partition(":")
    name = name.removeprefix("config:")  # an older form, which Pulumi still takes
    if "[" in name:
        raise BadConfig(f"{FILE}: {key}: a path with brackets is not read", way_out=f"write {name.partition('[')[0]} in full")
    if ":" in name or not name or name.startswith(".") or name.endswith("."):
        raise BadConfig(f"{FILE}: {key!r} is no key that Pulumi takes", way_out="write NAME, NAMESPACE:NAME or NAME.INNER")
    head, *rest = filter(None, name.split("."))
    return f"{namespace}:{head}", *rest


class _Declared:
    """One key of the project: the value that it gives, if it gives one, and the type that any value has to have."""

    def __init__(self, key: str, said: Any, *, ours: bool) -> None:
        self.key, self.ours = key, ours
        self.value: Any = None
        self.type: Mapping[str, Any] | None = None
        self.secret = False
        if isinstance(said, str | int | list):  # in short: neither nothing, a float nor a group of keys, as in Pulumi
            self.value = said
        elif not isinstance(said, Mapping) or not set(said) <= set(_DECLARES) or not types.declared(said):
            way_out = "write `value:` before it, one level in; `type:` is one of " + ", ".join(types.TYPES)
            raise BadConfig(f"{FILE}: {key}: Pulumi does not take a value of this kind as it stands", way_out=way_out)
        else:
            self._of(said)

    def _of(self, said: Mapping[str, Any]) -> None:
        default, value = said.get("default"), said.get("value")
        if default is not None and value is not None:
            raise BadConfig(f"{FILE}: {self.key} has both a default and a value", way_out="leave out one of them")
        if not self.ours and (default is not None or "type" in said):
            what = f"{FILE}: {self.key} is not a key of this project: it may have a value only"
            raise BadConfig(what, way_out="write `value:`")
        if not self.ours and value is None:
            raise BadConfig(f"{FILE}: {self.key} has no value", way_out="write `value:`")
        if "type" in said:
            self.type, self.secret = said, bool(said.get("secret"))
            if said["type"] == "array" and "items" not in said:
                way_out = "add items: {type: string}"
                raise BadConfig(f"{FILE}: {self.key} is an array and does not say of what", way_out=way_out)
            if default is not None and not types.fits(said, default):
                raise BadConfig(
                    f"{FILE}: {self.key}: the default is not of type {types.named(said)}", way_out="correct one of them"
                )
        self.value = default if value is None else value

    def check(self, path: tuple[str, ...], value: Any) -> None:
        """Whatever says the value in the end, it has to be of the type."""
        if self.type is None:
            return
        name, secure = ".".join(path), isinstance(value, Mapping) and set(value) == {"secure"}
        if self.secret and not secure:
            why = f"{FILE} declares it as a secret"
            raise BadConfig(f"{name} stands there for all to read", why=why, way_out=f"pulumi config set --secret {path[0]} --path")
        if not secure and not types.fits_as_text(self.type, value):
            why = f"{FILE} declares it so"
            raise BadConfig(f"{name} is not of type {types.named(self.type)}", why=why, way_out="correct one of them")


def _set(config: dict[str, Any], path: tuple[str, ...], declared: _Declared) -> Any:
    """Where the stack file does not say it. The value that the key has then."""
    *groups, last = path
    at = config
    for depth, name in enumerate(groups, 1):
        inner = at.get(name, {})
        if depth == 1 and not isinstance(inner, Mapping | list):
            inner = {}  # text is no obstacle to Pulumi: the project's group of keys takes its place
        if not isinstance(inner, dict):
            raise BadConfig(f"{FILE}: {declared.key}: {'.'.join(path[:depth])} is not a group of keys in the stack file")
        if declared.value is not None:
            at[name] = inner = dict(inner)
        at = inner
    if last not in at:
        if declared.value is None:
            why = f"{FILE} declares it without a value, so every stack has to have one"
            raise BadConfig(f"{'.'.join(path)}: missing", why=why, way_out="set it in the stack file")
        at[last] = declared.value
    return at[last]
