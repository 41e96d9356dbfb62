"""HTTP by the `curl` on PATH. Headers that hold a token come from a file on a tmpfs, never from the command line."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from startup.onboard.places import METADATA

UNREACHED = 0


@dataclass(frozen=True)
class Answer:
    """`status` 0: nothing answered, and `error` says why in curl's words."""

    status: int
    body: str
    error: str
    headers: str = ""

    def document(self) -> dict[str, Any]:
        """The body as a JSON object; empty when it is none."""
        try:
            value = json.loads(self.body)
        except ValueError:
            return {}
        return value if isinstance(value, dict) else {}

    def header(self, name: str) -> str:
        """The last header of that name, over all redirects."""
        found = ""
        for line in self.headers.splitlines():
            key, _, value = line.partition(":")
            if key.strip().lower() == name:
                found = value.strip()
        return found


def ask(
    url: str,
    *options: str,
    headers: Sequence[str] = (),
    header_file: Path | None = None,
    data: str | None = None,
    seconds: float = 30,
) -> Answer:
    """One request, bounded. Never raises for what the network does."""
    words = ["curl", "-sS", "--connect-timeout", "10", "--max-time", f"{seconds:g}", "-D", "-", "-w", "\n%{http_code}"]
    words += [word for header in headers for word in ("-H", header)]
    if header_file is not None and header_file.exists():
        words += ["-H", f"@{header_file}"]
    if data is not None:
        words += ["--data-binary", "@-"]
    done = subprocess.run(
        [*words, *options, url], input=data or "", capture_output=True, encoding="utf-8", errors="replace", check=False
    )
    text, _, status = done.stdout.rpartition("\n")
    head, body = _split(text)
    error = done.stderr.strip().removeprefix("curl: ")
    return Answer(int(status) if status.isdigit() and done.returncode == 0 else UNREACHED, body, error, head)


def metadata(path: str, *options: str, data: str | None = None, seconds: float = 5) -> Answer:
    """Ask (or, with data and `-X PUT`, tell) the metadata server."""
    return ask(f"{METADATA}/{path}", *options, headers=("Metadata-Flavor: Google",), data=data, seconds=seconds)


def _split(text: str) -> tuple[str, str]:
    """Heads (one a redirect or 100 Continue) and body, of what `-D -` printed before the body."""
    head = ""
    text = text.replace("\r\n", "\n")
    while text.startswith("HTTP/"):
        one, _, text = text.partition("\n\n")
        head += one + "\n"
    return head, text
