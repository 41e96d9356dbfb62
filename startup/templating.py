"""Jinja as this project's templates use it, and the text of its own modules."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import templates
from startup.quote import q, quoted_only, shell

if TYPE_CHECKING:
    from jinja2 import Environment

ROOT = Path(__file__).parents[1]
_IMPORT = re.compile(r"^(?:from (?=startup)| *from (?=verdict))([\w.]+) import (\([\w,\s]+\)|[\w, ]+?) *(?:#.*)?$", re.MULTILINE)


def environment() -> Environment:
    """Every value that is printed has to be quoted (`q`), and a name that is not there is an error."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    from startup import compiled

    # `{#` and `#}` are bash's (`${#array[@]}`): comments get delimiters of their own.
    made = Environment(
        loader=FileSystemLoader([str(path) for path in templates.__path__]),  # a target's template may lie in a folder added there
        undefined=StrictUndefined,
        autoescape=False,
        finalize=quoted_only,
        keep_trailing_newline=True,
        trim_blocks=True,
        lstrip_blocks=True,
        comment_start_string="<#",
        comment_end_string="#>",
        cache_size=0,
        bytecode_cache=compiled.kept(),
    )
    made.filters["q"] = q
    made.filters["shell"] = shell
    return made


def source(name: str) -> str:
    """The text of one module, by its path without `.py` (`startup/turing/patch`)."""
    return (ROOT / f"{name}.py").read_text(encoding="utf-8")


def with_imports(modules: Iterable[str]) -> dict[str, str]:
    """These modules (by path) and all of ours that must be there to load them: path -> text, in order.

    So nothing that is carried to a machine or into an image can miss what it begins with.
    """
    todo, found = list(modules), dict[str, str]()
    while todo:
        path = todo.pop()
        folders = path.split("/")[:-1]
        for name in (*("/".join((*folders[:depth], "__init__")) for depth in range(1, len(folders) + 1)), path):
            if name not in found:
                found[name] = source(name)
                todo += _imported(found[name])
    return dict(sorted(found.items()))


def _imported(text: str) -> list[str]:
    """Modules of ours that a module imports when it is loaded; of `verdict` also what a function imports when it runs.

    An error is told with the latter. What a function takes of `startup` is a part that may be another machine's.
    """
    out = []
    for module, names in _IMPORT.findall(text):
        path = module.replace(".", "/")
        out += [f"{path}/{name}" for name in re.findall(r"\w+", names)] if _is_package(module) else [path]
    return out


@cache
def _is_package(module: str) -> bool:
    return ROOT.joinpath(*module.split(".")).is_dir()
