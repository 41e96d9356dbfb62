"""The stage of a toy: a cloud that is a folder, a provider of one resource, a relay, and machines that are small servers."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

from infra.targets.toy.live import machine_file

from rehearsal.cloud.clock import TurnedClock
from rehearsal.cloud.ledger import BillLedger
from rehearsal.contracts import Fault, Machine
from rehearsal.providers.resource import Call, Change, ProviderError, Resource
from rehearsal.providers.schema import Fields, number, out, text
from rehearsal.providers.server import serving
from rehearsal.providers.servicer import Servicer
from rehearsal.providers.values import Values
from rehearsal.relay.server import Relay
from rehearsal.stage import Part
from tests.cli.openai_server import OpenAiServer
from tests.cli.openai_server import serving as openai
from tests.infra.nets import Names
from tests.infra.nets import serving as names

TOKEN = "toy-token"


class ToyCloud:
    """A local cloud in a folder, with books that are read from what lies there."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.clock = TurnedClock()
        self.full = False
        self._ledger = BillLedger(self.clock)
        self._server = OpenAiServer()
        self._servers = ExitStack()

    @property
    def ledger(self) -> BillLedger:
        """What bills: a machine whose file is gone does not."""
        for item in self._ledger.left():
            if not machine_file(self.folder, item.name).exists():
                self._ledger.deleted(item.kind, item.name, item.where)
        return self._ledger

    def start(self) -> None:
        """Lay out the folder; one server stands for all machines."""
        self.folder.mkdir(parents=True)
        self._servers.enter_context(openai(self._server))

    def stop(self) -> None:
        self._servers.close()

    def environment(self) -> Mapping[str, str]:
        return {"GOOGLE_OAUTH_ACCESS_TOKEN": TOKEN}

    def stack_config(self) -> Mapping[str, str]:
        return {"toy:folder": str(self.folder)}

    def machines(self) -> Mapping[str, Machine]:
        return {}

    def put_secret(self, name: str, value: str) -> None:
        """A toy has no secrets."""

    def requests(self) -> Sequence[Mapping[str, object]]:
        return ()

    # What the provider and the relay ask

    def create(self, identity: str, room: str, script: str) -> dict[str, Any]:
        """A machine, which serves at once. Raises `ProviderError` when there is no room."""
        if self.full:
            failed = {"code": "FULL", "message": "the room is full", "where": room}
            (self.folder / f"failed-{identity}.json").write_text(json.dumps(failed), encoding="utf-8")
            raise ProviderError("sorry, the room is full")
        toy = {"name": f"toy-{identity}", "room": room, "born": self.clock.now(), "console": "hello\n"}
        self._ledger.created("toy", identity, room)
        return self.boot(identity, toy, script)

    def boot(self, identity: str, toy: dict[str, Any], script: str) -> dict[str, Any]:
        """It runs this script, and says so."""
        done = {"name": "serving", "start_s": 0.0, "seconds": 0.1, "result": "done"}
        state = {"state": "serving", "script": script, "phase": "serving", "started_at": int(time.time())}
        toy = {**toy, "script": script, "said": {"state": json.dumps(state), "phase-serving": json.dumps(done)}}
        path = machine_file(self.folder, identity)
        part = path.with_suffix(".part")
        part.write_text(json.dumps(toy), encoding="utf-8")
        part.replace(path)  # others read it meanwhile
        return toy

    def read(self, identity: str) -> dict[str, Any] | None:
        """The machine, or None."""
        path = machine_file(self.folder, identity)
        return json.loads(path.read_text(encoding="utf-8")) if path.exists() else None

    def delete(self, identity: str) -> None:
        machine_file(self.folder, identity).unlink(missing_ok=True)

    def connect(self, instance: str, zone: str, port: int) -> socket.socket:
        """For the relay. Raises LookupError without such a machine."""
        toy = self.read(instance.removeprefix("toy-"))
        if toy is None or toy["room"] != zone or port != 8000:
            raise LookupError(instance)
        return socket.create_connection(("127.0.0.1", self._server.port))


FIELDS: Fields = {
    "identity": text(required=True, replace=True),
    "room": text(required=True, replace=True),
    "script": text(required=True),
    "born": out(number()),
}


def _told(identity: str, toy: Mapping[str, Any]) -> Values:
    return {"identity": identity, **{key: toy[key] for key in ("room", "script", "born")}}


def _create(call: Call[ToyCloud], planned: Values) -> tuple[str, Values]:
    identity = planned["identity"]
    return identity, _told(identity, call.api.create(identity, planned["room"], planned["script"]))


def _read(call: Call[ToyCloud], identifier: str, before: Mapping[str, Any]) -> Values | None:
    toy = call.api.read(identifier)
    return _told(identifier, toy) if toy else None


def _update(call: Call[ToyCloud], identifier: str, change: Change) -> Values:
    toy = call.api.read(identifier)
    if toy is None:
        raise ProviderError(f"toy {identifier} is gone")
    return _told(identifier, call.api.boot(identifier, toy, change.planned["script"]))


def _delete(call: Call[ToyCloud], identifier: str, state: Mapping[str, Any]) -> None:
    call.api.delete(identifier)


MACHINE = Resource("toy:index:Machine", FIELDS, _create, _read, _delete, _update, frozenset({"script"}))


class ToyStage:
    """Everything around one toy cloud."""

    def __init__(self, folder: Path) -> None:
        self.cloud = ToyCloud(folder / "cloud")
        self._folder, self._stack = folder, ExitStack()
        self._environment: dict[str, str] = {}

    def __enter__(self) -> Self:
        self._folder.mkdir(parents=True, exist_ok=True)
        with ExitStack() as stack:
            self.cloud.start()
            stack.callback(self.cloud.stop)
            servicer = Servicer("1.0.0", "toy", {MACHINE.token: MACHINE}, {}, self._configured)
            port = stack.enter_context(serving(servicer))
            relay = stack.enter_context(
                Relay(self.cloud.connect, allowed=lambda token, *_: None if token == TOKEN else 401, folder=self._folder)
            )
            known = stack.enter_context(names(Names()))
            self._environment = {
                **self.cloud.environment(),
                "PULUMI_DEBUG_PROVIDERS": f"toy:{port}",
                "FLEXSERVE_IAP_URL": relay.url,
                "SSL_CERT_FILE": str(relay.ca_file),
                "FLEXSERVE_REGISTRY_URL": known.base,
                "HF_ENDPOINT": known.base,
                "NO_PROXY": "127.0.0.1,localhost",
                "HTTPS_PROXY": "http://127.0.0.1:9",
            }
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *exc: object) -> None:
        self._stack.close()

    def _configured(self, values: Mapping[str, Any]) -> ToyCloud:
        if values.get("folder") != str(self.cloud.folder):
            raise ProviderError(f"toy:folder is {values.get('folder')!r}")
        return self.cloud

    def environment(self) -> Mapping[str, str]:
        return self._environment

    def stack_config(self) -> Mapping[str, str]:
        return self.cloud.stack_config()

    def settings(self) -> Sequence[str]:
        return (f"target.folder={self.cloud.folder}",)

    def arm(self, fault: Fault) -> None:
        fault.apply(self)

    def held(self) -> Mapping[str, float]:
        return {}

    def parts(self) -> Mapping[str, Part]:
        return {"cloud": Part(False, "a folder"), "machine": Part(False, "a small server")}

    def host_left(self) -> Sequence[str]:
        return ()


def stage(folder: Path) -> ToyStage:
    """The stage, not yet started."""
    return ToyStage(folder)
