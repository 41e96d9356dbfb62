"""Whether a caller may: the operator what was not denied to him, a role what its policies allow on that very resource."""

from __future__ import annotations

from fnmatch import fnmatchcase

from rehearsal.cloud.aws.call import Call
from rehearsal.cloud.aws.errors import AwsError
from rehearsal.cloud.aws.state import State

PREFIX = {"service-quotas": "servicequotas", "sagemaker-runtime": "sagemaker"}
"""Services whose actions are not spelt like the service."""

S3_ACTION = {
    "HeadObject": "GetObject",
    "ListObjects": "ListBucket",
    "ListObjectsV2": "ListBucket",
    "HeadBucket": "ListBucket",
    "ListObjectVersions": "ListBucketVersions",
    "CreateMultipartUpload": "PutObject",
    "UploadPart": "PutObject",
    "CompleteMultipartUpload": "PutObject",
    "DeleteObjects": "DeleteObject",
    "CopyObject": "PutObject",
    "ListBuckets": "ListAllMyBuckets",
    "GetBucketEncryption": "GetEncryptionConfiguration",
    "GetPublicAccessBlock": "GetBucketPublicAccessBlock",
    "PutPublicAccessBlock": "PutBucketPublicAccessBlock",
    "DeletePublicAccessBlock": "PutBucketPublicAccessBlock",
}
"""S3's operations that need the permission of another name (IAM's reference of actions for S3)."""

BUDGETS = {"Create": "ModifyBudget", "Delete": "ModifyBudget", "Update": "ModifyBudget", "Describe": "ViewBudget"}
"""AWS Budgets' actions by how an operation's name begins (its service authorization reference)."""

TAGS = ("Tags", "tags", "ResourceTags", "TagSpecifications")
TAGGED = {
    "application-autoscaling": "application-autoscaling:TagResource",
    "budgets": "budgets:TagResource",
    "ec2": "ec2:CreateTags",
    "ecr": "ecr:TagResource",
    "iam": "iam:TagRole",
    "logs": "logs:TagResource",
    "sagemaker": "sagemaker:AddTags",
}
"""What making something with tags needs besides; services that are not named have no action of its own for it."""

PASS_A_ROLE = ("codebuild.CreateProject", "sagemaker.CreateModel", "scheduler.CreateSchedule", "scheduler.UpdateSchedule")
ANYONE = ("sts.GetCallerIdentity",)


def action_of(call: Call) -> str:
    """`secretsmanager:GetSecretValue`."""
    name = S3_ACTION.get(call.operation, call.operation) if call.service == "s3" else call.operation
    if call.id == "sagemaker-runtime.InvokeEndpointWithResponseStream":
        name = "InvokeEndpoint"
    if call.service == "budgets":
        name = next((action for begins, action in BUDGETS.items() if name.startswith(begins)), name)
    return f"{PREFIX.get(call.service, call.service)}:{name}"


def resource_of(state: State, call: Call) -> str:
    """The ARN that the call is about; `*` where the local cloud does not tell resources of the service apart."""
    params = call.params
    if call.service == "s3":
        bucket, key = params.get("Bucket", ""), params.get("Key")
        return f"arn:aws:s3:::{bucket}" + (f"/{key}" if key is not None else "") if bucket else "*"
    if call.service == "secretsmanager" and "SecretId" in params:
        return _secret_arn(state, params["SecretId"])
    if call.service in ("sagemaker", "sagemaker-runtime"):
        return _sagemaker_arn(state, call)
    if call.service == "ecr" and "repositoryName" in params:
        account = params.get("registryId", state.account)
        return f"arn:aws:ecr:{state.region}:{account}:repository/{params['repositoryName']}"
    if call.service == "logs" and "logGroupName" in params:
        stream = params.get("logStreamName")
        return state.arn("logs", f"log-group:{params['logGroupName']}:" + (f"log-stream:{stream}" if stream else "*"))
    if call.service == "ssm" and "Name" in params and "Parameter" in call.operation:
        return state.arn("ssm", f"parameter/{params['Name'].lstrip('/')}")
    return "*"


def _secret_arn(state: State, secret_id: str) -> str:
    if secret_id.startswith("arn:"):
        return secret_id
    for secret in state.moto.backend("secretsmanager").secrets.values():
        if secret.name == secret_id:
            return str(secret.arn)
    return state.arn("secretsmanager", f"secret:{secret_id}")


def _sagemaker_arn(state: State, call: Call) -> str:
    kinds = {"EndpointName": "endpoint", "EndpointConfigName": "endpoint-config", "ModelName": "model"}
    for key, kind in kinds.items():
        if key in call.params:
            return state.arn("sagemaker", f"{kind}/{call.params[key].lower()}")
    return str(call.params.get("ResourceArn", "*"))


def also_needed(call: Call) -> tuple[str, ...]:
    """Actions besides its own that a call needs: to hand over a role, to tag what it makes."""
    params = call.params
    passes = call.id in PASS_A_ROLE or (call.id == "ec2.RunInstances" and params.get("IamInstanceProfile"))
    makes = call.operation.startswith(("Create", "Register", "Run")) and any(params.get(key) for key in TAGS)
    tags = TAGGED.get(call.service, "") if makes else ""
    return (*(("iam:PassRole",) if passes else ()), *((tags,) if tags else ()))


def needed(call: Call) -> tuple[str, ...]:
    """Every action that a policy of the caller's has to allow for it."""
    return () if call.id in ANYONE else (action_of(call), *also_needed(call))


def check(state: State, call: Call) -> None:
    """Raises AwsError when the caller may not."""
    action = action_of(call)
    if call.caller.operator:
        for needed in (action, *also_needed(call)):
            if any(fnmatchcase(needed, pattern) for pattern in state.denied):
                raise refused(
                    call, needed, resource_of(state, call), f"because no identity-based policy allows the {needed} action"
                )
        return
    if call.id in ANYONE:
        return
    role, resource = state.roles.role(call.caller.role), resource_of(state, call)
    fine = state.may(role, action, resource, _context(state))
    if not fine:
        raise refused(call, action, resource, f"because no identity-based policy allows the {action} action")


def _context(state: State) -> dict[str, str]:
    return {"aws:RequestedRegion": state.region, "aws:PrincipalAccount": state.account, "aws:SecureTransport": "true"}


def refused(call: Call, action: str, resource: str, why: str) -> AwsError:
    """A refusal in the words of the service."""
    text = f"User: {call.caller.arn} is not authorized to perform: {action} on resource: {resource} {why}"
    if call.service == "ec2":
        return AwsError("UnauthorizedOperation", f"You are not authorized to perform this operation. {text}", 403)
    if call.service == "s3":
        return AwsError("AccessDenied", "Access Denied" if call.operation.startswith("Head") else text, 403)
    if call.service in ("iam", "sts"):
        return AwsError("AccessDenied", text, 403)
    return AwsError("AccessDeniedException", text, 400)
