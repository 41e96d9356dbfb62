"""What SageMaker knows: models, configurations, endpoints, and the tags of all three."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from rehearsal.cloud.aws.call import Call, Json, Result
from rehearsal.cloud.aws.errors import AwsError
from rehearsal.cloud.aws.sagemaker.fleet import Fleet
from rehearsal.cloud.aws.state import State
from rehearsal.sagemaker.contracts import HostFactory

IN_PROGRESS = ("Creating", "Updating", "RollingBack", "SystemUpdating")


@dataclass
class Endpoint:
    """An endpoint. `active` serves; `rising` is being made, by CreateEndpoint or UpdateEndpoint."""

    name: str
    arn: str
    config: str
    status: str
    created: datetime
    modified: datetime
    deployment: Json = field(default_factory=dict)
    reason: str = ""
    active: Fleet | None = None
    rising: Fleet | None = None
    invoked: list[float] = field(default_factory=list)
    """Times of the invocations of the last minutes, for scaling."""

    @property
    def moves(self) -> bool:
        """Whether it is on its way: nobody may delete or change it."""
        return self.status in IN_PROGRESS

    @property
    def fleets(self) -> tuple[Fleet, ...]:
        """Both, where there are."""
        return tuple(fleet for fleet in (self.active, self.rising) if fleet is not None)


@dataclass
class Book:
    """Everything by name; tags by ARN. Called under the cloud's lock."""

    models: dict[str, Json] = field(default_factory=dict)
    configs: dict[str, Json] = field(default_factory=dict)
    endpoints: dict[str, Endpoint] = field(default_factory=dict)
    tags: dict[str, dict[str, str]] = field(default_factory=dict)
    host: HostFactory | None = None
    without: set[str] = field(default_factory=set)
    """Instance types of which there is no capacity; `*` is all."""
    quotas: dict[str, int] = field(default_factory=dict)
    """Instances for endpoints, by type, where it is not the account's default."""


KINDS = {"model": "model", "endpoint-config": "endpoint configuration", "endpoint": "endpoint"}


def arn(state: State, kind: str, name: str) -> str:
    """`arn:aws:sagemaker:…:endpoint/fs-x`; SageMaker writes names in small letters there."""
    return state.arn("sagemaker", f"{kind}/{name.lower()}")


def missing(state: State, kind: str, name: str) -> AwsError:
    """What a thing that is not there is answered."""
    return AwsError("ValidationException", f'Could not find {KINDS[kind]} "{arn(state, kind, name)}".')


def taken(state: State, kind: str, name: str) -> AwsError:
    """What a name that is taken is answered."""
    return AwsError("ValidationException", f'Cannot create already existing {KINDS[kind]} "{arn(state, kind, name)}".')


def keep_tags(state: State, at: str, call: Call) -> None:
    """The tags that a thing is created with."""
    state.sagemaker.tags[at] = {t["Key"]: t["Value"] for t in call.params.get("Tags", [])}


def _tagged(state: State, at: str) -> dict[str, str]:
    found = state.sagemaker.tags.get(at)
    if found is None:
        raise AwsError("ValidationException", f"Could not find the resource {at}.")
    return found


def add_tags(state: State, call: Call) -> Result:
    """AddTags."""
    found = _tagged(state, call.params["ResourceArn"])
    found |= {t["Key"]: t["Value"] for t in call.params["Tags"]}
    return {"Tags": [{"Key": k, "Value": v} for k, v in sorted(found.items())]}


def list_tags(state: State, call: Call) -> Result:
    """ListTags."""
    return {"Tags": [{"Key": k, "Value": v} for k, v in sorted(_tagged(state, call.params["ResourceArn"]).items())]}


def delete_tags(state: State, call: Call) -> Result:
    """DeleteTags."""
    found = _tagged(state, call.params["ResourceArn"])
    for key in call.params["TagKeys"]:
        found.pop(key, None)
    return {}
