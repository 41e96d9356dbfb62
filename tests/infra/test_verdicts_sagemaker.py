"""What is seen of an endpoint and what it means: each failure its own verdict and exit code, and none while it may still serve."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from infra.targets.sagemaker import reports, verdicts
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


@settings(deadline=None)
@given(st.integers(0, 8), st.integers(0, 30))
def test_a_crash_loop_is_told_after_three_restarts_and_not_before(deaths, pings):
    """However often it was asked for its health in between."""
    ping = '10.0.0.1 - "GET /ping HTTP/1.1" 503'
    seen = Evidence("Creating", "", 500, 1, [ping] * pings + CRASH * deaths + [ping] * pings)
    found = verdict(seen)
    assert (found is not None) == (deaths >= verdicts.RESTARTS)
    assert found is None or (found.kind == "crash-loop" and "no layer 35" in found.why)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.text(max_size=40), max_size=30), st.sampled_from(["Creating", "Updating", "Failed", "InService", "Deleting"]))
def test_any_log_is_read_without_a_word_lost(lines, status):
    found = verdict(Evidence(status, "", 10, 1, lines))
    assert found is None or found.way_out
    assert (found is not None) if status == "Failed" else True


def test_words_of_the_engine_are_understood_and_others_are_not():
    printed = f"waiting for SageMaker Endpoint (fs-1) create: unexpected state 'Failed'. last error: {NO_CAPACITY}"
    assert verdicts.from_words(printed).exit_code is ExitCode.NO_CAPACITY
    assert verdicts.from_words(f"creating SageMaker Model: ValidationException: {ASSUME}").kind == "role-not-ready"
    there = verdicts.from_words('api error ValidationException: Cannot create already existing endpoint "arn:x".')
    assert "flexserve down" in there.way_out
    assert verdicts.from_words("the moon is full") is None


BEGAN = datetime(2026, 11, 30, 12, tzinfo=UTC)


def seen(status="Creating", said=(), stream=None, build=None, reason="", tags=None) -> reports.Look:
    endpoint = {
        "EndpointName": "fs-1", "EndpointStatus": status, "CreationTime": BEGAN, "LastModifiedTime": BEGAN,
        "EndpointConfigName": "fs-1-a", "FailureReason": reason,
    }  # fmt: skip
    streams = [{"logStreamName": "main/i-1", "creationTime": (BEGAN.timestamp() + stream) * 1000}] if stream is not None else []
    lines = [reports.Line(BEGAN.timestamp() + at, text) for at, text in said]
    config = {"ProductionVariants": [{"InstanceType": "ml.g4dn.xlarge", "InferenceAmiVersion": OLD_HOST["host_image"]}]}
    tags = {"flexserve-script": "5" * 64, "flexserve-cuda": "13.0"} if tags is None else tags
    return reports.Look(endpoint, config, tags, streams, lines, build or {})


SAID = [(380, "Starting to load model x"), (450, "Loading weights took 60 s"), (460, "Model loading took 7 GiB"),
        (700, "INFO:     Application startup complete.")]  # fmt: skip


def test_phases_are_read_off_what_is_seen():
    build = {"startTime": BEGAN - timedelta(seconds=800), "buildStatus": "SUCCEEDED"}
    status = reports.boot(seen("InService", SAID, 379, build), BEGAN + timedelta(seconds=793))
    assert [(p.name, p.result) for p in status.phases] == [
        (name, "done") for name in ("image", "instance", "start", "weights", "load", "compile", "serving")
    ]
    by_name = {p.name: p for p in status.phases}
    assert by_name["image"].seconds == 800 and by_name["instance"].seconds == 379 and by_name["weights"].start_s == 1180
    assert (status.state, status.script) == ("serving", "5" * 64)


@pytest.mark.parametrize(
    ("look", "phase"),
    [
        (seen(), "instance"),
        (seen(stream=379), "start"),
        (seen(said=SAID[:1], stream=379), "weights"),
        (seen(said=SAID[:2], stream=379), "load"),
        (seen(said=SAID[:3], stream=379), "compile"),
        (seen(said=SAID, stream=379), "serving"),
    ],
)
def test_the_phase_that_runs_is_the_last_that_began(look, phase):
    status = reports.boot(look, BEGAN + timedelta(seconds=800))
    assert (status.state, status.phase, status.phases[-1].result) == ("booting", phase, "running")
    failed = reports.boot(look, BEGAN + timedelta(seconds=800), "no more")
    assert (failed.state, failed.phases[-1].result, failed.cause) == ("failed", "failed", "no more")


def test_evidence_is_what_was_looked_at():
    told = reports.evidence(seen(stream=379, said=SAID[:1]), BEGAN + timedelta(seconds=400))
    assert (told.since, told.streams, told.lines) == (400, 1, ["Starting to load model x"])
    assert (told.host_cuda, told.host_driver, told.image_cuda, told.mismatch) == ("12.2", "535", "13.0", True)
    assert reports.evidence(seen("InService", reason="rolled"), BEGAN).rolled_back
    assert not reports.evidence(seen("InService"), BEGAN).rolled_back
    assert reports.evidence(seen(tags={}), BEGAN).mismatch is False  # without the tag nothing is claimed
