"""Tokens served so far, from vLLM's own counters."""

from __future__ import annotations

COUNTERS = ("vllm:prompt_tokens_total", "vllm:generation_tokens_total")


def tokens(text: str) -> int | None:
    """Prompt and generated tokens of all models in a Prometheus page; None when it has no such counter."""
    found = [line for line in text.splitlines() if line.partition("{")[0].partition(" ")[0] in COUNTERS]
    try:
        return int(sum(float(line.rpartition(" ")[2]) for line in found)) if found else None
    except ValueError:
        return None


def fetch(url: str, timeout: float = 5.0) -> int | None:
    """Ask the server at `url`; None when it does not say. Never raises for a server that is down: the count is a courtesy."""
    import httpx

    try:
        with httpx.Client(timeout=timeout, trust_env=False) as client:
            return tokens(client.get(f"{url}/metrics").text)
    except httpx.HTTPError:
        return None
