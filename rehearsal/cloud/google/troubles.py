"""Google's own bad news, in the words of the recordings: what a fault arms."""

from __future__ import annotations

from collections.abc import Callable

from rehearsal.cloud.google.call import Call, Json, OperationError, Trouble
from rehearsal.cloud.google.errors import (
    ApiError,
    error,
    forbidden,
    invalid,
    not_found,
    service_disabled,
    unauthenticated,
)

INSERT = "compute.instances.insert"
DELETE = "compute.instances.delete"


def _zone(call: Call) -> str:
    return f"projects/{call.params['project']}/zones/{call.params['zone']}"


def _machine(call: Call) -> str:
    return str(call.body.get("machineType", "")).rsplit("/", 1)[-1]


def _answer(make: Callable[[Call], ApiError]) -> Callable[[Call], tuple[int, Json]]:
    def answer(call: Call) -> tuple[int, Json]:
        refused = make(call)
        return refused.status, dict(refused.body)

    return answer


def stock_out(*, zone: str = "", times: int | None = None, details: bool = False) -> Trouble:
    """The zone (every zone, without one) has no capacity.

    The operation fails. `details` gives the longer form with error details.
    """

    def failed(call: Call) -> OperationError:
        start = f"The zone '{_zone(call)}' does not have enough resources available to fulfill the request."
        if not details:
            entry: Json = {
                "code": "ZONE_RESOURCE_POOL_EXHAUSTED",
                "message": f"{start}  Try a different zone, or try again later.",
            }
            return OperationError({"errors": [entry]}, 503, "SERVICE UNAVAILABLE", capacity=True)
        machine, name = _machine(call), call.params["zone"]
        text = f"A {machine} VM instance is currently unavailable in the {name} zone."
        entry = {
            "code": "ZONE_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS",
            "message": f"{start}  '(resource type:compute)'.",
            "errorDetails": [
                {
                    "errorInfo": {
                        "reason": "resource_availability",
                        "domain": "compute.googleapis.com",
                        "metadatas": {"vmType": machine, "zone": name, "zonesAvailable": ""},
                    }
                },
                {"localizedMessage": {"locale": "en-US", "message": text}},
                {
                    "help": {
                        "links": [
                            {
                                "description": "Troubleshooting documentation",
                                "url": "https://cloud.google.com/compute/docs/resource-error",
                            }
                        ]
                    }
                },
            ],
        }
        return OperationError({"errors": [entry]}, 503, "SERVICE UNAVAILABLE", capacity=True)

    return Trouble(INSERT, path=f"/zones/{zone}/" if zone else "", times=times, operation=failed, capacity=True)


def quota(*, times: int | None = None) -> Trouble:
    """The quota of the TPU family is 0: the operation fails."""

    def failed(call: Call) -> OperationError:
        region = call.params["zone"].rsplit("-", 1)[0]
        exceeded = {
            "metricName": "compute.googleapis.com/tpus_per_tpu_family",
            "limitName": "TPUS-PER-TPU-FAMILY-per-project-zone",
            "limit": 0.5,
            "dimensions": {"tpu_family": "CT6E", "zone": call.params["zone"]},
        }
        text = f"Quota 'TPUS_PER_TPU_FAMILY' exceeded.  Limit: 0.0 in region {region}."
        return OperationError(
            {"errors": [{"code": "QUOTA_EXCEEDED", "message": text, "errorDetails": [{"quotaInfo": exceeded}]}]},
            403,
            "FORBIDDEN",
        )

    return Trouble(INSERT, times=times, operation=failed)


def quota_at_once(*, times: int | None = None) -> Trouble:
    """The quota of preemptible TPUs is 0: refused at once."""

    def refused(call: Call) -> ApiError:
        region = call.params["zone"].rsplit("-", 1)[0]
        text = f"Quota 'PREEMPTIBLE_TPU_LITE_PODSLICE_V6' exceeded.  Limit: 0.0 in region {region}."
        return error(403, "quotaExceeded", text, domain="usageLimits")

    return Trouble(INSERT, times=times, answer=_answer(refused))


def no_permission(*, times: int | None = None) -> Trouble:
    """The operator may not create instances."""
    return Trouble(
        INSERT,
        times=times,
        answer=_answer(lambda call: forbidden("compute.instances.create", f"{_zone(call)}/instances/{call.body.get('name')}")),
    )


def api_off(number: str = "123456789012", *, times: int | None = None) -> Trouble:
    """Compute is not switched on, as the insert says it (`State.disabled` says it for every call)."""
    return Trouble(
        INSERT,
        times=times,
        answer=_answer(lambda _: service_disabled("compute.googleapis.com", "Compute Engine API", number)),
    )


def bad_machine_type(*, times: int | None = None) -> Trouble:
    """The zone does not have the machine type after all."""

    def refused(call: Call) -> ApiError:
        text = f"Machine type with name '{_machine(call)}' does not exist in zone '{call.params['zone']}'."
        return invalid("resource.machineType", call.body.get("machineType", ""), text)

    return Trouble(INSERT, times=times, answer=_answer(refused))


def bad_token(*, call: str = INSERT, times: int | None = None) -> Trouble:
    """The token is not valid."""
    return Trouble(call, times=times, answer=_answer(lambda _: unauthenticated()))


def unavailable(*, call: str = INSERT, times: int | None = 2) -> Trouble:
    """503, which the provider repeats without a word."""
    text = "Internal error. Please try again or contact Google Support. (Code: '1')"
    return Trouble(call, times=times, answer=_answer(lambda _: error(503, "backendError", text, short="Internal error")))


def too_many_requests(*, call: str = INSERT, times: int | None = 2) -> Trouble:
    """429, which the provider repeats without a word."""
    text = "Rate Limit Exceeded"
    return Trouble(
        call,
        times=times,
        answer=_answer(lambda _: error(429, "rateLimitExceeded", text, domain="usageLimits", status="RESOURCE_EXHAUSTED")),
    )


def delete_fails(*, times: int | None = 1) -> Trouble:
    """The delete's operation ends in an error, and the instance stays."""
    entry = {
        "code": "INTERNAL_ERROR",
        "message": "Internal error. Please try again or contact Google Support. (Code: '2')",
    }
    return Trouble(DELETE, times=times, operation=lambda _: OperationError({"errors": [entry]}, 500, "INTERNAL SERVER ERROR"))


def slow_create(seconds: float, *, times: int | None = 1) -> Trouble:
    """The insert's operation takes that much longer."""
    return Trouble(INSERT, times=times, delay_s=seconds)


def gone(*, call: str = DELETE, times: int | None = 1) -> Trouble:
    """404, whatever is there."""
    return Trouble(call, times=times, answer=_answer(lambda c: not_found(c.path.split("/", 3)[-1])))
