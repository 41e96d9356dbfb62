"""Systems Manager: parameters, commands, associations, sessions."""

import socket
from typing import Any

import pytest

from rehearsal.cloud.aws import LocalAwsCloud, Pace
from tests.cloud_aws.conftest import IMAGE, PARAMETER, FakeMachine, World, refused, until

NEWER, X86, DRIVERLESS = "ami-0f5e1e5e000000002", "ami-0f5e1e5e000000003", "ami-0f5e1e5e000000004"


def value(world: World) -> str:
    return str(world.ssm.get_parameter(Name=PARAMETER)["Parameter"]["Value"])


def test_a_public_parameter_names_the_newest_published(world: World) -> None:
    assert value(world) == IMAGE
    (image,) = world.ec2.describe_images(ImageIds=[IMAGE])["Images"]
    assert (
        image["Architecture"] == "arm64"
        and "Nvidia Driver" in image["Name"]
        and image["BlockDeviceMappings"][0]["Ebs"]["VolumeSize"] == 60
    )
    with refused("InvalidAMIID.NotFound"):
        world.ec2.describe_images(ImageIds=[NEWER])
    world.cloud.publish_images()
    assert value(world) == NEWER and world.ec2.describe_images(ImageIds=[NEWER])["Images"]
    world.cloud.rename_parameter(PARAMETER, X86)
    assert value(world) == X86
    with pytest.raises(KeyError):
        world.cloud.rename_parameter(PARAMETER, "ami-none")


def test_other_ways_to_read_parameters(world: World) -> None:
    world.ssm.put_parameter(Name="own", Value="v", Type="String")
    found = world.ssm.get_parameters(Names=[PARAMETER, "own", "/aws/service/nothing", "nothing"])
    assert sorted(p["Name"] for p in found["Parameters"]) == [PARAMETER, "own"]
    assert sorted(found["InvalidParameters"]) == ["/aws/service/nothing", "nothing"]
    below = world.ssm.get_parameters_by_path(Path="/aws/service/deeplearning/ami/arm64", Recursive=True)["Parameters"]
    assert {p["Value"] for p in below} == {IMAGE, DRIVERLESS}
    with refused("ParameterNotFound"):
        world.ssm.get_parameter(Name="/aws/service/nothing")


def test_an_instance_is_known_once_commands_run_and_its_role_allows(world: World) -> None:
    assert world.ssm.describe_instance_information()["InstanceInformationList"] == []
    vm = world.managed()
    (row,) = world.ssm.describe_instance_information(Filters=[{"Key": "InstanceIds", "Values": [vm]}])["InstanceInformationList"]
    assert (row["InstanceId"], row["PingStatus"]) == (vm, "Online")
    world.iam.detach_role_policy(RoleName="vm", PolicyArn="arn:aws:iam::aws:policy/AmazonSSMManagedInstanceCore")
    assert world.ssm.describe_instance_information()["InstanceInformationList"] == []
    with refused("InvalidInstanceId"):
        world.ssm.send_command(InstanceIds=[vm], DocumentName="AWS-RunShellScript", Parameters={"commands": ["true"]})


def send(world: World, vm: str, *commands: str, **parameters: list[str]) -> dict[str, Any]:
    """Run lines on the instance and wait until they ended."""
    sent = world.ssm.send_command(
        InstanceIds=[vm], DocumentName="AWS-RunShellScript", Parameters={"commands": list(commands), **parameters}
    )
    command = sent["Command"]["CommandId"]

    def over() -> Any:
        found = world.ssm.get_command_invocation(CommandId=command, InstanceId=vm)
        return found if found["Status"] not in ("Pending", "InProgress") else None

    return dict(until(over))


def test_commands_run_in_the_machine(world: World) -> None:
    vm = world.managed()
    done = send(world, vm, "echo out", "echo err >&2", "pwd", workingDirectory=["/"])
    assert (done["Status"], done["ResponseCode"], done["StandardOutputContent"], done["StandardErrorContent"]) == (
        "Success",
        0,
        "out\n/\n",
        "err\n",
    )
    failed = send(world, vm, "exit 3")
    assert (failed["Status"], failed["ResponseCode"]) == ("Failed", 3)
    slow = send(world, vm, "sleep 9", executionTimeout=["1"])
    assert (slow["Status"], slow["StatusDetails"]) == ("TimedOut", "ExecutionTimedOut")


def test_a_command_waits_for_a_machine_that_reboots(world: World) -> None:
    vm = world.managed()
    world.made[0].up.clear()
    sent = world.ssm.send_command(InstanceIds=[vm], DocumentName="AWS-RunShellScript", Parameters={"commands": ["echo back"]})
    command = sent["Command"]["CommandId"]
    assert world.ssm.get_command_invocation(CommandId=command, InstanceId=vm)["Status"] == "Pending"
    world.made[0].up.set()
    until(lambda: world.ssm.get_command_invocation(CommandId=command, InstanceId=vm)["StandardOutputContent"] == "back\n")


def test_a_command_that_waits_ends_with_its_machine(world: World) -> None:
    vm = world.managed()
    world.made[0].up.clear()
    sent = world.ssm.send_command(InstanceIds=[vm], DocumentName="AWS-RunShellScript", Parameters={"commands": ["true"]})
    world.ec2.terminate_instances(InstanceIds=[vm])
    world.cloud.clock.advance(10)
    found = world.ssm.get_command_invocation(CommandId=sent["Command"]["CommandId"], InstanceId=vm)
    assert (found["Status"], found["StatusDetails"]) == ("Failed", "Undeliverable")


def test_output_is_cut_at_24000_characters(world: World) -> None:
    vm = world.managed()
    done = send(world, vm, "head -c 30000 /dev/zero | tr '\\0' x")
    assert len(done["StandardOutputContent"]) == 24000


def test_a_command_that_runs_does_not_hold_up_the_cloud(world: World) -> None:
    vm = world.managed()
    world.ssm.send_command(InstanceIds=[vm], DocumentName="AWS-RunShellScript", Parameters={"commands": ["sleep 5"]})
    second = world.ssm.send_command(InstanceIds=[vm], DocumentName="AWS-RunShellScript", Parameters={"commands": ["true"]})[
        "Command"
    ]["CommandId"]
    assert world.ssm.get_command_invocation(CommandId=second, InstanceId=vm)["Status"] == "Pending"
    world.ssm.cancel_command(CommandId=second)
    assert world.ssm.list_command_invocations(CommandId=second)["CommandInvocations"][0]["Status"] == "Cancelled"


@pytest.mark.parametrize(
    ("code", "over"),
    [
        ("InvalidDocument", {"DocumentName": "AWS-Nothing"}),
        ("InvalidParameters", {"Parameters": {}}),
        ("InvalidParameters", {"Parameters": {"commands": ["true"], "strange": ["x"]}}),
        ("InvalidInstanceId", {"InstanceIds": ["i-0123456789abcdef0"]}),
    ],
)
def test_commands_that_are_refused(world: World, code: str, over: dict[str, Any]) -> None:
    vm = world.managed()
    arguments: dict[str, Any] = {"InstanceIds": [vm], "DocumentName": "AWS-RunShellScript", "Parameters": {"commands": ["true"]}}
    with refused(code):
        world.ssm.send_command(**arguments | over)


def associate(world: World, vm: str, script: str) -> str:
    made = world.ssm.create_association(
        Name="AWS-RunShellScript",
        AssociationName="fs",
        Targets=[{"Key": "InstanceIds", "Values": [vm]}],
        Parameters={"commands": [script]},
    )
    return str(made["AssociationDescription"]["AssociationId"])


def ended(world: World, association: str) -> dict[str, Any]:
    """The association's status once it is over."""

    def over() -> Any:
        found = world.ssm.describe_association(AssociationId=association)["AssociationDescription"]
        return found if found["Overview"]["Status"] != "Pending" else None

    return dict(until(over))


def test_an_association_runs_when_made_and_at_each_change(world: World, tmp_path: Any) -> None:
    vm, log = world.managed(), tmp_path / "log"
    association = associate(world, vm, f"echo one >> {log}")
    assert ended(world, association)["Overview"]["Status"] == "Success" and log.read_text() == "one\n"
    world.ssm.update_association(AssociationId=association, Parameters={"commands": [f"echo two >> {log}; exit 1"]})
    found = ended(world, association)
    assert (found["Overview"]["Status"], found["AssociationVersion"], log.read_text()) == ("Failed", "2", "one\ntwo\n")
    executions = world.ssm.describe_association_executions(AssociationId=association)["AssociationExecutions"]
    assert [e["Status"] for e in executions] == ["Failed", "Success"]
    world.ssm.delete_association(AssociationId=association)
    with refused("AssociationDoesNotExist"):
        world.ssm.describe_association(AssociationId=association)


def test_an_association_waits_for_its_machine(world: World, tmp_path: Any) -> None:
    vm, log = world.run(IamInstanceProfile={"Name": world.profile("vm")}), tmp_path / "log"
    association = associate(world, vm, f"echo one >> {log}")
    assert world.ssm.describe_association(AssociationId=association)["AssociationDescription"]["Overview"]["Status"] == "Pending"
    world.cloud.clock.advance(10)
    assert ended(world, association)["Overview"]["Status"] == "Success" and log.read_text() == "one\n"


def test_targets_by_tag(world: World, tmp_path: Any) -> None:
    log = tmp_path / "log"
    tags = [{"ResourceType": "instance", "Tags": [{"Key": "flexserve-id", "Value": "abc"}]}]
    world.managed(TagSpecifications=tags)
    for wanted in ("abc", "other"):
        targets = [{"Key": "tag:flexserve-id", "Values": [wanted]}]
        sent = world.ssm.send_command(
            Targets=targets, DocumentName="AWS-RunShellScript", Parameters={"commands": [f"echo {wanted} >> {log}"]}
        )
        assert sent["Command"]["TargetCount"] == (1 if wanted == "abc" else 0)
    until(log.exists)
    assert log.read_text() == "abc\n"


PORTS = {"portNumber": ["8000"], "localPortNumber": ["0"]}


def test_a_session_goes_to_whoever_serves_it(world: World) -> None:
    vm, asked = world.managed(), []

    def service(operation: str, parameters: dict[str, Any]) -> dict[str, Any]:
        asked.append((operation, parameters))
        if operation == "TerminateSession":
            return {"SessionId": parameters["SessionId"]}
        return {"SessionId": "operator-0123456789abcdef0", "StreamUrl": "ws://127.0.0.1:9/v1", "TokenValue": f"secret-{len(asked)}"}

    port = {"DocumentName": "AWS-StartPortForwardingSession", "Parameters": PORTS}
    with refused("NotImplemented"):
        world.ssm.start_session(Target=vm, **port)
    world.cloud.serve_sessions(service)
    with refused("TargetNotConnected"):
        world.ssm.start_session(Target="i-0123456789abcdef0")
    session = world.ssm.start_session(Target=vm, **port)
    assert (session["StreamUrl"], session["TokenValue"]) == ("ws://127.0.0.1:9/v1", "secret-1")
    assert len(world.ssm.describe_sessions(State="Active")["Sessions"]) == 1
    assert world.ssm.resume_session(SessionId=session["SessionId"])["TokenValue"] == "secret-2"
    for _ in range(2):
        world.ssm.terminate_session(SessionId=session["SessionId"])
    assert [operation for operation, _ in asked] == ["StartSession", "ResumeSession", "TerminateSession"]
    assert world.ssm.describe_sessions(State="Active")["Sessions"] == []
    with refused("DoesNotExistException"):
        world.ssm.resume_session(SessionId="operator-none")
    assert "secret-1" not in str(world.cloud.requests())


def test_a_session_over_the_services_own_data_channel(world: World) -> None:
    from rehearsal.ssm import Service

    vm = world.managed()
    with Service(lambda target, port: socket.create_connection((target, port))) as service:
        world.cloud.serve_sessions(lambda operation, parameters: service.call(operation, parameters, True))
        session = world.ssm.start_session(Target=vm, DocumentName="AWS-StartPortForwardingSession", Parameters=PORTS)
        assert session["StreamUrl"].startswith("ws://127.0.0.1:") and session["SessionId"] in service.sessions
        with refused("InvalidDocument"):  # what the service refuses is refused in its words
            world.ssm.start_session(Target=vm)
        world.ssm.terminate_session(SessionId=session["SessionId"])
        assert service.live == []


def test_a_session_that_is_only_started() -> None:
    def start(target: str, document: str, parameters: dict[str, Any]) -> tuple[str, str, str]:
        return "operator-1", f"ws://127.0.0.1:9/{target}/{document}/{parameters['portNumber'][0]}", "secret"

    with LocalAwsCloud(FakeMachine, pace=Pace(iam=0), start_session=start) as cloud:
        world = World(cloud, [])
        vm = world.managed()
        session = world.ssm.start_session(Target=vm, DocumentName="AWS-StartPortForwardingSession", Parameters=PORTS)
        assert session["StreamUrl"].endswith(f"/{vm}/AWS-StartPortForwardingSession/8000")
        assert world.ssm.resume_session(SessionId="operator-1")["TokenValue"] == "secret"
        assert world.ssm.terminate_session(SessionId="operator-1")["SessionId"] == "operator-1"


def test_without_a_machine_there_is_no_agent() -> None:
    with LocalAwsCloud() as cloud:
        world = World(cloud, [])
        world.run()
        cloud.clock.advance(10)
        assert world.ssm.describe_instance_information()["InstanceInformationList"] == []
        assert dict(cloud.machines()) == {}
