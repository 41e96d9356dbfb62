"""Which operations are answered here rather than by moto, and which of moto's are not to be had."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from rehearsal.cloud.aws import accounts, buckets, scheduler
from rehearsal.cloud.aws.call import Call, Result
from rehearsal.cloud.aws.ec2 import catalogue, launch, lifecycle, network, spot
from rehearsal.cloud.aws.ssm import associations, commands, managed
from rehearsal.cloud.aws.state import State

Handler = Callable[[State, Call], Result]

HANDLERS: Mapping[str, Handler] = {
    "ec2.RunInstances": launch.run,
    "ec2.TerminateInstances": lifecycle.terminate,
    "ec2.StopInstances": lifecycle.stop,
    "ec2.StartInstances": lifecycle.start,
    "ec2.RebootInstances": lifecycle.reboot,
    "ec2.ModifyInstanceAttribute": lifecycle.modify,
    "ec2.GetConsoleOutput": lifecycle.console,
    "ec2.DescribeSpotInstanceRequests": spot.describe,
    "ec2.CancelSpotInstanceRequests": spot.cancel,
    "ec2.DescribeSpotPriceHistory": spot.history,
    "ec2.GetSpotPlacementScores": spot.scores,
    "ec2.DescribeInstanceTypeOfferings": catalogue.type_offerings,
    "ec2.DeleteSecurityGroup": network.delete_security_group,
    "ec2.DeleteSubnet": network.delete_subnet,
    "ec2.DetachInternetGateway": network.detach_gateway,
    "ec2.DeleteVpc": network.delete_vpc,
    "s3.CreateBucket": buckets.create,
    "s3.GetBucketEncryption": buckets.encryption,
    "ssm.GetParameter": managed.parameter,
    "ssm.GetParameters": managed.parameters,
    "ssm.GetParametersByPath": managed.by_path,
    "ssm.DescribeInstanceInformation": managed.information,
    "ssm.GetConnectionStatus": managed.connection,
    "ssm.StartSession": managed.start_session,
    "ssm.ResumeSession": managed.resume_session,
    "ssm.TerminateSession": managed.end_session,
    "ssm.DescribeSessions": managed.sessions,
    "ssm.SendCommand": commands.send,
    "ssm.GetCommandInvocation": commands.invocation,
    "ssm.ListCommands": commands.listed,
    "ssm.ListCommandInvocations": commands.invocations,
    "ssm.CancelCommand": commands.cancel,
    "ssm.CreateAssociation": associations.create,
    "ssm.UpdateAssociation": associations.update,
    "ssm.DeleteAssociation": associations.delete,
    "ssm.DescribeAssociation": associations.describe,
    "ssm.ListAssociations": associations.listed,
    "ssm.DescribeAssociationExecutions": associations.executions,
    "ssm.DescribeAssociationExecutionTargets": associations.execution_targets,
    "ssm.StartAssociationsOnce": associations.once,
    "ssm.AddTagsToResource": associations.tag,
    "ssm.RemoveTagsFromResource": associations.untag,
    "ssm.ListTagsForResource": associations.tags,
    "scheduler.CreateSchedule": scheduler.create,
    "scheduler.UpdateSchedule": scheduler.update,
    "scheduler.GetSchedule": scheduler.get,
    "scheduler.DeleteSchedule": scheduler.delete,
    "scheduler.ListSchedules": scheduler.listed,
    "scheduler.ListTagsForResource": scheduler.tags,
    "scheduler.GetScheduleGroup": scheduler.group,
    "sts.GetCallerIdentity": accounts.caller_identity,
    "service-quotas.GetServiceQuota": accounts.quota,
    "service-quotas.GetAWSDefaultServiceQuota": accounts.default_quota,
    "service-quotas.ListServiceQuotas": accounts.quotas,
}

OWN = ("scheduler", "service-quotas", "sts")
"""Services of which nothing else is answered."""

NO_MACHINE = "it would make an instance without a machine"
MISSING: Mapping[str, str] = {
    "ec2.RequestSpotInstances": NO_MACHINE,
    "ec2.RequestSpotFleet": NO_MACHINE,
    "ec2.CreateFleet": NO_MACHINE,
    "ssm.CreateAssociationBatch": "one at a time",
    "ssm.StartAutomationExecution": "no automation",
}
