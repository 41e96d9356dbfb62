"""The values of a YAML file, kept between processes: loading the YAML reader and reading take a third of a `plan`.

A kept form is named by a hash of the text that it was made from (see `catalog.kept`). A text with what looks like a secret's value
is not kept, nor one whose values are more than text, numbers, lists and groups of keys. One text a file's name is kept.
"""

from __future__ import annotations

from typing import Any

import msgspec

from catalog import kept
from verdict.places import cache_root
from verdict.secrets import SECRET_VALUE

FORM = "3"  # another one when the reader reads otherwise


def parsed(name: str, text: str, what: str) -> Any:
    """The values of the text of a file `name`. Raises `BadConfig` as `infra.goyaml.parse` does."""
    folder = cache_root() / "files" / name
    place = folder / kept.name({FORM: text.encode(errors="surrogatepass")})
    if (content := kept.read(place)) is not None:
        try:
            return msgspec.msgpack.decode(content)
        except msgspec.MsgspecError:
            pass
    from infra import goyaml

    value = goyaml.parse(text, what)
    if SECRET_VALUE.search(text) or not _plain(value):
        return value
    try:
        content = msgspec.msgpack.encode(value)
    except (ValueError, OverflowError):
        return value
    kept.write(place, content)
    return msgspec.msgpack.decode(content)  # as it comes the next time: what an alias stands for is a copy


def _plain(value: Any) -> bool:
    if isinstance(value, dict):
        return all(isinstance(key, str) and _plain(inner) for key, inner in value.items())
    if isinstance(value, list):
        return all(map(_plain, value))
    return value is None or type(value) in (str, int, float, bool)
