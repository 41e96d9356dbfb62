"""AWS Secrets Manager. A secret's value is put as text; the machine reads the version with the stage AWSCURRENT."""

from __future__ import annotations

from typing import Any

from flexserve.secret.store import Checked
from infra.clouds.aws import shapes
from infra.clouds.aws.session import NotThere, Session
from verdict.errors import BadConfig, FlexserveError

CURRENT = "AWSCURRENT"
READ = "secretsmanager:GetSecretValue"


def connect(region: str) -> AwsStore:
    """The region's store, as the operator."""
    return AwsStore(Session(region))


class AwsStore:
    """Secrets of one region."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def put(self, name: str, value: str) -> str:
        """Add a version; a new secret is locked by the account's own key (aws/secretsmanager)."""
        _check_name(name)
        found = self._look(name)
        if found is None:
            return self._version("create_secret", Name=name, SecretString=value)
        if found.get("DeletedDate"):
            raise FlexserveError(
                f"{name} is being deleted", way_out=f"aws secretsmanager restore-secret --secret-id {name}, or another name"
            )
        return self._version("put_secret_value", SecretId=name, SecretString=value)

    def check(self, name: str, reader: str, *, granted: bool) -> Checked:
        """The secret, its current version, and whether the machine's role may read it. The value is not asked for."""
        _check_name(name)
        found = self._look(name)
        if found is None:
            return Checked(False, why=f"{self._session.region} has no secret {name}")
        if found.get("DeletedDate"):
            return Checked(True, why=f"{name} is being deleted")
        stages = found.get("VersionIdsToStages") or {}
        version = next((str(id_) for id_, names in stages.items() if CURRENT in names), "")
        if not version:
            return Checked(True, why=f"{name} has no version")
        readable, why = self._readable(str(found["ARN"]), reader, granted=granted)
        return Checked(True, True, version, readable, why)

    def _readable(self, arn: str, reader: str, *, granted: bool) -> tuple[bool | None, str]:
        """What IAM says of the machine's role. `reader` is the role's name."""
        if not reader:
            return None, "the machine's role is granted at up" if granted else "the machine's role is not known before up"
        try:
            role = self._session.call("iam", "get_role", RoleName=reader)["Role"]["Arn"]
            answer = self._session.call(
                "iam", "simulate_principal_policy", PolicySourceArn=role, ActionNames=[READ], ResourceArns=[arn]
            )
        except NotThere:
            return None, f"there is no role {reader} any more"
        except FlexserveError as error:
            return None, f"the rights of {reader} cannot be read: {error.why or error.what}"
        decisions = [str(r.get("EvalDecision")) for r in answer.get("EvaluationResults") or []]
        if decisions == ["allowed"]:
            return True, f"{reader} may read it"
        return False, f"{reader} may not read it ({', '.join(decisions) or 'no decision'})"

    def _look(self, name: str) -> dict[str, Any] | None:
        try:
            return self._session.call("secretsmanager", "describe_secret", SecretId=name)
        except NotThere:
            return None

    def _version(self, operation: str, **params: str) -> str:
        return str(self._session.call("secretsmanager", operation, **params)["VersionId"])


def _check_name(name: str) -> None:
    try:
        shapes.secret_id(name)
    except ValueError as error:
        raise BadConfig(f"NAME: {error}") from error
