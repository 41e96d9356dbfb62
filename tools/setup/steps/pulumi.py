"""Pulumi: on PATH, else from its installer, else built from Go modules; its Python language host; its providers."""

from __future__ import annotations

import contextlib
import filecmp
import os
import shutil
from pathlib import Path

from tools.setup import golang
from tools.setup.cache import building, digest, link
from tools.setup.downloads import fetch, installer_url, reachable
from tools.setup.engine import (
    BUILT,
    HELPER,
    HOST,
    beside_engine,
    build_key,
    built_folder,
    found,
    host_version,
    installed_folder,
    language_folder,
    links,
    version_of,
    wanted,
)  # fmt: skip
from tools.setup.host import Host
from tools.setup.step import Skip, Step, StepFailed
from tools.setup.versions import SDK_MODULE, locked
from tools.setup.work import Work

_VERSION_VARIABLE = "github.com/pulumi/pulumi/sdk/v3/go/common/version.Version"
_ENGINE_PACKAGE = "github.com/pulumi/pulumi/pkg/v3/cmd/pulumi"
_HOST_PACKAGE = "github.com/pulumi/pulumi/sdk/v3/python/cmd/pulumi-language-python"
_INSTALL_LIMIT_S = 180.0
PROVIDERS = ("gcp", "aws")  # of the stacks that there are


def engine_done(host: Host) -> str | None:
    """A Pulumi that is new enough, from wherever."""
    engine = found(host)
    return None if engine is None else f"Pulumi {engine.version}, {engine.origin}: {engine.folder}"


def engine_run(host: Host, work: Work) -> str:
    """The installer where it can be reached, else a build of six minutes."""
    work.say("looks for Pulumi's installer")
    if not (reachable(host) and _installer(host, work)):
        _build_engine(host, work)
    return engine_done(host) or ""


def _installer(host: Host, work: Work) -> bool:
    """Run Pulumi's own install script into the cache. False when it fails: then the engine is built."""
    script = fetch(installer_url(host), timeout=20.0)
    if script is None:
        return False
    version = wanted(host)
    work.say(f"Pulumi's installer fetches {version}")
    try:
        with building(installed_folder(host)) as folder:
            argv = ["sh", "-s", "--", "--version", version, "--install-root", folder, "--no-edit-path"]
            environ = host.child_environ(HOME=str(folder / "home"))
            work.command(argv, environ=environ, text_in=script, limit_s=_INSTALL_LIMIT_S)
            if version_of(folder / "bin" / "pulumi") != version:
                raise StepFailed("the installer left no usable pulumi")
    except StepFailed as error:
        work.say(f"the installer did not work ({error.what}); Pulumi is built instead")
        return False
    return True


def _build_engine(host: Host, work: Work) -> None:
    version = wanted(host)
    with building(built_folder(host)) as folder:
        flags = f"-s -w -X {_VERSION_VARIABLE}={version}"
        golang.build(host, work, "pulumi", _ENGINE_PACKAGE, folder / "pulumi", flags)
        if (said := version_of(folder / "pulumi")) != version:
            raise StepFailed(f"the engine that was built says version {said!r}, not {version}")


def language_done(host: Host) -> str | None:
    """The language host, where the engine did not bring one."""
    engine = found(host)
    if engine is not None and engine.complete:
        return "comes with Pulumi"
    folder = language_folder(host)
    return f"{host_version(host)}, {BUILT}" if (folder / HELPER).is_file() and (folder / HOST).is_file() else None


def language_run(host: Host, work: Work) -> str:
    """Build it and put its helper script beside it."""
    with building(language_folder(host)) as folder:
        flags = f"-s -w -X {_VERSION_VARIABLE}={host_version(host)}"
        golang.build(host, work, "language-python", _HOST_PACKAGE, folder / HOST, flags)
        helper = golang.module_folder(host, "language-python", SDK_MODULE) / "python" / "cmd" / HELPER
        shutil.copyfile(helper, folder / HELPER)
        (folder / HELPER).chmod(0o755)
    return language_done(host) or ""


def links_done(host: Host) -> str | None:
    """The environment's `bin` has what PATH lacks."""
    names = links(host)
    if any(not _same(language_folder(host) / name, file) for name, file in beside_engine(host).items()):
        return None
    right = all((host.bin / n).is_symlink() and (host.bin / n).readlink() == f and f.exists() for n, f in names.items())
    if not right or found(host) is None or _stale(host, names):
        return None
    return f"{', '.join(names)} in {host.bin}" if names else "not needed, Pulumi is on PATH"


def links_run(host: Host, work: Work) -> str:
    """Make the links, each in one step, and remove those that no longer hold."""
    for name, file in beside_engine(host).items():
        _put(language_folder(host) / name, file)
    names = links(host)
    for stale in _stale(host, names):
        stale.unlink()
    for name, file in names.items():
        link(host.bin / name, file)
        work.say(f"{name} -> {file}")
    return links_done(host) or ""


def _same(made: Path, file: Path) -> bool:
    """Whether `file` is `made`, or a copy of it."""
    return made.is_file() and file.is_file() and filecmp.cmp(made, file)


def _put(made: Path, file: Path) -> None:
    """Make `file` another name of `made`, in one step; a copy where the disk knows no second names."""
    if _same(made, file):
        return
    temporary = file.with_name(f".{file.name}.{os.getpid()}")
    temporary.unlink(missing_ok=True)
    try:
        temporary.hardlink_to(made)
    except OSError:
        shutil.copy2(made, temporary)
    temporary.replace(file)


def _stale(host: Host, names: dict[str, Path]) -> list[Path]:
    present = host.bin.glob("pulumi*") if host.bin.is_dir() else iter(())
    return [link for link in present if link.is_symlink() and link.name not in names]


def _plugin(host: Host, provider: str) -> Path:
    home = Path(host.environ.get("PULUMI_HOME") or Path(host.environ.get("HOME") or Path.home()) / ".pulumi")
    return home / "plugins" / f"resource-{provider}-v{locked(host.root, f'pulumi-{provider}')}"


def providers_key(host: Host) -> str:
    """The versions in the lock."""
    return digest(*(locked(host.root, f"pulumi-{p}") for p in PROVIDERS))


def providers_done(host: Host) -> str | None:
    """Official plugins that are there, or the day's answer that they cannot be had."""
    if all(_plugin(host, p).is_dir() for p in PROVIDERS):
        return "official: " + ", ".join(f"{p} {locked(host.root, f'pulumi-{p}')}" for p in PROVIDERS)
    return None if reachable(host) else _stand_in(host)


def _stand_in(host: Host) -> str:
    why = "the download site cannot be reached" if host.downloads else "FLEXSERVE_DOWNLOADS=no"
    return f"none ({why}): the rehearsal uses its stand-in; a real cloud needs the official plugin"


def providers_run(host: Host, work: Work) -> str:
    """Download the plugins, bounded. Without them the rehearsal has a stand-in, so this is no failure."""
    engine = found(host)
    if engine is None:
        raise StepFailed("there is no Pulumi to install plugins with")
    path = f"{engine.folder}:{host.environ.get('PATH', '')}"
    for provider in PROVIDERS:
        version = locked(host.root, f"pulumi-{provider}")
        work.say(f"downloads the {provider} provider {version}")
        argv = [engine.folder / "pulumi", "plugin", "install", "resource", provider, version, "--non-interactive"]
        environ = host.child_environ(PATH=path, PULUMI_SKIP_UPDATE_CHECK="true")
        with contextlib.suppress(StepFailed):
            work.command(argv, environ=environ, limit_s=_INSTALL_LIMIT_S)
        if not _plugin(host, provider).is_dir():
            raise Skip(f"the {provider} provider {version} could not be downloaded: the rehearsal uses its stand-in")
    return providers_done(host) or ""


STEPS = (
    Step(
        "pulumi", "the Pulumi engine and command line (built here: about 7 minutes)",
        lambda host: build_key(host, "pulumi"), engine_done, engine_run,
        lambda host: e.folder if (e := found(host)) else None, limit_s=2700.0, takes_mb=4500,
    ),
    Step(
        "language-python", "Pulumi's Python language host", lambda host: build_key(host, "language-python"),
        language_done, language_run, lambda host: None if (e := found(host)) and e.complete else language_folder(host),
        needs=("pulumi",), takes_mb=600,
    ),
    Step(
        "links", "Pulumi in the environment's bin", lambda host: digest(*map(str, links(host).values())),
        links_done, links_run, needs=("venv", "pulumi", "language-python"),
    ),
    Step(
        "providers", "Pulumi's provider plugins", providers_key, providers_done, providers_run,
        lambda host: _plugin(host, PROVIDERS[0]).parent if all(_plugin(host, p).is_dir() for p in PROVIDERS) else None,
        needs=("pulumi",),
    ),
)  # fmt: skip
