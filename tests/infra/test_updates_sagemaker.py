"""Updates of a live endpoint: why one failed, what serves on, and that nothing of it is held against the next."""

from __future__ import annotations

from dataclasses import replace

from infra.targets.sagemaker.verdicts import from_words
from tests.infra.sagemaker_scene import HOST12, HOST13, UP_S
from tests.infra.test_live_sagemaker import running, scene

__all__ = ["running", "scene"]  # the same fixtures


def test_an_update_that_fails_is_told_and_what_was_there_serves_on(scene):
    scene.create()
    scene.cloud.take_endpoint_type("ml.g6.xlarge")
    watch = scene.live.watch(scene.ref)
    scene.move("ml.g6.xlarge", script="6" * 64)
    assert watch.look() is None  # and so it is seen to move
    scene.cloud.clock.advance(1900)
    found = watch.look()
    assert found is not None and found.kind == "no-capacity" and "ml.g6.xlarge" in found.what
    has = scene.call("sagemaker", "describe_endpoint", EndpointName=scene.names.base)["EndpointConfigName"]
    assert "serves on as before (1 ml.g4dn.xlarge, " in watch.stands and f"configuration {has})" in watch.stands
    status = scene.live.boot(scene.ref)
    assert (status.state, status.script) == ("serving", "5" * 64) and scene.live.find(scene.ref).dead == ""


def test_what_is_left_of_an_update_that_failed_says_nothing_of_the_next_run(scene):
    """Its reason stays, and so do its log and the machines that serve on; the next update is told by itself, bad or good."""
    scene.create()
    scene.move(host=HOST12)
    scene.cloud.clock.advance(600)
    assert scene.call("sagemaker", "describe_endpoint", EndpointName=scene.names.base)["FailureReason"].startswith("CannotStart")
    watch = scene.live.watch(scene.ref)
    assert watch.look() is None
    scene.cluster.dies = True
    scene.move()
    assert watch.look() is None and watch.stands == ""
    scene.cloud.clock.advance(379 + 181)
    found = watch.look()
    assert found.kind == "out-of-memory" and "is Updating until SageMaker has gone back" in watch.stands
    following = scene.live.watch(scene.ref)  # while SageMaker still tries
    assert following.look() is None
    scene.cloud.clock.advance(1000)
    assert following.look() is None and watch.look().kind == "out-of-memory"
    scene.cluster.dies = False
    scene.move(script="6" * 64)
    assert following.look() is None
    scene.cloud.clock.advance(UP_S + 60)
    status = scene.live.boot(scene.ref)
    assert following.look() is None and (status.state, status.script) == ("serving", "6" * 64)


def test_a_host_image_that_an_update_brings_is_told_by_its_own_driver(scene):
    scene.create()
    watch = scene.live.watch(scene.ref)
    scene.move(host=HOST12)
    assert watch.look() is None
    scene.cloud.clock.advance(400)
    found = watch.look()
    assert found.kind == "driver-mismatch" and "550" in found.why and "no log stream after 7 minutes" in found.why
    assert HOST13 in watch.stands


def test_after_an_update_the_new_script_runs(scene):
    scene.create()
    watch = scene.live.watch(scene.ref)
    scene.move("ml.g6.xlarge", script="6" * 64)
    assert "is Updating" in scene.live.held(scene.ref) and watch.look() is None
    assert not scene.live.find(scene.ref).updated
    scene.cloud.clock.advance(1200)
    status = scene.live.boot(scene.ref)
    assert (status.state, status.script) == ("serving", "6" * 64) and watch.look() is None
    assert scene.live.find(scene.ref).updated


def test_one_that_is_taken_back_in_silence_is_told_by_the_run_that_saw_it_move_and_by_the_program(scene):
    scene.create()
    before = scene.cloud.state.pace
    try:
        scene.cloud.state.pace = replace(before, hosting=replace(before.hosting, roll_back=0.0))
        watch, now = scene.live.watch(scene.ref), scene.live.serving(scene.ref)
        scene.cluster.dies = True
        scene.move(script="6" * 64)
        wanted = scene.call("sagemaker", "describe_endpoint", EndpointName=scene.names.base)["PendingDeploymentSummary"]
        assert watch.look() is None
        scene.cloud.clock.advance(379 + 900 + 60)
        shown = scene.call("sagemaker", "describe_endpoint", EndpointName=scene.names.base)
        assert shown["EndpointStatus"] == "InService" and "FailureReason" not in shown
        assert watch.look().kind == "out-of-memory" and watch.stands.startswith(
            f"{scene.names.base} serves on as before (1 ml.g4dn"
        )
        assert scene.live.went_back(scene.ref, wanted["EndpointConfigName"], now.at).kind == "out-of-memory"
    finally:
        scene.cloud.state.pace = before


def test_an_update_that_no_look_saw_is_told_by_what_the_engine_failed_with(scene):
    scene.create()
    watch = scene.live.watch(scene.ref)
    scene.move(host=HOST12)
    scene.cloud.clock.advance(420)
    said = (
        f"waiting for SageMaker AI Endpoint ({scene.names.base}) update: unexpected state 'RollingBack', wanted target 'InService'."
    )
    assert watch.look() is None and watch.look(["creating IAM Role: not allowed"]) is None
    found = watch.look([said])
    assert found.kind == "driver-mismatch" and "driver 550" in found.why and HOST13 in watch.stands


def test_words_alone_say_nothing_of_a_log_that_nobody_looked_for():
    found = from_words("waiting for SageMaker AI Endpoint (fs-1) update: unexpected state. last error: CannotStartContainerError.")
    assert found.kind == "driver-mismatch" and "log" not in found.why
