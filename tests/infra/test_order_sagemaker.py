"""In which order an endpoint's things are made and changed: what ends it comes before it, and a change loses no machine."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from catalog.loader import Catalog
from infra.kept import from_state
from infra.settle import settle
from infra.targets.protocol import DeploymentRef, Machine
from infra.targets.sagemaker import resources as r
from infra.targets.sagemaker.config import Config
from infra.targets.sagemaker.moving import Serving
from infra.targets.sagemaker.resources import METRICS
from infra.targets.sagemaker.rights import VARIANTS
from infra.targets.sagemaker.verdicts import EndpointFailed
from startup.render import render
from tests.infra.sagemaker_scene import UP_S
from tests.infra.test_component_sagemaker import BASE, ID, TODAY, register
from tests.infra.test_live_sagemaker import running, scene
from tests.infra.test_settle import answers, at
from verdict.errors import FlexserveError, NoAccess, NoCapacity

__all__ = ("register", "running", "scene")

SCALES = "target.count={min: 2, max: 6}"
L4 = "ml.g6.xlarge"


def test_what_ends_it_is_there_before_it_bills_and_goes_after_it(register, monkeypatch):
    """The engine makes what something depends on before it, and deletes it after it."""
    from infra.targets.sagemaker import component

    real, before = component.aws.sagemaker.Endpoint, []

    def made(*arguments: Any, **keywords: Any) -> Any:
        before.extend(keywords["opts"].depends_on)
        return real(*arguments, **keywords)

    monkeypatch.setattr(component.aws.sagemaker, "Endpoint", made)
    register("target.alarm={usd: 100, mail: ops@acme.test}")
    assert {type(resource).__name__ for resource in before} == {"Schedule", "Budget", "LogGroup", "RolePolicy"}


@pytest.mark.parametrize(
    "sets",
    [
        ["target.machine_type=ml.g4dn.2xlarge"],
        ["target.count={min: 2, max: 2}"],
        ["serving.max_num_seqs=8"],
        ["target.start_timeout=1200"],
        ["model.revision=" + "d" * 40],
    ],
)
def test_a_change_makes_another_configuration_and_keeps_the_endpoint(sagemaker_t4, sets):
    """Nothing but the region is held against a live endpoint: it moves to the new configuration."""
    first = settle(sagemaker_t4(), Catalog.load(), None, at(), answers(TODAY))
    later = settle(sagemaker_t4(*sets), Catalog.load(), first.kept, at(live=True, now=9999), answers(TODAY))
    assert later.replaces == () and later.words == () and later.kept.started == first.kept.started

    def all_of(s):
        made = r.model(s.plan, s.kept, "uri", "role")
        return r.configuration(s.plan, s.kept, render(s.plan.boot), made["name"]), r.endpoint(s.plan, s.kept, "config")

    assert all_of(first)[0] != all_of(later)[0] and all_of(first)[1] == all_of(later)[1]


def test_since_when_it_has_which_price_is_kept(sagemaker_t4):
    """A change that costs the same adds nothing, nor does a day later; another window begins anew."""
    catalog, two = Catalog.load(), "target.count={min: 2, max: 2}"
    first = settle(sagemaker_t4(), catalog, None, at(), answers(TODAY)).kept
    assert first.prices == ((first.started, 0.736),)
    other = settle(sagemaker_t4("serving.max_num_seqs=8"), catalog, first, at(live=True, now=5000), answers(TODAY)).kept
    dearer = settle(sagemaker_t4(two), catalog, from_state(other.as_state()), at(live=True, now=9999), answers(TODAY))
    assert other.prices == first.prices and dearer.kept.prices == (*first.prices, (9999, 1.472))
    assert r.outputs(dearer.plan, dearer.kept, render(dearer.plan.boot))["prices"] == [[first.started, 0.736], [9999, 1.472]]
    anew = settle(sagemaker_t4(), catalog, dearer.kept, at(live=False, now=20000), answers(TODAY)).kept
    assert anew.prices == ((20000, 0.736),)


HAS = {"InstanceType": "ml.g4dn.xlarge", "InitialInstanceCount": 3}


@pytest.mark.parametrize(
    ("sets", "over", "wanted", "count"),
    [
        ([], {}, 5, 3),  # scaling alone is no change
        ([], {}, 0, 3),  # it does not say how many
        (["target.count={min: 4, max: 6}"], {}, 5, 3),  # nor are bounds that hold already: the scalable target has them
        (["target.count={min: 4, max: 6}"], {}, 3, 4),
        (["target.count={min: 2, max: 4}"], {}, 5, 4),
        (["target.machine_type=ml.g4dn.2xlarge"], {}, 5, 5),
        ([], {"ModelName": "before"}, 5, 5),
        ([], {"ContainerStartupHealthCheckTimeoutInSeconds": 60}, 9, 6),
        ([], {"InferenceAmiVersion": "another"}, 0, 2),
        ([], {"InitialInstanceCount": None}, 5, 2),
    ],
)
def test_a_change_keeps_the_machines_that_scaling_has_come_to(sagemaker_t4, sets, over, wanted, count):
    first = settle(sagemaker_t4(SCALES), Catalog.load(), None, at(), answers(TODAY))
    (variant,) = r.configuration(first.plan, first.kept, render(first.plan.boot), "model")["production_variants"]
    shown = {"".join(word.title() for word in key.split("_")): value for key, value in variant.items()}
    later = settle(sagemaker_t4(SCALES, *sets), Catalog.load(), first.kept, at(live=True, now=9999), answers(TODAY))
    assert r.machines(later.plan, "model", Serving("config", {**shown, **HAS, **over}, wanted)) == count


@pytest.mark.parametrize(("kind", "scales", "said"), [(L4, True, 1), ("ml.g4dn.xlarge", True, 0), (L4, False, 0)])
def test_an_update_waits_until_the_endpoint_can_be_changed(register, monkeypatch, kind, scales, said):
    """`Serving` is of a configuration that is not the wanted one. A preview says what it does to scaling, and does nothing."""
    from infra.targets.sagemaker import component

    words: list[str] = []
    monkeypatch.setattr(component.pulumi.log, "info", words.append)
    register.cloud.there = Machine(BASE, "us-east-2", "inservice", None, None, {})
    register.cloud.now = Serving("before", {"InstanceType": kind}, 4, scales)
    kinds, _, _ = register(SCALES)
    assert register.cloud.readied == ["ml.g4dn.xlarge"] and len(words) == said
    (variant,) = kinds["EndpointConfiguration"][0]["productionVariants"]
    assert variant["initialInstanceCount"] == 4 and kinds["Endpoint"][0]["name"] == BASE
    without, _, _ = register()
    assert without["EndpointConfiguration"][0]["productionVariants"][0]["initialInstanceCount"] == 1  # it scales no more
    monkeypatch.setattr(component.pulumi.runtime, "is_dry_run", lambda: True)
    register.cloud.readied.clear()
    c = Config(machine_type="ml.g4dn.xlarge")
    assert component.readied(c, DeploymentRef("sagemaker-t4", ID), register.cloud.now, BASE, "next") == BASE
    assert register.cloud.readied == []


@pytest.mark.parametrize(
    ("told", "says"),
    [
        (None, "still has the configuration before.*gives no reason"),
        (NoCapacity("none now"), "none now"),
        (EndpointFailed("it failed", why="its own words"), "still has the configuration before.*its own words"),
        (NoAccess("x"), "still has"),
    ],
)
def test_an_update_that_was_taken_back_is_an_error_of_the_program_so_that_what_serves_keeps_its_configuration(
    register, monkeypatch, told, says
):
    """The provider calls it done, and the engine would delete the old configuration at its end."""
    from infra.targets.sagemaker import component

    def went_back(_: DeploymentRef, wanted: str, since: Any) -> FlexserveError | None:
        assert (wanted, since) == ("wanted", TODAY)
        if isinstance(told, NoAccess):
            raise told
        return told

    ref = DeploymentRef("sagemaker-t4", ID)
    register.cloud.went_back = went_back
    with pytest.raises(component.pulumi.RunError, match=f"(?s){says}"):
        asyncio.run(component.moved("us-east-2", ref, "wanted", "before", TODAY))
    asyncio.run(component.moved("us-east-2", ref, "wanted", "wanted", TODAY))
    monkeypatch.setattr(component.pulumi.runtime, "is_dry_run", lambda: True)
    asyncio.run(component.moved("us-east-2", ref, "wanted", "before", TODAY))


def test_every_update_is_looked_at(register, monkeypatch):
    from infra.targets.sagemaker import component

    looked: list[Any] = []

    async def moved(*names: Any) -> str:
        looked.append(names)
        return ""

    monkeypatch.setattr(component, "moved", moved)
    kinds, _, _ = register()
    (config,), (endpoint,) = kinds["EndpointConfiguration"], kinds["Endpoint"]
    assert looked == [
        ("us-east-2", DeploymentRef("sagemaker-t4", ID), config.get("name"), endpoint.get("endpointConfigName"), None)
    ]


def grown(scene: Any, count: int) -> None:
    """An endpoint that scales, and so many machines by now."""
    scene.create()
    scaled = {"ServiceNamespace": "sagemaker", "ScalableDimension": VARIANTS, "ResourceId": scene.names.resource}
    tracking = {"TargetValue": 8.0, "PredefinedMetricSpecification": {"PredefinedMetricType": METRICS["concurrency"]}}
    scene.call("application-autoscaling", "register_scalable_target", MinCapacity=1, MaxCapacity=3, **scaled)
    policy = {"PolicyType": "TargetTrackingScaling", "TargetTrackingScalingPolicyConfiguration": tracking}
    scene.call("application-autoscaling", "put_scaling_policy", PolicyName=scene.names.base, **policy, **scaled)
    wanted = [{"VariantName": "main", "DesiredInstanceCount": count}]
    scene.call(
        "sagemaker", "update_endpoint_weights_and_capacities", EndpointName=scene.names.base, DesiredWeightsAndCapacities=wanted
    )


def test_one_that_scales_just_now_is_waited_for_and_taken_out_of_scaling(scene):
    """SageMaker refuses the update before, for the one reason and for the other."""
    grown(scene, 2)
    status = scene.live.boot(scene.ref)  # which is serving all the while
    assert (status.state, {phase.result for phase in status.phases}) == ("serving", {"done"})
    assert "is Updating" in scene.live.held(scene.ref)
    now = scene.live.serving(scene.ref)
    assert (now.machines, now.scales, now.variant["InstanceType"]) == (1, True, "ml.g4dn.xlarge")
    assert now.moves_scaled(L4) and not now.moves_scaled("ml.g4dn.xlarge")
    update = {"EndpointName": scene.names.base, "EndpointConfigName": scene.configuration(L4)}
    with pytest.raises(FlexserveError, match="AWS refused") as refused:
        scene.call("sagemaker", "update_endpoint", **update)
    assert "in-progress" in refused.value.why
    scene.cloud.clock.advance(UP_S - 15)
    scene.live.make_ready(scene.ref, "ml.g4dn.xlarge")
    assert scene.live.serving(scene.ref).machines == 2 and scene.live.held(scene.ref) == ""
    with pytest.raises(FlexserveError, match="AWS refused") as refused:
        scene.call("sagemaker", "update_endpoint", **update)
    assert "must be deregistered as scalable target" in refused.value.why
    scene.live.make_ready(scene.ref, L4)
    assert not scene.live.serving(scene.ref).scales
    scene.call("sagemaker", "update_endpoint", **update)
    scene.cloud.clock.advance(UP_S + 100)
    assert scene.live.serving(scene.ref).variant["InstanceType"] == L4
    scene.live.delete(scene.live.holder(scene.ref))
    assert scene.live.serving(scene.ref) is None
    scene.live.make_ready(scene.ref, L4)
