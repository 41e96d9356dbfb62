"""Compute's operations: they start with a call, run on the clock, and end DONE, with an error or without."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping

from rehearsal.cloud.google.call import Call, Json, OperationError, scope_of
from rehearsal.cloud.google.errors import not_found
from rehearsal.cloud.google.listing import filtered, listed
from rehearsal.cloud.google.state import State, link, new_id, without

DONE_AT = "_done_at"
"""Kept with a stored operation: when it will be DONE, epoch seconds. Never answered."""


def begin(
    state: State,
    call: Call,
    target: str,
    kind: str,
    *,
    apply: Callable[[], None] = lambda: None,
    then: Callable[[], None] = lambda: None,
    seconds: float | None = None,
) -> Json:
    """Start an operation on `target` (a path) and answer it.

    `apply` runs now, under the caller's lock; `then` when the operation ends, without it. Neither runs when an armed
    trouble makes the operation fail.
    """
    doom = call.doom()
    target_id = str(state.compute.get(target, {}).get("id", ""))
    if doom is None:
        apply()
        target_id = target_id or str(state.compute.get(target, {}).get("id", ""))
    took = (state.pace.operation if seconds is None else seconds) + call.delay()
    operation = _record(state, scope_of(call.params), target, target_id or new_id(), kind, call.caller.email, took)
    path = operation["_path"]

    def end() -> None:
        if doom is None:
            then()
        with state.lock:
            _finish(state, path, doom)

    state.clock.at(operation[DONE_AT], end)
    return shown(operation)


def waiting(state: State, call: Call, target: str, kind: str, *, at_most: float) -> str:
    """Start an operation that ends when `end_at` or `fail` says so, at the latest in `at_most` seconds; its path."""
    target_id = str(state.compute.get(target, {}).get("id") or new_id())
    return str(_record(state, scope_of(call.params), target, target_id, kind, call.caller.email, at_most)["_path"])


def end_at(state: State, path: str, when: float) -> None:
    """A waiting operation will be DONE at `when` (epoch seconds)."""
    state.operations[path][DONE_AT] = when

    def end() -> None:
        with state.lock:
            _finish(state, path, None)

    state.clock.at(when, end)


def fail(state: State, path: str, doom: OperationError) -> None:
    """A waiting operation ends now, in this error."""
    _finish(state, path, doom)


def record_done(state: State, scope: str, target: str, target_id: str, kind: str) -> None:
    """An operation of the cloud's own (a window that closed, a reclaim), which is over."""
    operation = _record(state, scope, target, target_id, kind, "system@google.com", 0.0)
    _finish(state, operation["_path"], None)


def _record(state: State, scope: str, target: str, target_id: str, kind: str, user: str, took: float) -> Json:
    name = f"operation-{int(state.clock.now() * 1000)}-{secrets.token_hex(6)}-{secrets.token_hex(4)}"
    path = f"{scope}/operations/{name}"
    now = state.stamp()
    operation: Json = {
        "kind": "compute#operation",
        "id": new_id(),
        "name": name,
        "operationType": kind,
        "targetLink": link(target),
        "targetId": target_id,
        "status": "RUNNING",
        "user": user,
        "progress": 0,
        "insertTime": now,
        "startTime": now,
        "selfLink": link(path),
        "_path": path,
        DONE_AT: state.clock.now() + took,
    }
    for where in ("zone", "region"):
        if f"/{where}s/" in scope:
            operation[where] = link(scope)
    state.operations[path] = operation
    return operation


def _finish(state: State, path: str, doom: OperationError | None) -> None:
    operation = state.operations.get(path)
    if operation is None:
        return
    operation.update(status="DONE", progress=100, endTime=state.stamp())
    if doom is not None:
        operation.update(error=doom.error, httpErrorStatusCode=doom.status, httpErrorMessage=doom.message)


def shown(operation: Mapping[str, object]) -> Json:
    """An operation as it is answered."""
    return without(operation, "_path", DONE_AT)


def _find(state: State, call: Call) -> Json:
    path = f"{scope_of(call.params)}/operations/{call.params['operation']}"
    if path not in state.operations:
        raise not_found(path)
    return state.operations[path]


def get(state: State, call: Call) -> Json:
    """The operation as it stands."""
    return shown(_find(state, call))


def turn_to_end(state: State, call: Call) -> None:
    """What `wait` waits for, made to be: called before the lock is taken."""
    with state.lock:
        operation = state.operations.get(f"{scope_of(call.params)}/operations/{call.params['operation']}")
    if operation is not None and operation["status"] != "DONE":
        state.clock.advance(min(120.0, max(0.0, operation[DONE_AT] - state.clock.now()) + 0.001))


def list_(state: State, call: Call) -> Json:
    """Operations of the scope; newest last."""
    scope = f"{scope_of(call.params)}/operations/"
    found = [shown(value) for path, value in state.operations.items() if path.startswith(scope)]
    return listed("compute#operationList", found, call)


def aggregated_list(state: State, call: Call) -> Json:
    """Operations of every scope."""
    items: dict[str, Json] = {}
    for operation in filtered([shown(value) for value in state.operations.values()], call):
        scope = str(operation["selfLink"]).split(f"projects/{state.project}/", 1)[-1].rsplit("/operations/", 1)[0]
        items.setdefault(scope, {"operations": []})["operations"].append(operation)
    return {"kind": "compute#operationAggregatedList", "id": call.path, "items": items}


def delete(state: State, call: Call) -> Json:
    """Forget one."""
    operation = _find(state, call)
    state.operations.pop(operation["_path"])
    return {}


HANDLERS = {
    f"compute.{scope}Operations.{verb}": handler
    for scope in ("zone", "region", "global")
    for verb, handler in (("get", get), ("list", list_), ("delete", delete), ("wait", get))
} | {"compute.globalOperations.aggregatedList": aggregated_list}
