"""What the SageMaker resources share: tags by ARN, what counts as gone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from rehearsal.providers.aws.api import Aws, AwsError, Send
from rehearsal.providers.aws.tags import tag_changes, tag_list
from rehearsal.providers.resource import Call, Change
from rehearsal.providers.values import Values

MISSING: Final = {"endpoint": "Could not find endpoint", "model": "Could not find model", "config": "Could not find endpoint conf"}


def sagemaker(call: Call[Aws], values: Mapping[str, Any]) -> Send:
    """SageMaker in the resource's own region."""
    return call.api.service("sagemaker", values.get("region"))


def gone(error: AwsError, kind: str) -> bool:
    """Whether an error says that there is no such thing."""
    return error.says("ValidationException", MISSING[kind])


def found(send: Send, kind: str, operation: str, **parameters: Any) -> Values | None:
    """The answer, or None when SageMaker has no such thing."""
    try:
        return send(operation, **parameters)
    except AwsError as error:
        if gone(error, kind):
            return None
        raise


def tags(send: Send, arn: str) -> list[dict[str, str]]:
    """The tags of a thing."""
    return list(send("ListTags", ResourceArn=arn)["Tags"])


def update_tags(send: Send, arn: str, change: Change) -> None:
    """Bring a thing's tags up to date."""
    if not change.touches("tagsAll"):
        return
    away, wanted = tag_changes(change)
    if away:
        send("DeleteTags", ResourceArn=arn, TagKeys=away)
    if wanted:
        send("AddTags", ResourceArn=arn, Tags=tag_list(wanted))
