"""Asks the server at OPENAI_BASE_URL to repeat a nonce, and prints the answer as JSON: what an operator's own client does."""

from __future__ import annotations

import json
import os
import sys
import urllib.request


def ask(base_url: str, nonce: str, timeout: float = 60) -> str:
    """The text of one chat completion. Raises OSError when nothing answers."""
    with urllib.request.urlopen(f"{base_url}/models", timeout=timeout) as answer:
        model = json.load(answer)["data"][0]["id"]
    body = {
        "model": model,
        "messages": [{"role": "user", "content": f"Repeat this word and nothing else: {nonce}"}],
        "max_tokens": 64,
        "temperature": 0,
    }
    request = urllib.request.Request(
        f"{base_url}/chat/completions", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=timeout) as answer:
        return str(json.load(answer)["choices"][0]["message"]["content"])


if __name__ == "__main__":
    print(json.dumps({"nonce": sys.argv[1], "answer": ask(os.environ["OPENAI_BASE_URL"], sys.argv[1])}))
