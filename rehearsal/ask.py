"""Asks the server at OPENAI_BASE_URL to repeat a nonce, and prints the answer as JSON: what an operator's own client does.

`python -m rehearsal.ask NONCE [--stream]`
"""

from __future__ import annotations

import json
import os
import sys
import urllib.request


def model_of(base_url: str, timeout: float = 60) -> str:
    """The first model that the server names. Raises OSError when nothing answers."""
    with urllib.request.urlopen(f"{base_url}/models", timeout=timeout) as answer:
        return str(json.load(answer)["data"][0]["id"])


def ask(base_url: str, nonce: str, timeout: float = 60, *, stream: bool = False, model: str = "") -> str:
    """The text of one chat completion, streamed or whole. Raises OSError when nothing answers."""
    body = {
        "model": model or model_of(base_url, timeout),
        "messages": [{"role": "user", "content": f"Repeat this word and nothing else: {nonce}"}],
        "max_tokens": 64,
        "temperature": 0,
        "stream": stream,
    }
    request = urllib.request.Request(
        f"{base_url}/chat/completions", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=timeout) as answer:
        if not stream:
            return str(json.load(answer)["choices"][0]["message"]["content"])
        chunks = [json.loads(line[5:]) for line in answer if line.startswith(b"data:") and b"[DONE]" not in line]
        return "".join(choice["delta"].get("content") or "" for chunk in chunks for choice in chunk["choices"])


if __name__ == "__main__":
    streamed = "--stream" in sys.argv
    print(json.dumps({"nonce": sys.argv[1], "answer": ask(os.environ["OPENAI_BASE_URL"], sys.argv[1], stream=streamed)}))
