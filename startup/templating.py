"""Jinja as this project's templates use it, and the text of its own modules."""

from __future__ import annotations

from importlib.resources import files
from typing import TYPE_CHECKING

import templates
from startup.quote import q, quoted_only, shell

if TYPE_CHECKING:
    from jinja2 import Environment


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
    package, _, rest = name.partition("/")
    return (files(package) / f"{rest}.py").read_text(encoding="utf-8")
