"""What is seen of an endpoint and what it means: each failure its own verdict and exit code, and none while it may still serve."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from infra.targets.sagemaker import reports, verdicts
from infra.targets.sagemaker.during import Move, Stage
from infra.targets.sagemaker.log import Line
from infra.targets.sagemaker.verdicts import Evidence, verdict
from verdict.exit_codes import ExitCode

OLD_HOST = {"host_image": "al2-ami-sagemaker-inference-gpu-2", "host_cuda": "12.2", "host_driver": "535", "image_cuda": "13.0"}
NEW_HOST = {"host_image": "al2023-ami-sagemaker-inference-gpu-4-1", "host_cuda": "13.0", "host_driver": "580", "image_cuda": "13.0"}
STARTED = ["INFO 11-30 [api_server.py:1351] vLLM API server version 0.30.0"]
DIED = "2026-11-30 04:00:00,123 WARN exited: app (exit status 1; not expected)"
KILLED = "2026-11-30 04:00:00,123 WARN exited: llm_engine (terminated by SIGKILL; not expected)"
GAVE_UP = "2026-11-30 04:00:09,123 INFO gave up: app entered FATAL state, too many start retries too quickly"
OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 242.00 MiB. GPU 0 has a total capacity of 14.56 GiB"
CANNOT_START = (
    "CannotStartContainerError. Please ensure the model container for variant main starts correctly when invoked with "
    "'docker run <image> serve'."
)
NO_CAPACITY = "Unable to provision requested ML compute capacity due to InsufficientInstanceCapacity error. Please retry."
NO_PING = "The primary container for production variant main did not pass the ping health check. Please check CloudWatch logs."
NO_PULL = "Failed to pull container image x; make sure all images exist and the execution role can access them"
NOT_ALLOWED = (
    "The role 'arn:aws:iam::123456789012:role/x' does not have BatchGetImage permission for the image: '123456789012.dkr…'."
)
ALL_IMAGES = (
    "Please make sure all images included in the model for the production variant main exist, and that the execution role used to "
    "create the model has permissions to access them."
)
"""AWS's words, as sagemaker-tensorflow-serving-container 182 and amazon-sagemaker-examples 275 quote them."""
ASSUME = "Could not assume role arn:aws:iam::123456789012:role/x. Please ensure that the role exists and allows principal"
CRASH = [*STARTED, "ValueError: the checkpoint has no layer 35", DIED]

CASES = [
    ("wrong host image", Evidence("Failed", CANNOT_START, 380, **OLD_HOST), "driver-mismatch", ExitCode.FAILED, "535"),
    ("no stream, known pair", Evidence("Creating", "", 601, **OLD_HOST), "driver-mismatch", ExitCode.FAILED, "10 minutes"),
    ("never started", Evidence("Failed", CANNOT_START, 380, **NEW_HOST), "driver-mismatch", ExitCode.FAILED, "no log stream"),
    (
        "no capacity",
        Evidence("Failed", NO_CAPACITY, 1800, machine_type="ml.g6.xlarge"),
        "no-capacity",
        ExitCode.NO_CAPACITY,
        "Insuf",
    ),
    ("rolled back", Evidence("InService", NO_CAPACITY, rolled_back=True), "no-capacity", ExitCode.NO_CAPACITY, "Insufficient"),
    ("rolling back", Evidence("RollingBack", NO_CAPACITY), "no-capacity", ExitCode.NO_CAPACITY, "Insufficient"),
    ("no pull", Evidence("Failed", NO_PULL, 400), "image-not-pullable", ExitCode.NO_ACCESS, "execution role"),
    ("may not pull", Evidence("Failed", NOT_ALLOWED, 400), "image-not-pullable", ExitCode.NO_ACCESS, "BatchGetImage"),
    ("no images", Evidence("Failed", ALL_IMAGES, 400), "image-not-pullable", ExitCode.NO_ACCESS, "all images"),
    ("role", Evidence("Failed", ASSUME, 10), "role-not-ready", ExitCode.NO_ACCESS, "assume"),
    ("out of memory", Evidence("Creating", "", 500, 1, [*STARTED, OOM]), "out-of-memory", ExitCode.FAILED, "14.56 GiB"),
    ("out of memory, late", Evidence("Failed", NO_PING, 2200, 1, [*STARTED, OOM, DIED]), "out-of-memory", ExitCode.FAILED, "14.56"),
    ("crash loop", Evidence("Creating", "", 500, 1, CRASH * 3), "crash-loop", ExitCode.FAILED, "no layer 35"),
    ("crash loop, late", Evidence("Failed", NO_PING, 2200, 1, CRASH * 2), "crash-loop", ExitCode.FAILED, "no layer 35"),
    (
        "crash without a supervisor",
        Evidence("Creating", "", 500, 1, ["exec format error"] * 4),
        "crash-loop",
        ExitCode.FAILED,
        "exec",
    ),
    ("killed", Evidence("Creating", "", 500, 1, [*STARTED, "no reason", KILLED] * 3), "crash-loop", ExitCode.FAILED, "no reason"),
    ("gave up", Evidence("Creating", "", 500, 1, ["bash: vllm: Error", GAVE_UP]), "crash-loop", ExitCode.FAILED, "vllm: Error"),
    ("silent failure", Evidence("Failed", NO_PING, 2200, 1, STARTED), "endpoint-failed", ExitCode.FAILED, "ping"),
    ("nothing for long", Evidence("Creating", "", 46 * 60, **NEW_HOST), "timed-out", ExitCode.TIMED_OUT, "no log stream"),
    (
        "secret",
        Evidence("Creating", "", 700, 1, ["flexserve: secret arn: given up: HTTP 403 AccessDenied", DIED]),
        "no-access",
        ExitCode.NO_ACCESS,
        "403",
    ),
]


@pytest.mark.parametrize(("name", "seen", "kind", "code", "says"), CASES, ids=[c[0] for c in CASES])
def test_each_failure_has_its_own_verdict(name, seen, kind, code, says):
    found = verdict(seen)
    assert found is not None and (found.kind, found.exit_code) == (kind, code), name
    assert says in found.why and found.way_out and len(found.why) < 8000


FINE = [
    Evidence("InService", "", 900, 1, STARTED),
    Evidence("Creating", "", 60),
    Evidence("Creating", "", 1799, **NEW_HOST),  # no capacity is said after 30 minutes
    Evidence("Creating", "", 500, 1, [*STARTED, "INFO Starting to load model"]),
    Evidence("Creating", "", 900, 1, CRASH * 2),  # one more may do
    Evidence("Updating", "", 60, 0, **OLD_HOST),
    Evidence("Deleting", "", 60),
    Evidence("SystemUpdating", "", 60),
]


@pytest.mark.parametrize("seen", FINE)
def test_what_may_still_serve_has_none(seen):
    assert verdict(seen) is None


@settings(max_examples=40)
@given(st.integers(0, 8), st.integers(0, 30))
def test_a_crash_loop_is_told_after_three_restarts_and_not_before(deaths, pings):
    """However often it was asked for its health in between."""
    ping = '10.0.0.1 - "GET /ping HTTP/1.1" 503'
    seen = Evidence("Creating", "", 500, 1, [ping] * pings + CRASH * deaths + [ping] * pings)
    found = verdict(seen)
    assert (found is not None) == (deaths >= verdicts.RESTARTS)
    assert found is None or (found.kind == "crash-loop" and "no layer 35" in found.why)


@settings(max_examples=40)
@given(st.lists(st.text(max_size=40), max_size=12), st.sampled_from(["Creating", "Updating", "Failed", "InService", "Deleting"]))
def test_any_log_is_read_without_a_word_lost(lines, status):
    found = verdict(Evidence(status, "", 10, 1, lines))
    assert found is None or found.way_out
    assert (found is not None) if status == "Failed" else True


def test_words_of_the_engine_are_understood_and_others_are_not():
    printed = f"waiting for SageMaker Endpoint (fs-1) create: unexpected state 'Failed'. last error: {NO_CAPACITY}"
    assert verdicts.from_words(printed).exit_code is ExitCode.NO_CAPACITY
    assert verdicts.from_words(f"creating SageMaker Model: ValidationException: {ASSUME}").kind == "role-not-ready"
    for service, words in (
        ("EventBridge Scheduler", "The execution role you provide must allow AWS EventBridge Scheduler to assume the role."),
        ("CodeBuild", "CodeBuild is not authorized to perform: sts:AssumeRole on arn:aws:iam::123456789012:role/x"),
    ):
        found = verdicts.from_words(f"creating x: operation error X: CreateX, api error ValidationException: {words}")
        assert (found.kind, found.exit_code) == ("role-not-ready", ExitCode.NO_ACCESS) and service in found.what
    limit = (
        "api error ResourceLimitExceeded: The account-level service limit 'ml.g6.xlarge for endpoint usage' is 1 Instances, with "
        "current utilization of 1 Instances and a request delta of 1 Instances."
    )
    found = verdicts.from_words(f"updating SageMaker AI Endpoint (fs-1): {limit}")
    assert (found.kind, found.exit_code, found.what) == (
        "endpoint-quota", ExitCode.NO_ACCESS, "the account may have 1 ml.g6.xlarge for endpoints",
    )  # fmt: skip
    assert "`ml.g6.xlarge for endpoint usage`" in found.way_out and found.why.startswith("ResourceLimitExceeded: ")
    for words in (NOT_ALLOWED, ALL_IMAGES):
        assert verdicts.from_words(f"creating SageMaker Model: ValidationException: {words}").kind == "image-not-pullable"
    back = verdicts.from_words(f"error: {verdicts.taken_back('fs-1', 'fs-1-before')}")
    assert (back.kind, back.what) == ("endpoint-failed", verdicts.taken_back("fs-1", "fs-1-before").what)
    there = verdicts.from_words('api error ValidationException: Cannot create already existing endpoint "arn:x".')
    assert "flexserve down" in there.way_out
    assert verdicts.from_words("the moon is full") is None


BEGAN = datetime(2026, 11, 30, 12, tzinfo=UTC)


def after(seconds: float) -> datetime:
    return BEGAN + timedelta(seconds=seconds)


def seen(status="Creating", said=(), stream=None, build=None, reason="", tags=None, ended=793.0, machines=0) -> reports.Look:
    """`stream`: when the one stream began. `ended`: when the endpoint moved last."""
    variant = {"VariantName": "main", "CurrentInstanceCount": machines or int(status == "InService")}
    endpoint = {
        "EndpointName": "fs-1", "EndpointStatus": status, "CreationTime": BEGAN, "LastModifiedTime": after(ended),
        "EndpointConfigName": "fs-1-a", "FailureReason": reason, "ProductionVariants": [variant],
    }  # fmt: skip
    streams = [{"logStreamName": "main/i-1", "creationTime": after(stream).timestamp() * 1000}] if stream is not None else []
    lines = [Line(after(at).timestamp(), text, "main/i-1") for at, text in said]
    config = {
        "CreationTime": after(-1),
        "ProductionVariants": [{"InstanceType": "ml.g4dn.xlarge", "InferenceAmiVersion": OLD_HOST["host_image"]}],
    }
    tags = {"flexserve-script": "5" * 64, "flexserve-cuda": "13.0"} if tags is None else tags
    return reports.Look(endpoint, config, tags, streams, lines, build or {})


SAID = [(380, "Starting to load model x"), (440, "Time spent downloading weights for x: 60.1 seconds"),
        (450, "Loading weights took 9.8 seconds"), (460, "Model loading took 7 GiB"), (680, "init engine (profile) took 220 s"),
        (700, "INFO:     Application startup complete.")]  # fmt: skip
BUILD = {"startTime": after(-800), "endTime": after(-20), "buildStatus": "SUCCEEDED"}


def test_phases_are_read_off_what_is_seen():
    status = reports.boot(seen("InService", SAID, 379, BUILD), after(2000))
    assert {p.result for p in status.phases} == {"done"} and (status.state, status.script) == ("serving", "5" * 64)
    assert [(p.name, p.start_s, p.seconds) for p in status.phases] == [
        ("image", 0, 780), ("instance", 800, 379), ("start", 1179, 1), ("weights", 1180, 60), ("load", 1240, 20),
        ("compile", 1260, 220), ("serving", 1480, 113),
    ]  # fmt: skip


def test_one_that_serves_tells_its_first_start_and_one_that_crashes_its_newest():
    again = [(at + 9000, text) for at, text in SAID]
    phases = {p.name: p for p in reports.boot(seen("InService", [*SAID, *again], 379), after(9999)).phases}
    assert (phases["weights"].start_s, phases["serving"].start_s) == (380, 680)
    twice = [*SAID[:4], (500, SAID[0][1]), (560, SAID[1][1])]
    phases = {p.name: p for p in reports.boot(seen(said=twice, stream=379), after(600)).phases}
    assert (phases["weights"].start_s, phases["load"].result) == (500, "running") and "compile" not in phases


@pytest.mark.parametrize(
    ("build", "has"),
    [
        (BUILD, True),
        ({"startTime": after(-90000), "endTime": after(-89000)}, False),  # of an earlier boot
        ({"startTime": after(500)}, False),  # for the next one
        ({}, False),
    ],
)
def test_a_build_of_another_boot_is_no_phase_of_this_one(build, has):
    assert ("image" in [p.name for p in reports.boot(seen(build=build), after(60)).phases]) == has


@pytest.mark.parametrize(
    ("look", "phase"),
    [
        (seen(), "instance"),
        (seen(stream=379), "start"),
        (seen(said=SAID[:1], stream=379), "weights"),
        (seen(said=SAID[:2], stream=379), "load"),
        (seen(said=SAID[:3], stream=379), "load"),
        (seen(said=SAID[:4], stream=379), "compile"),
        (seen(said=SAID[:5], stream=379), "serving"),
        (seen(said=SAID, stream=379), "serving"),
    ],
)
def test_the_phase_that_runs_is_the_last_that_began(look, phase):
    status = reports.boot(look, after(800))
    assert (status.state, status.phase, status.phases[-1].result) == ("booting", phase, "running")
    failed = reports.boot(look, after(800), "no more")
    assert (failed.state, failed.phases[-1].result, failed.cause) == ("failed", "failed", "no more")


@pytest.mark.parametrize(
    ("look", "since"),
    [
        (seen("Creating", ended=5), 0),
        (seen("Failed", ended=380, reason=NO_CAPACITY), 0),  # its log is of its whole life
        (seen("Updating", ended=5000), 5000),
        (seen("InService", ended=5000), 0),  # the first configuration is older than the endpoint
        (seen("InService", ended=5000, reason=NO_PING), 0),
        (seen("Failed", ended=5000, reason=NO_PING, machines=1), 0),
    ],
)
def test_a_move_begins_with_its_create_its_update_or_its_configuration(look, since):
    assert look.since == after(since)


@pytest.mark.parametrize("status", ["InService", "UpdateRollbackFailed", "Failed"])
def test_after_an_update_that_failed_what_was_there_serves_and_the_newest_log_says_why(status):
    look = seen(status, SAID, 379, reason=NO_PING, ended=9000, machines=1)
    fresh = {"logStreamName": "main/i-2", "creationTime": after(8000).timestamp() * 1000}
    lines = [*look.lines, *(Line(after(8001).timestamp(), text, "main/i-2") for text in CRASH)]
    look = reports.Look(look.endpoint, look.config, look.tags, [*look.streams, fresh], lines)
    ran = replace(look, move=Move(Stage.FAILED, "fs-1-b", after(7000)))
    told = reports.evidence(ran, after(9001))
    assert told.rolled_back and told.since == 2001 and told.lines == CRASH and "no layer 35" in verdict(told).why
    status = reports.boot(look, after(9001))
    assert (status.state, {p.result for p in status.phases}) == ("serving", {"done"})
    assert [p.name for p in status.phases if p.seconds is None] == ["serving"]


@pytest.mark.parametrize(
    ("look", "known"),
    [
        (seen("InService", SAID, 379), True),
        (seen("InService", SAID, 379, ended=9000), False),  # taken back in silence, scaled and back, or maintained
        (seen("InService", SAID, 379, ended=9000, reason=NO_PING), False),
        (seen("InService", SAID, 379, machines=3), False),
    ],
)
def test_a_boot_ends_when_it_served_and_not_when_the_endpoint_moved_last(look, known):
    last = reports.boot(look, after(9001)).phases[-1]
    assert (last.name, last.result, last.seconds) == ("serving", "done", 113 if known else None)


@pytest.mark.parametrize(
    ("status", "to", "state"),
    [
        ("Updating", "fs-1-b", "booting"),
        ("Updating", "", "serving"),  # it scales
        ("Updating", "fs-1-a", "serving"),
        ("RollingBack", "", "serving"),
        ("SystemUpdating", "", "serving"),
    ],
)
def test_an_endpoint_that_moves_serves_unless_it_gets_another_configuration(status, to, state):
    """A reason that is left over is no failure of what serves."""
    look = seen(status, SAID, 379, machines=1, reason=NO_PING)
    look = replace(look, endpoint={**look.endpoint, **({"PendingDeploymentSummary": {"EndpointConfigName": to}} if to else {})})
    assert reports.boot(look, after(9001)).state == state


@pytest.mark.parametrize(
    ("machines", "kind"),
    [
        ([STARTED] * 5, None),  # the same words of five machines that come up
        ([CRASH, CRASH, CRASH], None),  # each once
        ([STARTED, CRASH * 3, STARTED], "crash-loop"),
        ([CRASH * 2, STARTED, [*STARTED, OOM, DIED]], None),  # one more may do; the other is not the worst
    ],
)
def test_the_starts_of_several_machines_are_no_crash_loop_of_one(machines, kind):
    look = seen(stream=379)
    streams = [{"logStreamName": f"main/i-{n}", "creationTime": 1000.0 * n} for n in range(len(machines))]
    lines = [Line(at, text, f"main/i-{n}") for n, texts in enumerate(machines) for at, text in enumerate(texts)]
    found = verdict(reports.evidence(replace(look, streams=streams, lines=sorted(lines, key=lambda line: line.at)), after(500)))
    assert (found.kind if found is not None else None) == kind


def test_evidence_is_what_was_looked_at():
    told = reports.evidence(seen(stream=379, said=SAID[:1]), BEGAN + timedelta(seconds=400))
    assert (told.since, told.streams, told.lines) == (400, 1, ["Starting to load model x"])
    assert (told.host_cuda, told.host_driver, told.image_cuda, told.mismatch) == ("12.2", "535", "13.0", True)
    for stage in (None, *Stage):  # a reason that is left over is none of a run's
        move = Move(stage, "fs-1-b", BEGAN) if stage is not None else None
        told = reports.evidence(replace(seen("InService", reason="rolled"), move=move), BEGAN)
        assert told.rolled_back == (stage is Stage.FAILED)
    assert reports.evidence(seen(tags={}), BEGAN).mismatch is False  # without the tag nothing is claimed
