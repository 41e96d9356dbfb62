"""Endpoints: Creating, InService, Updating blue/green, RollingBack, Deleting, Failed; each on the cloud's clock.

An update never touches what serves: a second fleet rises beside it, and takes over when it answers.
"""

from __future__ import annotations

from rehearsal.cloud.aws import billing, side
from rehearsal.cloud.aws.call import Call, Json, Result
from rehearsal.cloud.aws.errors import AwsError
from rehearsal.cloud.aws.sagemaker import book, configs, images, models
from rehearsal.cloud.aws.sagemaker.book import Endpoint
from rehearsal.cloud.aws.sagemaker.fleet import Ascent, Fleet, drain
from rehearsal.cloud.aws.state import State


def find(state: State, name: str) -> Endpoint:
    """Raises ValidationException without it."""
    found = state.sagemaker.endpoints.get(name)
    if found is None:
        raise book.missing(state, "endpoint", name)
    return found


def create(state: State, call: Call) -> Result:
    """CreateEndpoint."""
    name, config = call.params["EndpointName"], call.params["EndpointConfigName"]
    if name in state.sagemaker.endpoints:
        raise book.taken(state, "endpoint", name)
    fleet, count = _fleet(state, name, configs.seen(state, config))
    _quota(state, fleet, count)
    at, now = book.arn(state, "endpoint", name), state.now()
    made = Endpoint(name, at, config, "Creating", now, now, dict(call.params.get("DeploymentConfig", {})), rising=fleet)
    state.sagemaker.endpoints[name] = made
    book.keep_tags(state, at, call)
    Ascent(state, fleet, count, lambda why: _created(state, made, why)).begin()
    return {"EndpointArn": at}


def _fleet(state: State, endpoint: str, config: Json) -> tuple[Fleet, int]:
    if len(config["ProductionVariants"]) != 1:
        raise AwsError("ValidationException", "the local cloud has endpoints of one variant")
    (variant,) = config["ProductionVariants"]
    model = models.find(state, variant["ModelName"])
    made = Fleet(
        endpoint,
        config["EndpointConfigName"],
        variant,
        models.container(model),
        model.get("ExecutionRoleArn", ""),
        state.clock.now(),
    )
    return made, int(variant["InitialInstanceCount"])


def _quota(state: State, fleet: Fleet, count: int) -> None:
    kind = fleet.variant["InstanceType"]
    used = sum(len(f.instances) for e in state.sagemaker.endpoints.values() for f in e.fleets if f.variant["InstanceType"] == kind)
    limit = state.sagemaker.quotas.get(kind, state.inventory.endpoint_quota)
    if used + count > limit:
        raise AwsError(
            "ResourceLimitExceeded",
            f"The account-level service limit '{kind} for endpoint usage' is {limit} Instances, with current utilization of {used}"
            f" Instances and a request delta of {count} Instances. Please use AWS Service Quotas to request an increase for this"
            " quota. If AWS Service Quotas is not available, contact AWS support to request an increase for this quota.",
        )


def _become(state: State, endpoint: Endpoint, status: str, reason: str = "") -> None:
    """Called under the lock."""
    endpoint.status, endpoint.reason, endpoint.modified = status, reason, state.now()
    billing.settle(state)


def _created(state: State, endpoint: Endpoint, why: str) -> None:
    fleet = endpoint.rising
    assert fleet is not None
    if why:
        drain(fleet, 0.0)
    with state.lock:
        endpoint.rising = None
        endpoint.active = None if why else fleet
        _become(state, endpoint, "Failed" if why else "InService", why)


def update(state: State, call: Call) -> Result:
    """UpdateEndpoint: another configuration, blue/green."""
    params = call.params
    endpoint = find(state, params["EndpointName"])
    _idle(endpoint)
    if endpoint.status == "Failed" and endpoint.active is None:
        raise AwsError("ValidationException", f'Cannot update failed endpoint "{endpoint.arn}".')
    configs.find(state, endpoint.config)  # one whose present configuration was deleted cannot be updated
    fleet, count = _fleet(state, endpoint.name, configs.seen(state, params["EndpointConfigName"]))
    _scaled(state, endpoint, fleet)
    if endpoint.active is not None and params.get("RetainAllVariantProperties"):
        count = len(endpoint.active.instances)
    _quota(state, fleet, count)
    endpoint.rising = fleet
    endpoint.deployment = dict(params.get("DeploymentConfig", endpoint.deployment))
    _become(state, endpoint, "Updating")
    Ascent(state, fleet, count, lambda why: _updated(state, endpoint, why)).begin()
    return {"EndpointArn": endpoint.arn}


def _scaled(state: State, endpoint: Endpoint, fleet: Fleet) -> None:
    """Raises ValidationException for another machine type of a variant that scales."""
    if endpoint.active is None or endpoint.active.variant["InstanceType"] == fleet.variant["InstanceType"]:
        return
    if state.scaling.of(endpoint.name):
        raise AwsError(
            "ValidationException",
            f'The variant(s) "[{fleet.variant["VariantName"]}]" must be deregistered as scalable target with AutoScaling before '
            "they can be removed or have their instance type updated.",
        )


def _idle(endpoint: Endpoint) -> None:
    if endpoint.moves:
        raise AwsError("ValidationException", f'Cannot update in-progress endpoint "{endpoint.arn}".')


def _updated(state: State, endpoint: Endpoint, why: str) -> None:
    """The new fleet serves, or never will: then the old one goes on, and the reason is told."""
    fleet = endpoint.rising
    assert fleet is not None
    if why:
        drain(fleet, 0.0)
        lasts = state.pace.hosting.roll_back
        with state.lock:
            endpoint.rising = None
            _become(state, endpoint, "RollingBack" if lasts else "InService", why if lasts else "")
        if lasts:
            state.clock.after(lasts, lambda: _settled(state, endpoint, why))
        return
    with state.lock:
        before, endpoint.active, endpoint.rising = endpoint.active, fleet, None
        endpoint.config = fleet.config
        billing.settle(state)
    policy = endpoint.deployment.get("BlueGreenUpdatePolicy", {})
    state.clock.after(float(policy.get("TerminationWaitInSeconds", 0)), lambda: _retire(state, endpoint, before))


def _retire(state: State, endpoint: Endpoint, before: Fleet | None) -> None:
    if before is not None:
        drain(before, state.pace.hosting.drain)
    _settled(state, endpoint, "")


def _settled(state: State, endpoint: Endpoint, why: str) -> None:
    with state.lock:
        _become(state, endpoint, "InService", why)


def scale(state: State, call: Call) -> Result:
    """UpdateEndpointWeightsAndCapacities: how many instances a variant has."""
    endpoint = find(state, call.params["EndpointName"])
    _idle(endpoint)
    for wanted in call.params["DesiredWeightsAndCapacities"]:
        if "DesiredInstanceCount" in wanted:
            resize(state, endpoint, wanted["DesiredInstanceCount"])
    return {"EndpointArn": endpoint.arn}


def resize(state: State, endpoint: Endpoint, count: int) -> None:
    """Called under the lock. More instances rise beside those that serve; the newest go first."""
    fleet = endpoint.active
    if fleet is None or count == len(fleet.instances):
        return
    _become(state, endpoint, "Updating")
    if count < len(fleet.instances):
        going, fleet.instances = fleet.instances[count:], fleet.instances[:count]

        def gone() -> None:
            drain(fleet, state.pace.hosting.drain, going)
            _settled(state, endpoint, "")

        state.clock.after(state.pace.hosting.deleting, gone)
        return
    more = Fleet(fleet.endpoint, fleet.config, fleet.variant, fleet.container, fleet.role, state.clock.now())
    endpoint.rising = more
    Ascent(state, more, count - len(fleet.instances), lambda why: _grown(state, endpoint, more, why)).begin()


def _grown(state: State, endpoint: Endpoint, more: Fleet, why: str) -> None:
    if why:
        drain(more, 0.0)
    with state.lock:
        endpoint.rising = None
        if not why and endpoint.active is not None:
            endpoint.active.instances += more.instances
            more.instances = []
        _become(state, endpoint, "InService", why)


def delete(state: State, call: Call) -> Result:
    """DeleteEndpoint. Raises ValidationException while it is being created or updated."""
    endpoint = find(state, call.params["EndpointName"])
    remove(state, endpoint)
    return None


def remove(state: State, endpoint: Endpoint) -> None:
    """Called under the lock. An endpoint whose execution role is gone before its end stays in Deleting: SageMaker frees its
    instances with the role.
    """
    _idle(endpoint)
    if endpoint.status == "Deleting":
        return
    _become(state, endpoint, "Deleting")
    pace = state.pace.hosting
    state.clock.after(pace.deleting if endpoint.fleets else pace.empty, lambda: _free(state, endpoint))


def _free(state: State, endpoint: Endpoint) -> None:
    with state.lock:
        may = all(side.assumed(state, fleet.role, models.SERVICE) for fleet in endpoint.fleets)
    if may:
        _gone(state, endpoint)
    else:
        state.clock.after(state.pace.hosting.again, lambda: _free(state, endpoint))


def _gone(state: State, endpoint: Endpoint) -> None:
    for fleet in endpoint.fleets:
        drain(fleet, state.pace.hosting.drain)
    with state.lock:
        state.sagemaker.endpoints.pop(endpoint.name, None)
        state.sagemaker.tags.pop(endpoint.arn, None)
        billing.settle(state)


def describe(state: State, call: Call) -> Result:
    """DescribeEndpoint."""
    endpoint = find(state, call.params["EndpointName"])
    shown: Json = {
        "EndpointName": endpoint.name,
        "EndpointArn": endpoint.arn,
        "EndpointConfigName": endpoint.config,
        "EndpointStatus": endpoint.status,
        "CreationTime": endpoint.created,
        "LastModifiedTime": endpoint.modified,
    }
    if endpoint.reason:
        shown["FailureReason"] = endpoint.reason
    if endpoint.deployment:
        shown["LastDeploymentConfig"] = endpoint.deployment
    if endpoint.active is not None:
        shown["ProductionVariants"] = [_variant(state, endpoint.active, endpoint)]
    if endpoint.rising is not None and endpoint.status == "Updating" and endpoint.rising.config != endpoint.config:
        pending = {"EndpointConfigName": endpoint.rising.config, "StartTime": endpoint.modified}
        shown["PendingDeploymentSummary"] = pending
    return shown


def _variant(state: State, fleet: Fleet, endpoint: Endpoint) -> Json:
    image = fleet.container["Image"]
    manifest = images.find(state, images.read(state, image))
    resolved = f"{image.split('@')[0].rsplit(':', 1)[0]}@{manifest.digest}" if manifest is not None else image
    rising = endpoint.rising if endpoint.rising is not None and endpoint.rising.config == fleet.config else None
    return {
        "VariantName": fleet.variant["VariantName"],
        "DeployedImages": [{"SpecifiedImage": image, "ResolvedImage": resolved, "ResolutionTime": endpoint.created}],
        "CurrentWeight": float(fleet.variant["InitialVariantWeight"]),
        "DesiredWeight": float(fleet.variant["InitialVariantWeight"]),
        "CurrentInstanceCount": len(fleet.instances),
        "DesiredInstanceCount": len(fleet.instances) + (len(rising.instances) if rising is not None else 0),
    }


def listed(state: State, call: Call) -> Result:
    """ListEndpoints, the newest first; by status or part of the name."""
    part, status = call.params.get("NameContains", ""), call.params.get("StatusEquals", "")
    found = [e for e in state.sagemaker.endpoints.values() if part in e.name and status in ("", e.status)]
    return {
        "Endpoints": [
            {
                "EndpointName": e.name,
                "EndpointArn": e.arn,
                "CreationTime": e.created,
                "LastModifiedTime": e.modified,
                "EndpointStatus": e.status,
            }
            for e in sorted(found, key=lambda e: e.created, reverse=True)
        ]
    }
