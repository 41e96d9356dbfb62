"""Which deployments a stack has had, by the tags of what they left; in the local AWS, over HTTP."""

from __future__ import annotations

import pytest

from infra.targets.protocol import CanRecall
from infra.targets.sagemaker import rights
from infra.targets.sagemaker.names import Names
from tests.infra.sagemaker_scene import REGION, TAGS, WINDOW_S
from tests.infra.test_live_sagemaker import running, scene
from verdict.errors import NoAccess

__all__ = ("running", "scene")


def left(scene, id_, lines=("why",), repository=False, **tags):
    """What one life leaves: its log, and a repository with an image."""
    names, at = Names(id_), scene.cloud.clock.now()
    marked = {
        **TAGS,
        "flexserve-stack": f"s{scene.ref.id}",
        "flexserve-id": id_,
        "flexserve-expires": str(int(at) + WINDOW_S),
        **tags,
    }
    scene.call("logs", "create_log_group", logGroupName=names.logs, tags=marked)
    scene.cloud.state.logs.write(names.logs, "main/i-1", list(lines), int(at * 1000))
    if repository:
        pairs = [{"Key": k, "Value": v} for k, v in marked.items()]
        scene.call("ecr", "create_repository", repositoryName=names.base, tags=pairs)
        scene.images.keep(scene.cloud.account, names.base, "one")


def told(scene):
    """By id: whether it goes on, and the kinds of what is kept."""
    lives = scene.live.lives(f"s{scene.ref.id}", "me")
    assert isinstance(scene.live, CanRecall) and all(life.ref.stack == f"s{scene.ref.id}" for life in lives)
    return {life.ref.id: (life.going_on, [thing.kind for thing in life.kept]) for life in lives}


def test_every_life_of_a_stack_is_found_by_what_it_left_and_no_others(scene):
    """Another owner's, another stack's, one without tags, and one that is none of ours are not among them."""
    ids = [f"{scene.ref.id}{n}" for n in range(6)]
    left(scene, ids[0])
    left(scene, ids[1], repository=True)
    for id_, tags in zip(ids[2:], ({"flexserve-owner": "you"}, {"flexserve-stack": "other"}, {"app": "x"}, {}), strict=True):
        left(scene, id_, **tags)
    scene.call("logs", "untag_resource", resourceArn=_arn(scene, ids[5]), tagKeys=["flexserve-id", "flexserve-stack"])
    assert told(scene) == {ids[0]: ("", ["log-group"]), ids[1]: ("", ["log-group", "repository"])}


def _arn(scene, id_):
    name = Names(id_).logs
    (found,) = scene.call("logs", "describe_log_groups", logGroupNamePrefix=name)["logGroups"]
    return found["logGroupArn"]


def test_a_role_before_the_windows_end_is_of_somebody_who_is_at_work(scene):
    left(scene, scene.ref.id)
    here = rights.repository_arn(REGION, scene.cloud.account, scene.names.base)
    scene.role(scene.names.run, rights.SAGEMAKER, rights.run(REGION, scene.names, here))
    says, kept = told(scene)[scene.ref.id]
    assert says.startswith(f"role {scene.names.run} is there") and kept == ["log-group"]
    scene.cloud.clock.advance(WINDOW_S + 1)
    assert told(scene)[scene.ref.id] == ("", ["log-group"])


def test_an_endpoint_that_another_state_made_goes_on(scene):
    scene.create()
    ((life,)) = [x for x in scene.live.lives("sagemaker-t4", "me") if x.ref.id == scene.ref.id]
    assert f"endpoint {scene.names.base} in us-east-2 is there" in life.going_on
    scene.call("logs", "delete_log_group", logGroupName=scene.names.logs)
    scene.call("ecr", "delete_repository", repositoryName=scene.names.base, force=True)
    assert scene.ref.id in {x.ref.id for x in scene.live.lives("sagemaker-t4", "me")}  # by its own tags


def test_who_may_not_look_is_told_so(scene):
    left(scene, scene.ref.id)
    scene.cloud.deny("logs:ListTagsForResource")
    with pytest.raises(NoAccess):
        scene.live.lives("sagemaker-t4", "me")
