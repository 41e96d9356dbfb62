"""Where Debian or Ubuntu packages come from: read from this host's own apt configuration, at run time."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from verdict.errors import FlexserveError

APT = Path("/etc/apt")
OS_RELEASE = Path("/etc/os-release")


@dataclass(frozen=True)
class Sources:
    """The distribution's own archives. `text` is in apt's one-line style; `codename` is the release, such as `bookworm`."""

    codename: str
    text: str


def read(apt: Path = APT, os_release: Path = OS_RELEASE) -> Sources:
    """The host's sources that belong to its own release; other vendors' archives are left out.

    Raises `FlexserveError` when there is none.
    """
    found = re.search(r"^VERSION_CODENAME=\"?([\w-]+)", os_release.read_text(), re.MULTILINE)
    codename = found[1] if found else ""
    files = [apt / "sources.list", *sorted((apt / "sources.list.d").glob("*"))]
    lines: list[str] = []
    for file in files:
        if not file.is_file():
            continue
        each = _stanzas(file.read_text()) if file.suffix == ".sources" else _one_line(file.read_text())
        lines += [line for suite, line in each if codename and re.fullmatch(rf"{codename}(-(updates|security))?", suite)]
    if not lines:
        raise FlexserveError(
            "no package sources for the machine's root file system",
            why=f"{apt} names no archive of this host's own release ({codename or 'unknown'})",
            way_out="use a Debian or Ubuntu host whose apt can install packages",
        )
    return Sources(codename, "\n".join(dict.fromkeys(lines)) + "\n")


def _one_line(text: str) -> Iterator[tuple[str, str]]:
    for raw in text.splitlines():
        line = raw.split("#")[0].strip()
        match = re.fullmatch(r"deb\s+(?:\[.*?\]\s+)?\S+\s+(\S+)\s+.+", line)
        if match:
            yield match[1], line


def _stanzas(text: str) -> Iterator[tuple[str, str]]:
    """A deb822 file, one line for each address and suite."""
    for block in re.split(r"\n\s*\n", text):
        body = "\n".join(line for line in block.splitlines() if not line.startswith("#"))
        fields = dict(re.findall(r"^([\w-]+):[ \t]*(.*(?:\n[ \t].*)*)", body, re.MULTILINE))
        if "deb" not in fields.get("Types", "").split() or fields.get("Enabled", "yes").strip() == "no":
            continue
        key = fields.get("Signed-By", "").strip()
        option = f"[signed-by={key}] " if key.startswith("/") else ""
        for address in fields.get("URIs", "").split():
            for suite in fields.get("Suites", "").split():
                yield suite, f"deb {option}{address} {suite} {' '.join(fields.get('Components', '').split())}"
