"""Whether Pulumi's download site can be reached from here, asked once a day and within seconds."""

from __future__ import annotations

import json
import threading
import time
import urllib.error
import urllib.request

from tools.setup.cache import digest
from tools.setup.host import Host

INSTALLER = "https://get.pulumi.com"
_PROBE_S = 5.0
_VALID_S = 24 * 3600.0


def installer_url(host: Host) -> str:
    """Pulumi's install script; `$FLEXSERVE_PULUMI_INSTALLER` names a mirror of it."""
    return host.environ.get("FLEXSERVE_PULUMI_INSTALLER", INSTALLER)


def fetch(url: str, timeout: float = _PROBE_S) -> bytes | None:
    """The content, or None when it did not come in time. Name look-ups are bounded too, hence the thread."""
    got: list[bytes] = []

    def ask() -> None:
        try:
            with urllib.request.urlopen(url, timeout=timeout) as answer:
                got.append(answer.read(1 << 20))
        except (OSError, urllib.error.URLError, ValueError):
            return

    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    thread.join(timeout)
    return got[0] if got else None


def reachable(host: Host) -> bool:
    """Whether the installer answers. False without asking when downloads are forbidden (`FLEXSERVE_DOWNLOADS=no`)."""
    if not host.downloads:
        return False
    url = installer_url(host)
    note = host.cache / f"download-{digest(url)}.json"
    try:
        known = json.loads(note.read_text(encoding="utf-8"))
        if 0 <= time.time() - known["at"] < _VALID_S:
            return bool(known["reachable"])
    except (OSError, ValueError, KeyError, TypeError):
        pass
    answer = fetch(url) is not None
    note.parent.mkdir(parents=True, exist_ok=True)
    note.write_text(json.dumps({"url": url, "reachable": answer, "at": time.time()}), encoding="utf-8")
    return answer
