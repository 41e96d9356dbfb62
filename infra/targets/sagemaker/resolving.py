"""What is decided at create by asking AWS: the image's digest and what its config says, the secret's ARN, the repository."""

from __future__ import annotations

from typing import TYPE_CHECKING

from infra.clouds.aws import ecr, marks
from infra.clouds.aws.session import NotThere
from infra.kept import FACTS
from infra.targets.sagemaker import building, rules
from infra.targets.sagemaker.sweep import image_ids
from verdict.errors import BadConfig, FlexserveError

if TYPE_CHECKING:
    from infra.clouds.aws.session import Session
    from infra.deployment import Deployment
    from infra.image_facts import ImageFacts


def resolve(key: str, deployment: Deployment, session: Session) -> str:
    """The value of an open key. Raises `BadConfig` for what is not there."""
    if key == "image":
        return digest(deployment, session)
    if key == FACTS:
        return read(deployment, session).text()
    if key == "secret":
        return secret(deployment, session)
    if key == "target.repository":
        return repository(deployment, session)
    raise FlexserveError(f"sagemaker cannot resolve {key}")


def digest(deployment: Deployment, session: Session) -> str:
    """What the image's tag points to today. Raises `Refused` for an image that SageMaker would not take."""
    return _manifest(deployment, session)[1].digest


def read(deployment: Deployment, session: Session) -> ImageFacts:
    """What the image's own config says. Raises as `ecr.read`, and `Refused` for an image that SageMaker would not take."""
    return ecr.read(session, *_manifest(deployment, session))


def _manifest(deployment: Deployment, session: Session) -> tuple[ecr.Repository, ecr.Manifest]:
    image = deployment.image
    found = rules.ecr(image.repository) if image else None
    if image is None or found is None:
        raise BadConfig("flexserve:image.name: not in Amazon ECR", way_out="use AWS's own vLLM image")
    repository, reference = ecr.Repository(found["name"], found["account"]), image.digest or image.tag or "latest"
    whole = getattr(deployment.target, "image_source", "aws") != "patched"  # a built one is looked at itself
    known = building.look_up(session, repository, reference, whole=whole)
    if known is None:
        what = f"no image {reference}" if image.digest else f"no tag {reference!r}"
        raise BadConfig(f"flexserve:image.name: {image.repository} has {what}", way_out="check the name")
    return repository, known


def secret(deployment: Deployment, session: Session) -> str:
    """The secret's ARN. A missing one is said before anything is created: the container could only end, again and again."""
    named = deployment.common.secret
    assert named is not None
    try:
        return str(session.call("secretsmanager", "describe_secret", SecretId=named.name)["ARN"])
    except NotThere as error:
        raise BadConfig(
            f"flexserve:secret.name: {session.region} has no secret {named.name}",
            way_out=f"flexserve secret put {named.name} -s {deployment.stack}",
        ) from error


def repository(deployment: Deployment, session: Session) -> str:
    """The repository that an earlier deployment of this stack and owner left with images in it, else `own`: one is made."""
    for item in session.pages("ecr", "describe_repositories", "repositories"):
        name = str(item["repositoryName"])
        if not name.startswith(marks.PREFIX):
            continue
        answer = session.call("ecr", "list_tags_for_resource", resourceArn=item["repositoryArn"])
        tags = marks.read(answer.get("tags"))
        ours = marks.left_by(tags, deployment.common.owner, deployment.stack)
        if ours and image_ids(session, name):
            return name
    return "own"
