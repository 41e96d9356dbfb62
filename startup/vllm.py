"""vLLM's arguments: one typed model, three spellings (command line, docker, `SM_VLLM_*` environment).

Names are vLLM's own and are checked against its own option list, kept as data with the version it came from.
Source of the SageMaker spelling: AWS Deep Learning Containers, scripts/docker/vllm/sagemaker_args.py.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from msgspec import Struct, field

import catalog
from verdict.errors import BadConfig

OPTIONS_FILE = "vllm-0.32-options.json"


class VllmArgs(Struct, frozen=True):
    """What `vllm serve` is started with. None and False leave an option out; `extra` holds options by name without dashes."""

    model: str
    served_model_name: str | None = None
    host: str | None = None
    port: int | None = None
    revision: str | None = None
    dtype: str | None = None
    tensor_parallel_size: int | None = None
    max_model_len: int | None = None
    gpu_memory_utilization: float | None = None
    max_num_batched_tokens: int | None = None
    max_num_seqs: int | None = None
    kv_cache_dtype: str | None = None
    attention_backend: str | None = None
    disable_chunked_mm_input: bool = False
    enable_auto_tool_choice: bool = False
    tool_call_parser: str | None = None
    reasoning_parser: str | None = None
    limit_mm_per_prompt: Mapping[str, int] | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)

    def options(self) -> dict[str, Any]:
        """Option name with dashes -> value, in the order of the fields, without what is left out."""
        named = {name: getattr(self, name) for name in self.__struct_fields__ if name not in ("model", "extra")}
        merged = {**named, **{k.replace("-", "_"): v for k, v in self.extra.items()}}
        return {k.replace("_", "-"): v for k, v in merged.items() if v is not None and v is not False}


def cli_argv(args: VllmArgs) -> tuple[str, ...]:
    """The words after `vllm serve`. Raises `BadConfig` for an option or value that vLLM does not know."""
    check_options(args.options())
    words = [args.model]
    for name, value in args.options().items():
        words.append(f"--{name}")
        if isinstance(value, list | tuple):
            words.extend(_text(v) for v in value)
        elif value is not True:
            words.append(_text(value))
    return tuple(words)


def sagemaker_environment(args: VllmArgs) -> dict[str, str]:
    """The same as `SM_VLLM_*` variables: `true` is a bare flag, JSON objects stay one token, lists several.

    Raises `BadConfig` also for a value that the container would read as something else than vLLM itself.
    """
    options = args.options()
    check_options(options)
    out = {"SM_VLLM_MODEL": args.model}
    for name, value in options.items():
        if name in ("host", "port"):  # the container sets its own
            continue
        key = f"SM_VLLM_{name.replace('-', '_').upper()}"
        out[key] = "true" if value is True else json.dumps(list(value)) if isinstance(value, list | tuple) else _text(value)
        if _read_otherwise(value):
            raise BadConfig(
                f"AWS's container would not hand {out[key][:60]!r} to --{name} as it stands",
                why="it takes true, false, an empty text and a list in brackets for something of its own",
                way_out="write a list as a list, leave an option out instead of false; or take another value",
            )
    return out


def _read_otherwise(value: Any) -> bool:
    """Whether the container's rules make something else of it. Source: sagemaker_args.py, as above."""
    if isinstance(value, list | tuple):
        return not value or any(item is None for item in value)
    if not isinstance(value, str):
        return False
    plain = value.strip()
    bracketed = plain[:1] + plain[-1:] in ("[]", "{}")  # `{...} {...}` is several words there
    return plain.lower() in ("", "true", "false") or bracketed or "\0" in value


def check_options(options: Mapping[str, Any]) -> None:
    """Refuse what vLLM's own parser would refuse: unknown option, a value where none goes, a choice that is none."""
    known = known_options()
    for name, value in options.items():
        option = known.get(f"--{name}")
        if option is None:
            close = _close(f"--{name}", known)
            raise BadConfig(
                f"vLLM {vllm_version()} has no option --{name}",
                way_out=f"did you mean {close}?" if close else "see vllm serve --help",
            )
        if value is True and not (option["boolean"] or option["takes"] == 0):
            raise BadConfig(f"vLLM's --{name} needs a value")
        if value is not True and option["takes"] == 0:
            raise BadConfig(f"vLLM's --{name} takes no value", way_out="set it to true or leave it out")
        if option["choices"] and value is not True and str(value) not in map(str, option["choices"]):
            raise BadConfig(f"vLLM's --{name} cannot be {value!r}", way_out="one of " + ", ".join(map(str, option["choices"])))


def check_environment(names: Sequence[str]) -> None:
    """Refuse a `VLLM_*` variable that vLLM does not read, and one that holds a secret's value (it would stand in the script)."""
    known = frozenset(_data()["environment_variables"])
    for name in names:
        if name.endswith(("_API_KEY", "_ACCESS_KEY", "_ACCESS_KEY_ID")):
            raise BadConfig(f"{name} would hold a secret's value", way_out="leave it out: only the tunnel comes in")
        if name not in known:
            close = _close(name, sorted(known))
            raise BadConfig(
                f"vLLM {vllm_version()} does not read {name}",
                way_out=f"did you mean {close}?" if close else "leave it out",
            )


def vllm_version() -> str:
    """The version that the option list was taken from."""
    return str(_data()["vllm"])


@cache
def known_options() -> dict[str, dict[str, Any]]:
    """Every spelling of every option -> what it takes."""
    return {spelling: option for option in _data()["serve_options"] for spelling in option["options"]}


@cache
def _data() -> dict[str, Any]:
    data: dict[str, Any] = json.loads((Path(catalog.__path__[0]) / OPTIONS_FILE).read_text(encoding="utf-8"))
    return data


def _close(name: str, known: Iterable[str]) -> str:
    """The name that was meant, or nothing."""
    import difflib

    return next(iter(difflib.get_close_matches(name, list(known), n=1)), "")


def _text(value: Any) -> str:
    return json.dumps(value, separators=(",", ":")) if isinstance(value, Mapping | list | bool) else str(value)
