"""ECR over a registry, and CodeBuild over a builder."""

import base64
import io
import json
import zipfile
from collections.abc import Iterator

import pytest
from botocore.exceptions import ClientError

from rehearsal.cloud.aws import LocalAwsCloud, Pace
from rehearsal.sagemaker.contracts import Build, BuildPhase, BuildSpec
from tests.cloud_aws.conftest import World, refused, until
from tests.cloud_aws.containers import Shelf

REPOSITORY = "arn:aws:ecr:us-east-1:{}:repository/fs-abc"


class Builder:
    """Runs nothing, and remembers what it was asked."""

    def __init__(self) -> None:
        self.asked: list[BuildSpec] = []
        self.succeeds = True

    def __call__(self, spec: BuildSpec) -> Build:
        self.asked.append(spec)
        if self.succeeds:
            return Build(True, (BuildPhase("BUILD", "SUCCEEDED", 2.0),), "step one\nstep two\n")
        return Build(False, (BuildPhase("BUILD", "FAILED", 1.0, "exit status 2"),), "flexserve: anchors missed\n")


class Images(World):
    """A world with a registry and a builder."""

    shelf: Shelf
    builder: Builder

    def project(self, *statements: dict[str, object]) -> None:
        """A bucket with a source, and a project whose role may do this."""
        self.s3.create_bucket(Bucket="fs-sources")
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w") as archive:
            archive.writestr("buildspec.yml", "version: 0.2\n")
        self.s3.put_object(Bucket="fs-sources", Key="abc/context.zip", Body=packed.getvalue())
        role = self.role("build", "codebuild.amazonaws.com", *statements)
        self.logs.create_log_group(logGroupName="/aws/codebuild/fs-abc")
        self.codebuild.create_project(
            name="fs-abc",
            source={"type": "S3", "location": "fs-sources/abc/context.zip"},
            artifacts={"type": "NO_ARTIFACTS"},
            environment={
                "type": "LINUX_CONTAINER",
                "image": "aws/codebuild/amazonlinux-x86_64-standard:5.0",
                "computeType": "BUILD_GENERAL1_LARGE",
                "privilegedMode": True,
                "environmentVariables": [{"name": "FLEXSERVE_REPOSITORY", "value": "x"}],
            },
            serviceRole=role,
            logsConfig={"cloudWatchLogs": {"status": "ENABLED", "groupName": "/aws/codebuild/fs-abc"}},
        )

    def built(self) -> dict[str, object]:
        """The build, when it is over."""
        started = self.codebuild.start_build(projectName="fs-abc")["build"]["id"]
        (found,) = until(lambda: [b for b in self.codebuild.batch_get_builds(ids=[started])["builds"] if b["buildComplete"]])
        return found  # type: ignore[no-any-return]


SOURCE = {"Effect": "Allow", "Action": "s3:GetObject", "Resource": "arn:aws:s3:::fs-sources/*"}
LOGS = {"Effect": "Allow", "Action": ["logs:CreateLogStream", "logs:PutLogEvents"], "Resource": "*"}


@pytest.fixture
def world() -> Iterator[Images]:
    with LocalAwsCloud(pace=Pace(iam=0)) as cloud:
        found = Images(cloud, [])
        found.shelf, found.builder = Shelf(), Builder()
        cloud.serve_containers(builder=found.builder, images=found.shelf)
        yield found
        assert cloud.own_errors() == ()


def test_a_repository_and_its_images(world: Images) -> None:
    world.ecr.create_repository(repositoryName="fs-abc", tags=[{"Key": "a", "Value": "b"}])
    assert world.left() == []
    one = world.shelf.put(world.cloud.account, "fs-abc", "one")
    two = world.shelf.put(world.cloud.account, "fs-abc", "two", "newest")
    assert {i["imageDigest"] for i in world.ecr.describe_images(repositoryName="fs-abc")["imageDetails"]} == {one, two}
    assert len(world.ecr.list_images(repositoryName="fs-abc")["imageIds"]) == 3
    got = world.ecr.batch_get_image(repositoryName="fs-abc", imageIds=[{"imageTag": "one"}, {"imageTag": "none"}])
    assert got["images"][0]["imageId"]["imageDigest"] == one and got["failures"][0]["failureCode"] == "ImageNotFound"
    assert json.loads(got["images"][0]["imageManifest"])["schemaVersion"] == 2
    with refused("ImageNotFoundException"):
        world.ecr.describe_images(repositoryName="fs-abc", imageIds=[{"imageTag": "none"}])
    with refused("RepositoryNotEmptyException"):
        world.ecr.delete_repository(repositoryName="fs-abc")
    world.ecr.batch_delete_image(repositoryName="fs-abc", imageIds=[{"imageTag": "newest"}])
    assert world.ecr.describe_images(repositoryName="fs-abc", imageIds=[{"imageTag": "two"}])["imageDetails"]
    assert world.left() == ["repository"]
    world.ecr.batch_delete_image(repositoryName="fs-abc", imageIds=[{"imageDigest": one}, {"imageTag": "two"}])
    assert world.left() == []
    world.ecr.delete_repository(repositoryName="fs-abc")
    with refused("RepositoryNotFoundException"):
        world.ecr.describe_images(repositoryName="fs-abc")


def test_a_layer_is_fetched_from_where_ecr_says_it_lies(world: Images) -> None:
    world.ecr.create_repository(repositoryName="fs-abc")
    world.ecr.create_repository(repositoryName="fs-other")
    digest = world.shelf.put(world.cloud.account, "fs-abc", "one")
    (image,) = world.ecr.batch_get_image(repositoryName="fs-abc", imageIds=[{"imageDigest": digest}])["images"]
    config = json.loads(image["imageManifest"])["config"]["digest"]
    answer = world.ecr.get_download_url_for_layer(repositoryName="fs-abc", layerDigest=config)
    assert answer["layerDigest"] == config and "starport-layer-bucket" in answer["downloadUrl"]
    target = answer["downloadUrl"].removeprefix(world.cloud.base)
    assert world.cloud.request("GET", target, {}).body == world.shelf.blobs[config]
    assert world.cloud.request("GET", target.replace("Signature=", "Signature=0"), {}).status == 403
    for repository in ("fs-other", "fs-abc"):
        with refused("LayersNotFoundException"):
            other = config if repository == "fs-other" else "sha256:" + "0" * 64
            world.ecr.get_download_url_for_layer(repositoryName=repository, layerDigest=other)
    world.cloud.deny("ecr:GetDownloadUrlForLayer")
    with refused("AccessDeniedException"):
        world.ecr.get_download_url_for_layer(repositoryName="fs-abc", layerDigest=config)
    world.cloud.clock.advance(3601)
    assert world.cloud.request("GET", target, {}).status == 403


def test_awss_own_images_are_there_for_everyone(world: Images) -> None:
    digest = world.shelf.put("763104351884", "vllm", "0.30.0")
    got = world.ecr.batch_get_image(registryId="763104351884", repositoryName="vllm", imageIds=[{"imageTag": "0.30.0"}])
    assert got["images"][0]["imageId"]["imageDigest"] == digest
    with refused("RepositoryNotFoundException"):
        world.ecr.batch_get_image(registryId="763104351884", repositoryName="other", imageIds=[{"imageTag": "x"}])
    with refused("RepositoryNotFoundException"):
        world.ecr.describe_repositories(registryId="763104351884", repositoryNames=["vllm"])


def test_a_login_is_good_for_what_its_owner_may(world: Images) -> None:
    world.ecr.create_repository(repositoryName="fs-abc")
    account = world.cloud.account
    pull = {"Effect": "Allow", "Action": "ecr:BatchGetImage", "Resource": REPOSITORY.format(account)}
    token = {"Effect": "Allow", "Action": "ecr:GetAuthorizationToken", "Resource": "*"}
    world.role("reader", "sagemaker.amazonaws.com", pull, token)
    role = world.cloud.state.roles.role("reader")
    assert role is not None
    keys = world.cloud.state.credentials.issue(role.name, role.id, "x", "x")
    reader = world.client("ecr", keys.key_id, keys.secret, keys.token)
    gate = world.cloud.registry_gate()

    def login(client: object) -> str:
        return "Basic " + client.get_authorization_token()["authorizationData"][0]["authorizationToken"]  # type: ignore[attr-defined]

    operator, other = login(world.ecr), login(reader)
    assert gate.may(operator, account, "fs-abc", True) == gate.may(other, account, "fs-abc", False) == ""
    assert "ecr:PutImage" in gate.may(other, account, "fs-abc", True)
    assert gate.may(operator, "763104351884", "vllm", False) == "" and gate.may(operator, "763104351884", "vllm", True)
    assert gate.may(other, "763104351884", "vllm", False)  # its policy names one repository
    for bad in ("", "Bearer x", "Basic " + base64.b64encode(b"AWS:guess").decode(), "Basic !!"):
        with pytest.raises(PermissionError):
            gate.may(bad, account, "fs-abc", False)
    with pytest.raises(LookupError):
        gate.may(operator, account, "none", False)
    world.cloud.clock.advance(13 * 3600)
    with pytest.raises(PermissionError):
        gate.may(operator, account, "fs-abc", False)


def test_a_build_runs_with_its_source_and_writes_its_log(world: Images) -> None:
    world.project(SOURCE, LOGS)
    before = world.cloud.clock.now()
    build = world.built()
    assert build["buildStatus"] == "SUCCEEDED" and build["currentPhase"] == "COMPLETED"
    (asked,) = world.builder.asked
    assert asked.buildspec == "version: 0.2\n" and asked.environment["FLEXSERVE_REPOSITORY"] == "x"
    assert world.cloud.clock.now() - before >= 780
    stream = build["logs"]["streamName"]  # type: ignore[index]
    events = world.logs.get_log_events(logGroupName="/aws/codebuild/fs-abc", logStreamName=stream, startFromHead=True)["events"]
    assert [e["message"] for e in events] == ["step one", "step two"]
    assert world.codebuild.list_builds_for_project(projectName="fs-abc")["ids"] == [build["id"]]


def test_a_build_that_fails_says_where(world: Images) -> None:
    world.project(SOURCE, LOGS)
    world.builder.succeeds = False
    build = world.built()
    assert build["buildStatus"] == "FAILED"
    (phase,) = [p for p in build["phases"] if p.get("phaseStatus") == "FAILED"]  # type: ignore[attr-defined]
    assert (phase["phaseType"], phase["contexts"][0]["message"]) == ("BUILD", "exit status 2")


def test_a_build_whose_role_may_not_read_its_source(world: Images) -> None:
    world.project(LOGS)
    build = world.built()
    (phase,) = [p for p in build["phases"] if p.get("phaseStatus") == "FAILED"]  # type: ignore[attr-defined]
    assert phase["phaseType"] == "DOWNLOAD_SOURCE" and "AccessDenied" in phase["contexts"][0]["message"]
    assert world.builder.asked == []


def test_a_project_needs_a_role_that_can_be_assumed(world: Images) -> None:
    world.cloud.delay_iam(20)
    with pytest.raises(ClientError, match="not authorized to perform: sts:AssumeRole"):
        world.project(SOURCE)
