"""BootSpec -> what the machine runs, as bytes: a stub that never changes for a deployment, and the script proper.

Pure, and the same bytes from any process. Raises `BadConfig` for a spec that cannot be written as a script, and refuses one
that holds what looks like a secret's value.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from msgspec import Struct, field

from startup import boot_phases, container, unit
from startup.onboard import places
from startup.spec import BootSpec
from startup.templating import environment as _environment
from startup.templating import with_imports
from verdict.errors import BadConfig, Refused
from verdict.secrets import SECRET_VALUE

SCRIPT_BYTES = 262_144  # Compute Engine's limit of one metadata value
STUB_BYTES = 16_384
END = "# flexserve: end of script"  # the stub runs nothing that lacks this last line
ONBOARD: tuple[str, ...] = (
    *("__init__", "__main__", "attempt", "boot", "cause", "causes", "causes_ec2", "chat", "curl"),
    *("engine", "hub", "places", "process", "redact", "report", "secret", "server"),
)
"""The modules of `startup/onboard/` that every script carries; a template names those that it needs besides."""


class Rendered(Struct, frozen=True):
    """`sha256` is the script's, as the machine reports it while it runs. `files` is what an image is built from, by name."""

    stub: bytes
    script: bytes
    sha256: str
    files: Mapping[str, bytes] = field(default_factory=dict)


def render(spec: BootSpec) -> Rendered:
    """Stub and script of one boot; of an endpoint, its image and environment as one text, with no stub.

    An unresolved spec renders to a script that says so and ends.
    """
    if spec.sagemaker is not None:
        from startup import image

        return Rendered(b"", image.shown(spec).encode(), image.sha256(spec), image.context(spec))
    environment = _environment()
    values = _values(spec)
    stub = _checked(environment.get_template(f"{spec.template}.stub.sh.j2").render(values), STUB_BYTES, "stub")
    script = _checked(environment.get_template(f"{spec.template}.sh.j2").render(values), SCRIPT_BYTES, "script")
    if not script.endswith(f"\n{END}\n".encode()):
        raise BadConfig(f"templates/{spec.template}.sh.j2 does not end with the line {END!r}")
    return Rendered(stub, script, hashlib.sha256(script).hexdigest())


def _values(spec: BootSpec) -> Mapping[str, Any]:
    return {
        "spec": spec,
        "image_reference": spec.image_reference,
        "model_dir": container.model_dir(spec),
        "cache_dir": container.cache_dir(),
        "revision": spec.model_revision or "unresolved",
        "config": container.config_hash(spec),
        "run_words": container.run_words(spec),
        "starting_s": sum(spec.phase_limits.get(name, 0) for name in ("load", "compile", "serving")),
        "rows": boot_phases.PHASES,
        "needs_of": boot_phases.needs_of,
        "places": places,
        "carried": carried,
        "unit": unit,
        "end": END,
    }


class Carried(Struct, frozen=True):
    """The Python part of a script: path on the machine -> text, and a hash over all of it."""

    files: Mapping[str, str]
    hash: str

    @property
    def folders(self) -> tuple[str, ...]:
        """The folders that they lie in."""
        return tuple(sorted({path.rpartition("/")[0] for path in self.files}))


def carried(*more: str) -> Carried:
    """The modules that every boot needs, `more` (`aws` of `startup/onboard/`, or `startup/turing/patch` in full), their imports."""
    names = {*(f"startup/onboard/{name}" for name in ONBOARD), *(n if "/" in n else f"startup/onboard/{n}" for n in more)}
    sources = {"startup/__init__.py": ""} | {f"{name}.py": text for name, text in with_imports(names).items()}
    digest = hashlib.sha256("\0".join(f"{k}\0{v}" for k, v in sources.items()).encode()).hexdigest()
    return Carried(sources, digest[:12])


def _checked(text: str, limit: int, what: str) -> bytes:
    data = text.encode()
    if b"\r" in data:
        raise BadConfig(f"the {what} has carriage returns: bash would not run it")
    if not data.startswith(b"#!"):
        raise BadConfig(f"the {what} does not start with #!")
    if len(data) > limit:
        raise BadConfig(
            f"the {what} has {len(data)} bytes, {limit} are allowed", way_out="shorten serving.extra_args or serving.environment"
        )
    if found := SECRET_VALUE.search(text):
        raise Refused(
            "secret-in-script",
            why=f"a value that starts with {found[0][:3]!r} looks like a secret, and the script is readable in the metadata",
            way_out="keep it in the secret store and name it: secret.name",
        )
    return data
