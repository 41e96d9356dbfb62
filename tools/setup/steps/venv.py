"""The virtual environment, the `flexserve` command in it, and the bytecode of what starts often."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tools.setup import debian
from tools.setup.cache import digest, remove
from tools.setup.host import Host
from tools.setup.step import Skip, Step, StepFailed
from tools.setup.versions import locked_lines
from tools.setup.work import Count, Work

_MARK = "flexserve-setup"
# Large packages that no command imports, and what is imported of the two large SDKs and of moto; the rest is compiled at its first
# use: at every one where the environment forbids writing bytecode.
_RARE = "debugpy|mpmath|mypy|mypyc|networkx|setuptools|sympy"
_SDK_PARTS = (
    "compute|iam|iap|kms|projects|secretmanager|serviceaccount|storage|ec2|s3|sagemaker|ssm|secretsmanager"
    "|appautoscaling|budgets|cloudwatch|codebuild|ecr|scheduler"
)
_MOTO_PARTS = "core|ec2|iam|moto_api|moto_server|s3|secretsmanager|ssm|sts|utilities"


def venv_key(host: Host) -> str:
    """The lock, the interpreter, and the place, which is written into every script of the environment."""
    return digest(host.root / "requirements.lock", sys.version, str(host.root))


def command_key(host: Host) -> str:
    """What the installed command is made from."""
    return digest(venv_key(host), host.root / "pyproject.toml")


def bytecode_key(host: Host) -> str:
    """The environment and the list of compiled parts."""
    return digest(venv_key(host), _SDK_PARTS, _MOTO_PARTS, _RARE)


def _marked(host: Host, name: str, key: str) -> bool:
    mark = host.venv / f"{_MARK}-{name}"
    return mark.is_file() and mark.read_text(encoding="utf-8") == key


def _mark(host: Host, name: str, key: str) -> None:
    (host.venv / f"{_MARK}-{name}").write_text(key, encoding="utf-8")


def venv_done(host: Host) -> str | None:
    """The packages of the lock, in an environment that was finished."""
    if host.venv.is_symlink() or not _marked(host, "venv", venv_key(host)) or not (host.bin / "python").exists():
        return None
    return f"Python {sys.version.split()[0]}, packages of requirements.lock"


def venv_run(host: Host, work: Work) -> str:
    """Build it in place, since scripts hold its path; the old one stands aside, and comes back if this one fails."""
    aside = host.root / ".venv.old"
    remove(aside)
    if host.venv.exists() or host.venv.is_symlink():
        host.venv.rename(aside)
    try:
        _create(host, work)
        _install(host, work)
        _mark(host, "venv", venv_key(host))
    except BaseException:
        remove(host.venv)
        if aside.exists() or aside.is_symlink():
            aside.rename(host.venv)
        raise
    remove(aside)
    return venv_done(host) or ""


def _create(host: Host, work: Work) -> None:
    environ = host.child_environ()
    uv = host.which("uv")
    work.say("creates the environment")
    if uv:
        work.command([uv, "venv", "--quiet", "--python", host.python, host.venv], environ=environ)
        return
    if not importlib.util.find_spec("ensurepip"):
        release = f"python{sys.version_info.major}.{sys.version_info.minor}-venv"
        if not host.debian:
            raise StepFailed(f"{host.python} has no ensurepip", way_out="install your system's package for Python's venv module")
        debian.install(host, work, [release], purpose="the virtual environment")
    work.command([host.python, "-I", "-m", "venv", host.venv], environ=environ)


def _install(host: Host, work: Work) -> None:
    """With uv (on PATH, else the one of the lock: seconds), else with pip, which also knows a company's own index (minutes)."""
    lock = host.root / "requirements.lock"
    environ = host.child_environ(PIP_DISABLE_PIP_VERSION_CHECK="1", PIP_NO_INPUT="1")
    hashed = ["--require-hashes", "-r", lock]
    pip = [host.bin / "python", "-m", "pip", "install", "--no-compile"]
    try:
        uv = host.which("uv") or _locked_uv(host, work, [*pip, "--no-deps"])
        work.say("installs the packages of requirements.lock with uv")
        work.command([uv, "pip", "install", "--python", host.bin / "python", *hashed], environ=environ)
    except StepFailed as error:
        work.say(f"uv did not work ({error.what}); installs the packages of requirements.lock with pip")
        total = len(re.findall(r"^[A-Za-z0-9]", lock.read_text(encoding="utf-8"), re.MULTILINE))
        work.command([*pip, *hashed], environ=environ, count=Count(r"^Collecting ", total))


def _locked_uv(host: Host, work: Work, pip: Sequence[object]) -> Path:
    """Install uv alone, by its lines in the lock."""
    with tempfile.NamedTemporaryFile("w", suffix=".txt", encoding="utf-8") as lines:
        lines.write(locked_lines(host.root, "uv"))
        lines.flush()
        work.say("installs uv from requirements.lock")
        environ = host.child_environ(PIP_DISABLE_PIP_VERSION_CHECK="1", PIP_NO_INPUT="1")
        work.command([*pip, "--require-hashes", "-r", lines.name], environ=environ)
    return host.bin / "uv"


def command_done(host: Host) -> str | None:
    """The `flexserve` script of this checkout."""
    if not _marked(host, "command", command_key(host)) or not (host.bin / "flexserve").exists():
        return None
    return str(host.bin / "flexserve")


def command_run(host: Host, work: Work) -> str:
    """An editable install: the command runs what is in the checkout. The build back end is in the lock."""
    argv: list[object] = [host.bin / "python", "-m", "pip", "install", "--no-index"]
    if uv := host.which("uv"):
        argv = [uv, "pip", "install", "--offline", "--python", host.bin / "python"]
    argv += ["--no-deps", "--no-build-isolation", "-e", host.root]
    work.command(argv, environ=host.child_environ(PATH=f"{host.bin}{os.pathsep}{host.environ.get('PATH', '')}"))
    _mark(host, "command", command_key(host))
    return command_done(host) or ""


def bytecode_done(host: Host) -> str | None:
    """Compiled modules, so that a command starts fast also where the environment forbids writing bytecode."""
    return "compiled" if _marked(host, "bytecode", bytecode_key(host)) else None


def bytecode_run(host: Host, work: Work) -> str:
    """Compile everything but large packages, and services of the two large SDKs, that no command here imports."""
    packages = subprocess.run(
        [host.bin / "python", "-I", "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"],
        capture_output=True, text=True, check=True, timeout=60,
    ).stdout.strip()  # fmt: skip
    environ = host.child_environ()
    sdks = rf"pulumi_(aws|gcp)/(?!({_SDK_PARTS})/)[^/]+/|/moto/(?!({_MOTO_PARTS})/)[^/]+/"
    skipped = rf"/({_RARE})/|{sdks}|/tests?/"
    work.say("compiles modules")
    argv = [host.bin / "python", "-m", "compileall", "-q", "-j", "0", "-x", skipped, packages]
    try:
        work.command(argv, environ=environ)
    except StepFailed as error:
        if error.exit_code is None:
            raise Skip("not all compiled in time: commands start slower until they are") from error
        if error.exit_code != 1:  # 1: some file is not for this Python (a template); the rest is compiled
            raise
    _mark(host, "bytecode", bytecode_key(host))
    return bytecode_done(host) or ""


_OWN = ("catalog", "flexserve", "infra", "rehearsal", "startup", "templates", "verdict")


def own_key(host: Host) -> str:
    """The project's modules: compiled anew when one changes, where Python itself would (or may) not keep it."""
    return digest(venv_key(host), *(file for part in _OWN for file in sorted((host.root / part).rglob("*.py"))))


def own_done(host: Host) -> str | None:
    """Compiled as they are now."""
    return "compiled" if _marked(host, "own", own_key(host)) else None


def own_run(host: Host, work: Work) -> str:
    """A module that does not compile is the tests' business, not the set-up's."""
    key = own_key(host)
    try:
        work.command([host.bin / "python", "-m", "compileall", "-q", *_OWN], environ=host.child_environ(), cwd=host.root)
    except StepFailed as error:
        if error.exit_code != 1:
            raise
    _mark(host, "own", key)
    return "compiled"


def _venv(host: Host) -> Path:
    return host.venv


STEPS = (
    Step(
        "venv", "Python environment from requirements.lock, every hash checked", venv_key, venv_done, venv_run, _venv,
        limit_s=1500.0, takes_mb=1200, room=lambda host: host.root,
    ),
    Step(
        "command", "the flexserve command", command_key, command_done, command_run, lambda host: host.bin / "flexserve",
        needs=("venv",), limit_s=600.0,
    ),
    Step(
        "bytecode", "bytecode of the packages, so that commands start fast",
        bytecode_key, bytecode_done, bytecode_run, _venv, needs=("venv",),
    ),
    Step("own-bytecode", "bytecode of the project's own modules", own_key, own_done, own_run, needs=("venv",), limit_s=600.0),
)  # fmt: skip
