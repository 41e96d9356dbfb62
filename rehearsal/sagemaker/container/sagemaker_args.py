"""`SM_VLLM_*` variables -> vLLM's words, separated by NUL on stdout: the rules of AWS's container in our own spelling.

`true` is the bare flag and `false` nothing; a JSON list is one word an item, but for the flags whose value is the list; one JSON
object is one word, several objects in a row are one word each. The model is `SM_VLLM_MODEL`, else `/opt/ml/model`, else
`HF_MODEL_ID`.
Source: aws/deep-learning-containers, scripts/docker/vllm/sagemaker_args.py and docs/vllm/configuration.md.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path

PREFIX = "SM_VLLM_"
LIST_IS_THE_VALUE = {"--allowed-origins", "--allowed-methods", "--allowed-headers", "--middleware"}
MODEL_FOLDER = Path("/opt/ml/model")


def words(environment: Mapping[str, str], folder: Path = MODEL_FOLDER) -> list[str]:
    """What follows `python3 -m vllm.entrypoints.openai.api_server`."""
    out = ["--port", "8080", *_model(environment, folder)]
    for name in sorted(key for key in environment if key.startswith(PREFIX)):
        flag = "--" + name.removeprefix(PREFIX).lower().replace("_", "-")
        values = _values(flag, environment[name])
        if values is not None:
            out += [flag, *values]
    return out


def _model(environment: Mapping[str, str], folder: Path) -> list[str]:
    if environment.get(f"{PREFIX}MODEL"):
        return []  # comes with the others
    if folder.is_dir() and any(folder.iterdir()):
        return ["--model", str(folder)]
    return ["--model", environment["HF_MODEL_ID"]] if environment.get("HF_MODEL_ID") else []


def _values(flag: str, text: str) -> list[str] | None:
    """The words after the flag; None leaves the flag out."""
    plain = text.strip()
    if plain.lower() == "false":
        return None
    if plain.lower() == "true" or not text:
        return []
    if not plain:
        return [text]
    if plain[0] == "[" and plain[-1] == "]" and flag not in LIST_IS_THE_VALUE:
        try:
            items = json.loads(plain)
        except ValueError:
            return [text]
        return [_word(item) for item in items] or None
    if plain[0] == "{" and plain[-1] == "}" and flag not in LIST_IS_THE_VALUE:
        several = _objects(plain)
        return [_word(item) for item in several] if len(several) > 1 else [text]
    return [text]


def _objects(text: str) -> list[object]:
    """`{...} {...}` as objects; none for anything else."""
    decoder, at, found = json.JSONDecoder(), 0, []
    while at < len(text):
        try:
            value, at = decoder.raw_decode(text, at)
        except ValueError:
            return []
        if not isinstance(value, dict):
            return []
        found.append(value)
        at += len(text[at:]) - len(text[at:].lstrip())
    return found


def _word(item: object) -> str:
    if isinstance(item, dict | list):
        return json.dumps(item, separators=(",", ":"))
    if isinstance(item, bool):
        return str(item).lower()
    return "" if item is None else str(item)


if __name__ == "__main__":
    found = words(os.environ)
    print(f"INFO: vLLM server arguments: {found}", file=sys.stderr)
    sys.stdout.write("".join(f"{word}\0" for word in found))
