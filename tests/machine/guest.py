"""A small cloud for one machine: what the tests' machines see from inside."""

from __future__ import annotations

import base64
import hashlib
import json
import threading
import time
from collections.abc import Callable, Mapping, Sequence


class TestGuest:
    """`rehearsal.contracts.Guest` with a script in its metadata."""

    __test__ = False

    def __init__(self, script: str = "", *, name: str = "serve", attributes_enabled: bool = True) -> None:
        self.attributes: dict[str, str] = {"startup-script": script} if script else {}
        self.name = name
        self.enabled = attributes_enabled
        self.secret = ""
        self.reported: dict[str, str] = {}
        self.off = threading.Event()
        self._changed = threading.Condition()

    def metadata(self) -> Mapping[str, object]:
        return {
            "instance": {
                "attributes": dict(self.attributes),
                "id": "4242424242",
                "name": self.name,
                "hostname": f"{self.name}.us-east5-a.c.p-1.internal",
                "zone": "projects/1/zones/us-east5-a",
                "machine-type": "projects/1/machineTypes/ct6e-standard-1t",
                "network-interfaces": {"0": {"ip": "10.128.0.7", "mac": "42:01:0a:80:00:07", "mtu": "1460"}},
                "service-accounts": {"default": {"email": "sa@p-1.iam.gserviceaccount.com", "scopes": "cloud-platform"}},
            },
            "project": {"project-id": "p-1", "numeric-project-id": "1", "attributes": {}},
        }

    def _etag(self) -> str:
        return hashlib.sha1(json.dumps(self.metadata()).encode()).hexdigest()[:16]

    def wait_for_change(self, etag: str, timeout: float) -> str:
        with self._changed:
            self._changed.wait_for(lambda: self._etag() != etag, timeout)
            return self._etag()

    def set(self, key: str, value: str) -> None:
        with self._changed:
            self.attributes[key] = value
            self._changed.notify_all()

    def set_guest_attribute(self, namespace: str, key: str, value: str) -> None:
        if not self.enabled:
            raise ValueError("Guest attributes endpoint access is disabled.")
        with self._changed:
            self.reported[f"{namespace}/{key}"] = value
            self._changed.notify_all()

    def access_token(self, scopes: Sequence[str]) -> tuple[str, int]:
        return "ya29.guest", 3599

    def access_secret(self, bearer: str, resource: str) -> tuple[int, Mapping[str, object]]:
        if bearer != "ya29.guest":
            return 401, {"error": {"code": 401, "status": "UNAUTHENTICATED"}}
        return 200, {"name": resource, "payload": {"data": base64.b64encode(self.secret.encode()).decode()}}

    def powered_off(self) -> None:
        self.off.set()

    def wait_reported(self, key: str, timeout: float = 60.0) -> str:
        """The guest attribute once it is there."""
        with self._changed:
            failed = "flexserve/failed"
            there = self._changed.wait_for(lambda: key in self.reported or failed in self.reported, timeout)
            if not there or key not in self.reported:
                raise TimeoutError(f"{key} was not reported: {self.reported}")
            return self.reported[key]


def eventually(check: Callable[[], object], timeout: float = 120.0) -> object:
    """The first true value of `check`; raises TimeoutError. The limit ends what hangs: a busy host is many times slower.

    A look into a machine starts processes in it, so there are only some a second.
    """
    until = time.monotonic() + timeout
    while True:
        if value := check():
            return value
        if time.monotonic() > until:
            raise TimeoutError("it never came true")
        time.sleep(0.2)
