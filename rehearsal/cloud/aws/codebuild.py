"""CodeBuild: projects, and builds that a real builder runs in a thread of its own.

When a build is over the cloud turns its clock to where the recorded build would have ended: who waits by asking waits no longer
than the real build takes.
"""

from __future__ import annotations

import threading
import traceback
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from rehearsal.cloud.aws import buckets, side
from rehearsal.cloud.aws.call import Call, Json, Result
from rehearsal.cloud.aws.errors import AwsError
from rehearsal.cloud.aws.state import State
from rehearsal.sagemaker.contracts import Build, BuildPhase, BuildSpec, ImageBuilder

SERVICE = "codebuild.amazonaws.com"
OPTIONAL = (
    "description",
    "source",
    "secondarySources",
    "sourceVersion",
    "artifacts",
    "cache",
    "environment",
    "serviceRole",
    "timeoutInMinutes",
    "queuedTimeoutInMinutes",
    "encryptionKey",
    "tags",
    "logsConfig",
    "concurrentBuildLimit",
    "autoRetryLimit",
)


@dataclass
class Builds:
    """Projects by name, builds by id. Called under the cloud's lock."""

    projects: dict[str, Json] = field(default_factory=dict)
    builds: dict[str, Json] = field(default_factory=dict)
    builder: ImageBuilder | None = None
    threads: list[threading.Thread] = field(default_factory=list)


def _project(state: State, name: str) -> Json:
    found = state.codebuild.projects.get(name)
    if found is None:
        raise AwsError("ResourceNotFoundException", f"Project cannot be found: {state.arn('codebuild', f'project/{name}')}")
    return found


def _checked_role(state: State, arn: str) -> None:
    if side.assumed(state, arn, SERVICE) is None:
        raise AwsError(
            "InvalidInputException",
            f"CodeBuild is not authorized to perform: sts:AssumeRole on service role. Please verify that: 1) The provided service"
            f" role exists, 2) The role name is case-sensitive and matches exactly, and 3) The role has the necessary trust policy"
            f" configured: {arn}",
        )


def create(state: State, call: Call) -> Result:
    """CreateProject."""
    params = call.params
    if params["name"] in state.codebuild.projects:
        arn = state.arn("codebuild", f"project/{params['name']}")
        raise AwsError("ResourceAlreadyExistsException", f"Project already exists: {arn}")
    _checked_role(state, params["serviceRole"])
    made = {
        "name": params["name"],
        "arn": state.arn("codebuild", f"project/{params['name']}"),
        "created": state.now(),
        "lastModified": state.now(),
        "timeoutInMinutes": 60,
        "queuedTimeoutInMinutes": 480,
        "encryptionKey": f"arn:aws:kms:{state.region}:{state.account}:alias/aws/s3",
        "cache": {"type": "NO_CACHE"},
        "badge": {"badgeEnabled": False},
        "projectVisibility": "PRIVATE",
        **{key: params[key] for key in OPTIONAL if key in params},
    }
    made["environment"] = {"imagePullCredentialsType": "CODEBUILD", "environmentVariables": [], **made["environment"]}
    state.codebuild.projects[params["name"]] = made
    return {"project": made}


def update(state: State, call: Call) -> Result:
    """UpdateProject: what is named changes."""
    found = _project(state, call.params["name"])
    if "serviceRole" in call.params:
        _checked_role(state, call.params["serviceRole"])
    found |= {key: call.params[key] for key in OPTIONAL if key in call.params}
    found["lastModified"] = state.now()
    return {"project": found}


def delete(state: State, call: Call) -> Result:
    """DeleteProject, without its builds, which go on; nothing is no error."""
    state.codebuild.projects.pop(call.params["name"], None)
    return {}


def batch_projects(state: State, call: Call) -> Result:
    """BatchGetProjects, by name or ARN."""
    names = [text.rpartition("project/")[2] for text in call.params["names"]]
    found = [state.codebuild.projects[name] for name in names if name in state.codebuild.projects]
    missing = [name for name in names if name not in state.codebuild.projects]
    return {"projects": found, "projectsNotFound": missing}


def projects(state: State, call: Call) -> Result:  # noqa: ARG001
    """ListProjects."""
    return {"projects": sorted(state.codebuild.projects)}


def batch_builds(state: State, call: Call) -> Result:
    """BatchGetBuilds, by id or ARN."""
    ids = [text.rpartition("build/")[2] for text in call.params["ids"]]
    found = [_shown(state.codebuild.builds[i]) for i in ids if i in state.codebuild.builds]
    missing = [i for i in ids if i not in state.codebuild.builds]
    return {"builds": found, "buildsNotFound": missing}


def builds_of(state: State, call: Call) -> Result:
    """ListBuildsForProject: the newest first, unless asked otherwise."""
    name = _project(state, call.params["projectName"])["name"]
    ids = [i for i, build in state.codebuild.builds.items() if build["projectName"] == name]
    found = ids if call.params.get("sortOrder") == "ASCENDING" else ids[::-1]
    return {"ids": found} if found else {}  # the model knows no empty list


def builds(state: State, call: Call) -> Result:
    """ListBuilds, of every project, also of those that are gone: the newest first, unless asked otherwise."""
    ids = list(state.codebuild.builds)
    found = ids if call.params.get("sortOrder") == "ASCENDING" else ids[::-1]
    return {"ids": found} if found else {}


def stop(state: State, call: Call) -> Result:
    """StopBuild: it is over at once; what the builder still does is not looked at."""
    found = state.codebuild.builds.get(call.params["id"].rpartition("build/")[2])
    if found is None:
        raise AwsError("ResourceNotFoundException", f"Build cannot be found: {call.params['id']}")
    if not found["buildComplete"]:
        found |= {"buildStatus": "STOPPED", "buildComplete": True, "endTime": state.now(), "currentPhase": "COMPLETED"}
    return {"build": _shown(found)}


def start(state: State, call: Call) -> Result:
    """StartBuild. Its source is read with the project's role, its run is the builder's."""
    params = call.params
    project = _project(state, params["projectName"])
    _checked_role(state, project["serviceRole"])
    number = str(uuid.uuid4())
    source = {**project["source"], **({"location": params["sourceLocationOverride"]} if "sourceLocationOverride" in params else {})}
    if "buildspecOverride" in params:
        source["buildspec"] = params["buildspecOverride"]
    over = {v["name"]: v for v in params.get("environmentVariablesOverride", [])}
    variables = {v["name"]: v for v in project["environment"]["environmentVariables"]} | over
    group = project.get("logsConfig", {}).get("cloudWatchLogs", {}).get("groupName") or f"/aws/codebuild/{project['name']}"
    build: Json = {
        "id": f"{project['name']}:{number}",
        "arn": state.arn("codebuild", f"build/{project['name']}:{number}"),
        "buildNumber": sum(b["projectName"] == project["name"] for b in state.codebuild.builds.values()) + 1,
        "startTime": state.now(),
        "currentPhase": "QUEUED",
        "buildStatus": "IN_PROGRESS",
        "projectName": project["name"],
        "phases": [],
        "source": source,
        "artifacts": {"location": ""},
        "cache": {"type": "NO_CACHE"},
        "environment": {**project["environment"], "environmentVariables": list(variables.values())},
        "serviceRole": project["serviceRole"],
        "logs": {"groupName": group, "streamName": number, "cloudWatchLogs": {"status": "ENABLED", "groupName": group}},
        "timeoutInMinutes": params.get("timeoutInMinutesOverride", project["timeoutInMinutes"]),
        "queuedTimeoutInMinutes": project["queuedTimeoutInMinutes"],
        "buildComplete": False,
        "initiator": call.caller.arn.rpartition(":")[2],
        "encryptionKey": project["encryptionKey"],
    }
    state.codebuild.builds[build["id"]] = build
    thread = threading.Thread(target=_run, args=(state, build), name=f"build {number}", daemon=True)
    state.codebuild.threads.append(thread)
    thread.start()
    return {"build": _shown(build)}


def _shown(build: Json) -> Json:
    return {k: v for k, v in build.items() if not k.startswith("_")}


def _run(state: State, build: Json) -> None:
    """In a thread of its own, without the lock: source, builder, and then the recorded time."""
    began = state.clock.now()
    view = side.RoleSide(state, state.front, build["serviceRole"], SERVICE, f"AWSCodeBuild-{build['id'].rpartition(':')[2]}")
    state.clock.advance(state.pace.provisioning)  # a machine comes first: what a role may is known by then
    try:
        done = _built(state, build, view)
    except Exception:
        state.problems.append(traceback.format_exc())
        done = Build(False, (), "the local cloud failed")
    view.end()
    state.clock.advance(max(0.0, began + state.pace.build - state.clock.now()))
    with state.lock:
        _log(state, build, done.log)
        if build["buildComplete"]:
            return  # it was stopped meanwhile
        build |= {
            "buildStatus": "SUCCEEDED" if done.succeeded else "FAILED",
            "buildComplete": True,
            "endTime": state.now(),
            "currentPhase": "COMPLETED",
            "phases": list(_phases(state, done)),
        }


def _built(state: State, build: Json, view: side.RoleSide) -> Build:
    bucket, _, key = str(build["source"].get("location", "")).partition("/")
    with state.lock:
        role = side.assumed(state, build["serviceRole"], SERVICE)
        allowed = state.may(role, "s3:GetObject", f"arn:aws:s3:::{bucket}/{key}")
        source = buckets.content(state, bucket, key) if allowed else None
        builder = state.codebuild.builder
        build["currentPhase"] = "BUILD"
    if source is None:
        why = "AccessDenied: Access Denied" if not allowed else "NoSuchKey: The specified key does not exist."
        return _failed("DOWNLOAD_SOURCE", f"CLIENT_ERROR: {why} for primary source and source version")
    if builder is None:
        return _failed("PROVISIONING", "the local cloud was given no builder")
    try:
        buildspec = str(build["source"].get("buildspec") or buckets.member(source, "buildspec.yml").decode())
    except KeyError:
        return _failed("DOWNLOAD_SOURCE", "YAML_FILE_ERROR: YAML file does not exist")
    return builder(BuildSpec(build["id"], buildspec, source, _environment(state, build), view))


def _failed(phase: str, why: str) -> Build:
    return Build(False, (BuildPhase(phase, "FAILED", 0.0, why),), f"[Container] Phase complete: {phase} State: FAILED\n{why}\n")


def _environment(state: State, build: Json) -> Mapping[str, str]:
    """Variables of the project and of CodeBuild itself. Raises ValueError for one whose value is kept elsewhere."""
    variables = build["environment"]["environmentVariables"]
    strange = [v["name"] for v in variables if v.get("type", "PLAINTEXT") != "PLAINTEXT"]
    if strange:
        raise ValueError(f"the local cloud has plain variables only, not {', '.join(strange)}")
    return {
        "AWS_DEFAULT_REGION": state.region,
        "AWS_REGION": state.region,
        "CODEBUILD_BUILD_ID": build["id"],
        "CODEBUILD_BUILD_ARN": build["arn"],
        **{v["name"]: v["value"] for v in variables},
    }


def _phases(state: State, done: Build) -> Iterator[Json]:
    for phase in done.phases:
        shown: Json = {
            "phaseType": phase.name,
            "phaseStatus": phase.status,
            "startTime": state.now(),
            "durationInSeconds": int(phase.seconds),
        }
        if phase.message:
            shown["contexts"] = [{"statusCode": "COMMAND_EXECUTION_ERROR", "message": phase.message}]
        yield shown
    yield {"phaseType": "COMPLETED", "startTime": state.now()}


def _log(state: State, build: Json, text: str) -> None:
    """What the role may write: into the group, which it makes where it may."""
    group, stream = build["logs"]["groupName"], build["logs"]["streamName"]
    arn, role = state.arn("logs", f"log-group:{group}"), side.assumed(state, build["serviceRole"], SERVICE)
    needed = ["logs:CreateLogStream", "logs:PutLogEvents"]
    if group not in state.logs.groups:
        needed.append("logs:CreateLogGroup")
    if not all(any(state.may(role, action, name) for name in (f"{arn}:*", arn, f"{arn}:log-stream:{stream}")) for action in needed):
        return
    if group not in state.logs.groups:
        state.internal("logs", "CreateLogGroup", {"logGroupName": group})
    state.logs.write(group, stream, text.splitlines(), int(state.clock.now() * 1000))
    build["logs"]["deepLink"] = f"https://console.aws.amazon.com/cloudwatch/home?region={state.region}#logsV2:log-groups"


def wait(state: State, seconds: float) -> None:
    """Until every build's thread is over, or so long for each."""
    for thread in state.codebuild.threads:
        thread.join(seconds)
