"""ECR: repositories are kept here, their images in the registry (`Images`); with no registry every repository is empty.

A login is `AWS` and a password that GetAuthorizationToken gave; the registry asks here what it is good for (`Gate`).
"""

from __future__ import annotations

import base64
import json
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from urllib.parse import parse_qsl

from rehearsal.cloud.aws.call import Call, Caller, Json, Result
from rehearsal.cloud.aws.errors import AwsError
from rehearsal.cloud.aws.http import HttpAnswer, HttpRequest
from rehearsal.cloud.aws.state import State
from rehearsal.sagemaker.contracts import Images, Manifest

LOGIN_S = 12 * 3600.0
"""How long a login is good, on the cloud's clock."""

AWS_IMAGES = "763104351884"
"""The account of AWS's Deep Learning Containers: anyone who may pull may pull from it."""

URL_S = 3600.0
"""How long the address of a layer is good."""

PULL, PUSH = "ecr:BatchGetImage", "ecr:PutImage"
INDEXES = ("application/vnd.oci.image.index.v1+json", "application/vnd.docker.distribution.manifest.list.v2+json")


@dataclass
class Repository:
    """A repository of the account."""

    name: str
    arn: str
    created: datetime
    mutability: str = "MUTABLE"
    scan: bool = False
    encryption: str = "AES256"
    tags: dict[str, str] = field(default_factory=dict)
    policy: str = ""


class Registry:
    """Repositories, logins, and where the images are. Called under the cloud's lock."""

    def __init__(self) -> None:
        self.repositories: dict[str, Repository] = {}
        self.images: Images | None = None
        self.logins: dict[str, tuple[Caller, float]] = {}
        self.addresses: dict[str, tuple[str, float]] = {}
        """Signature of a layer's address -> digest and until when it is good."""
        self.layers_at: Callable[[], str] = str
        """Where layers are fetched: the local cloud's own address, for the bucket that ECR keeps them in."""

    def manifests(self, repository: str, account: str) -> Sequence[Manifest]:
        """The images of a repository."""
        return self.images.manifests(repository, account) if self.images is not None else ()


def _find(state: State, params: Json) -> Repository:
    name = params["repositoryName"]
    found = state.ecr.repositories.get(name)
    if found is None or params.get("registryId", state.account) != state.account:
        raise AwsError(
            "RepositoryNotFoundException",
            f"The repository with name '{name}' does not exist in the registry with id '{params.get('registryId', state.account)}'",
        )
    return found


def _readable(state: State, params: Json) -> tuple[str, str]:
    """Repository and account of a call that reads images: AWS's own are open to all. Raises AwsError without the repository."""
    account, name = params.get("registryId", state.account), params["repositoryName"]
    if account == AWS_IMAGES and state.ecr.manifests(name, account):
        return name, account
    return _find(state, params).name, state.account


def host(state: State, account: str = "") -> str:
    """A registry's name."""
    return f"{account or state.account}.dkr.ecr.{state.region}.amazonaws.com"


def _shown(state: State, repository: Repository) -> Json:
    return {
        "repositoryArn": repository.arn,
        "registryId": state.account,
        "repositoryName": repository.name,
        "repositoryUri": f"{host(state)}/{repository.name}",
        "createdAt": repository.created,
        "imageTagMutability": repository.mutability,
        "imageScanningConfiguration": {"scanOnPush": repository.scan},
        "encryptionConfiguration": {"encryptionType": repository.encryption},
    }


def create(state: State, call: Call) -> Result:
    """CreateRepository."""
    name, params = call.params["repositoryName"], call.params
    if name in state.ecr.repositories:
        raise AwsError(
            "RepositoryAlreadyExistsException",
            f"The repository with name '{name}' already exists in the registry with id '{state.account}'",
        )
    made = Repository(name, state.arn("ecr", f"repository/{name}"), state.now())
    made.mutability = params.get("imageTagMutability", "MUTABLE")
    made.scan = bool(params.get("imageScanningConfiguration", {}).get("scanOnPush"))
    made.encryption = params.get("encryptionConfiguration", {}).get("encryptionType", "AES256")
    made.tags = {tag["Key"]: tag["Value"] for tag in params.get("tags", [])}
    state.ecr.repositories[name] = made
    return {"repository": _shown(state, made)}


def describe(state: State, call: Call) -> Result:
    """DescribeRepositories: all, or by name."""
    names = call.params.get("repositoryNames")
    if names is None:
        return {"repositories": [_shown(state, r) for _, r in sorted(state.ecr.repositories.items())]}
    account = call.params.get("registryId", state.account)
    return {"repositories": [_shown(state, _find(state, {"repositoryName": n, "registryId": account})) for n in names]}


def delete(state: State, call: Call) -> Result:
    """DeleteRepository. Raises RepositoryNotEmptyException for one with images, but by force."""
    found = _find(state, call.params)
    held = state.ecr.manifests(found.name, state.account)
    if held and not call.params.get("force"):
        raise AwsError(
            "RepositoryNotEmptyException",
            f"The repository with name '{found.name}' in registry with id '{state.account}' cannot be deleted because it still"
            " contains images",
        )
    for manifest in held:
        assert state.ecr.images is not None
        state.ecr.images.drop(found.name, state.account, manifest.digest)
    del state.ecr.repositories[found.name]
    return {"repository": _shown(state, found)}


def put_mutability(state: State, call: Call) -> Result:
    """PutImageTagMutability."""
    found = _find(state, call.params)
    found.mutability = call.params["imageTagMutability"]
    return {"registryId": state.account, "repositoryName": found.name, "imageTagMutability": found.mutability}


def put_scanning(state: State, call: Call) -> Result:
    """PutImageScanningConfiguration."""
    found = _find(state, call.params)
    found.scan = bool(call.params["imageScanningConfiguration"].get("scanOnPush"))
    shown = {"scanOnPush": found.scan}
    return {"registryId": state.account, "repositoryName": found.name, "imageScanningConfiguration": shown}


def _by_arn(state: State, arn: str) -> Repository:
    return _find(state, {"repositoryName": arn.split(":repository/", 1)[-1]})


def tags(state: State, call: Call) -> Result:
    """ListTagsForResource."""
    found = _by_arn(state, call.params["resourceArn"])
    return {"tags": [{"Key": k, "Value": v} for k, v in sorted(found.tags.items())]}


def tag(state: State, call: Call) -> Result:
    """TagResource."""
    _by_arn(state, call.params["resourceArn"]).tags |= {t["Key"]: t["Value"] for t in call.params["tags"]}
    return {}


def untag(state: State, call: Call) -> Result:
    """UntagResource."""
    found = _by_arn(state, call.params["resourceArn"])
    found.tags = {k: v for k, v in found.tags.items() if k not in call.params["tagKeys"]}
    return {}


def token(state: State, call: Call) -> Result:
    """GetAuthorizationToken: base64 of `AWS:PASSWORD`, which `docker login` takes apart."""
    password, until = secrets.token_urlsafe(48), state.clock.now() + LOGIN_S
    state.ecr.logins[password] = (call.caller, until)
    data = {
        "authorizationToken": base64.b64encode(f"AWS:{password}".encode()).decode(),
        "expiresAt": datetime.fromtimestamp(until, UTC),
        "proxyEndpoint": f"https://{host(state)}",
    }
    return {"authorizationData": [data]}


def images(state: State, call: Call) -> Result:
    """DescribeImages. Raises ImageNotFoundException for one that was asked for and is not there."""
    name, account = _readable(state, call.params)
    wanted = call.params.get("imageIds")
    there = state.ecr.manifests(name, account)
    found = list(there) if wanted is None else [_wanted(state, name, account, there, one) for one in wanted]
    return {"imageDetails": [_detail(name, account, m) for m in found]}


def _detail(name: str, account: str, manifest: Manifest) -> Json:
    body: Json = json.loads(manifest.body)
    return {
        "registryId": account,
        "repositoryName": name,
        "imageDigest": manifest.digest,
        **({"imageTags": list(manifest.tags)} if manifest.tags else {}),
        "imageSizeInBytes": manifest.size,
        "imagePushedAt": datetime.fromtimestamp(manifest.pushed_at, UTC),
        "imageManifestMediaType": manifest.media_type,
        "artifactMediaType": str(body.get("config", {}).get("mediaType", manifest.media_type)),
    }


def _wanted(state: State, name: str, account: str, there: Sequence[Manifest], one: Json) -> Manifest:
    found = pick(there, one.get("imageDigest", ""), one.get("imageTag", ""))
    if found is None:
        said = ", ".join(f"{key}:'{one.get(key, 'null')}'" for key in ("imageDigest", "imageTag"))
        raise AwsError(
            "ImageNotFoundException",
            f"The image with imageId {{{said}}} does not exist within the repository with name '{name}' in the registry with id"
            f" '{account or state.account}'",
        )
    return found


def pick(there: Sequence[Manifest], digest: str, tag: str) -> Manifest | None:
    """An image by its digest, its tag, or both."""
    return next((m for m in there if (not digest or m.digest == digest) and (not tag or tag in m.tags) and (digest or tag)), None)


def listed(state: State, call: Call) -> Result:
    """ListImages."""
    name, account = _readable(state, call.params)
    ids: list[Json] = []
    for manifest in state.ecr.manifests(name, account):
        ids += [{"imageDigest": manifest.digest, "imageTag": tag} for tag in manifest.tags]
        ids += [] if manifest.tags else [{"imageDigest": manifest.digest}]
    return {"imageIds": ids} if ids else {}  # the model knows no empty list


def batch_get(state: State, call: Call) -> Result:
    """BatchGetImage: manifests as they were pushed, and what is not there among the failures."""
    name, account = _readable(state, call.params)
    there, found, failures = state.ecr.manifests(name, account), [], []
    for one in call.params["imageIds"]:
        manifest = pick(there, one.get("imageDigest", ""), one.get("imageTag", ""))
        if manifest is None:
            failures.append({"imageId": one, "failureCode": "ImageNotFound", "failureReason": "Requested image not found"})
            continue
        found.append(
            {
                "registryId": account,
                "repositoryName": name,
                "imageId": {"imageDigest": manifest.digest, **({"imageTag": one["imageTag"]} if "imageTag" in one else {})},
                "imageManifest": manifest.body.decode(),
                "imageManifestMediaType": manifest.media_type,
            }
        )
    return {"images": found, "failures": failures}


def layer_address(state: State, call: Call) -> Result:
    """GetDownloadUrlForLayer: a signed address in ECR's own bucket, for a layer or a configuration of the repository's images."""
    name, account = _readable(state, call.params)
    digest = call.params["layerDigest"]
    if not any(digest in _blobs(manifest) for manifest in state.ecr.manifests(name, account)):
        raise AwsError(
            "LayersNotFoundException",
            f"The layer with digest '{digest}' does not exist in the repository with name '{name}' in the registry with id"
            f" '{account}'",
        )
    signature, until = secrets.token_hex(32), state.clock.now() + URL_S
    state.ecr.addresses[signature] = (digest, until)
    query = f"X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Expires={URL_S:.0f}&X-Amz-Signature={signature}"
    return {"downloadUrl": f"{state.ecr.layers_at()}/{bucket(state)}/{digest.partition(':')[2]}?{query}", "layerDigest": digest}


def _blobs(manifest: Manifest) -> set[str]:
    """The layers and the configuration that a manifest names."""
    body: Json = json.loads(manifest.body)
    return {str(part.get("digest")) for part in (body.get("config") or {}, *(body.get("layers") or ()))}


def bucket(state: State) -> str:
    """Where ECR keeps layers. Source: Amazon ECR, interface VPC endpoints, the S3 bucket that they need."""
    return f"prod-{state.region}-starport-layer-bucket"


def fetched(state: State, request: HttpRequest) -> HttpAnswer | None:
    """The layer at a signed address; None for any other request. Raises AwsError for one that is not good (any more)."""
    place = f"/{bucket(state)}/"
    if request.method != "GET" or not request.path.startswith(place):
        return None
    query = dict(parse_qsl(request.query))
    digest, until = state.ecr.addresses.get(query.get("X-Amz-Signature", ""), ("", 0.0))
    if not digest or digest.partition(":")[2] != request.path.removeprefix(place):
        raise AwsError("AccessDenied", "Access Denied", 403)
    if state.clock.now() >= until:
        raise AwsError("AccessDenied", "Request has expired", 403)
    content = state.ecr.images.blob(digest) if state.ecr.images is not None else None
    if content is None:
        raise AwsError("NoSuchKey", "The specified key does not exist.", 404)
    return HttpAnswer(200, {"Content-Type": "application/octet-stream"}, content)


def batch_delete(state: State, call: Call) -> Result:
    """BatchDeleteImage: by digest the image, by tag only its tag, and with the last tag the image."""
    repository, gone, failures = _find(state, call.params), [], []
    for one in call.params["imageIds"]:
        there = state.ecr.manifests(repository.name, state.account)
        manifest = pick(there, one.get("imageDigest", ""), one.get("imageTag", ""))
        if manifest is None or state.ecr.images is None:
            failures.append({"imageId": one, "failureCode": "ImageNotFound", "failureReason": "Requested image not found"})
            continue
        only_tag = "imageDigest" not in one and len(manifest.tags) > 1
        state.ecr.images.drop(repository.name, state.account, manifest.digest, one["imageTag"] if only_tag else "")
        gone.append({"imageDigest": manifest.digest, **({"imageTag": one["imageTag"]} if "imageTag" in one else {})})
    return {"imageIds": gone, "failures": failures}


class Gate:
    """`rehearsal.sagemaker.contracts.RegistryGate`: what a login is good for."""

    def __init__(self, state: State) -> None:
        self._state = state

    def may(self, authorization: str, account: str, repository: str, push: bool) -> str:
        """See the contract."""
        state, password = self._state, _password(authorization)
        with state.lock:
            caller, until = state.ecr.logins.get(password, (None, 0.0))
            if caller is None or state.clock.now() >= until:
                raise PermissionError("no basic auth credentials")
            if account == state.account and repository not in state.ecr.repositories:
                raise LookupError(f"The repository with name '{repository}' does not exist")
            return refused(state, caller, account, repository, PUSH if push else PULL)

    def immutable(self, account: str, repository: str) -> bool:
        """See the contract."""
        with self._state.lock:
            found = self._state.ecr.repositories.get(repository)
            return account == self._state.account and found is not None and found.mutability.startswith("IMMUTABLE")


def refused(state: State, caller: Caller, account: str, repository: str, action: str) -> str:
    """Empty where a caller may do this with a repository, else why not. AWS's repositories let everyone pull who may pull."""
    arn = f"arn:aws:ecr:{state.region}:{account}:repository/{repository}"
    if account not in (state.account, AWS_IMAGES) or (account == AWS_IMAGES and action == PUSH):
        allowed = False
    elif caller.operator:
        allowed = action not in state.denied
    else:
        allowed = state.may(state.roles.role(caller.role), action, arn)
    if allowed:
        return ""
    return f"User: {caller.arn} is not authorized to perform: {action} on resource: {arn}"


def _password(authorization: str) -> str:
    kind, _, text = authorization.partition(" ")
    try:
        user, _, password = base64.b64decode(text).decode().partition(":")
    except ValueError:
        return ""
    return password if kind.lower() == "basic" and user == "AWS" else ""
