"""The rehearsal's side of the bridge: answers a machine's stand-ins from the cloud's `Guest` or `Ec2Guest`."""

from __future__ import annotations

import base64
import json
import os
import socketserver
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import cast

from rehearsal.contracts import ContainerGuest, Ec2Answer, Ec2Guest, Guest


class BridgeServer:
    """A Unix socket in the machine's folder. `behaviour` is asked for each time: it may change while the machine lives."""

    def __init__(
        self,
        path: Path,
        guest: Guest | Ec2Guest | ContainerGuest,
        behaviour: Callable[[], Mapping[str, object]],
        reported: Callable[[str, str, str], None],
    ) -> None:
        self._guest = guest
        self._behaviour = behaviour
        self._reported = reported
        answer = self._answer

        class Handler(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                line = self.rfile.readline()
                if line:
                    self.wfile.write(json.dumps(answer(json.loads(line))).encode() + b"\n")

        class Server(socketserver.ThreadingUnixStreamServer):
            daemon_threads = True
            request_queue_size = 64

            def handle_error(self, request: object, client_address: object) -> None:
                """A machine that lost its power leaves broken connections."""

        path.unlink(missing_ok=True)
        folder = os.open(path.parent, os.O_PATH)
        try:
            self._server = Server(f"/proc/self/fd/{folder}/{path.name}", Handler)
        finally:
            os.close(folder)
        threading.Thread(target=self._server.serve_forever, name=f"bridge {path.parent.name}", daemon=True).start()

    def close(self) -> None:
        """Stop answering."""
        self._server.shutdown()
        self._server.server_close()

    def _answer(self, request: Mapping[str, object]) -> Mapping[str, object]:
        try:
            return {"value": self._value(request)}
        except (LookupError, ValueError) as error:
            kind = "LookupError" if isinstance(error, LookupError) else "ValueError"
            return {"error": kind, "text": str(error.args[0]) if error.args else ""}
        except Exception as error:  # the guest sees a broken server, the rehearsal goes on
            return {"error": type(error).__name__, "text": str(error)}

    def _value(self, request: Mapping[str, object]) -> object:
        if request.get("what") == "behaviour":
            return self._behaviour()
        if str(request.get("what")).startswith("ec2-"):
            return _ec2(cast("Ec2Guest", self._guest), request)
        if str(request.get("what")).startswith("container-"):
            return _container(cast("ContainerGuest", self._guest), request)
        return self._google(cast("Guest", self._guest), request)

    def _google(self, guest: Guest, request: Mapping[str, object]) -> object:
        match request:
            case {"what": "metadata", "etag": str(etag), "timeout": int() | float() as timeout}:
                now = guest.wait_for_change(etag, timeout) if timeout else guest.wait_for_change("", 0.0)
                return {"etag": now, "tree": guest.metadata()}
            case {"what": "token", "scopes": list(scopes)}:
                return guest.access_token([str(scope) for scope in scopes])
            case {"what": "secret", "bearer": str(bearer), "resource": str(resource)}:
                return guest.access_secret(bearer, resource)
            case {"what": "guest_attribute", "namespace": str(namespace), "key": str(key), "value": str(value)}:
                guest.set_guest_attribute(namespace, key, value)
                self._reported(namespace, key, value)
                return None
        raise ValueError(f"the bridge knows nothing of {request.get('what')!r}")


def _ec2(guest: Ec2Guest, request: Mapping[str, object]) -> object:
    match request:
        case {"what": "ec2-metadata"}:
            return guest.metadata()
        case {"what": "ec2-user-data"}:
            return base64.b64encode(guest.user_data()).decode()
        case {"what": "ec2-service"}:
            return _service(guest.service, request)
    raise ValueError(f"the bridge knows nothing of {request.get('what')!r}")


def _container(guest: ContainerGuest, request: Mapping[str, object]) -> object:
    match request:
        case {"what": "container-service"}:
            return _service(guest.service, request)
        case {"what": "container-credentials", "name": str(name)}:
            return dict(guest.credentials(name))
        case {"what": "container-may", "authorization": str(said), "account": str(account), "repository": str(repository)}:
            return guest.may(said, account, repository, bool(request.get("push")))
        case {"what": "container-immutable", "account": str(account), "repository": str(repository)}:
            return guest.immutable(account, repository)
    raise ValueError(f"the bridge knows nothing of {request.get('what')!r}")


def _service(service: Callable[..., Ec2Answer], request: Mapping[str, object]) -> object:
    headers = cast("Mapping[str, object]", request["headers"])
    body = base64.b64decode(str(request.get("body", "")))
    named = {str(k): str(v) for k, v in headers.items()}
    answer = service(str(request["host"]), str(request["method"]), str(request["path"]), named, body)
    return {"status": answer.status, "headers": dict(answer.headers), "body": base64.b64encode(answer.body).decode()}
