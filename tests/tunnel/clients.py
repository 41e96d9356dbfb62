"""What uses `localhost:8000`: OpenAI's own client, curl, and an event stream as a page reads it. A program for one base URL.

`python tests/tunnel/clients.py [BASE_URL]`; without one it takes OPENAI_BASE_URL. It prints one JSON document, a part a client; a
client that is not on this machine is `null`. The page's part is node's `fetch` with a streamed body and the reader that the event
stream standard describes, not a browser.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

PAGE = Path(__file__).with_name("page.mjs")
LIMIT_S = 60


def asked(nonce: str) -> list[dict[str, str]]:
    """The messages that make the server say the nonce."""
    return [{"role": "user", "content": f"Repeat this code word and nothing else: {nonce}"}]


def openai_client(base_url: str) -> dict[str, Any]:
    """Models, a chat, a streamed chat, a completion, and an error: as OpenAI's client understands them."""
    from openai import NotFoundError, OpenAI

    nonce = secrets.token_hex(6)
    with OpenAI(base_url=base_url, api_key="none", max_retries=0, timeout=LIMIT_S) as client:
        model = next(iter(client.models.list())).id
        whole = client.chat.completions.create(model=model, messages=asked(nonce))  # type: ignore[arg-type]
        pieces = list(client.chat.completions.create(model=model, messages=asked(nonce), stream=True))  # type: ignore[arg-type]
        completed = client.completions.create(model=model, prompt=f"Repeat this code word and nothing else: {nonce}")
        try:
            client.chat.completions.create(model="no-such-model", messages=asked(nonce))  # type: ignore[arg-type]
            refused = ""
        except NotFoundError as error:
            refused = error.message
    return {
        "nonce": nonce,
        "chat": whole.choices[0].message.content,
        "streamed": "".join(piece.choices[0].delta.content or "" for piece in pieces if piece.choices),
        "pieces": len(pieces),
        "completion": completed.choices[0].text,
        "refused": refused,
    }


def curl(base_url: str) -> dict[str, Any] | None:
    """A plain chat and a streamed one (`--no-buffer`)."""
    if shutil.which("curl") is None:
        return None
    nonce = secrets.token_hex(6)

    def post(**more: object) -> str:
        model = json.loads(run(["curl", "-sS", "--fail", f"{base_url}/models"]))["data"][0]["id"]
        body = json.dumps({"model": model, "messages": asked(nonce), **more})
        header = "Content-Type: application/json"
        return run(["curl", "-sS", "--fail", "--no-buffer", "-H", header, "-d", body, f"{base_url}/chat/completions"])

    data = [line.removeprefix("data: ") for line in post(stream=True).splitlines() if line.startswith("data: ")]
    said = "".join(json.loads(part)["choices"][0]["delta"].get("content", "") for part in data[:-1])
    return {"nonce": nonce, "chat": json.loads(post())["choices"][0]["message"]["content"], "streamed": said, "last": data[-1]}


def page(base_url: str) -> dict[str, Any] | None:
    """A page's way: a preflight where the server is of another origin, a streamed body, events cut anywhere."""
    if shutil.which("node") is None:
        return None
    nonce = secrets.token_hex(6)
    found: dict[str, Any] = json.loads(run(["node", str(PAGE), base_url, json.dumps(asked(nonce))]))
    return {"nonce": nonce, **found}


def run(argv: list[str]) -> str:
    """The command's output; raises when it fails. No proxy: the tunnel is on loopback."""
    environment = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}
    return subprocess.run(argv, env=environment, capture_output=True, text=True, timeout=LIMIT_S, check=True).stdout


def everything(base_url: str) -> dict[str, Any]:
    """All parts."""
    return {"openai": openai_client(base_url), "curl": curl(base_url), "page": page(base_url)}


def check(found: dict[str, Any]) -> None:
    """Every client that is here got what it asked for, streamed in more than one piece."""
    library, command, browser = found["openai"], found["curl"], found["page"]
    for part in ("chat", "streamed", "completion"):
        assert library["nonce"] in library[part], (part, library)
    assert library["pieces"] > 2
    assert "no-such-model" in library["refused"]
    if command is not None:
        assert command["nonce"] in command["chat"]
        assert command["nonce"] in command["streamed"]
        assert command["last"] == "[DONE]"
    if browser is not None:
        assert browser["nonce"] in browser["text"]
        assert browser["type"].startswith("text/event-stream")
        assert browser["events"] > 2
        assert browser["last"] == "[DONE]"


if __name__ == "__main__":
    print(json.dumps(everything(sys.argv[1] if len(sys.argv) > 1 else os.environ["OPENAI_BASE_URL"])))
