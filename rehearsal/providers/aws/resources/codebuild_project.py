"""`codebuild.Project`. Its id is its ARN. A role that was just made may not be known to CodeBuild for two minutes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from rehearsal.providers.aws.api import Aws, AwsError, Send, retry
from rehearsal.providers.aws.ec2 import REGION, region_of
from rehearsal.providers.aws.names import name_of
from rehearsal.providers.aws.tags import TAG_MAPS, TAGS, add_default_tags, plan_tags, tag_list, told_tags
from rehearsal.providers.resource import Call, Change, Incomplete, ProviderError, Resource
from rehearsal.providers.schema import Fields, Prop, block, blocks, flag, number, out, text, unsent
from rehearsal.providers.values import Values

PROPAGATION: Final = 120.0
LATE: Final = ("InvalidInputException", "CodeBuild is not authorized to perform")

_ARTIFACTS: Final[Fields] = {
    "artifactIdentifier": unsent(text()),
    "bucketOwnerAccess": unsent(text()),
    "encryptionDisabled": flag(default=False),
    "location": unsent(text()),
    "name": unsent(text()),
    "namespaceType": unsent(text()),
    "overrideArtifactName": flag(default=False),
    "packaging": unsent(text()),
    "path": unsent(text()),
    "type": text(required=True),
}
_ENVIRONMENT: Final[Fields] = {
    "certificate": unsent(text()),
    "computeType": text(required=True),
    "dockerServer": unsent(Prop()),
    "environmentVariables": blocks({"name": text(required=True), "type": text(default="PLAINTEXT"), "value": text(required=True)}),
    "fleet": unsent(Prop()),
    "hostKernel": unsent(text(computed=True)),
    "image": text(required=True),
    "imagePullCredentialsType": text(default="CODEBUILD"),
    "privilegedMode": flag(default=False),
    "registryCredential": unsent(Prop()),
    "type": text(required=True),
}
_SOURCE: Final[Fields] = {
    "auth": unsent(Prop()),
    "buildStatusConfig": unsent(Prop()),
    "buildspec": text(),
    "gitCloneDepth": unsent(number()),
    "gitSubmodulesConfig": unsent(Prop()),
    "insecureSsl": flag(),
    "location": text(),
    "reportBuildStatus": unsent(flag()),
    "type": text(required=True),
}
_CLOUDWATCH: Final[Fields] = {"groupName": text(), "status": text(default="ENABLED"), "streamName": text()}
_S3_LOGS: Final[Fields] = {
    "bucketOwnerAccess": unsent(text()),
    "encryptionDisabled": flag(default=False),
    "location": unsent(text()),
    "status": text(default="DISABLED"),
}

FIELDS: Final[Fields] = {
    "arn": out(),
    "artifacts": block(_ARTIFACTS, required=True),
    "autoRetryLimit": unsent(number(computed=True)),
    "badgeEnabled": flag(default=False),
    "badgeUrl": out(),
    "buildBatchConfig": unsent(Prop()),
    "buildTimeout": number(default=60),
    "cache": unsent(Prop()),
    "concurrentBuildLimit": number(),
    "description": text(computed=True),
    "encryptionKey": text(computed=True),
    "environment": block(_ENVIRONMENT, required=True),
    "fileSystemLocations": unsent(Prop()),
    "logsConfig": block({"cloudwatchLogs": block(_CLOUDWATCH), "s3Logs": block(_S3_LOGS)}),
    "name": text(autoname=True, computed=True, replace=True),
    "projectVisibility": text(default="PRIVATE"),
    "publicProjectAlias": out(),
    "queuedTimeout": number(default=480),
    **REGION,
    "resourceAccessRole": unsent(text()),
    "secondaryArtifacts": unsent(Prop()),
    "secondarySourceVersions": unsent(Prop()),
    "secondarySources": unsent(Prop()),
    "serviceRole": text(required=True),
    "source": block(_SOURCE, required=True),
    "sourceVersion": text(),
    **TAGS,
    "vpcConfig": unsent(Prop()),
}


def _codebuild(call: Call[Aws], values: Mapping[str, Any]) -> Send:
    return call.api.service("codebuild", values.get("region"))


def _filled(values: Mapping[str, Any]) -> Values:
    return {key: value for key, value in values.items() if value not in (None, "", [], {})}


def _asked(planned: Mapping[str, Any]) -> Values:
    """The whole project, as create and update send it."""
    environment, source, logs = planned["environment"], planned["source"], planned.get("logsConfig") or {}
    cloudwatch = logs.get("cloudwatchLogs") or {}
    asked = {
        "artifacts": {"type": planned["artifacts"]["type"]},
        "concurrentBuildLimit": planned.get("concurrentBuildLimit"),
        "description": planned.get("description"),
        "encryptionKey": planned.get("encryptionKey"),
        "environment": _filled(
            {
                "computeType": environment["computeType"],
                "environmentVariables": [_filled(item) for item in environment.get("environmentVariables") or []],
                "image": environment["image"],
                "imagePullCredentialsType": environment.get("imagePullCredentialsType"),
                "privilegedMode": environment.get("privilegedMode"),
                "type": environment["type"],
            }
        ),
        "logsConfig": {
            "cloudWatchLogs": _filled({"status": cloudwatch.get("status", "ENABLED"), **cloudwatch}),
            "s3Logs": {"status": (logs.get("s3Logs") or {}).get("status", "DISABLED"), "encryptionDisabled": False},
        },
        "queuedTimeoutInMinutes": int(planned.get("queuedTimeout") or 480),
        "serviceRole": planned["serviceRole"],
        "source": _filled({key: source.get(key) for key in ("type", "location", "buildspec", "insecureSsl")}),
        "sourceVersion": planned.get("sourceVersion"),
        "tags": [{"key": tag["Key"], "value": tag["Value"]} for tag in tag_list(planned.get("tagsAll"))],
        "timeoutInMinutes": int(planned.get("buildTimeout") or 60),
    }
    return _filled(asked)


def _create(call: Call[Aws], planned: Values) -> tuple[str, Values]:
    send, name = _codebuild(call, planned), name_of(planned)
    try:
        made = retry(call.api, PROPAGATION, lambda: send("CreateProject", name=name, **_asked(planned)), LATE)["project"]
    except AwsError as error:
        raise ProviderError(f"creating CodeBuild Project ({name}): {error}") from error
    told = _read(call, made["arn"], planned)
    if told is None:
        raise Incomplete(made["arn"], {}, f"reading CodeBuild Project ({made['arn']}): couldn't find resource")
    return made["arn"], told


def _read(call: Call[Aws], identifier: str, before: Mapping[str, Any]) -> Values | None:
    projects = _codebuild(call, before)("BatchGetProjects", names=[identifier.rpartition("/")[2]])["projects"]
    if not projects:
        return None
    (there,) = projects
    environment, source = there["environment"], there["source"]
    tags = [{"Key": tag["key"], "Value": tag["value"]} for tag in there.get("tags") or []]
    logs = there.get("logsConfig") or {}
    return {
        "arn": there["arn"],
        "artifacts": {"type": there["artifacts"]["type"], "encryptionDisabled": False, "overrideArtifactName": False},
        "badgeEnabled": False,
        "buildTimeout": there["timeoutInMinutes"],
        "concurrentBuildLimit": there.get("concurrentBuildLimit", 0),
        "description": there.get("description", ""),
        "encryptionKey": there.get("encryptionKey", ""),
        "environment": {
            "computeType": environment["computeType"],
            "environmentVariables": [{"type": "PLAINTEXT", **item} for item in environment.get("environmentVariables") or []],
            "image": environment["image"],
            "imagePullCredentialsType": environment.get("imagePullCredentialsType", "CODEBUILD"),
            "privilegedMode": bool(environment.get("privilegedMode")),
            "type": environment["type"],
        },
        "logsConfig": _told_logs(logs, before.get("logsConfig")),
        "name": there["name"],
        "projectVisibility": there.get("projectVisibility", "PRIVATE"),
        "queuedTimeout": there["queuedTimeoutInMinutes"],
        "region": region_of(call, before),
        "serviceRole": there["serviceRole"],
        "source": {key: source.get(key, "") for key in ("type", "location", "buildspec")},
        "sourceVersion": there.get("sourceVersion", ""),
        **told_tags(call.api, tags, before),
    }


def _told_logs(logs: Mapping[str, Any], before: Mapping[str, Any] | None) -> Values | None:
    """Blocks that the program does not write are not shown: the official provider takes their absence for AWS's defaults."""
    if not before:
        return None
    cloudwatch, s3 = logs.get("cloudWatchLogs") or {}, logs.get("s3Logs") or {}
    told = {
        "cloudwatchLogs": {key: cloudwatch.get(key, "") for key in ("groupName", "status", "streamName")},
        "s3Logs": {"status": s3.get("status", "DISABLED"), "encryptionDisabled": bool(s3.get("encryptionDisabled"))},
    }
    return {key: value if before.get(key) else None for key, value in told.items()}


def _update(call: Call[Aws], identifier: str, change: Change) -> Values:
    send, name = _codebuild(call, change.state), identifier.rpartition("/")[2]
    try:
        retry(call.api, PROPAGATION, lambda: send("UpdateProject", name=name, **_asked(change.planned)), LATE)
    except AwsError as error:
        raise ProviderError(f"updating CodeBuild Project ({identifier}): {error}") from error
    return _read(call, identifier, change.planned) or {}


def _delete(call: Call[Aws], identifier: str, state: Mapping[str, Any]) -> None:
    try:
        _codebuild(call, state)("DeleteProject", name=identifier.rpartition("/")[2])
    except AwsError as error:
        raise ProviderError(f"deleting CodeBuild Project ({identifier}): {error}") from error


RESOURCES: Final = [
    Resource(
        token="aws:codebuild/project:Project",
        fields=FIELDS,
        create=_create,
        read=_read,
        update=_update,
        updates=TAG_MAPS
        | {
            "artifacts",
            "buildTimeout",
            "concurrentBuildLimit",
            "description",
            "encryptionKey",
            "environment",
            "logsConfig",
            "queuedTimeout",
            "serviceRole",
            "source",
            "sourceVersion",
        },
        delete=_delete,
        check=add_default_tags,
        customize=plan_tags,
    )
]
