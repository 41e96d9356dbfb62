"""AWS's own bad news: what a fault arms. Wording as public reports quote it, see the sources in `inventory.toml`."""

from __future__ import annotations

from rehearsal.cloud.aws.call import Call, Trouble
from rehearsal.cloud.aws.errors import AwsError

RUN = "ec2.RunInstances"


def no_capacity(
    zone: str = "", instance_type: str = "", *, times: int | None = None, foreseen: bool = True, spot_only: bool = False
) -> Trouble:
    """The zone (every zone, without one) has none of the type (of any type). RunInstances says it, by the zone it was asked for.

    `foreseen`: the placement score knows. `spot_only`: at the usual price there is some.
    """

    def wanted(call: Call) -> bool:
        spot = bool(call.params.get("InstanceMarketOptions"))
        return instance_type in ("", call.params.get("InstanceType")) and (spot or not spot_only)

    return Trouble(RUN, _said_by_run_instances, times, wanted, capacity=True, zone=zone, foreseen=foreseen)


def _said_by_run_instances(call: Call) -> AwsError:
    raise AssertionError(f"the text of a stock-out depends on the zone: {call.id}")


def unavailable(call: str = RUN, *, times: int | None = 2) -> Trouble:
    """503: clients repeat it without a word."""
    return Trouble(
        call,
        lambda c: AwsError(
            "ServiceUnavailable" if c.service == "s3" else "Unavailable", "Service unavailable. Please try again shortly.", 503
        ),
        times,
    )


def throttled(call: str = RUN, *, times: int | None = 2) -> Trouble:
    """Too many requests: clients repeat it without a word."""

    def error(c: Call) -> AwsError:
        if c.service == "ec2":
            return AwsError("RequestLimitExceeded", "Request limit exceeded.", 503)
        if c.service == "s3":
            return AwsError("SlowDown", "Please reduce your request rate.", 503)
        return AwsError("Throttling" if c.service == "iam" else "ThrottlingException", "Rate exceeded", 400)

    return Trouble(call, error, times)


def delete_fails(call: str = "ec2.TerminateInstances", *, times: int | None = 1) -> Trouble:
    """The delete is refused, and the thing stays."""
    text = "The instance may not be terminated. Modify its 'disableApiTermination' instance attribute and try again."
    return Trouble(call, lambda _: AwsError("OperationNotPermitted", text), times)


def unseen(*, times: int | None = 1) -> Trouble:
    """Eventual consistency: an instance that was just run is not found when it is asked for by its id."""

    def error(c: Call) -> AwsError:
        return AwsError("InvalidInstanceID.NotFound", f"The instance ID '{c.params['InstanceIds'][0]}' does not exist")

    return Trouble("ec2.DescribeInstances", error, times, lambda c: bool(c.params.get("InstanceIds")))


def gone(call: str = "ec2.TerminateInstances", *, times: int | None = 1) -> Trouble:
    """It is not there, whatever is there."""

    def error(c: Call) -> AwsError:
        ids = c.params.get("InstanceIds") or [""]
        return AwsError("InvalidInstanceID.NotFound", f"The instance ID '{ids[0]}' does not exist")

    return Trouble(call, error, times)


def closed(operation: str, prefix: str, *, times: int | None = None) -> Trouble:
    """S3 refuses a machine's role this operation (`PutObject`) on keys that begin so, whatever its own policy allows: a bucket's
    policy, or a key of KMS that it may not use.
    """

    def theirs(call: Call) -> bool:
        return not call.caller.operator and str(call.params.get("Key", "")).startswith(prefix)

    return Trouble(f"s3.{operation}", lambda _: AwsError("AccessDenied", "Access Denied", 403), times, theirs)
