"""Everything that an endpoint's component can make is known to the sweep, and goes with it; an image of the operator's does not."""

from __future__ import annotations

import msgspec

from infra.kept import FACTS
from infra.targets.sagemaker.names import Names
from infra.targets.sagemaker.resources import METRICS
from infra.targets.sagemaker.rights import VARIANTS
from infra.targets.sagemaker.sweep import KINDS
from tests.infra.test_component_sagemaker import ACCOUNT, ARN, DIGEST, ID, SAID, SECRET, TODAY, problems, register
from tests.infra.test_live_sagemaker import project, running, scene

__all__ = ("register", "running", "scene")

MADE_AS = {
    "Repository": "repository", "Bucket": "bucket", "BucketObjectv2": "object", "LogGroup": "log-group", "Project": "build-project",
    "Role": "role", "Model": "model", "EndpointConfiguration": "endpoint-config", "Endpoint": "endpoint", "Schedule": "schedule",
    "Target": "scaling", "Budget": "budget",
}  # fmt: skip
"""Pulumi's type of everything that can be made -> the kind of the sweep that finds it."""
RUN = {"build"}
"""What a resource runs, and what outlives it."""
GO_WITH_OTHERS = {"Stack", "RolePolicy", "BucketPublicAccessBlock", "Policy"}
"""What AWS deletes with the role, the bucket, the scalable target."""


def test_the_sweep_knows_everything_that_can_be_made_and_by_the_name_that_it_has(register):
    kinds, _, _ = register("target.count={min: 1, max: 3}", "target.alarm={usd: 100, mail: ops@acme.test}", *SECRET)
    assert set(kinds) == set(MADE_AS) | GO_WITH_OTHERS
    assert {kind.name for kind in KINDS} == set(MADE_AS.values()) | RUN
    assert kinds["Target"][0]["resourceId"] == Names(ID).resource and kinds["Budget"][0]["name"] == Names(ID).base


def test_an_image_that_was_patched_before_is_run_as_it_is(register):
    """Nothing is built, the role may pull from that repository, and the wrapper in the image gets the secret."""
    ours = msgspec.structs.replace(SAID, cuda="12.9.1", cards=(), checked=("7.5",), turing="1", secret=True)
    sets = ("target.image_source=own", f"image.name={ACCOUNT}.dkr.ecr.us-east-2.amazonaws.com/mine:x", *SECRET)
    kinds, outputs, asked = register(*sets, table={**TODAY, FACTS: ours.text()})
    assert list(problems(kinds)) == [] and asked == [] and not {"Project", "Repository", "Bucket"} & set(kinds)
    assert outputs["image"] == f"{ACCOUNT}.dkr.ecr.us-east-2.amazonaws.com/mine@{DIGEST}"
    assert kinds["Model"][0]["primaryContainer"]["environment"]["FLEXSERVE_SECRET_ARN"] == ARN
    config = kinds["EndpointConfiguration"][0]
    assert config["productionVariants"][0]["inferenceAmiVersion"] == "al2-ami-sagemaker-inference-gpu-3-1"
    assert config["tags"]["flexserve-cuda"] == "12.9.1"  # no catalog knows it: the image said it


def test_everything_that_a_deployment_can_make_is_found_and_deleted(scene):
    """Of every kind that the sweep knows there is one."""
    scene.create()
    project(scene)
    scaled = {"ServiceNamespace": "sagemaker", "ScalableDimension": VARIANTS, "ResourceId": scene.names.resource}
    tracking = {"TargetValue": 8.0, "PredefinedMetricSpecification": {"PredefinedMetricType": METRICS["concurrency"]}}
    policy = {"PolicyType": "TargetTrackingScaling", "TargetTrackingScalingPolicyConfiguration": tracking}
    scene.call("application-autoscaling", "register_scalable_target", MinCapacity=1, MaxCapacity=3, **scaled)
    scene.call("application-autoscaling", "put_scaling_policy", PolicyName=scene.names.base, **policy, **scaled)
    budget = {"BudgetName": scene.names.base, "BudgetType": "COST", "TimeUnit": "MONTHLY"}
    limit = {"BudgetLimit": {"Amount": "9", "Unit": "USD"}}
    scene.call("budgets", "create_budget", AccountId=scene.cloud.account, Budget=budget | limit)
    scene.builder.may.clear()
    scene.call("codebuild", "start_build", projectName=scene.names.base)
    assert [kind.name for kind in KINDS if kind.name not in {t.kind for t in scene.live.inventory(scene.ref)}] == []
    for thing in scene.live.inventory(scene.ref):
        scene.live.delete(thing)
    assert scene.live.inventory(scene.ref) == []
    scene.builder.may.set()
    about = {"ServiceNamespace": "sagemaker", "ResourceId": scene.names.resource}
    assert scene.call("application-autoscaling", "describe_scaling_policies", **about)["ScalingPolicies"] == []
    assert scene.call("application-autoscaling", "describe_scalable_targets", ServiceNamespace="sagemaker")["ScalableTargets"] == []
    assert not scene.call("budgets", "describe_budgets", AccountId=scene.cloud.account).get("Budgets")


def test_a_build_that_runs_is_stopped_though_its_project_is_gone(scene):
    """The engine deletes the project before the sweep; a build that has ended, and one of somebody else's, are let be."""
    project(scene)
    scene.builder.may.clear()
    scene.call("codebuild", "start_build", projectName=scene.names.base)
    scene.call("codebuild", "delete_project", name=scene.names.base)
    (found,) = [t for t in scene.live.inventory(scene.ref) if t.kind == "build"]
    assert found.price_per_hour == 1.2 and not found.kept  # by CodeBuild's minute
    assert not [t for t in scene.live.inventory(scene.foreign) if t.kind == "build"]
    scene.live.delete(found)
    scene.builder.may.set()
    assert not [t for t in scene.live.inventory(scene.ref) if t.kind == "build"]
    (build,) = scene.call("codebuild", "batch_get_builds", ids=[found.name])["builds"]
    assert build["buildStatus"] == "STOPPED"
