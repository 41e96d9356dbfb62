"""Which Pulumi there is on this machine, and what of it has to be linked into the environment."""

from __future__ import annotations

import platform
import subprocess
from dataclasses import dataclass
from pathlib import Path

from tools.setup.cache import digest
from tools.setup.host import Host
from tools.setup.versions import ENGINE_MODULE, SDK_MODULE, locked, module, parse

HOST = "pulumi-language-python"
HELPER = "pulumi-language-python-exec"
ON_PATH, INSTALLER, BUILT = "on PATH", "Pulumi's installer", "built from Go modules"


@dataclass(frozen=True)
class Engine:
    """A Pulumi command line. `folder` holds it; `complete` means that the Python language host is there too."""

    folder: Path
    version: str
    origin: str
    complete: bool = True


def sources(host: Host, name: str) -> Path:
    """The module file of what is built here."""
    return host.root / "tools" / name


# What nobody here needs is a good part of the compiler's work, as measured on the engine's own packages: debugging tables that the
# linker strips again. Inlining stays: without it `pulumi` would start half as slow again, each time.
# The tag leaves out what Google's storage client loads for gRPC inside Google Cloud, 144 packages: state in gs:// goes by HTTP.
HOW = ("-trimpath", "-tags", "disable_grpc_modules", "-gcflags", "all=-dwarf=false")
"""How commands are compiled."""


def build_key(host: Host, name: str) -> str:
    """The pinned modules, how they are compiled, and this kind of machine."""
    folder = sources(host, name)
    files = [folder / "go.mod", folder / "go.sum", folder / "tools.go"]
    return digest(*files, *HOW, platform.system(), platform.machine())


def wanted(host: Host) -> str:
    """The engine's version that is installed or built."""
    return module(sources(host, "pulumi"), ENGINE_MODULE)


def host_version(host: Host) -> str:
    """The Python language host's version."""
    return module(sources(host, "language-python"), SDK_MODULE)


def installed_folder(host: Host) -> Path:
    """Where Pulumi's own installer puts it."""
    return host.cache / f"pulumi-installed-{digest(wanted(host), platform.system(), platform.machine())}"


def built_folder(host: Host) -> Path:
    """Where the engine that was built here is."""
    return host.cache / f"pulumi-{build_key(host, 'pulumi')}"


def language_folder(host: Host) -> Path:
    """Where the Python language host that was built here is."""
    return host.cache / f"language-python-{build_key(host, 'language-python')}"


def version_of(executable: Path) -> str:
    """What `pulumi version` says; empty when it says nothing that can be used."""
    environ = {"PULUMI_SKIP_UPDATE_CHECK": "true", "PATH": "/usr/bin:/bin", "HOME": "/nonexistent"}
    try:
        run = subprocess.run(
            [executable, "version"],
            env=environ,
            capture_output=True,
            text=True,
            timeout=20,
            check=False,
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return run.stdout.strip().removeprefix("v") if run.returncode == 0 else ""


def on_path(host: Host) -> Engine | None:
    """The first Pulumi on PATH that is new enough for the SDK in the lock."""
    least = parse(locked(host.root, "pulumi"))
    folders = host.path_folders()
    for folder in folders:
        executable = folder / "pulumi"
        if executable.is_file() and parse(version := version_of(executable)) >= least:
            complete = (folder / HOST).exists() or any((f / HOST).exists() for f in folders)
            return Engine(folder, version, ON_PATH, complete)
    return None


def found(host: Host) -> Engine | None:
    """The Pulumi to use, in the order: on PATH, from its installer, built here. None when there is none yet."""
    if (there := on_path(host)) is not None:
        return there
    installed = installed_folder(host) / "bin"
    if (installed / "pulumi").is_file():
        return Engine(installed, wanted(host), INSTALLER, (installed / HOST).exists())
    if (built_folder(host) / "pulumi").is_file():
        return Engine(built_folder(host), wanted(host), BUILT, complete=False)
    return None


def links(host: Host) -> dict[str, Path]:
    """What has to be in the environment's `bin`, name to file. Nothing for what is on PATH already."""
    engine = found(host)
    if engine is None:
        return {}
    names: dict[str, Path] = {}
    if engine.origin != ON_PATH:
        names.update({f.name: f for f in sorted(engine.folder.iterdir()) if f.name.startswith("pulumi")})
    if not engine.complete:
        beside = beside_engine(host)
        names.update({name: beside.get(name, language_folder(host) / name) for name in (HOST, HELPER)})
    return names


def beside_engine(host: Host) -> dict[str, Path]:
    """Where the language host that was built here belongs: beside the engine that was built here; elsewhere Pulumi warns.

    It compares what it finds on PATH, links followed, with what lies beside its own program. Nothing for another engine.
    """
    engine = found(host)
    if engine is None or engine.origin != BUILT:
        return {}
    return {name: engine.folder / name for name in (HOST, HELPER)}
