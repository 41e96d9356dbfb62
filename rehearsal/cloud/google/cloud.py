"""The local Google cloud: state, front, server and machines put together, and what a rehearsal does to it by hand."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from datetime import datetime
from types import TracebackType
from typing import Any

from rehearsal.cloud.clock import TurnedClock
from rehearsal.cloud.google import billing, iam, inventory, secretmanager
from rehearsal.cloud.google.api import Front
from rehearsal.cloud.google.call import Json, Trouble
from rehearsal.cloud.google.compute import default_network, disks, lifecycle, queue
from rehearsal.cloud.google.compute.scheduling import run_seconds
from rehearsal.cloud.google.control import Control
from rehearsal.cloud.google.fleet import Fleet
from rehearsal.cloud.google.guest import GuestView
from rehearsal.cloud.google.identity import Tokens
from rehearsal.cloud.google.policies import Policies
from rehearsal.cloud.google.server import HttpServer
from rehearsal.cloud.google.state import Pace, Report, State, fingerprint
from rehearsal.cloud.ledger import BillLedger, Price, unknown_price
from rehearsal.cloud.requests import RequestLog
from rehearsal.contracts import Machine, MachineFactory

OPERATOR_TOKEN = "local-operator-token"


class OwnError(Exception):
    """The local cloud itself went wrong; each line says how."""


class LocalGoogleCloud:
    """A `rehearsal.contracts.LocalCloud` with one project. Without a machine factory its instances are API only."""

    def __init__(
        self,
        machine_factory: MachineFactory | None = None,
        clock: TurnedClock | None = None,
        *,
        project: str = "demo",
        price: Price = unknown_price,
        pace: Pace | None = None,
        stock: inventory.Inventory | None = None,
    ) -> None:
        self.clock = clock or TurnedClock()
        self.ledger = BillLedger(self.clock, price)
        self.log = RequestLog()
        self.state = State(project, self.clock, self.ledger, stock or inventory.load(), pace or Pace())
        self.state.tokens = Tokens(self.clock)
        self.state.policies = Policies(self.clock, self._account_exists)
        self.state.fleet = Fleet(self.state, machine_factory, self.access_secret)
        default_network.add(self.state)
        iam.add_default_account(self.state)
        self._front = Front(self.state, self.log)
        self._server = HttpServer(self._front, Control(self).answer, self.clock)

    @property
    def project(self) -> str:
        """The project's id."""
        return self.state.project

    def start(self) -> None:
        """Listen on a free loopback port; returns when it answers."""
        self.clock.start()
        self._server.start()

    def stop(self) -> None:
        """Delete every machine and stop listening. Safe to call twice."""
        self._server.stop()
        self.clock.stop()
        self.state.fleet.delete_all()

    def __enter__(self) -> LocalGoogleCloud:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Stop. Raises OwnError when it answered what Google could not: a rehearsal against it proves nothing."""
        self.stop()
        if error is None and (wrong := self.own_errors()):
            raise OwnError("\n".join(wrong))

    @property
    def base(self) -> str:
        """`http://127.0.0.1:PORT`; `/_control/...` lies below it."""
        return self._server.base

    def environment(self) -> Mapping[str, str]:
        """Endpoints as gcloud spells them (compute's with its version, the others' without), the operator's token."""
        overrides = {
            "COMPUTE": "compute/v1/",
            "SECRETMANAGER": "secretmanager/",
            "IAM": "iam/",
            "IAP": "iap/",
            "CLOUDRESOURCEMANAGER": "crm/",
            "SERVICEUSAGE": "serviceusage/",
            "ARTIFACTREGISTRY": "artifactregistry/",
        }
        return {
            **{f"CLOUDSDK_API_ENDPOINT_OVERRIDES_{name}": f"{self.base}/{path}" for name, path in overrides.items()},
            "CLOUDSDK_CORE_PROJECT": self.project,
            "CLOUDSDK_AUTH_ACCESS_TOKEN": OPERATOR_TOKEN,
            "GOOGLE_OAUTH_ACCESS_TOKEN": OPERATOR_TOKEN,
        }

    def stack_config(self) -> Mapping[str, str]:
        """Provider configuration for the official plugin and for its stand-in."""
        endpoints = {
            "compute": "compute/beta",
            "iam": "iam/v1",
            "iamBeta": "iam/v1",
            "iamCredentials": "iamcredentials/v1",
            "resourceManager": "crm/v1",
            "resourceManagerV3": "crm/v3",
            "iap": "iap/v1",
            "secretManager": "secretmanager/v1",
            "serviceUsage": "serviceusage/v1",
            "cloudBilling": "cloudbilling/v1",
            "artifactRegistry": "artifactregistry/v1",
        }
        return {
            **{f"gcp:{name}CustomEndpoint": f"{self.base}/{path}/" for name, path in endpoints.items()},
            "gcp:accessToken": OPERATOR_TOKEN,
            "gcp:skipRegionValidation": "true",
        }

    def machines(self) -> Mapping[str, Machine]:
        """The machines that exist, by instance name."""
        return self.state.fleet.machines()

    def requests(self) -> Sequence[Mapping[str, object]]:
        """Every request so far."""
        return self.log.as_mappings()

    def own_errors(self) -> Sequence[str]:
        """Answers of ours that Google's documents do not allow, and what failed in the background.

        Anything here is a fault of the local cloud, or of a machine that would not start.
        """
        answers = tuple(text for entry in self.log.entries() for text in entry.own_errors)
        return (*answers, *self.clock.problems)

    def access_secret(self, bearer: str, resource: str) -> tuple[int, Mapping[str, object]]:
        """Secret Manager's `access`, as over HTTP."""
        answer = self._front.answer("GET", f"/secretmanager/v1/{resource}:access", "", b"", bearer, self.base)
        return answer.status, answer.body

    def request(self, method: str, path: str, query: str = "", body: bytes = b"", bearer: str = OPERATOR_TOKEN) -> tuple[int, Json]:
        """Any request, in process, through the same checks and the same log."""
        answer = self._front.answer(method, path, query, body, bearer, self.base)
        return answer.status, answer.body

    # What a person did beforehand, or what happens to a cloud by itself.

    def put_secret(self, name: str, value: str) -> None:
        """What the operator did beforehand: a secret with one more version."""
        with self.state.lock:
            path = f"projects/{self.state.number}/secrets/{name}"
            if path not in self.state.secrets:
                replication: Json = {"automatic": {}}
                self.state.secrets[path] = {
                    "name": path,
                    "createTime": self.state.zulu(),
                    "replication": replication,
                    "etag": '"1"',
                }
            secretmanager.add(self.state, path, base64.b64encode(value.encode()).decode())

    def secret_names(self) -> Sequence[str]:
        """The secrets that exist."""
        with self.state.lock:
            return tuple(path.rsplit("/", 1)[-1] for path in self.state.secrets)

    def drop_secret(self, name: str) -> None:
        """The secret was never there."""
        with self.state.lock:
            secretmanager.drop(self.state, f"projects/{self.state.number}/secrets/{name}")

    def empty_secret(self, name: str) -> None:
        """Its newest version was empty from the first. Raises KeyError without one."""
        with self.state.lock:
            prefix = f"projects/{self.state.number}/secrets/{name}/versions/"
            versions = [path for path in self.state.versions if path.startswith(prefix)]
            if not versions:
                raise KeyError(f"no version of {name}")
            self.state.versions[versions[-1]]["_data"] = ""

    def put_account(self, account_id: str) -> str:
        """A service account that exists already; its email."""
        with self.state.lock:
            return str(iam.add_account(self.state, account_id, {})["email"])

    def put_disk(self, name: str, zone: str, *, size_gb: int = 100, kind: str = "hyperdisk-balanced") -> None:
        """A disk that nobody's stack made: no label, no instance."""
        with self.state.lock:
            path = f"projects/{self.project}/zones/{zone}/disks/{name}"
            self.state.compute[path] = disks.new_disk(self.state, path, kind, size_gb, None, "resource")
            billing.disk_created(self.state, self.state.compute[path])

    def arm(self, trouble: Trouble) -> None:
        """The next calls that match go wrong; what was armed first goes first."""
        with self.state.lock:
            self.state.troubles.append(trouble)

    def disarm(self) -> None:
        """Nothing goes wrong any more."""
        with self.state.lock:
            self.state.troubles.clear()

    def give_capacity(self, zone: str = "") -> None:
        """There is capacity again, in the zone or everywhere: no stock-out is armed any more, and what is queued there starts."""
        with self.state.lock:
            self.state.troubles = [t for t in self.state.troubles if not t.capacity or (zone and not t.concerns(zone))]
            queue.capacity_came(self.state, zone)

    def disable(self, service: str) -> None:
        """Switch an API off (`compute.googleapis.com`)."""
        with self.state.lock:
            self.state.disabled.add(service)

    def deny(self, permission: str) -> None:
        """The operator lacks a permission (`compute.instances.create`): what it is needed for fails, and a test of it says so."""
        with self.state.lock:
            self.state.denied.add(permission)

    def delay_grants(self, seconds: float) -> None:
        """Bindings made from now on take effect that much later, on the cloud's clock."""
        with self.state.lock:
            self.state.policies.grant_delay_s = seconds

    def on_report(self, hook: Report) -> None:
        """Call `hook(instance, namespace, key, value)` for every guest attribute that a machine sets from now on."""
        with self.state.lock:
            self.state.reports.append(hook)

    def window_end(self, name: str) -> float | None:
        """When the instance's window closes, epoch seconds.

        None without one, or before it runs. Raises KeyError without an instance.
        """
        path = self.instance_path(name)
        with self.state.lock:
            seconds = run_seconds(self.state.compute[path]["scheduling"])
            started = self.state.compute[path].get("lastStartTimestamp")
        return None if seconds is None or started is None else datetime.fromisoformat(started).timestamp() + seconds

    def instance_path(self, name: str) -> str:
        """The path of the instance of that name, in whatever zone. Raises KeyError without one."""
        with self.state.lock:
            for path in self.state.compute:
                if path.endswith(f"/instances/{name}"):
                    return path
        raise KeyError(f"no instance {name}")

    def reclaim(self, name: str) -> None:
        """The cloud takes the instance away now, with its auto-delete disks. Raises KeyError without one."""
        lifecycle.take_away(self.state, self.instance_path(name), "compute.instances.preempted")

    def edit(self, name: str, fields: Mapping[str, Any]) -> None:
        """Set fields of an instance by hand (drift).

        Labels get their fingerprint; status and machine are not tied to each other.
        """
        path = self.instance_path(name)
        with self.state.lock:
            instance = self.state.compute[path]
            instance.update(fields)
            instance["labelFingerprint"] = fingerprint(instance.get("labels"))
        self.state.fleet.changed(path)

    def instances(self) -> Mapping[str, Json]:
        """Instances by path, as stored."""
        with self.state.lock:
            return {path: dict(value) for path, value in self.state.compute.items() if "/instances/" in path}

    def guest(self, name: str) -> GuestView:
        """An instance's view of the cloud. Raises KeyError before it ran."""
        found = self.state.fleet.guest(self.instance_path(name))
        if found is None:
            raise KeyError(f"{name} has not run yet")
        return found

    def may_tunnel(self, zone: str, instance: str, member: str = "user:operator@example.com") -> bool:
        """Whether the member has a tunnel grant for the instance."""
        with self.state.lock:
            return iam.may_tunnel(self.state, member, zone, instance)

    def _account_exists(self, email: str) -> bool:
        return email in self.state.accounts
