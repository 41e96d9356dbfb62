"""What an instance says of itself: guest attributes and the serial console."""

from __future__ import annotations

from rehearsal.cloud.google.call import Call, Json
from rehearsal.cloud.google.compute import checks
from rehearsal.cloud.google.compute.instances import path_of
from rehearsal.cloud.google.errors import error
from rehearsal.cloud.google.state import State, link


def guest_attributes(state: State, call: Call) -> Json:
    """By `queryPath` (`namespace/`) or `variableKey` (`namespace/key`)."""
    path = path_of(call)
    checks.find(state, path)
    stored = state.fleet.guest_attributes(path)
    answer: Json = {"kind": "compute#guestAttributes", "selfLink": link(f"{path}/guestAttributes/")}
    if key := call.query.get("variableKey"):
        namespace, _, name = key.partition("/")
        if (namespace, name) not in stored:
            raise _no_attribute(key)
        return answer | {"variableKey": key, "variableValue": stored[namespace, name]}
    query = call.query.get("queryPath", "")
    namespace, _, name = query.strip("/").partition("/")
    items = [
        {"namespace": ns, "key": k, "value": v}
        for (ns, k), v in sorted(stored.items())
        if namespace in ("", ns) and name in ("", k)
    ]
    if not items:
        raise _no_attribute(query)
    return answer | {"queryPath": query, "queryValue": {"items": items}}


def _no_attribute(query: str) -> Exception:
    return error(404, "notFound", f"The resource '{query}' of type 'Guest Attribute' was not found.")


def serial_port(state: State, call: Call) -> Json:
    """The console from byte `start` on; `next` is where to go on."""
    path = path_of(call)
    checks.find(state, path)
    data = state.fleet.console(path).encode()
    start = min(int(call.query.get("start") or 0), len(data))
    part = data[start : start + (1 << 20)]
    return {
        "kind": "compute#serialPortOutput",
        "contents": part.decode(errors="replace"),
        "start": str(start),
        "next": str(start + len(part)),
        "selfLink": link(f"{path}/serialPort"),
    }


HANDLERS = {
    "compute.instances.getGuestAttributes": guest_attributes,
    "compute.instances.getSerialPortOutput": serial_port,
}
