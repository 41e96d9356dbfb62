"""`LiveTarget` of sagemaker, its verdicts, builds and look-ups, against the local AWS, over HTTP and through boto3."""

from __future__ import annotations

import pytest

from flexserve.commands.logs import pieces
from infra.clouds.aws import ecr
from infra.clouds.aws.session import Session
from infra.targets.protocol import Billable, CanHold, CanWatch
from infra.targets.registry import live
from infra.targets.sagemaker import building, rights
from infra.targets.sagemaker.live import Live, connect, resolve
from infra.targets.sagemaker.log import PIECE
from rehearsal.cloud.aws import LocalAwsCloud, Pace
from rehearsal.cloud.aws.pace import Hosting
from startup import image
from startup.manifest import OCI_INDEX
from tests.cloud_aws.containers import Cluster
from tests.contracts.live_target import LiveTargetContract, Scene
from tests.infra.sagemaker_scene import HOST12, REGION, UP_S, Builder, EndpointScene, Images
from verdict.errors import BadConfig, NoAccess, Refused
from verdict.exit_codes import ExitCode

HOSTING = Hosting(patience=10.0, drain=2.0)


@pytest.fixture(scope="module")
def running():
    """One cloud and one operator for all: every scene has an id of its own."""
    with LocalAwsCloud(region=REGION, pace=Pace(iam=0, hosting=HOSTING)) as cloud, pytest.MonkeyPatch.context() as patch:
        for name, value in cloud.environment().items():
            patch.setenv(name, value)
        for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN"):
            patch.delenv(name, raising=False)
        yield cloud, Session(cloud.region, sleep=cloud.clock.sleep)


@pytest.fixture
def scene(running) -> EndpointScene:
    cloud, session = running
    cluster, images = Cluster(), Images()
    builder = Builder(images)
    cloud.serve_containers(cluster, builder, images)
    made = EndpointScene(cloud, session, cluster, images, builder)
    yield made
    cloud.disarm()
    cloud.state.denied.clear()
    cloud.state.sagemaker.without.clear()
    if made.live.find(made.ref) is not None:
        made.live.delete(Billable("endpoint", made.names.base, REGION))


class TestSageMaker(LiveTargetContract):
    @pytest.fixture
    def scene(self, scene) -> Scene:
        return scene

    def test_a_boot_is_unknown_until_it_reports(self, scene: Scene) -> None:
        """Here nothing reports: the boot is known as soon as there is an endpoint, by what is seen of it."""
        assert scene.live.boot(scene.ref) is None
        scene.begin()
        status = scene.live.boot(scene.ref)
        assert status is not None and (status.state, status.phase, status.script) == ("booting", "instance", "5" * 64)
        scene.cloud.clock.advance(400)
        scene.speak("INFO Starting to load model google/gemma-4-E2B-it...\n")
        status = scene.live.boot(scene.ref)
        assert [p.name for p in status.phases] == ["instance", "start", "weights"] and status.phases[-1].result == "running"
        scene.cloud.clock.advance(400)
        status = scene.live.boot(scene.ref)
        assert status.state == "serving" and {p.result for p in status.phases} == {"done"}


def test_it_is_told_as_everybody_tells_it(scene):
    scene.create()
    machine = scene.live.find(scene.ref)
    assert (machine.name, machine.where, machine.cloud_state, machine.provisioning) == (
        scene.names.base, REGION, "inservice", "on_demand",
    )  # fmt: skip
    assert isinstance(scene.live, CanWatch) and isinstance(scene.live, CanHold)
    assert scene.live.watch(scene.ref).look() is None and scene.live.held(scene.ref) == ""
    assert scene.live.holder(scene.ref).kind == "endpoint"


def test_every_kind_of_thing_is_in_the_inventory_with_its_price(scene):
    scene.create()
    found = {thing.kind: thing for thing in scene.live.inventory(scene.ref)}
    assert {kind: thing.price_per_hour for kind, thing in found.items()} == {
        "schedule": 0.0,
        "endpoint": 0.736,
        "endpoint-config": 0.0,
        "model": 0.0,
        "log-group": None,
        "repository": pytest.approx(7.45 * 0.1 / 730, rel=0.01),
        "role": 0.0,
    }
    assert "built images" in found["repository"].kept and "14" not in found["log-group"].kept
    assert "log" in found["log-group"].kept and not any(t.kept for k, t in found.items() if k not in ("repository", "log-group"))
    assert scene.live.inventory(scene.foreign) == []


def test_an_empty_repository_and_log_are_not_kept(scene):
    scene.call("ecr", "create_repository", repositoryName=scene.names.base)
    scene.call("logs", "create_log_group", logGroupName=scene.names.logs)
    assert {t.kind: t.kept for t in scene.live.inventory(scene.ref)} == {"log-group": "", "repository": ""}


def test_somebody_elses_repository_is_no_part_of_us(scene):
    for name, tags in (("theirs", []), ("ours", [{"Key": "app", "Value": "flexserve"}])):
        scene.call("ecr", "create_repository", repositoryName=f"{name}-{scene.ref.id}", tags=tags)
        found = [t.name for t in Live(scene.session, f"{name}-{scene.ref.id}").inventory(scene.ref)]
        assert found == ([f"ours-{scene.ref.id}"] if name == "ours" else [])


def test_one_that_is_being_made_is_waited_out_and_then_deleted(scene):
    scene.begin()
    assert "is Creating" in scene.live.held(scene.ref)
    scene.live.delete(scene.live.holder(scene.ref))
    assert scene.live.find(scene.ref) is None and scene.live.held(scene.ref) == "" and scene.live.holder(scene.ref) is None


def test_a_wrong_host_image_has_its_own_verdict(scene):
    scene.begin(host=HOST12)
    assert scene.live.hopeless(scene.ref) is None
    scene.cloud.clock.advance(400)
    found = scene.live.hopeless(scene.ref)
    assert found.kind == "driver-mismatch" and "550" in found.why and "CUDA 13.0" in found.why and "auto" in found.way_out
    assert scene.live.boot(scene.ref).state == "failed" and scene.live.last_failure(scene.ref).message.startswith("CannotStart")


def test_out_of_memory_is_told_while_it_is_still_creating(scene):
    scene.cluster.dies = True
    scene.begin()
    scene.cloud.clock.advance(379 + 181)
    assert "is Creating" in scene.live.held(scene.ref)
    found = scene.live.hopeless(scene.ref)
    assert found.kind == "out-of-memory" and "CUDA out of memory" in found.why


def test_no_capacity_is_no_capacity(scene):
    scene.fail()
    found = scene.live.hopeless(scene.ref)
    assert (found.kind, found.exit_code) == ("no-capacity", ExitCode.NO_CAPACITY) and "ml.g4dn.xlarge" in found.what


def test_an_image_that_cannot_be_pulled(scene):
    scene.cluster.cannot_pull = True
    scene.begin()
    scene.cloud.clock.advance(500)
    found = scene.live.hopeless(scene.ref)
    assert (found.kind, found.exit_code) == ("image-not-pullable", ExitCode.NO_ACCESS)


def test_one_that_never_served_is_dead_and_can_be_made_anew(scene):
    """The new one is not judged by what the old one said: its log group is the same."""
    scene.cluster.dies = True
    scene.begin()
    scene.cloud.clock.advance(379 + 3 * 60 + 1)
    assert scene.live.find(scene.ref).dead == "" and scene.live.hopeless(scene.ref).kind == "out-of-memory"
    scene.cloud.clock.advance(1000)
    assert "did not pass the ping health check" in scene.live.find(scene.ref).dead
    assert scene.live.hopeless(scene.ref).kind == "out-of-memory"  # its own log still says why
    scene.live.delete(scene.live.holder(scene.ref))
    scene.cluster.dies = False
    scene.begin()
    assert scene.live.find(scene.ref).dead == "" and scene.live.hopeless(scene.ref) is None
    scene.cloud.clock.advance(UP_S)
    status = scene.live.boot(scene.ref)
    assert scene.live.hopeless(scene.ref) is None and status.state == "serving"
    assert [p.name for p in status.phases] == ["instance", "start"]


def test_without_permission_the_answer_is_no_access_not_nothing(scene):
    scene.cloud.deny("sagemaker:DescribeEndpoint")
    with pytest.raises(NoAccess):
        scene.live.find(scene.ref)


def project(scene) -> building.Wanted:
    """A build project as the component makes it."""
    names, account = scene.names, scene.cloud.account
    scene.call("s3", "create_bucket", Bucket=names.base, CreateBucketConfiguration={"LocationConstraint": REGION})
    scene.call(
        "s3",
        "put_object",
        Bucket=names.base,
        Key=names.context("ab" * 32),
        Body=image.archive({"buildspec.yml": b"version: 0.2\n"}),
    )
    if not scene.role_arn:  # else it is there
        scene.call("ecr", "create_repository", repositoryName=names.base)
    scene.call("logs", "create_log_group", logGroupName=names.build_logs)
    here = rights.repository_arn(REGION, account, names.base)
    policy = rights.build(REGION, names, here, here, f"arn:aws:s3:::{names.base}/{names.context('ab' * 32)}")
    scene.call(
        "codebuild",
        "create_project",
        name=names.base,
        source={"type": "S3", "location": f"{names.base}/{names.context('ab' * 32)}"},
        artifacts={"type": "NO_ARTIFACTS"},
        environment={
            "type": "LINUX_CONTAINER",
            "image": "aws/codebuild/amazonlinux-x86_64-standard:5.0",
            "computeType": "BUILD_GENERAL1_LARGE",
            "privilegedMode": True,
        },
        serviceRole=scene.role(names.build, rights.CODEBUILD, policy),
        logsConfig={"cloudWatchLogs": {"status": "ENABLED", "groupName": names.build_logs}},
    )
    scene.builder.pushes = (account, names.base, "key-1")
    return building.Wanted(names.base, names.base, "key-1")


def test_an_image_is_built_once_and_then_found(scene):
    wanted, said = project(scene), []
    digest = building.ensure(scene.session, wanted, said.append)
    assert digest == scene.images.held[scene.cloud.account, scene.names.base][0].digest
    assert len(scene.builder.built) == 1 and any(line.startswith("image: ") for line in said)
    assert building.ensure(scene.session, wanted, said.append) == digest and len(scene.builder.built) == 1
    kinds = {t.kind for t in scene.live.inventory(scene.ref)}
    assert kinds == {"build-project", "object", "bucket", "log-group", "repository", "role"}
    for thing in scene.live.inventory(scene.ref):
        scene.live.delete(thing)
    assert list(scene.live.inventory(scene.ref)) == []


def test_a_build_that_runs_already_is_waited_for(scene):
    wanted, said = project(scene), []
    scene.builder.may.clear()
    scene.call("codebuild", "start_build", projectName=scene.names.base)

    def say(text: str) -> None:
        said.append(text)
        scene.builder.may.set()

    assert building.ensure(scene.session, wanted, say)
    assert len(scene.builder.built) == 1 and "already" in said[0]


@pytest.mark.parametrize("pushes", ["", "another"])
def test_a_build_of_an_earlier_run_that_fails_or_is_of_another_image_is_no_verdict_on_this_one(scene, pushes):
    wanted, said = project(scene), []
    scene.builder.may.clear()
    scene.builder.fails = "" if pushes else "what was wrong then"
    scene.builder.pushes = (*scene.builder.pushes[:2], pushes or wanted.tag)
    scene.call("codebuild", "start_build", projectName=scene.names.base)

    def say(text: str) -> None:
        said.append(text)
        scene.builder.may.set()
        if "building this one" in text:
            scene.builder.fails, scene.builder.pushes = "", (*scene.builder.pushes[:2], wanted.tag)

    assert building.ensure(scene.session, wanted, say)
    assert len(scene.builder.built) == 2 and any("building this one" in line for line in said)


def test_a_failed_build_says_why_with_its_last_lines(scene):
    wanted = project(scene)
    scene.builder.fails = "flexserve: torch holds no code for compute capability 7.5"
    with pytest.raises(building.BuildFailed) as error:
        building.ensure(scene.session, wanted, lambda _: None)
    assert error.value.exit_code is ExitCode.FAILED and "compute capability 7.5" in error.value.why and error.value.way_out
    printed = scene.live.explain(f"{error.value}\n")  # as the engine hands on what the program ended with
    assert printed.as_dict() == error.value.as_dict() and printed.as_dict()["error"]["log_tail"].startswith("step 1\n")
    assert printed.kind == "build-failed"


def test_a_build_is_not_taken_for_what_its_log_says(scene):
    """Its last lines may hold words that mean something else where AWS says them."""
    error = building.failed(building.Wanted("p", "r", "t"), {"buildStatus": "FAILED"}, ["AccessDeniedException: no", "Expired"])
    assert scene.live.explain(str(error)).kind == "build-failed"
    late = scene.live.explain("fs-1:2 has not ended after 2 h\n  way out: see it in CodeBuild")
    assert (late.kind, late.exit_code, late.way_out) == ("timed-out", ExitCode.TIMED_OUT, "see it in CodeBuild")


def test_a_role_that_codebuild_cannot_take_yet_is_waited_for(scene, monkeypatch):
    wanted, said, calls = project(scene), [], []
    right = scene.session.call

    def late(service, operation, **params):
        calls.append(operation)
        if operation == "start_build" and calls.count("start_build") < 3:
            raise NoAccess("no", why="InvalidInputException CodeBuild is not authorized to perform: sts:AssumeRole on service role")
        return right(service, operation, **params)

    monkeypatch.setattr(scene.session, "call", late)
    assert building.ensure(scene.session, wanted, said.append) and calls.count("start_build") == 3
    assert sum("cannot take" in line for line in said) == 2


def test_an_image_that_sagemaker_would_not_take_is_refused(scene):
    scene.call("ecr", "create_repository", repositoryName=scene.names.base)
    scene.images.keep(scene.cloud.account, scene.names.base, "index", media_type=OCI_INDEX)
    with pytest.raises(Refused, match="image-not-a-single-one") as error:
        building.look_up(scene.session, ecr.Repository(scene.names.base), "index")
    assert error.value.exit_code is ExitCode.REFUSED and "index" in error.value.why
    assert building.look_up(scene.session, ecr.Repository(scene.names.base), "none") is None
    assert building.look_up(scene.session, ecr.Repository("no-such-repository"), "none") is None


def test_what_names_mean_today(scene, sagemaker_t4, sagemaker_l4):
    digest = scene.images.keep("763104351884", "vllm", sagemaker_l4().image.tag)
    assert resolve("image", sagemaker_l4(), scene.session) == digest == resolve("image", sagemaker_t4(), scene.session)
    with pytest.raises(BadConfig, match="has no tag"):
        resolve("image", sagemaker_l4("image.name=763104351884.dkr.ecr.us-east-2.amazonaws.com/vllm:none"), scene.session)
    index = "763104351884.dkr.ecr.us-east-2.amazonaws.com/vllm:index"
    scene.images.keep("763104351884", "vllm", "index", media_type=OCI_INDEX)
    with pytest.raises(Refused):
        resolve("image", sagemaker_l4(f"image.name={index}"), scene.session)
    assert resolve("image", sagemaker_t4(f"image.name={index}"), scene.session)  # what is built from it is looked at itself


def test_the_secrets_arn_is_asked_for_before_anything_is_made(scene, sagemaker_t4):
    name = f"hf-token-of-{scene.ref.id}"
    with pytest.raises(BadConfig, match=r"way out: flexserve secret put \S+ -s sagemaker-t4$"):
        resolve("secret", sagemaker_t4(f"secret.name={name}"), scene.session)
    made = scene.call("secretsmanager", "create_secret", Name=name, SecretString="x")
    assert resolve("secret", sagemaker_t4(f"secret.name={name}"), scene.session) == made["ARN"]


def test_a_repository_with_images_that_an_earlier_deployment_left_is_found(scene, sagemaker_t4):
    owner = f"me-{scene.ref.id}"
    assert resolve("target.repository", sagemaker_t4(f"owner={owner}"), scene.session) == "own"
    tags = [{"Key": k, "Value": v} for k, v in {**scene.tagged, "flexserve-owner": owner}.items()]
    scene.call("ecr", "create_repository", repositoryName=scene.names.base, tags=tags)
    assert resolve("target.repository", sagemaker_t4(f"owner={owner}"), scene.session) == "own"  # an empty one
    scene.images.keep(scene.cloud.account, scene.names.base, "key")
    assert resolve("target.repository", sagemaker_t4(f"owner={owner}"), scene.session) == scene.names.base
    assert resolve("target.repository", sagemaker_t4("owner=you"), scene.session) == "own"


def test_it_is_connected_by_what_stack_file_and_outputs_say(scene):
    settings = {"kind": "sagemaker", "region": REGION, "repository": "own", "bucket": "own"}
    assert isinstance(live("sagemaker", settings), Live)
    with pytest.raises(BadConfig):
        connect({})


def whole_log(scene) -> str:
    """The log as `flexserve logs` reads it."""
    return "".join(text for text, _ in pieces(scene.live, scene.ref))


def test_a_log_longer_than_a_page_is_read_whole_in_the_order_of_time(scene):
    """CloudWatch's page ends at 10,000 lines or at 1 MB; of two streams each has its own pages."""
    scene.call("logs", "create_log_group", logGroupName=scene.names.logs)
    logs, size = scene.cloud.state.logs, (16 << 10)
    first = [f"a {n}" for n in range(80 * 154)]
    second = [f"b {n} " + "x" * size for n in range(80)]
    for at in range(80):
        logs.write(scene.names.logs, "one", first[at * 154 : at * 154 + 154], 1_000_000 + 10 * at)
        logs.write(scene.names.logs, "two", second[at : at + 1], 1_000_005 + 10 * at)
    lines = whole_log(scene).splitlines()
    assert [line for line in lines if line[0] == "a"] == first and [line for line in lines if line[0] == "b"] == second
    assert lines[:155] == [*first[:154], second[0]] and lines[-1] == second[-1]
    logs.write(scene.names.logs, "one", ["later"], 1_000_000)  # told late, with an earlier time: CloudWatch keeps its place
    logs.write(scene.names.logs, "three", ["a new machine"], 1_000_001)
    assert scene.live.log(scene.ref, since=len(lines)) == ("later\na new machine\n", len(lines) + 2)


def test_the_next_piece_is_as_large_as_a_page_and_another_reader_finds_its_place(scene):
    scene.call("logs", "create_log_group", logGroupName=scene.names.logs)
    scene.cloud.state.logs.write(scene.names.logs, "one", [f"{n:02000d}" for n in range(1_300)], 1_000_000)
    text, at = scene.live.log(scene.ref)
    assert PIECE <= len(text) < 3 * PIECE and len(text.splitlines()) == at < 1_300
    following = scene.live.log(scene.ref, since=at)
    other = Live(scene.session)
    assert other.log(scene.ref, since=at) == following and other.log(scene.ref, since=1_299) == (f"{1_299:02000d}\n", 1_300)
    assert other.log(scene.ref, since=30_000) == ("", 30_000)


def test_the_end_of_a_long_log_is_evidence_as_its_beginning_is(scene):
    scene.begin()
    said = ["Starting to load model", *(f"noise {n} " + "y" * 2000 for n in range(1_200))]
    said += ["torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB", "exited: app (exit status 1; not expected)"]
    scene.cloud.clock.advance(1)
    scene.cloud.state.logs.write(scene.names.logs, "one", said, int(scene.cloud.clock.now() * 1000))
    scene.cloud.clock.advance(1)
    scene.cloud.state.logs.write(scene.names.logs, "one", said[-2:] * 2, int(scene.cloud.clock.now() * 1000))
    assert [p.name for p in scene.live.boot(scene.ref).phases] == ["instance", "start", "weights"]
    assert scene.live.hopeless(scene.ref).kind == "out-of-memory"
