"""SageMaker's resources where it goes wrong: late roles, endpoints that fail, deletes that come too early."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import grpc
import pytest
from grpc_status import rpc_status
from pulumi.runtime.proto import provider_pb2

from rehearsal.cloud.aws import LocalAwsCloud, Pace
from rehearsal.cloud.aws.call import Trouble
from rehearsal.cloud.aws.errors import AwsError
from tests.cloud_aws.containers import Shelf
from tests.providers.direct import Direct, Made
from tests.providers_aws.account import Account
from tests.providers_aws.program import Program

NAME = "fs-k3x9q2"


def kept(caught: pytest.ExceptionInfo[grpc.RpcError]) -> list[str]:
    """Why what was made or changed halfway is kept in the state; empty where nothing is."""
    status = rpc_status.from_call(caught.value)
    detail = provider_pb2.ErrorResourceInitFailed()
    found = status is not None and any(part.Unpack(detail) for part in status.details)
    return list(detail.reasons) if found else []


def failed(caught: pytest.ExceptionInfo[grpc.RpcError]) -> str:
    return " ".join([str(caught.value.details()), *kept(caught)])


def serving(owner: Account, aws: Direct) -> tuple[Program, Made]:
    program = Program(owner, aws)
    return program, program.make("endpoint hosted")


def other_configuration(program: Program, aws: Direct, name: str = "other") -> str:
    _, arguments = program.arguments("configuration")
    arguments["productionVariants"][0]["instanceType"] = "ml.g6.xlarge"
    return str(aws.create("aws:sagemaker/endpointConfiguration:EndpointConfiguration", arguments, name).outputs["name"])


def dies(cloud: LocalAwsCloud) -> None:
    cluster: Any = cloud.state.sagemaker.host
    cluster.dies = True


def test_a_model_waits_for_its_role(owner: Account, aws: Direct) -> None:
    owner.cloud.delay_iam(20)
    Program(owner, aws).make("model")
    assert sum(owner.slept) >= 15


def test_a_project_waits_for_its_role(owner: Account, aws: Direct) -> None:
    owner.cloud.delay_iam(20)
    Program(owner, aws).make("project")
    assert sum(owner.slept) >= 15


def test_a_name_of_ones_own_asks_for_delete_first(owner: Account, aws: Direct) -> None:
    program = Program(owner, aws)
    kind, arguments = program.arguments("model")
    for given, first in (({}, False), ({"name": "fs-k3x9q2-a"}, True)):
        made = aws.create(kind, arguments | given, "one")
        changed = arguments | given | {"executionRoleArn": "arn:aws:iam::000000000000:role/x"}
        answer = aws.diff(made, aws.check(kind, changed | ({"name": "fs-k3x9q2-b"} if first else {}), "one", made.inputs))
        assert (answer.op, answer.delete_first) == ("replace", first)


def test_a_create_that_fails_leaves_nothing_in_the_state(owner: Account, aws: Direct) -> None:
    owner.cloud.take_endpoint_type("*")
    with pytest.raises(grpc.RpcError) as caught:
        serving(owner, aws)
    text = failed(caught)
    assert "unexpected state 'Failed', wanted target 'InService'. last error: Unable to provision" in text
    assert kept(caught) == []
    assert owner.cloud.endpoints() == {NAME: "Failed"}


def test_an_endpoint_that_failed_by_its_role_is_made_again(owner: Account, aws: Direct, monkeypatch: pytest.MonkeyPatch) -> None:
    from rehearsal.cloud.aws.sagemaker import endpoints
    from rehearsal.providers.aws.resources.sagemaker_endpoint import LATE_ROLE

    real, times = endpoints._created, []

    def late(state: Any, endpoint: Any, why: str) -> None:
        times.append(why)
        real(state, endpoint, f'The execution role ARN "x" is invalid. {LATE_ROLE}' if len(times) == 1 else why)

    monkeypatch.setattr(endpoints, "_created", late)
    serving(owner, aws)
    assert len(times) == 2 and owner.cloud.endpoints() == {NAME: "InService"}


def test_an_update_that_rolls_back_is_an_error_with_its_reason(owner: Account, aws: Direct) -> None:
    program, made = serving(owner, aws)
    dies(owner.cloud)
    _, arguments = program.arguments("endpoint hosted")
    inputs = aws.check(made.type, arguments | {"endpointConfigName": other_configuration(program, aws)}, "e", made.inputs)
    with pytest.raises(grpc.RpcError) as caught:
        aws.update(made, inputs)
    assert "unexpected state 'RollingBack', wanted target 'InService'. last error: The primary container" in failed(caught)


def test_an_update_that_is_taken_back_in_silence_goes_well_and_shows_the_old_configuration(owner: Account, aws: Direct) -> None:
    program, made = serving(owner, aws)
    pace = owner.cloud.state.pace
    owner.cloud.state.pace = replace(pace, hosting=replace(pace.hosting, roll_back=0.0))
    dies(owner.cloud)
    _, arguments = program.arguments("endpoint hosted")
    inputs = aws.check(made.type, arguments | {"endpointConfigName": other_configuration(program, aws)}, "e", made.inputs)
    assert (
        aws.update(made, inputs).outputs["endpointConfigName"] == made.inputs["endpointConfigName"] != inputs["endpointConfigName"]
    )


def test_an_update_takes_the_new_configuration_in_the_time_that_was_recorded(owner: Account, aws: Direct) -> None:
    owner.cloud.state.pace = Pace()
    program, made = serving(owner, aws)
    _, arguments = program.arguments("endpoint hosted")
    wanted = other_configuration(program, aws)
    updated = aws.update(made, aws.check(made.type, arguments | {"endpointConfigName": wanted}, "e", made.inputs))
    assert updated.outputs["endpointConfigName"] == wanted and owner.cloud.endpoints() == {NAME: "InService"}
    assert sum(owner.slept) >= 2 * Pace().hosting.in_service - 20  # it looked until then, twice


def test_an_endpoint_in_creation_is_not_deleted(owner: Account, aws: Direct) -> None:
    _, made = serving(owner, aws)
    busy = AwsError("ValidationException", f'Cannot update in-progress endpoint "{made.outputs["arn"]}".')
    owner.cloud.arm(Trouble("sagemaker.DeleteEndpoint", lambda _: busy))
    with pytest.raises(grpc.RpcError) as caught:
        aws.delete(made)
    assert "Cannot update in-progress endpoint" in failed(caught)
    aws.delete(made)
    assert owner.cloud.endpoints() == {NAME: "Deleting"} and aws.read(made) is None


def test_a_repository_with_images_goes_only_by_force(owner: Account, aws: Direct) -> None:
    shelf = Shelf()
    owner.cloud.serve_containers(images=shelf)
    program = Program(owner, aws)
    made = program.make("repository")
    shelf.put(owner.cloud.account, NAME, "one")
    with pytest.raises(grpc.RpcError) as caught:
        aws.delete(made)
    assert "not empty, consider using force_delete" in failed(caught)
    forced = aws.update(made, aws.check(made.type, program.arguments("repository")[1] | {"forceDelete": True}, "r", made.inputs))
    aws.delete(forced)
    assert aws.read(forced) is None
