"""`ec2.SecurityGroup`: created with AWS's rule that lets everything out, which the official provider takes away at once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from rehearsal.providers.aws.api import Aws, AwsError, Send
from rehearsal.providers.aws.ec2 import (
    REGION,
    after_create,
    creating,
    delete,
    drop_lingering_interfaces,
    ec2,
    found,
    region_of,
)
from rehearsal.providers.aws.names import NAMED, name_of, told_name
from rehearsal.providers.aws.tags import TAG_MAPS, TAGS, add_default_tags, created_with, plan_tags, told_tags, update_ec2_tags
from rehearsal.providers.resource import Call, Change, Incomplete, ProviderError, Resource, at_import
from rehearsal.providers.schema import Fields, Prop, blocks, flag, items, members, number, out, text
from rehearsal.providers.values import Values

_ALL_PORTS: Final = "-1"
_IPV4: Final = {"IpProtocol": "-1", "FromPort": 0, "ToPort": 0, "IpRanges": [{"CidrIp": "0.0.0.0/0"}]}
_IPV6: Final = {"IpProtocol": "-1", "FromPort": 0, "ToPort": 0, "Ipv6Ranges": [{"CidrIpv6": "::/0"}]}


def _rules() -> Prop:
    return blocks(
        {
            "cidrBlocks": items(),
            "description": text(),
            "fromPort": number(required=True),
            "ipv6CidrBlocks": items(),
            "prefixListIds": items(),
            "protocol": text(required=True, same=_same_protocol),
            "securityGroups": members(),
            "self": flag(default=False),
            "toPort": number(required=True),
        },
        computed=True,
        unordered=True,
    )


def _same_protocol(one: str, other: str) -> bool:
    return _protocol(one) == _protocol(other)


def _protocol(name: str) -> str:
    return {"all": _ALL_PORTS, "6": "tcp", "17": "udp", "1": "icmp"}.get(name.lower(), name.lower())


FIELDS: Final[Fields] = {
    "arn": out(),
    "description": text(default="Managed by Pulumi", replace=True),
    "egress": _rules(),
    "ingress": _rules(),
    **NAMED,
    "ownerId": out(),
    **REGION,
    "revokeRulesOnDelete": flag(default=False),
    **TAGS,
    "vpcId": text(computed=True, replace=True),
}


def _group(send: Send, identifier: str) -> Values | None:
    return found(send, "DescribeSecurityGroups", "SecurityGroups", GroupIds=[identifier])


def _create(call: Call[Aws], planned: Values) -> tuple[str, Values]:
    send, name = ec2(call, planned), name_of(planned)
    vpc = {"VpcId": planned["vpcId"]} if planned.get("vpcId") else {}
    made = creating(
        f"Security Group ({name})",
        lambda: send(
            "CreateSecurityGroup",
            GroupName=name,
            Description=planned.get("description") or "Managed by Pulumi",
            **vpc,
            **created_with("security-group", planned),
        ),
    )
    identifier = str(made["GroupId"])
    try:
        _close(send, identifier)
        for side in ("ingress", "egress"):
            _bring(send, identifier, side, [], planned.get(side) or [])
    except AwsError as error:
        raise Incomplete(identifier, {}, f"updating Security Group ({identifier}) rules: {error}") from error
    return identifier, after_create("Security Group", identifier, _read(call, identifier, planned))


def _close(send: Send, identifier: str) -> None:
    """Take away the rules that AWS gave the new group: everything out, by IPv4 and IPv6."""
    send("RevokeSecurityGroupEgress", GroupId=identifier, IpPermissions=[_IPV4])
    try:
        send("RevokeSecurityGroupEgress", GroupId=identifier, IpPermissions=[_IPV6])
    except AwsError as error:
        if not error.says("InvalidPermission.NotFound") and not error.says("InvalidParameterValue", "remote-ipv6-range"):
            raise


def _permission(rule: Mapping[str, Any], identifier: str) -> Values:
    """A rule as AWS takes it."""
    described = {"Description": rule["description"]} if rule.get("description") else {}
    groups = [*(rule.get("securityGroups") or []), *([identifier] if rule.get("self") else [])]
    sent: Values = {
        "IpProtocol": _protocol(str(rule["protocol"])),
        "FromPort": int(rule["fromPort"]),
        "ToPort": int(rule["toPort"]),
        "IpRanges": [{"CidrIp": cidr, **described} for cidr in rule.get("cidrBlocks") or []],
        "Ipv6Ranges": [{"CidrIpv6": cidr, **described} for cidr in rule.get("ipv6CidrBlocks") or []],
        "PrefixListIds": [{"PrefixListId": item, **described} for item in rule.get("prefixListIds") or []],
        "UserIdGroupPairs": [{"GroupId": group, **described} for group in groups],
    }
    return {key: value for key, value in sent.items() if value != []}


def _bring(send: Send, identifier: str, side: str, old: list[Any], new: list[Any]) -> None:
    """Revoke the rules that go, then authorise those that come."""
    was, wanted = ([_permission(rule, identifier) for rule in rules] for rules in (old, new))
    gone, added = [rule for rule in was if rule not in wanted], [rule for rule in wanted if rule not in was]
    if gone:
        send(f"RevokeSecurityGroup{side.title()}", GroupId=identifier, IpPermissions=gone)
    if added:
        send(f"AuthorizeSecurityGroup{side.title()}", GroupId=identifier, IpPermissions=added)


def _read(call: Call[Aws], identifier: str, before: Mapping[str, Any]) -> Values | None:
    group = _group(ec2(call, before), identifier)
    if group is None:
        return None
    owner = str(group.get("OwnerId") or call.api.account)
    return {
        "arn": call.api.arn("ec2", f"security-group/{identifier}", region_of(call, before)),
        "description": group.get("Description", ""),
        "egress": told_rules(group.get("IpPermissionsEgress"), identifier, before.get("egress")),
        "ingress": told_rules(group.get("IpPermissions"), identifier, before.get("ingress")),
        **told_name(group["GroupName"], before),
        "ownerId": owner,
        "region": region_of(call, before),
        **told_tags(call.api, group.get("Tags"), before),
        "vpcId": group.get("VpcId", ""),
    }


def told_rules(permissions: Any, identifier: str, before: Any) -> list[Values]:
    """AWS's permissions as the program's rules: those it wrote, where all of their parts are there; else one a permission."""
    left = [_parts(permission) for permission in permissions or []]
    told: list[Values] = []
    for rule in before if isinstance(before, list) else []:
        wanted = _parts(_permission(rule, identifier))
        source = next((there for there in left if _covers(there, wanted)), None)
        if source is None:
            continue
        for part in wanted["parts"]:
            source["parts"].remove(part)
        told.append(dict(rule))
    told += [_rule(there, identifier) for there in left if there["parts"]]
    return told


def _parts(permission: Mapping[str, Any]) -> Values:
    parts = [
        (kind, item[key], item.get("Description", ""))
        for kind, key in (
            ("IpRanges", "CidrIp"),
            ("Ipv6Ranges", "CidrIpv6"),
            ("PrefixListIds", "PrefixListId"),
            ("UserIdGroupPairs", "GroupId"),
        )
        for item in permission.get(kind) or []
    ]
    protocol = _protocol(str(permission["IpProtocol"]))
    ports = (0, 0) if protocol == _ALL_PORTS else (permission.get("FromPort", -1), permission.get("ToPort", -1))
    return {"protocol": protocol, "ports": ports, "parts": parts}


def _covers(there: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    same = all(there[key] == wanted[key] for key in ("protocol", "ports"))
    return same and all(part in there["parts"] for part in wanted["parts"])


def _rule(there: Mapping[str, Any], identifier: str) -> Values:
    def named(kind: str) -> list[str] | None:
        return [name for part, name, _ in there["parts"] if part == kind] or None

    groups = named("UserIdGroupPairs") or []
    return {
        "cidrBlocks": named("IpRanges"),
        "description": there["parts"][0][2],
        "fromPort": there["ports"][0],
        "ipv6CidrBlocks": named("Ipv6Ranges"),
        "prefixListIds": named("PrefixListIds"),
        "protocol": there["protocol"],
        "securityGroups": [group for group in groups if group != identifier] or None,
        "self": identifier in groups,
        "toPort": there["ports"][1],
    }


def _update(call: Call[Aws], identifier: str, change: Change) -> Values:
    send = ec2(call, change.state)
    for side in ("ingress", "egress"):
        if change.touches(side):
            try:
                _bring(send, identifier, side, change.state.get(side) or [], change.planned.get(side) or [])
            except AwsError as error:
                raise ProviderError(f"updating Security Group ({identifier}) {side} rules: {error}") from error
    update_ec2_tags(send, identifier, change)
    return _read(call, identifier, change.planned) or {}


def _delete(call: Call[Aws], identifier: str, state: Mapping[str, Any]) -> None:
    send = ec2(call, state)
    drop_lingering_interfaces(call, send, "group-id", identifier)
    if state.get("revokeRulesOnDelete"):
        for side in ("ingress", "egress"):
            _bring(send, identifier, side, state.get(side) or [], [])
    delete(
        call,
        "Security Group",
        identifier,
        call.timeout,
        lambda: send("DeleteSecurityGroup", GroupId=identifier),
        ("DependencyViolation", ""),
        ("InvalidGroup.InUse", ""),
    )


RESOURCES: Final = [
    Resource(
        token="aws:ec2/securityGroup:SecurityGroup",
        fields=FIELDS,
        create=_create,
        read=_read,
        update=_update,
        updates=TAG_MAPS | {"egress", "ingress", "revokeRulesOnDelete"},
        delete=_delete,
        timeouts={"create": 600.0, "delete": 900.0},
        schema_version=1,
        import_state=at_import(revokeRulesOnDelete=False),
        check=add_default_tags,
        customize=plan_tags,
    )
]
