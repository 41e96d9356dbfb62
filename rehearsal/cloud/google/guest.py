"""The cloud as one instance sees it: the metadata tree, tokens of its account, Secret Manager, guest attributes."""

from __future__ import annotations

import hashlib
import json
import re
import threading
import time
from collections.abc import Callable, Mapping, Sequence

from rehearsal.cloud.google.call import Json
from rehearsal.cloud.google.state import State

NAMESPACE = re.compile(r"[A-Za-z0-9-]{1,128}")
KEY = re.compile(r"[A-Za-z0-9_.\-]{1,256}")


class GuestView:
    """A `rehearsal.contracts.Guest`."""

    def __init__(
        self, state: State, path: str, instance_id: str, secret: Callable[[str, str], tuple[int, Mapping[str, object]]]
    ) -> None:
        self._state = state
        self._path = path
        self._id = instance_id
        self._secret = secret
        self._changed = threading.Condition()
        self._reported: dict[tuple[str, str], str] = {}
        self._closed = False
        self._wakes = 0

    def _instance(self) -> Json:
        """The instance. Raises LookupError once it is gone."""
        instance = self._state.compute.get(self._path)
        if instance is None or instance["id"] != self._id:
            raise LookupError(f"the instance {self._path} is gone")
        return instance

    def metadata(self) -> Mapping[str, object]:
        """The tree below `/computeMetadata/v1/`, keys as the metadata server spells them."""
        with self._state.lock:
            instance, project, number = self._instance(), self._state.project, self._state.number
            zone = instance["zone"].rsplit("/", 1)[-1]
            machine = instance["machineType"].rsplit("/", 1)[-1]
            scheduling = instance["scheduling"]
            return {
                "instance": {
                    "id": instance["id"],
                    "name": instance["name"],
                    "hostname": f"{instance['name']}.{zone}.c.{project}.internal",
                    "zone": f"projects/{number}/zones/{zone}",
                    "machine-type": f"projects/{number}/machineTypes/{machine}",
                    "description": instance.get("description", ""),
                    "cpu-platform": instance["cpuPlatform"],
                    "image": "",
                    "tags": json.dumps(instance["tags"].get("items", [])),
                    "preempted": "FALSE",
                    "maintenance-event": "NONE",
                    "attributes": {item["key"]: item.get("value", "") for item in instance["metadata"].get("items", [])},
                    "scheduling": {
                        "automatic-restart": str(scheduling["automaticRestart"]).upper(),
                        "on-host-maintenance": scheduling["onHostMaintenance"],
                        "preemptible": str(scheduling["preemptible"]).upper(),
                    },
                    "service-accounts": self._accounts(instance),
                    "network-interfaces": {str(i): _nic(n, number) for i, n in enumerate(instance["networkInterfaces"])},
                    "disks": {
                        str(i): {
                            "device-name": d["deviceName"],
                            "index": str(i),
                            "mode": d["mode"],
                            "type": f"{d['type']}-BALANCED",
                        }
                        for i, d in enumerate(instance["disks"])
                    },
                },
                "project": {"project-id": project, "numeric-project-id": number, "attributes": {}},
            }

    @staticmethod
    def _accounts(instance: Json) -> Json:
        found = {}
        for account in instance.get("serviceAccounts", []):
            scopes = "\n".join(account.get("scopes", [])) + "\n"
            found[account["email"]] = {"email": account["email"], "aliases": "default\n", "scopes": scopes}
            found["default"] = found[account["email"]]
        return found

    def etag(self) -> str:
        """Changes whenever the tree does."""
        tree = json.dumps(self.metadata(), sort_keys=True).encode()
        return hashlib.sha256(tree).hexdigest()[:16]

    def wait_for_change(self, etag: str, timeout: float) -> str:
        """Block until the etag differs from `etag`, or `timeout` real seconds passed.

        Raises LookupError when the instance is gone.
        """
        deadline = time.monotonic() + timeout
        while True:
            seen = self._wakes
            current = self.etag()  # takes the cloud's lock, under which `wake` is called: never inside the condition
            left = deadline - time.monotonic()
            if current != etag or left <= 0 or self._closed:
                return current
            with self._changed:
                self._changed.wait_for(lambda seen=seen: self._wakes != seen, min(left, 1.0))  # type: ignore[misc]

    def wake(self) -> None:
        """The metadata may have changed."""
        with self._changed:
            self._wakes += 1
            self._changed.notify_all()

    def close(self) -> None:
        """The instance is gone; waiting ends."""
        self._closed = True
        self.wake()

    def set_guest_attribute(self, namespace: str, key: str, value: str) -> None:
        """Store what the guest reports.

        Raises ValueError for a bad name, or when metadata has not enabled guest attributes.
        """
        with self._state.lock:
            items = {i["key"]: i.get("value", "") for i in self._instance()["metadata"].get("items", [])}
            if items.get("enable-guest-attributes", "").upper() not in ("TRUE", "1", "YES"):
                raise ValueError("guest attributes endpoint access is disabled")
            if not NAMESPACE.fullmatch(namespace) or not KEY.fullmatch(key):
                raise ValueError(f"not a name of a guest attribute: {namespace}/{key}")
            self._reported[namespace, key] = value
            hooks = tuple(self._state.reports)
        for hook in hooks:
            hook(self._path.rsplit("/", 1)[-1], namespace, key, value)

    def reported(self) -> Mapping[tuple[str, str], str]:
        """What it reported, by (namespace, key)."""
        with self._state.lock:
            return dict(self._reported)

    def access_token(self, scopes: Sequence[str]) -> tuple[str, int]:
        """A token of the instance's own account and its seconds to live.

        `scopes` narrow what the instance was given.
        """
        with self._state.lock:
            accounts = self._instance().get("serviceAccounts", [])
            if not accounts:
                raise LookupError(f"{self._path} has no service account")
            given = tuple(accounts[0].get("scopes", []))
            return self._state.tokens.issue(accounts[0]["email"], tuple(s for s in given if not scopes or s in scopes) or given)

    def access_secret(self, bearer: str, resource: str) -> tuple[int, Mapping[str, object]]:
        """Secret Manager's `access`, through the same checks and the same log as over HTTP."""
        return self._secret(bearer, resource)

    def powered_off(self) -> None:
        """A real shutdown inside: TERMINATED, and its disks go on billing."""
        from rehearsal.cloud.google.compute import lifecycle

        lifecycle.stop(self._state, self._path, by_guest=True)


def _nic(nic: Json, number: str) -> Json:
    access = {str(i): {"external-ip": a.get("natIP", ""), "type": a["type"]} for i, a in enumerate(nic.get("accessConfigs", []))}
    return {
        "ip": nic["networkIP"],
        "network": f"projects/{number}/networks/{nic['network'].rsplit('/', 1)[-1]}",
        "mac": "42:01:0a:80:00:02",
        "mtu": "1460",
        "gateway": nic["networkIP"].rsplit(".", 1)[0] + ".1",
        "subnetmask": "255.255.240.0",
        "dns-servers": "169.254.169.254",
        "access-configs": access,
    }
