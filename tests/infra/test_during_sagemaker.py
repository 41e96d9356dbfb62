"""What the cloud shows before and during a run, and what of it is about the run."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from infra.targets.sagemaker.during import Run, Stage
from infra.targets.sagemaker.watching import stands

DAWN = datetime(2026, 11, 30, 12, tzinfo=UTC)
WHY = "it did not start"
MADE, MOVES, MOVED, FAILED, NOTHING = Stage.MADE, Stage.MOVES, Stage.MOVED, Stage.FAILED, Stage.NOTHING


def at(minute: float) -> datetime:
    return DAWN + timedelta(minutes=minute)


def shown(
    status: str, has: str, modified: float, to: str = "", reason: str = "", began: float | None = None, made: float = 0
) -> dict:
    """A description. `to`: what it moves to, since `began` where SageMaker tells."""
    pending = {"EndpointConfigName": to, **({"StartTime": at(began)} if began is not None else {})}
    return {
        "EndpointName": "fs-1", "EndpointStatus": status, "EndpointConfigName": has, "CreationTime": at(made),
        "LastModifiedTime": at(modified), **({"PendingDeploymentSummary": pending} if to else {}),
        **({"FailureReason": reason} if reason else {}),
    }  # fmt: skip


SERVES = shown("InService", "a", 10)
LEFT = shown("InService", "a", 60, reason=WHY)  # what an update that failed leaves
TO_B, TO_C = shown("Updating", "a", 100, "b", began=100), shown("Updating", "a", 130, "c", began=130)
UNTOLD = shown("Updating", "a", 100, "b")

RUNS = [
    # what there was, what is seen, and what each look is
    ("a create", None, [shown("Creating", "a", 1, "a", made=1), shown("InService", "a", 13, made=1)], [MADE, MADE]),
    ("a create that fails", None, [shown("Failed", "a", 8, reason="no", made=1)], [MADE]),
    ("made anew", shown("Failed", "a", 8, reason="no"), [shown("Creating", "c", 100, made=100)], [MADE]),
    ("a late look at the one before", shown("Failed", "a", 8, reason="no"), [shown("Failed", "a", 8, reason="no")], [NOTHING]),
    (
        "an update",
        SERVES,
        [SERVES, TO_B, shown("Updating", "b", 112), shown("InService", "b", 114)],
        [NOTHING, MOVES, MOVES, MOVED],
    ),
    ("one that takes no time", SERVES, [shown("InService", "b", 114)], [MOVED]),
    (
        "one that fails",
        SERVES,
        [TO_B, shown("RollingBack", "a", 107, reason="no"), shown("InService", "a", 108, reason="no")],
        [MOVES, FAILED, FAILED],
    ),
    ("one that fails in silence", SERVES, [TO_B, shown("InService", "a", 108)], [MOVES, FAILED]),
    ("one that goes back in silence", SERVES, [TO_B, shown("RollingBack", "a", 107)], [MOVES, NOTHING]),
    ("one that cannot go back", SERVES, [TO_B, shown("UpdateRollbackFailed", "a", 108, reason="no")], [MOVES, FAILED]),
    ("one that cannot go back, unseen", SERVES, [shown("UpdateRollbackFailed", "a", 108, reason="no")], [FAILED]),
    ("one that ends it", SERVES, [TO_B, shown("Failed", "b", 108, reason="no")], [MOVES, FAILED]),
    ("nothing after a failed update", LEFT, [LEFT, LEFT], [NOTHING, NOTHING]),
    (
        "an update after a failed one",
        LEFT,
        [LEFT, TO_B, shown("InService", "b", 114)],
        [NOTHING, MOVES, MOVED],
    ),
    ("the reason stays though it went well", LEFT, [TO_B, shown("InService", "b", 114, reason=WHY)], [MOVES, MOVED]),
    ("a second failure with the same words", LEFT, [TO_B, shown("InService", "a", 108, reason=WHY)], [MOVES, FAILED]),
    ("a late answer after the update was asked for", LEFT, [TO_B, LEFT, TO_B], [MOVES, NOTHING, MOVES]),
    ("a late answer after it went well", LEFT, [TO_B, shown("InService", "b", 114), LEFT], [MOVES, MOVED, NOTHING]),
    ("scaling", LEFT, [shown("Updating", "a", 90), shown("InService", "a", 93, reason=WHY)], [NOTHING, NOTHING]),
    ("scaling, told with its configuration", LEFT, [shown("Updating", "a", 90, "a", began=90)], [NOTHING]),
    ("scaling that fails", SERVES, [shown("RollingBack", "a", 95, reason=WHY), shown("InService", "a", 96)], [NOTHING, NOTHING]),
    ("maintenance", SERVES, [shown("SystemUpdating", "a", 90), shown("InService", "a", 95)], [NOTHING, NOTHING]),
    (
        "the end of an earlier run's update",
        TO_B,
        [TO_B, shown("RollingBack", "a", 107, reason="no"), shown("InService", "a", 108, reason="no"), TO_C,
         shown("InService", "c", 144)],
        [NOTHING, NOTHING, NOTHING, MOVES, MOVED],
    ),
    ("its end unseen", TO_B, [TO_C, shown("InService", "a", 140, reason="no")], [MOVES, FAILED]),
    ("its going back, and then this run", shown("RollingBack", "a", 107, reason="no"), [TO_C], [MOVES]),
    ("the same configuration again", TO_B, [shown("Updating", "a", 120, "b", began=120)], [MOVES]),
    ("the same again, its begin untold", UNTOLD, [shown("Updating", "a", 120, "b")], [NOTHING]),
    ("an earlier run's that goes well", TO_B, [shown("InService", "b", 114), shown("InService", "b", 114)], [NOTHING, NOTHING]),
    ("a create that goes on", shown("Creating", "a", 0, "a"), [shown("Failed", "a", 8, reason="no")], [NOTHING]),
    ("deleted by its clock", SERVES, [shown("Deleting", "a", 99)], [NOTHING]),
]  # fmt: skip


@pytest.mark.parametrize(("before", "looks", "stages"), [r[1:] for r in RUNS], ids=[r[0] for r in RUNS])
def test_only_what_happens_in_the_run_counts(before, looks, stages):
    run = Run(before, at(80) if before is not None else at(0))
    assert [run.sees(look).stage for look in looks] == stages


@settings(max_examples=60)
@given(st.lists(st.sampled_from(["InService", "UpdateRollbackFailed", "Failed", "OutOfService"]), min_size=1), st.text())
def test_an_endpoint_that_nobody_moves_has_no_verdict_whatever_is_left_on_it(statuses, reason):
    """However often it is looked at, and whatever reason it carries."""
    run = Run(shown(statuses[0], "a", 60, reason=reason), at(80))
    assert {run.sees(shown(statuses[0], "a", 60, reason=reason)).stage for _ in statuses} == {NOTHING}


@pytest.mark.parametrize(
    ("looks", "config", "since"),
    [
        ([TO_B], "b", 100),
        ([UNTOLD], "b", 100),
        ([TO_B, shown("InService", "a", 108)], "b", 100),
        ([TO_B, shown("Updating", "a", 120, "c", began=120)], "c", 120),  # by another hand, in between
        ([shown("UpdateRollbackFailed", "a", 108)], "", 80),
    ],
)
def test_the_evidence_is_of_the_configuration_that_the_run_wants_since_the_move_began(looks, config, since):
    run = Run(SERVES, at(80))
    move = [run.sees(look) for look in looks][-1]
    assert (move.config, move.since) == (config, at(since))


@pytest.mark.parametrize(
    ("status", "variant", "says"),
    [
        (
            "InService",
            {"InstanceType": "ml.g6.xlarge", "InferenceAmiVersion": "gpu-4-1"},
            "(2 ml.g6.xlarge, gpu-4-1, configuration a)",
        ),
        ("Updating", {"InstanceType": "ml.g6.xlarge"}, "a); it is Updating until SageMaker has gone back, and the next `up` waits"),
        ("InService", {}, "(2 machines of a type that is not known, configuration a)"),
    ],
)
def test_what_serves_on_is_named(status, variant, says):
    found = {**shown(status, "a", 10), "ProductionVariants": [{"CurrentInstanceCount": 2}]}
    assert stands(found, variant).startswith("fs-1 serves on as before (") and says in stands(found, variant)
