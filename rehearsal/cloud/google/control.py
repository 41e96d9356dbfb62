"""The local cloud by hand over HTTP, for another process: `POST /_control/NAME` with a JSON body, or `GET` to read.

- `advance` `{"seconds": 60}`: turn the clock
- `arm` `{"trouble": "stock_out", "zone": "...", "times": 1}`: one of `troubles`, by name, with its arguments
- `disarm`: nothing goes wrong any more
- `vm` `{"name": "x", "drop": true}` or `{"name": "x", "set": {...}}`: take an instance away, or edit it
- `account` `{"id": ...}`, `secret` `{"name": ..., "value": ...}`, `disk` `{"name": ..., "zone": ...}`: was there
- `clear`: forget the logged requests
- `state`, `ledger`, `requests`, `now`: read
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from rehearsal.cloud.google import troubles
from rehearsal.cloud.google.api import Answer
from rehearsal.cloud.google.call import Json

if TYPE_CHECKING:
    from rehearsal.cloud.google.cloud import LocalGoogleCloud

ARMED: Mapping[str, Callable[..., Any]] = {
    name: getattr(troubles, name)
    for name in (
        "stock_out",
        "quota",
        "quota_at_once",
        "no_permission",
        "api_off",
        "bad_machine_type",
        "bad_token",
        "unavailable",
        "too_many_requests",
        "delete_fails",
        "slow_create",
        "gone",
    )
}


class Control:
    """Answers below `/_control/`."""

    def __init__(self, cloud: LocalGoogleCloud) -> None:
        self._cloud = cloud

    def answer(self, method: str, path: str, raw: bytes) -> Answer:
        """Do or read; 400 with the reason for what it cannot do."""
        name = path.removeprefix("/_control/").strip("/")
        table = {**self._reads(), **(self._writes() if method == "POST" else {})}
        if name not in table:
            return Answer(404, {"error": f"nothing at {method} {path}"})
        try:
            return Answer(200, table[name](json.loads(raw or b"{}")))
        except (KeyError, TypeError, ValueError) as problem:
            return Answer(400, {"error": f"{type(problem).__name__}: {problem}"})

    def _reads(self) -> Mapping[str, Callable[[Json], Json]]:
        cloud = self._cloud
        return {
            "now": lambda _: {"now": cloud.clock.now()},
            "state": lambda _: self._state(),
            "ledger": lambda _: {"items": [asdict(i) for i in cloud.ledger.items()], "total": cloud.ledger.total()},
            "requests": lambda _: {"requests": list(cloud.requests()), "own_errors": list(cloud.own_errors())},
        }

    def _writes(self) -> Mapping[str, Callable[[Json], Json]]:
        cloud = self._cloud
        return {
            "advance": _then(lambda b: cloud.clock.advance(float(b["seconds"]))),
            "arm": _then(lambda b: cloud.arm(ARMED[b.pop("trouble")](**b))),
            "disarm": _then(lambda _: cloud.disarm()),
            "vm": self._vm,
            "account": lambda b: {"email": cloud.put_account(b["id"])},
            "secret": _then(lambda b: cloud.put_secret(b["name"], b["value"])),
            "disk": _then(lambda b: cloud.put_disk(b["name"], b["zone"])),
            "clear": _then(lambda _: cloud.log.clear()),
        }

    def _vm(self, body: Json) -> Json:
        if body.get("drop"):
            self._cloud.reclaim(body["name"])
        else:
            self._cloud.edit(body["name"], body["set"])
        return {}

    def _state(self) -> Json:
        state = self._cloud.state
        with state.lock:
            stores: Json = {
                "compute": state.compute,
                "operations": state.operations,
                "accounts": state.accounts,
                "secrets": state.secrets,
                "versions": {k: {n: v for n, v in value.items() if n != "_data"} for k, value in state.versions.items()},
                "repositories": state.repositories,
            }
            return json.loads(json.dumps(stores))  # type: ignore[no-any-return]


def _then(act: Callable[[Json], None]) -> Callable[[Json], Json]:
    def done(body: Json) -> Json:
        act(body)
        return {}

    return done
