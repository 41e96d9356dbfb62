"""Does it serve? An answer that holds a number made a moment ago: not a status code, not `/health`.

Instruction-tuned checkpoints are asked over chat completions (their plain completions are nonsense); base checkpoints have no
chat template and continue a pattern instead.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass

from startup.onboard.curl import ask

SECONDS = 120.0  # the first request after a start may still compile


@dataclass(frozen=True)
class Verdict:
    """`kind`: answered, wrong (text without the number), refused (HTTP error), silent (no HTTP at all)."""

    kind: str
    detail: str = ""


def number() -> str:
    """Six digits that nobody knew before."""
    return str(100_000 + int.from_bytes(os.urandom(4), "big") % 900_000)


def healthy(port: int) -> bool:
    """Whether the server says that it is up. Not whether it serves."""
    return ask(f"http://127.0.0.1:{port}/health", seconds=5).status == 200


def probe(port: int, *, chat: bool, seconds: float = SECONDS) -> Verdict:
    """Ask once."""
    models = ask(f"http://127.0.0.1:{port}/v1/models", seconds=10)
    if models.status != 200:
        return Verdict("refused" if models.status else "silent", models.error or f"/v1/models: HTTP {models.status}")
    listed = models.document().get("data") or [{}]
    nonce = number()
    path, body = _chat(nonce) if chat else _completion(nonce)
    body = {"model": listed[0].get("id", ""), "temperature": 0, **body}
    answer = ask(
        f"http://127.0.0.1:{port}{path}", headers=("Content-Type: application/json",), data=json.dumps(body), seconds=seconds
    )
    if answer.status != 200:
        return Verdict(
            "refused" if answer.status else "silent",
            f"{path}: {answer.error or f'HTTP {answer.status}'} {answer.body[:200]}".strip(),
        )
    try:
        choice = answer.document()["choices"][0]
        text = str(choice["message"]["content"] if chat else choice["text"])
    except (KeyError, IndexError, TypeError):
        return Verdict("wrong", f"{path}: no choices in {answer.body[:200]!r}")
    if nonce in text.replace(",", "").replace(" ", ""):
        return Verdict("answered", nonce)
    return Verdict("wrong", f"asked for {nonce}, got {text[:120]!r}")


def _chat(nonce: str) -> tuple[str, dict[str, object]]:
    content = f"Repeat this number and write nothing else: {nonce}"
    return "/v1/chat/completions", {"max_tokens": 32, "messages": [{"role": "user", "content": content}]}


def _completion(nonce: str) -> tuple[str, dict[str, object]]:
    lines = [f"in: {other} out: {other}" for other in (number(), number(), number())]
    return "/v1/completions", {"max_tokens": 12, "prompt": "\n".join([*lines, f"in: {nonce} out:"])}
