"""BootSpec -> the image that an endpoint runs: what it is built from, its tag, and the container's environment. Pure.

An image is built where AWS's own cannot do what is wanted: on Turing (the patch), and wherever a secret is read (the wrapper
around the entry point). It is AWS's container by digest with a few files more.
"""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from collections.abc import Mapping

from startup import manifest
from startup.endpoint.entry import SECRET
from startup.spec import BootSpec, SageMakerBoot
from startup.templating import environment as _templates
from startup.templating import source, with_imports
from startup.turing.patch import VERSION
from verdict.errors import BadConfig, Refused
from verdict.secrets import SECRET_VALUE

ENTRY = "/usr/local/bin/sagemaker_entrypoint.sh"
"""AWS's own entry point. Source: aws/deep-learning-containers, docker/vllm/Dockerfile; held against the base while it is built."""
BUILD_VARIABLE = "FLEXSERVE_REPOSITORY"
"""What the build's project sets: the URI of the repository, without a tag."""
UNRESOLVED = "unresolved"
_WRAPPER = ("startup/endpoint/entry", "startup/endpoint/arch")
_PATCH = ("startup/turing/__main__",)


def context(spec: BootSpec) -> Mapping[str, bytes]:
    """What the image is built from: path -> bytes. The same for the same spec on any machine; empty where none is built."""
    boot = of(spec)
    if not boot.built:
        return {}
    parts = _added(boot)
    values = _values(spec, boot, key(spec))
    for name in ("Dockerfile", "buildspec.yml", "build.sh"):
        parts[name] = _rendered(name, values)
    return dict(sorted(parts.items()))


def archive(parts: Mapping[str, bytes]) -> bytes:
    """The files as a zip, the same bytes everywhere: sorted, undated, and stored, since no two compressors agree."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as packed:
        for name, data in sorted(parts.items()):
            entry = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
            entry.create_system, entry.external_attr = 3, 0o100644 << 16
            packed.writestr(entry, data)
    return out.getvalue()


def image_key(spec: BootSpec) -> str:
    """The tag of the built image: base, patch, and a hash over all that is added. An image of this tag is never built twice.

    Raises `BadConfig` while the base has no digest, and where no image is built.
    """
    found = key(spec)
    if not of(spec).built or found == UNRESOLVED:
        raise BadConfig(
            "an image has no tag yet", why="its base is not resolved to a digest" if of(spec).built else "none is built"
        )
    return found


def key(spec: BootSpec) -> str:
    """As `image_key`, but `unresolved` where that raises: for showing."""
    boot = of(spec)
    if not boot.built or spec.image_digest is None:
        return UNRESOLVED
    parts = {**_added(boot), "Dockerfile": _rendered("Dockerfile", _values(spec, boot, UNRESOLVED))}
    added = hashlib.sha256(b"\0".join(part for name in sorted(parts) for part in (name.encode(), parts[name]))).hexdigest()
    return "-".join((spec.image_digest.partition(":")[2][:12], *((f"patch{VERSION}",) if boot.patch else ()), added[:12]))


def repository_uri(spec: BootSpec, account: str) -> str:
    """Where the built image is pushed to and pulled from, without a tag or digest."""
    boot = of(spec)
    suffix = ".cn" if boot.region.startswith("cn-") else ""
    return f"{account}.dkr.ecr.{boot.region}.amazonaws.com{suffix}/{boot.repository}"


def environment(spec: BootSpec) -> dict[str, str]:
    """The container's environment, as `DescribeModel` shows it to anybody who may ask: it names the secret, it holds none."""
    boot = of(spec)
    named = boot.secret_arn or (spec.secret.name if spec.secret else "")
    if named and not (boot.built or boot.wrapped):
        raise BadConfig(
            "AWS's own image reads no secret",
            why="SageMaker's only way to hand one over is the environment, which DescribeModel shows",
            way_out="target.image_source=patched: the built image reads it with the endpoint's role",
        )
    return dict(sorted({**spec.environment, **({SECRET: named} if named else {})}.items()))


def shown(spec: BootSpec) -> str:
    """All of it as one text: image, environment, and the files that the image is built from."""
    boot = of(spec)
    lines = [f"# stack {spec.stack}: what its endpoint runs, in {boot.region} on {boot.gpu}"]
    if not spec.resolved:
        lines.append("# not resolved: image and model are by name until `up`; nothing is built or run like this")
    lines += [f"image {spec.image_reference}", f"built {boot.repository}:{key(spec)}" if boot.built else "built no"]
    lines += [f"env {name}={json.dumps(value, ensure_ascii=False)}" for name, value in environment(spec).items()]
    for name, data in context(spec).items():
        lines += ["", f"# ---- {name}", data.decode().removesuffix("\n")]
    text = "\n".join(lines) + "\n"
    if found := SECRET_VALUE.search(text):
        raise Refused(
            "secret-in-script",
            why=f"a value that starts with {found[0][:3]!r} looks like a secret, and DescribeModel shows the environment",
            way_out="keep it in the secret store and name it: secret.name",
        )
    return text


def sha256(spec: BootSpec) -> str:
    """Over everything that makes the container what it is: base, files, environment."""
    parts = {
        "image": spec.image_reference,
        "environment": environment(spec),
        "files": {n: d.decode() for n, d in context(spec).items()},
    }
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode("utf-8", "surrogatepass")).hexdigest()


def of(spec: BootSpec) -> SageMakerBoot:
    """The spec's own part. Raises `BadConfig` for a spec of another target."""
    if spec.sagemaker is None:
        raise BadConfig(f"stack {spec.stack} runs on no endpoint")
    return spec.sagemaker


def _added(boot: SageMakerBoot) -> dict[str, bytes]:
    carried = with_imports((*_WRAPPER, *(_PATCH if boot.patch else ())))
    start = {"flexserve/__main__.py": _checked("__main__.py", source("startup/endpoint/__main__"))}
    return {**{f"flexserve/{name}.py": _checked(name, text) for name, text in carried.items()}, **start}


def _values(spec: BootSpec, boot: SageMakerBoot, key: str) -> Mapping[str, object]:
    return {
        "base": spec.image_reference,
        "capability": boot.capability,
        "entry": ENTRY,
        "key": key,
        "media_type": manifest.DOCKER_V2,
        "patch": str(VERSION) if boot.patch else "",
        "region": boot.region,
    }


def _rendered(name: str, values: Mapping[str, object]) -> bytes:
    return _checked(name, _templates().get_template(f"sagemaker/{name}.j2").render(values))


def _checked(name: str, text: str) -> bytes:
    if "\r" in text:
        raise BadConfig(f"{name} has carriage returns")
    if found := SECRET_VALUE.search(text):
        raise Refused(
            "secret-in-script",
            why=f"{name}: a value that starts with {found[0][:3]!r} looks like a secret, and the image is kept",
            way_out="keep it in the secret store and name it: secret.name",
        )
    return text.encode()
