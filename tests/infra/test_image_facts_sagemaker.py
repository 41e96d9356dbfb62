"""What an endpoint's image says of itself, read through ECR: by `flexserve up` before anything is asked for, and by the program."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from catalog.loader import Catalog
from infra.clouds.aws.session import Session
from infra.clouds.http import NoNetwork
from infra.image_facts import ImageFacts, from_text, of_config
from infra.kept import FACTS
from infra.settle import settle
from infra.targets.sagemaker.live import read_image, resolve
from rehearsal.cloud.aws import LocalAwsCloud, Pace
from startup.manifest import OCI
from tests.infra.sagemaker_scene import HOST12, HOST13, REGION, Images
from tests.infra.test_settle import at
from verdict.errors import BadConfig, CannotTell, FlexserveError, NoAccess, Refused
from verdict.exit_codes import ExitCode

AWS, REPOSITORY = "763104351884", "vllm"
NAME = f"{AWS}.dkr.ecr.{REGION}.amazonaws.com/{REPOSITORY}"
CU12 = "0.29.0-gpu-py312-cu129-ubuntu22.04-sagemaker-v1.0"
SAYS13 = ("CUDA_VERSION=13.0.2", "TORCH_CUDA_ARCH_LIST=7.5 8.0 8.9 9.0+PTX")


@pytest.fixture(scope="module")
def cloud() -> Iterator[LocalAwsCloud]:
    with LocalAwsCloud(region=REGION, pace=Pace(iam=0)) as cloud, pytest.MonkeyPatch.context() as patch:
        for name, value in cloud.environment().items():
            patch.setenv(name, value)
        for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN"):
            patch.delenv(name, raising=False)
        yield cloud


@pytest.fixture
def images(cloud: LocalAwsCloud) -> Iterator[Images]:
    made = Images()
    cloud.serve_containers(images=made)
    yield made
    cloud.state.denied.clear()
    cloud.state.ecr.layers_at = lambda: cloud.base


@pytest.fixture
def session(cloud: LocalAwsCloud) -> Session:
    return Session(REGION)


def settled(deployment, session):
    """As the program decides it, with everything but the model's commit asked of the cloud."""
    return settle(deployment, Catalog.load(), None, at(), lambda key, d: "b" * 40 if key == "model" else resolve(key, d, session))


def test_the_config_is_read_by_the_digest_and_kept(images, session, sagemaker_l4):
    digest = images.keep(AWS, REPOSITORY, sagemaker_l4().image.tag, says=SAYS13)
    facts = read_image(sagemaker_l4(), session)
    assert facts == ImageFacts(digest, ("amd64",), "13.0.2", ("7.5", "8.0", "8.9", "9.0"))
    assert from_text(facts.text()) == facts
    s = settled(sagemaker_l4(), session)
    assert (s.plan.facts, s.plan.cuda, s.kept.choices[FACTS].asked) == (facts, ("13.0.2", "its own config"), digest)
    asked = []
    later = settle(sagemaker_l4(), Catalog.load(), s.kept, at(live=True), lambda key, _: asked.append(key))
    assert (later.plan, later.kept, asked) == (s.plan, s.kept, [])  # a day later nobody is asked


def test_another_image_is_read_anew(images, session, sagemaker_l4):
    images.keep(AWS, REPOSITORY, sagemaker_l4().image.tag, says=SAYS13)
    first = settled(sagemaker_l4(), session)
    other = images.keep(AWS, REPOSITORY, "other", says=("CUDA_VERSION=12.9.1",))
    pinned = sagemaker_l4(f"image.name={NAME}@{other}")
    later = settle(pinned, Catalog.load(), first.kept, at(live=True), lambda key, d: resolve(key, d, session))
    assert (later.plan.host_image, later.plan.cuda[0], later.kept.choices[FACTS].asked) == (HOST12, "12.9.1", other)


def test_a_cuda_13_image_behind_a_tag_that_says_12(images, session, sagemaker_l4):
    """The plan believes the tag; what is made goes by the image."""
    images.keep(AWS, REPOSITORY, CU12, says=SAYS13)
    sets = [f"image.name={NAME}:{CU12}", "allow=[unknown-image]"]
    assert settled(sagemaker_l4(*sets), session).plan.host_image == HOST13
    with pytest.raises(Refused, match="cuda-driver-mismatch"):
        settled(sagemaker_l4(*sets, f"target.host_image={HOST12}"), session)


@pytest.mark.parametrize(
    ("says", "processor", "rule"),
    [
        (("CUDA_VERSION=13.0.2", "TORCH_CUDA_ARCH_LIST=9.0;10.0"), "amd64", "image-lacks-card"),
        (("CUDA_VERSION=11.8.0",), "amd64", "host-image-unknown"),
        (SAYS13, "arm64", "image-of-another-processor"),
    ],
)
def test_an_image_that_would_not_serve_is_refused_before_anything_is_made(images, session, sagemaker_l4, says, processor, rule):
    images.keep(AWS, REPOSITORY, sagemaker_l4().image.tag, says=says, processor=processor)
    with pytest.raises(Refused) as error:
        settled(sagemaker_l4(), session)
    assert (error.value.rule, error.value.exit_code) == (rule, ExitCode.REFUSED)


def test_a_pinned_image_is_looked_at_as_one_with_a_tag(images, session, sagemaker_l4):
    """Its manifest as well, which nothing else would ask for."""
    digest = images.keep(AWS, REPOSITORY, "any", says=SAYS13, media_type=OCI)
    with pytest.raises(Refused, match="image-not-a-single-one"):
        settled(sagemaker_l4(f"image.name={NAME}@{digest}"), session)
    with pytest.raises(BadConfig, match="no image sha256:"):
        settled(sagemaker_l4(f"image.name={NAME}@sha256:{'0' * 64}"), session)


def test_of_an_index_the_image_for_sagemakers_machines_is_read(images, session, sagemaker_t4, sagemaker_l4):
    """A base of a build may be one: docker takes the image for its own platform."""
    intel = images.keep(AWS, REPOSITORY, says=SAYS13)
    arm = images.keep(AWS, REPOSITORY, says=("CUDA_VERSION=12.9.1",), processor="arm64")
    index = images.index(AWS, REPOSITORY, "both", arm64=arm, amd64=intel)
    plan = settled(sagemaker_t4(f"image.name={NAME}@{index}"), session).plan
    assert (plan.facts.digest, plan.cuda[0], plan.boot.image_digest) == (intel, "13.0.2", index)
    only = images.index(AWS, REPOSITORY, "arm", arm64=arm)
    with pytest.raises(Refused, match="image-of-another-processor"):
        settled(sagemaker_t4(f"image.name={NAME}@{only}"), session)
    with pytest.raises(Refused, match="image-not-a-single-one"):
        settled(sagemaker_l4(f"image.name={NAME}@{index}"), session)


def refuses(cloud, images, action):
    """The operator may not do this."""
    cloud.deny(action)


def unreachable(cloud, images, _):
    cloud.state.ecr.layers_at = lambda: "http://127.0.0.1:9"


def another(cloud, images, _):
    for digest in images.blobs:
        images.blobs[digest] = b'{"config": {}}'


def gone(cloud, images, _):
    images.blobs.clear()


def expired(cloud, images, _):
    cloud.state.ecr.layers_at = lambda: f"{cloud.base}/prod-{REGION}-starport-layer-bucket/0?"


@pytest.mark.parametrize(
    ("breaks", "action", "kind", "code", "says"),
    [
        (refuses, "ecr:BatchGetImage", NoAccess, ExitCode.NO_ACCESS, "ecr:BatchGetImage"),
        (refuses, "ecr:GetDownloadUrlForLayer", NoAccess, ExitCode.NO_ACCESS, "ecr:GetDownloadUrlForLayer"),
        (unreachable, "", NoNetwork, ExitCode.FAILED, "127.0.0.1"),
        (expired, "", NoAccess, ExitCode.NO_ACCESS, "403"),
        (another, "", CannotTell, ExitCode.CANNOT_TELL, "sha256:"),
        (gone, "", CannotTell, ExitCode.CANNOT_TELL, "404"),
    ],
)
def test_a_config_that_cannot_be_read_is_an_error_of_its_kind(
    cloud, images, session, sagemaker_l4, monkeypatch, breaks, action, kind, code, says
):
    monkeypatch.setattr("time.sleep", lambda _: None)
    images.keep(AWS, REPOSITORY, sagemaker_l4().image.tag, says=SAYS13)
    breaks(cloud, images, action)
    with pytest.raises(FlexserveError) as error:
        read_image(sagemaker_l4(), session)
    assert (type(error.value), error.value.exit_code) == (kind, code) and error.value.way_out
    assert says in f"{error.value.what} {error.value.why}"


def test_an_own_build_is_taken_by_its_labels(images, session, sagemaker_t4, cloud):
    session.call("ecr", "create_repository", repositoryName="mine")
    labels = {"flexserve.card": "7.5", "flexserve.turing": "1", "flexserve.secret": "by-name"}
    images.keep(cloud.account, "mine", "ours", labels=labels)
    images.keep(cloud.account, "mine", "theirs")
    sets = ["target.image_source=own", f"image.name={cloud.account}.dkr.ecr.{REGION}.amazonaws.com/mine"]
    plan = settled(sagemaker_t4(sets[0], f"{sets[1]}:ours"), session).plan
    assert (plan.cuda, plan.host_image, plan.allowed) == (("13.0", "its own config"), HOST13, ())
    with pytest.raises(Refused, match="image-not-ours"):
        settled(sagemaker_t4(sets[0], f"{sets[1]}:theirs"), session)


@pytest.mark.parametrize(
    ("environment", "cuda", "cards"),
    [
        (["CUDA_VERSION=13.0.2", "NV_CUDA_LIB_VERSION=12.9.1-1"], "13.0.2", ()),
        (["NV_CUDA_LIB_VERSION=12.9.1-1"], "12.9.1", ()),
        (["NVIDIA_REQUIRE_CUDA=cuda>=12.9 brand=unknown,driver>=535"], "12.9", ()),
        (["CUDA_VERSION=", "TORCH_CUDA_ARCH_LIST=7.5;8.6+PTX"], "", ("7.5", "8.6")),
        ([], "", ()),
    ],
)
def test_what_a_config_says(environment, cuda, cards):
    facts = of_config("sha256:1", {"architecture": "amd64", "config": {"Env": environment}})
    assert (facts.cuda, facts.cards, facts.checked, facts.turing, facts.secret) == (cuda, cards, (), "", False)


def test_what_was_kept_in_another_shape_is_an_error():
    with pytest.raises(FlexserveError, match="cannot be read"):
        from_text("{}")
