"""`iam.Role`, `iam.RolePolicy`, `iam.RolePolicyAttachment`, `iam.InstanceProfile`.

IAM is consistent late: what was just made may not be known yet to the next request. The official provider tries those
again for two minutes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import unquote

from rehearsal.providers.aws.api import Aws, AwsError, Send, retry
from rehearsal.providers.aws.documents import normalised, same_document, told_document
from rehearsal.providers.aws.names import NAMED, name_of, told_name
from rehearsal.providers.aws.tags import TAG_MAPS, TAGS, add_default_tags, plan_tags, tag_changes, tag_list, told_tags
from rehearsal.providers.resource import Call, Change, Incomplete, ProviderError, Resource, at_import
from rehearsal.providers.schema import Fields, blocks, flag, members, number, out, text, unsent
from rehearsal.providers.values import Values

PROPAGATION: Final = 120.0  # seconds until IAM knows everywhere what was made
GONE: Final = "NoSuchEntity"

ROLE: Final[Fields] = {
    "arn": out(),
    "assumeRolePolicy": text(required=True, same=same_document),
    "createDate": out(),
    "description": text(),
    "forceDetachPolicies": flag(default=False),
    "inlinePolicies": unsent(blocks({"name": text(), "policy": text()}, zero=None, computed=True)),
    "managedPolicyArns": unsent(members(computed=True)),
    "maxSessionDuration": number(default=3600),
    **NAMED,
    "path": text(default="/", replace=True),
    "permissionsBoundary": text(),
    **TAGS,
    "uniqueId": out(),
}

ROLE_POLICY: Final[Fields] = {
    **NAMED,
    "policy": text(required=True, same=same_document),
    "role": text(required=True, replace=True),
}

ATTACHMENT: Final[Fields] = {"policyArn": text(required=True, replace=True), "role": text(required=True, replace=True)}

PROFILE: Final[Fields] = {
    "arn": out(),
    "createDate": out(),
    **NAMED,
    "path": text(default="/", replace=True),
    "role": text(),
    **TAGS,
    "uniqueId": out(),
}


def found(send: Send, operation: str, **parameters: Any) -> Values | None:
    """The answer, or None when IAM has no such thing."""
    try:
        return send(operation, **parameters)
    except AwsError as error:
        if error.says(GONE):
            return None
        raise


def already_gone(send: Send, operation: str, **parameters: Any) -> None:
    """A delete to which nothing being there is success."""
    found(send, operation, **parameters)


def _failed(what: str, error: ProviderError) -> ProviderError:
    return ProviderError(f"{what}: {error}")


# Role


def _create_role(call: Call[Aws], planned: Values) -> tuple[str, Values]:
    send, name = call.api.service("iam"), name_of(planned)
    asked: Values = {
        "AssumeRolePolicyDocument": normalised(planned["assumeRolePolicy"]),
        "MaxSessionDuration": planned.get("maxSessionDuration"),
        "Description": planned.get("description"),
        "PermissionsBoundary": planned.get("permissionsBoundary"),
        "Tags": tag_list(planned.get("tagsAll")),
    }
    asked = {key: value for key, value in asked.items() if value}
    try:
        retry(
            call.api,
            PROPAGATION,
            lambda: send("CreateRole", RoleName=name, Path=planned.get("path") or "/", **asked),
            ("MalformedPolicyDocument", "Invalid principal in policy"),
            ("ConcurrentModification", ""),
        )
    except AwsError as error:
        raise _failed(f"creating IAM Role ({name})", error) from error
    return name, _made(call, "IAM Role", name, _read_role(call, name, planned))


def _made(call: Call[Aws], kind: str, identifier: str, told: Values | None) -> Values:
    if told is None:
        raise Incomplete(identifier, {}, f"reading {kind} ({identifier}): couldn't find resource")
    return told


def _read_role(call: Call[Aws], identifier: str, before: Mapping[str, Any]) -> Values | None:
    send = call.api.service("iam")
    answer = found(send, "GetRole", RoleName=identifier)
    if answer is None:
        return None
    role = answer["Role"]
    attached = send("ListAttachedRolePolicies", RoleName=identifier)["AttachedPolicies"]
    inline = [
        {"name": name, "policy": _document(send("GetRolePolicy", RoleName=identifier, PolicyName=name)["PolicyDocument"])}
        for name in send("ListRolePolicies", RoleName=identifier)["PolicyNames"]
    ]
    return {
        "arn": role["Arn"],
        "assumeRolePolicy": told_document(_document(role["AssumeRolePolicyDocument"]), before.get("assumeRolePolicy")),
        "createDate": _date(role["CreateDate"]),
        "description": role.get("Description", ""),
        "inlinePolicies": inline or None,
        "managedPolicyArns": sorted(policy["PolicyArn"] for policy in attached) or None,
        "maxSessionDuration": role.get("MaxSessionDuration", 3600),
        **told_name(role["RoleName"], before),
        "path": role["Path"],
        "permissionsBoundary": (role.get("PermissionsBoundary") or {}).get("PermissionsBoundaryArn", ""),
        **told_tags(call.api, role.get("Tags"), before),
        "uniqueId": role["RoleId"],
    }


def _document(value: Any) -> str:
    return unquote(value) if isinstance(value, str) else json.dumps(value, separators=(",", ":"))


def _date(value: Any) -> str:
    return value.strftime("%Y-%m-%dT%H:%M:%SZ") if hasattr(value, "strftime") else str(value)


def _update_role(call: Call[Aws], identifier: str, change: Change) -> Values:
    send, planned = call.api.service("iam"), change.planned
    if change.touches("assumeRolePolicy"):
        document = normalised(planned["assumeRolePolicy"])
        try:
            retry(
                call.api,
                PROPAGATION,
                lambda: send("UpdateAssumeRolePolicy", RoleName=identifier, PolicyDocument=document),
                ("MalformedPolicyDocument", "Invalid principal in policy"),
            )
        except AwsError as error:
            raise _failed(f"updating IAM Role ({identifier}) assume role policy", error) from error
    if change.touches("description"):
        send("UpdateRoleDescription", RoleName=identifier, Description=planned.get("description") or "")
    if change.touches("maxSessionDuration"):
        send("UpdateRole", RoleName=identifier, MaxSessionDuration=planned["maxSessionDuration"])
    if change.touches("permissionsBoundary"):
        if planned.get("permissionsBoundary"):
            boundary = planned["permissionsBoundary"]
            send("PutRolePermissionsBoundary", RoleName=identifier, PermissionsBoundary=boundary)
        else:
            send("DeleteRolePermissionsBoundary", RoleName=identifier)
    if change.touches("tagsAll"):
        gone, wanted = tag_changes(change)
        if gone:
            send("UntagRole", RoleName=identifier, TagKeys=gone)
        if wanted:
            send("TagRole", RoleName=identifier, Tags=tag_list(wanted))
    return _read_role(call, identifier, planned) or {}


def _delete_role(call: Call[Aws], identifier: str, state: Mapping[str, Any]) -> None:
    send = call.api.service("iam")
    profiles = found(send, "ListInstanceProfilesForRole", RoleName=identifier)
    if profiles is None:
        return
    for profile in profiles["InstanceProfiles"]:
        name = profile["InstanceProfileName"]
        already_gone(send, "RemoveRoleFromInstanceProfile", InstanceProfileName=name, RoleName=identifier)
    if state.get("forceDetachPolicies"):
        for policy in send("ListAttachedRolePolicies", RoleName=identifier)["AttachedPolicies"]:
            already_gone(send, "DetachRolePolicy", RoleName=identifier, PolicyArn=policy["PolicyArn"])
        for name in send("ListRolePolicies", RoleName=identifier)["PolicyNames"]:
            already_gone(send, "DeleteRolePolicy", RoleName=identifier, PolicyName=name)
    try:
        retry(
            call.api,
            PROPAGATION,
            lambda: send("DeleteRole", RoleName=identifier),
            ("DeleteConflict", ""),
            ("ConcurrentModification", ""),
        )
    except AwsError as error:
        if not error.says(GONE):
            raise _failed(f"deleting IAM Role ({identifier})", error) from error


# RolePolicy: its id is ROLE:NAME


def _create_policy(call: Call[Aws], planned: Values) -> tuple[str, Values]:
    name = name_of(planned)
    _put_policy(call, planned["role"], name, planned)
    identifier = f"{planned['role']}:{name}"
    return identifier, _made(call, "IAM Role Policy", identifier, _read_policy(call, identifier, planned))


def _put_policy(call: Call[Aws], role: str, name: str, planned: Mapping[str, Any]) -> None:
    send = call.api.service("iam")
    try:
        retry(
            call.api,
            PROPAGATION,
            lambda: send("PutRolePolicy", RoleName=role, PolicyName=name, PolicyDocument=normalised(planned["policy"])),
            (GONE, ""),
        )
    except AwsError as error:
        raise _failed(f"putting IAM Role ({role}) Policy ({name})", error) from error


def _read_policy(call: Call[Aws], identifier: str, before: Mapping[str, Any]) -> Values | None:
    role, _, name = identifier.partition(":")
    answer = found(call.api.service("iam"), "GetRolePolicy", RoleName=role, PolicyName=name)
    if answer is None:
        return None
    policy = told_document(_document(answer["PolicyDocument"]), before.get("policy"))
    return {"policy": policy, "role": role, **told_name(name, before)}


def _update_policy(call: Call[Aws], identifier: str, change: Change) -> Values:
    role, _, name = identifier.partition(":")
    _put_policy(call, role, name, change.planned)
    return _read_policy(call, identifier, change.planned) or {}


def _delete_policy(call: Call[Aws], identifier: str, state: Mapping[str, Any]) -> None:
    role, _, name = identifier.partition(":")
    try:
        already_gone(call.api.service("iam"), "DeleteRolePolicy", RoleName=role, PolicyName=name)
    except AwsError as error:
        raise _failed(f"deleting IAM Role Policy ({identifier})", error) from error


# RolePolicyAttachment: its id is ROLE/ARN


def _attach(call: Call[Aws], planned: Values) -> tuple[str, Values]:
    send, role, policy = call.api.service("iam"), planned["role"], planned["policyArn"]
    try:
        retry(
            call.api,
            PROPAGATION,
            lambda: send("AttachRolePolicy", RoleName=role, PolicyArn=policy),
            ("ConcurrentModification", ""),
        )
    except AwsError as error:
        raise _failed(f"attaching IAM Policy ({policy}) to IAM Role ({role})", error) from error
    return f"{role}/{policy}", {"role": role, "policyArn": policy}


def _read_attachment(call: Call[Aws], identifier: str, before: Mapping[str, Any]) -> Values | None:
    role, _, policy = identifier.partition("/")
    answer = found(call.api.service("iam"), "ListAttachedRolePolicies", RoleName=role)
    if answer is None or policy not in (item["PolicyArn"] for item in answer["AttachedPolicies"]):
        return None
    return {"role": role, "policyArn": policy}


def _detach(call: Call[Aws], identifier: str, state: Mapping[str, Any]) -> None:
    role, _, policy = identifier.partition("/")
    try:
        already_gone(call.api.service("iam"), "DetachRolePolicy", RoleName=role, PolicyArn=policy)
    except AwsError as error:
        raise _failed(f"detaching IAM Policy ({policy}) from IAM Role ({role})", error) from error


# InstanceProfile


def _create_profile(call: Call[Aws], planned: Values) -> tuple[str, Values]:
    send, name = call.api.service("iam"), name_of(planned)
    tags = tag_list(planned.get("tagsAll"))
    try:
        send(
            "CreateInstanceProfile",
            InstanceProfileName=name,
            Path=planned.get("path") or "/",
            **({"Tags": tags} if tags else {}),
        )
    except AwsError as error:
        raise _failed(f"creating IAM Instance Profile ({name})", error) from error
    if planned.get("role"):
        try:
            _add_role(call, name, planned["role"])
        except AwsError as error:
            raise Incomplete(name, {}, f"adding role to IAM Instance Profile ({name}): {error}") from error
    return name, _made(call, "IAM Instance Profile", name, _read_profile(call, name, planned))


def _add_role(call: Call[Aws], name: str, role: str) -> None:
    send = call.api.service("iam")
    retry(
        call.api,
        PROPAGATION,
        lambda: send("AddRoleToInstanceProfile", InstanceProfileName=name, RoleName=role),
        (GONE, ""),
        ("InvalidParameterValue", "Invalid IAM role"),
    )


def _read_profile(call: Call[Aws], identifier: str, before: Mapping[str, Any]) -> Values | None:
    answer = found(call.api.service("iam"), "GetInstanceProfile", InstanceProfileName=identifier)
    if answer is None:
        return None
    profile = answer["InstanceProfile"]
    return {
        "arn": profile["Arn"],
        "createDate": _date(profile["CreateDate"]),
        **told_name(profile["InstanceProfileName"], before),
        "path": profile["Path"],
        "role": profile["Roles"][0]["RoleName"] if profile["Roles"] else "",
        **told_tags(call.api, profile.get("Tags"), before),
        "uniqueId": profile["InstanceProfileId"],
    }


def _update_profile(call: Call[Aws], identifier: str, change: Change) -> Values:
    send = call.api.service("iam")
    if change.touches("role"):
        if change.state.get("role"):
            already_gone(send, "RemoveRoleFromInstanceProfile", InstanceProfileName=identifier, RoleName=change.state["role"])
        if change.planned.get("role"):
            _add_role(call, identifier, change.planned["role"])
    if change.touches("tagsAll"):
        gone, wanted = tag_changes(change)
        if gone:
            send("UntagInstanceProfile", InstanceProfileName=identifier, TagKeys=gone)
        if wanted:
            send("TagInstanceProfile", InstanceProfileName=identifier, Tags=tag_list(wanted))
    return _read_profile(call, identifier, change.planned) or {}


def _delete_profile(call: Call[Aws], identifier: str, state: Mapping[str, Any]) -> None:
    send = call.api.service("iam")
    if state.get("role"):
        already_gone(send, "RemoveRoleFromInstanceProfile", InstanceProfileName=identifier, RoleName=state["role"])
    try:
        already_gone(send, "DeleteInstanceProfile", InstanceProfileName=identifier)
    except AwsError as error:
        raise _failed(f"deleting IAM Instance Profile ({identifier})", error) from error


RESOURCES: Final = [
    Resource(
        token="aws:iam/role:Role",
        fields=ROLE,
        create=_create_role,
        read=_read_role,
        update=_update_role,
        updates=TAG_MAPS | {"assumeRolePolicy", "description", "forceDetachPolicies", "maxSessionDuration", "permissionsBoundary"},
        delete=_delete_role,
        check=add_default_tags,
        customize=plan_tags,
        import_state=at_import(forceDetachPolicies=False),
    ),
    Resource(
        token="aws:iam/rolePolicy:RolePolicy",
        fields=ROLE_POLICY,
        create=_create_policy,
        read=_read_policy,
        update=_update_policy,
        updates=frozenset({"policy"}),
        delete=_delete_policy,
    ),
    Resource(
        token="aws:iam/rolePolicyAttachment:RolePolicyAttachment",
        fields=ATTACHMENT,
        create=_attach,
        read=_read_attachment,
        delete=_detach,
    ),
    Resource(
        token="aws:iam/instanceProfile:InstanceProfile",
        fields=PROFILE,
        create=_create_profile,
        read=_read_profile,
        update=_update_profile,
        updates=TAG_MAPS | {"role"},
        delete=_delete_profile,
        check=add_default_tags,
        customize=plan_tags,
    ),
]
