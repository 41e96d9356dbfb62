"""The image really built, pushed, pulled and served: in a booted machine by a real dockerd, from a base of AWS's layout."""

from __future__ import annotations

import http.client
import json
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest
from msgspec.structs import replace

from rehearsal.machine.fakes import hub
from rehearsal.machine.room import MachineRoom
from rehearsal.sagemaker.base import AWS_IMAGES, Base
from rehearsal.sagemaker.builder import Builder
from rehearsal.sagemaker.contracts import Build, BuildSpec, CannotPull, ContainerSpec
from rehearsal.sagemaker.hosts import DockerContainer, Hosts
from rehearsal.sagemaker.registry import LocalRegistry
from startup import image, manifest
from startup.spec import BootSpec
from tests.sagemaker.aws import ACCOUNT, AWS_HOST, HOST, PASSWORD, REGION, SECRET_KEY, Gate, Side
from tests.startup.specs import ENDPOINT

SENTINEL = "hf_" + "SENTINELsentinel42"
ARN = f"arn:aws:secretsmanager:{REGION}:{ACCOUNT}:secret:hf-token-AbCdEf"
REPOSITORY = "fs-k3j9x2"
HUNT = """
docker top sm-i-served -eo pid | tail -n +2 | while read pid; do tr '\\0' '\\n' </proc/$pid/environ; done |
  grep -c ^HF_TOKEN=hf_SENTINELsentinel42
docker export sm-i-served | grep -c SENTINELsentinel42
"""


@dataclass
class Stand:
    """Registry, machine and builder of one room. A base is seeded under a tag; a spec is what is built from it."""

    room: MachineRoom
    registry: LocalRegistry
    gate: Gate
    hosts: Hosts
    builder: Builder

    def spec(self, base: Base | None = None, tag: str = "v1") -> BootSpec:
        digest = self.registry.seed(tag, base)
        assert ENDPOINT.sagemaker is not None
        boot = replace(ENDPOINT.sagemaker, secret_arn=ARN)
        revision = hub.revision(ENDPOINT.model)
        environment = {**ENDPOINT.environment, "SM_VLLM_REVISION": revision}
        return replace(ENDPOINT, image=f"{AWS_HOST}/vllm", image_digest=digest, environment=environment, sagemaker=boot)

    def build(self, spec: BootSpec, builder: Builder | None = None) -> Build:
        files = image.context(spec)
        variables = {image.BUILD_VARIABLE: image.repository_uri(spec, ACCOUNT)}
        source = BuildSpec("fs-k3j9x2:1", files["buildspec.yml"].decode(), image.archive(files), variables, Side())
        return (builder or self.builder)(source)

    def run(self, name: str, reference: str, spec: BootSpec, side: Side, gpu: str = "ml.g4dn.xlarge") -> DockerContainer:
        return self.hosts(ContainerSpec(name, reference, image.environment(spec), side, gpu))


@pytest.fixture(scope="module")
def stand(room: MachineRoom) -> Iterator[Stand]:
    gate = Gate()
    hosts = Hosts(room, gate)
    hosts.warm()
    yield Stand(room, LocalRegistry(room), gate, hosts, Builder(room, gate, hosts.machine()))
    hosts.machine().delete()


@dataclass
class Built:
    """An image that was built a second time, after the first build's machine lost its power. `digest` is the image's."""

    spec: BootSpec
    killed: Build
    again: Build
    tags: tuple[tuple[str, ...], ...]  # between the two
    digest: str = ""


@pytest.fixture(scope="module")
def built(stand: Stand) -> Built:
    """The wrapper alone, as for an L4: a life of sagemaker-t4 builds and serves the patched one."""
    whole = stand.spec()
    assert whole.sagemaker is not None
    spec = replace(whole, sagemaker=replace(whole.sagemaker, gpu="L4", capability="8.9", patch=False))
    killed = _killed(stand, spec)
    tags = tuple(m.tags for m in stand.registry.manifests(REPOSITORY, ACCOUNT))
    made = Built(spec, killed, stand.build(spec), tags)
    assert made.again.succeeded, made.again.log
    [found] = [m for m in stand.registry.manifests(REPOSITORY, ACCOUNT) if image.image_key(spec) in m.tags]
    made.digest = found.digest
    return made


def _killed(stand: Stand, spec: BootSpec) -> Build:
    """A build in a machine of its own, whose power is cut."""
    builder = Builder(stand.room, stand.gate)
    builds: list[Build] = []
    thread = threading.Thread(target=lambda: builds.append(stand.build(spec, builder)))
    thread.start()

    def pushing() -> bool:
        return any("Step 3/" in (m.machine.folder / "out/codebuild-1/log").read_text() for m in builder.machines.values())

    until(pushing, 120)
    for machine in list(builder.machines.values()):
        machine.machine.power_cut()
    thread.join(60)
    [build] = builds
    return build


def asked(container: DockerContainer, method: str, path: str, body: object = None) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection("endpoint", timeout=30)
    connection.sock = socket.socket(fileno=container.connect())
    connection.request(method, path, json.dumps(body) if body is not None else None, {"Content-Type": "application/json"})
    answer = connection.getresponse()
    return answer.status, answer.read()


def until(done: Callable[[], bool], seconds: float = 60.0) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            if done():
                return
        except OSError:
            pass
        time.sleep(0.1)
    raise AssertionError("it did not come about")


def serving(container: DockerContainer) -> None:
    try:
        until(lambda: asked(container, "GET", "/ping")[0] == 200)
    except AssertionError:
        raise AssertionError(container.logs()[-4000:]) from None


def test_a_build_that_was_killed_is_built_again(built: Built) -> None:
    assert not built.killed.succeeded and "machine is gone" in built.killed.log
    assert not any(image.image_key(built.spec) in tags for tags in built.tags)
    assert built.again.succeeded and PASSWORD not in built.again.log and SECRET_KEY not in built.again.log


def test_what_was_pushed_is_what_sagemaker_takes(stand: Stand, built: Built) -> None:
    spec, digest = built.spec, built.digest
    [found] = [m for m in stand.registry.manifests(REPOSITORY, ACCOUNT) if m.digest == digest]
    assert found.tags == (image.image_key(spec),)
    assert manifest.problem(found.body, found.media_type) == ""
    config = stand.registry.blob(json.loads(found.body)["config"]["digest"])
    assert config is not None and manifest.config_problem(config) == ""
    inner = json.loads(config)["config"]
    assert inner["Entrypoint"] == ["python3", "-IB", "/opt/flexserve", image.ENTRY] and not inner["Cmd"]
    assert inner["Labels"]["flexserve.base"] == spec.image_reference
    assert SENTINEL.encode() not in config and ARN.encode() not in config


def test_it_is_never_built_twice(stand: Stand, built: Built) -> None:
    spec, digest = built.spec, built.digest
    again = stand.build(spec)
    assert again.succeeded and "is there already" in again.log and "Step 1/" not in again.log
    assert [m.digest for m in stand.registry.manifests(REPOSITORY, ACCOUNT)] == [digest]


def test_it_serves_with_the_token_in_its_environment_alone(stand: Stand, built: Built) -> None:
    spec, digest = built.spec, built.digest
    side = Side(secret=SENTINEL, denied_first=2)  # the role's right to the secret comes late
    container = stand.run("i-served", f"{HOST}/{REPOSITORY}@{digest}", spec, side, "ml.g6.xlarge")
    container.start()
    try:
        serving(container)
        question = {"messages": [{"role": "user", "content": "say tulip-4711"}]}
        status, body = asked(container, "POST", "/invocations", question)
        assert status == 200 and "tulip-4711" in json.loads(body)["choices"][0]["message"]["content"]
        status, body = asked(container, "POST", "/invocations", {**question, "stream": True})
        events = [line for line in body.decode().splitlines() if line.startswith("data: ")]
        assert status == 200 and len(events) > 2 and events[-1] == "data: [DONE]"
        text = "".join(json.loads(event[6:])["choices"][0]["delta"]["content"] for event in events[:-1])
        assert text == "tulip-4711"
        assert asked(container, "POST", "/invocations", {"x": 1})[0] == 400
        machine = stand.hosts.machine().machine
        told = machine.exec(["docker", "inspect", "sm-i-served"]).stdout
        counts = machine.exec(["sh", "-c", HUNT], timeout=120).stdout.split()
        assert int(counts[0]) >= 1  # the positive control: in the server's environment it is
        assert counts[1] == "0"  # in none of the container's files
        log = container.logs()
        assert "again in 0.5 s: AccessDeniedException" in log and f"flexserve: secret {ARN}: read" in log
        assert "SENTINEL" not in log + told and ARN in told
    finally:
        container.stop()
    assert "Application startup complete" in container.logs() and container.restarts() == 0
    with pytest.raises(ConnectionRefusedError):
        container.connect()


def test_unpatched_on_a_t4_it_dies_again_and_again(stand: Stand, built: Built) -> None:
    spec = built.spec
    as_it_is = replace(spec, secret=None, sagemaker=replace(spec.sagemaker, repository="", patch=False, secret_arn=""))
    container = stand.run("i-unpatched", spec.image_reference, as_it_is, Side())
    container.start()
    try:
        until(lambda: container.restarts() >= 2)
        assert "out of resource: shared memory, Required: 98304, Hardware limit: 65536" in container.logs()
    finally:
        container.stop()


def test_a_pull_that_is_refused_says_why(stand: Stand, built: Built) -> None:
    spec, digest = built.spec, built.digest
    stand.gate.forbidden.add(REPOSITORY)
    try:
        with pytest.raises(CannotPull, match="not authorized to perform: ecr:BatchGetImage"):
            stand.run("i-forbidden", f"{HOST}/{REPOSITORY}@{digest}", spec, Side()).start()
    finally:
        stand.gate.forbidden.clear()
    with pytest.raises(CannotPull, match=r"(?i)manifest unknown|not found"):
        stand.run("i-missing", f"{HOST}/{REPOSITORY}@sha256:{'0' * 64}", spec, Side()).start()
    with pytest.raises(CannotPull, match="not in ECR"):
        stand.run("i-hub", "vllm/vllm-openai:v0.30.0", spec, Side()).start()


BAD = {
    "torch without the card's code": (
        Base(arches=("sm_80", "sm_86", "sm_90")),
        r"(?m)^flexserve: torch holds no code for compute capability 7\.5",
    ),
    "a vLLM that the patch does not know": (
        Base(kernel=b"def unified_attention():\n    pass\n"),
        r"(?s)looked for an import of.*\nflexserve: the Turing patch does not know this vLLM",
    ),
    "a base that starts otherwise": (
        Base(entry="/usr/bin/vllm"),
        r"(?m)^flexserve: the base image starts with '/usr/bin/vllm'",
    ),
}


@pytest.mark.parametrize(("base", "words"), BAD.values(), ids=BAD)
def test_a_base_that_will_not_do_ends_the_build(stand: Stand, base: Base, words: str) -> None:
    spec = stand.spec(base, "bad")
    build = stand.build(spec)
    assert not build.succeeded and re.search(words, build.log), build.log
    failed = {phase.name: phase.message for phase in build.phases if phase.status == "FAILED"}
    assert "bash build.sh build" in failed["BUILD"]
    assert not any(image.image_key(spec) in m.tags for m in stand.registry.manifests(REPOSITORY, ACCOUNT))


def test_an_images_tag_and_the_image_can_be_dropped(stand: Stand) -> None:
    digest = stand.registry.seed("dropped", Base(version="0.30.2"))
    assert ("dropped",) in [m.tags for m in stand.registry.manifests("vllm", AWS_IMAGES)]
    stand.registry.drop("vllm", AWS_IMAGES, digest, "dropped")
    assert [m.tags for m in stand.registry.manifests("vllm", AWS_IMAGES) if m.digest == digest] == [()]
    stand.registry.drop("vllm", AWS_IMAGES, digest)
    assert digest not in [m.digest for m in stand.registry.manifests("vllm", AWS_IMAGES)]
    assert stand.registry.manifests("none", ACCOUNT) == [] and stand.registry.blob("sha256:x") is None
