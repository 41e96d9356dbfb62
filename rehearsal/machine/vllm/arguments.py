"""vLLM's command line, checked with vLLM's own option list (a data file): same refusals, same words, exit code 2."""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

UNITS = {"k": 10**3, "K": 2**10, "m": 10**6, "M": 2**20, "g": 10**9, "G": 2**30}


def parser(options: Sequence[Mapping[str, Any]]) -> argparse.ArgumentParser:
    """A parser that takes what `vllm serve` takes."""
    found = argparse.ArgumentParser(prog="vllm serve", usage="vllm serve [model_tag] [options]", add_help=False, allow_abbrev=False)
    found.add_argument("model_tag", nargs="?")
    for option in options:
        _add(found, option)
    return found


def normal(words: Sequence[str]) -> list[str]:
    """Underscores in option names become dashes, as vLLM's parser does."""
    return [re.sub(r"^--[\w-]+", lambda m: m[0].replace("_", "-"), word) if word.startswith("--") else word for word in words]


def parse(words: Sequence[str], options: Sequence[Mapping[str, Any]]) -> argparse.Namespace:
    """The arguments, with `model` settled. Exits 2 with argparse's own words on anything vLLM's parser refuses."""
    args = parser(options).parse_args(normal(words))
    args.model = args.model_tag or args.model
    return args


def unknown_environment(known: Sequence[str]) -> list[str]:
    """`VLLM_*` variables set here that vLLM does not read (vLLM itself only warns of them)."""
    return sorted(name for name in os.environ if name.startswith("VLLM_") and name not in set(known))


def load(file: Path) -> Mapping[str, Any]:
    """The option list: `serve_options`, `environment_variables`."""
    document: Mapping[str, Any] = json.loads(file.read_text())
    return document


def _add(found: argparse.ArgumentParser, option: Mapping[str, Any]) -> None:
    names = [name for name in option["options"] if not name.startswith("--no-")]
    if "--help" in names:
        found.add_argument(*names, action="help")
        return
    if option["takes"] == 0:
        action: Any = argparse.BooleanOptionalAction if len(names) < len(option["options"]) else "store_true"
        found.add_argument(*names, action=action, default=None)
        return
    choices = option["choices"] and [_number(choice) if option["type"] == "int" else choice for choice in option["choices"]]
    found.add_argument(
        *names, type=_type(option["type"]), choices=choices, nargs=option["takes"] if option["takes"] in ("+", "*", "?") else None
    )


def _type(name: str | None) -> Any:
    kinds = {"int": int, "float": float, "human_readable_int": _human_readable_int, "loads": _json,
             "human_readable_int_or_auto": lambda text: text if text == "auto" else _human_readable_int(text)}  # fmt: skip
    return kinds.get(name or "", str)


def _human_readable_int(text: str) -> int:
    match = re.fullmatch(r"(-?\d+(?:\.\d+)?)([kKmMgG]?)", text)
    if not match:
        raise argparse.ArgumentTypeError(f"Invalid integer value: {text}")
    return int(float(match[1]) * UNITS.get(match[2], 1))


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"Value {text} cannot be converted to JSON.") from error


def _number(text: object) -> int:
    return int(str(text))


if __name__ == "__main__":
    print(vars(parse(sys.argv[2:], load(Path(sys.argv[1]))["serve_options"])))
