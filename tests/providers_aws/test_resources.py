"""Every resource from create to delete, as the engine would ask for it."""

import pytest

from rehearsal.providers.aws.resources import RESOURCES
from tests.providers.direct import Direct, Made
from tests.providers_aws.account import Account
from tests.providers_aws.program import PARTS, Arguments, Program

ROLES = ("clock", "hosting", "hosting policy", "builder")
"""More of what there is one of already."""
ONE_OF_EACH = {PARTS[name][0]: name for name in PARTS if name not in ROLES}
FOUND_BY = {
    "aws:appautoscaling/target:Target": "sagemaker/{0}/sagemaker:variant:DesiredInstanceCount",
    "aws:appautoscaling/policy:Policy": "sagemaker/endpoint/{0}/variant/main/sagemaker:variant:DesiredInstanceCount/{0}",
}
"""What an import is asked for, where it is not the id."""


AFTER_IMPORT = {"script": {"content", "etag"}, "configuration": {"namePrefix"}, "project": {"logsConfig"}}
"""What a program still changes of something imported: an object's content, a name's prefix, where a build writes its log."""


def test_the_program_has_every_resource() -> None:
    assert ONE_OF_EACH.keys() == RESOURCES.keys()


@pytest.mark.parametrize("name", ONE_OF_EACH.values())
def test_a_life(owner: Account, aws: Direct, name: str) -> None:
    """Create, refresh without drift, plan without a change, import, other tags, delete, gone."""
    program = Program(owner, aws)
    kind, arguments = program.arguments(name)
    made = aws.create(kind, arguments, name)

    refreshed = aws.read(made)
    assert refreshed is not None
    assert {key: value for key, value in refreshed.outputs.items() if value != made.outputs[key]} == {}
    assert refreshed.inputs == made.inputs
    assert aws.diff(refreshed, aws.check(kind, arguments, name, olds=made.inputs)).changes == {}

    found = aws.find(kind, FOUND_BY.get(kind, "{0}").format(made.id))
    assert found is not None
    assert aws.diff(found, aws.check(kind, arguments, name, olds=found.inputs)).changes.keys() == AFTER_IMPORT.get(name, set())

    if "tags" in RESOURCES[kind].fields:
        _retag(aws, made, arguments, name)

    aws.delete(made)
    assert aws.read(made) is None
    aws.delete(made)  # already gone is success


def _retag(aws: Direct, made: Made, arguments: Arguments, name: str) -> None:
    """Tags change in place: one goes, one comes, one stays."""
    tags = {"app": "flexserve", "flexserve-expires": "1900000000"}
    inputs = aws.check(made.type, arguments | {"tags": tags}, name, made.inputs)
    assert aws.diff(made, inputs).op == "update"
    read = aws.read(aws.update(made, inputs))
    assert read is not None
    assert read.outputs["tags"] == read.outputs["tagsAll"] == tags


def test_all_of_it_is_taken_down_in_the_order_that_destroy_takes(owner: Account, aws: Direct) -> None:
    """And an endpoint before, as `down` has it: in the engine's order alone its role goes first, and it stays."""
    program, cloud = Program(owner, aws), owner.cloud
    for name in PARTS:
        program.make(name)
    (endpoint,) = cloud.endpoints()
    cloud.call("sagemaker", "DeleteEndpoint", EndpointName=endpoint)
    cloud.clock.advance(60)
    assert cloud.endpoints() == {}
    for made in reversed(program.made.values()):
        aws.delete(made)
    assert [vpc for vpc in cloud.call("ec2", "DescribeVpcs")["Vpcs"] if not vpc["IsDefault"]] == []
    assert cloud.call("iam", "ListRoles")["Roles"] == []
    assert cloud.call("s3", "ListBuckets")["Buckets"] == []
    assert cloud.call("scheduler", "ListSchedules")["Schedules"] == []
    assert set(cloud.instances().values()) == {"terminated"}
    assert cloud.call("sagemaker", "ListModels")["Models"] == cloud.call("ecr", "DescribeRepositories")["repositories"] == []
    assert list(cloud.ledger.left()) == []
