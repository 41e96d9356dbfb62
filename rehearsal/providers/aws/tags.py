"""Tags as the official provider keeps them: the program's with the stack's default tags, and all that it set."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from rehearsal.providers.aws.api import Aws, Send
from rehearsal.providers.resource import Change
from rehearsal.providers.schema import Fields, mapping, out
from rehearsal.providers.values import UNKNOWN, Values, has_unknown

TAGS: Final[Fields] = {"tags": mapping(), "tagsAll": out(mapping({}))}
TAG_MAPS: Final = frozenset(TAGS)


def add_default_tags(api: Aws, inputs: Values) -> Values:
    """The inputs with the stack's default tags (`aws:defaultTags`) under the program's own, as Pulumi's bridge adds them."""
    tags = inputs.get("tags")
    if not api.config.default_tags or tags is UNKNOWN:
        return inputs
    return inputs | {"tags": {**api.config.default_tags, **(tags or {})}}


def plan_tags(api: Aws, state: Mapping[str, Any] | None, planned: Values) -> Values:
    """Fill in `tagsAll`."""
    tags = planned.get("tags")
    if tags is UNKNOWN or has_unknown(tags):
        return planned | {"tagsAll": UNKNOWN}
    return planned | {"tagsAll": {**api.config.default_tags, **(tags or {})}}


def told_tags(api: Aws, found: Iterable[Mapping[str, str]] | None, before: Mapping[str, Any]) -> Values:
    """Both maps after a look at the cloud. AWS's own tags (`aws:`) are not shown; default ones only where they were."""
    there = {tag["Key"]: tag["Value"] for tag in found or () if not tag["Key"].startswith("aws:")}
    mine = before.get("tags")
    own = {
        key: value
        for key, value in there.items()
        if api.config.default_tags.get(key) != value or (isinstance(mine, Mapping) and key in mine)
    }
    return {"tags": own or (None if mine is None else {}), "tagsAll": there}


def tag_list(tags: Mapping[str, str] | None) -> list[dict[str, str]]:
    """As AWS takes them."""
    return [{"Key": key, "Value": value} for key, value in sorted((tags or {}).items())]


def tag_changes(change: Change) -> tuple[list[str], dict[str, str]]:
    """Keys to take away, and tags to set."""
    old, new = (values.get("tagsAll") or {} for values in (change.state, change.planned))
    return sorted(old.keys() - new.keys()), {key: value for key, value in new.items() if old.get(key) != value}


def created_with(kind: str, planned: Mapping[str, Any]) -> Values:
    """The part of an EC2 create request that tags the new thing."""
    tags = tag_list(planned.get("tagsAll"))
    return {"TagSpecifications": [{"ResourceType": kind, "Tags": tags}]} if tags else {}


def update_ec2_tags(send: Send, identifier: str, change: Change) -> None:
    """Bring an EC2 thing's tags up to date."""
    if not change.touches("tagsAll"):
        return
    gone, wanted = tag_changes(change)
    if gone:
        send("DeleteTags", Resources=[identifier], Tags=[{"Key": key} for key in gone])
    if wanted:
        send("CreateTags", Resources=[identifier], Tags=tag_list(wanted))
