"""What the stages of all targets share: the operator's side of the Hub, and words for what is left or was held."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping, Sequence

from rehearsal.contracts import HostInventory
from rehearsal.machine.fakes import hub, web

NOTHING_LEAVES = {
    "NO_PROXY": "127.0.0.1,localhost",
    "HTTPS_PROXY": "http://127.0.0.1:9",
    "PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION": "true",
}
"""What is not local fails at once. The last: Pulumi would ask five times, 2.5 s in all, for the plugin of the other cloud."""


def host_words(left: HostInventory) -> Sequence[str]:
    """What machines have on this host, in words."""
    return [
        *(f"process {pid}" for pid in left.processes),
        *(f"mount {path}" for path in left.mounts),
        *(f"loop device {name}" for name in left.loop_devices),
        *(f"namespace {name}" for name in left.namespaces),
        *(f"cgroup {path}" for path in left.cgroups),
    ]


def by_phase(records: Sequence[Mapping[str, object]]) -> dict[str, float]:
    """Seconds held, summed by what was held."""
    held: dict[str, float] = {}
    for record in records:
        what = str(record["what"])
        held[what] = held.get(what, 0.0) + float(str(record["seconds"]))
    return held


class OperatorsHub:
    """The Hub's model API on loopback, for the operator's side: it says which commit a branch is. `HF_ENDPOINT` points here."""

    def __enter__(self) -> str:
        self._server = web.serve("127.0.0.1", 0, self._answer)
        threading.Thread(target=self._server.serve_forever, name="operator's hub", daemon=True).start()
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def __exit__(self, *exc: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def _answer(self, request: web.Request) -> web.Reply:
        parts = request.path.strip("/").split("/")
        if parts[:2] == ["api", "models"] and len(parts) >= 4:
            model = "/".join(parts[2:4])
            body = {"id": model, "sha": hub.revision(model), "gated": False, "siblings": [{"rfilename": f} for f in hub.FILES]}
            return web.Reply(200, json.dumps(body).encode(), {"Content-Type": "application/json"})
        return web.Reply(404, b'{"error":"Repository not found"}', {"Content-Type": "application/json"})
