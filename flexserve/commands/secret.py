"""`flexserve secret`: the Hub token's way into the cloud's store, and a look at it that reads nothing."""

from __future__ import annotations

import getpass
import sys
from collections.abc import Sequence
from dataclasses import asdict

from flexserve.commands.plan import load
from flexserve.lifecycle.build import reference
from flexserve.output import Output
from flexserve.project import Project, check_backend, find
from flexserve.secret.store import store
from startup.spec import SecretRef
from verdict.errors import BadConfig, FlexserveError
from verdict.exit_codes import ExitCode
from verdict.secrets import SECRET_VALUE


def put(name: str, stack: str, output: Output, allow: Sequence[str] = ()) -> ExitCode:
    """Read the value, trim it, refuse an empty one, store it."""
    ref, _ = secret_of(find(), stack, name, allow)
    value = read_value(name, stack)
    version = store(ref).put(name, value)
    output.result(
        {"stack": stack, "name": name, "project": ref.project, "version": version},
        f"{name}: version {version} stored in {ref.store} of {ref.project}",
    )
    if name != ref.name:
        output.say(f"{stack} reads {ref.name}, not {name}: set flexserve:secret.name to use it")
    return ExitCode.DONE


def check(name: str, stack: str, output: Output, allow: Sequence[str] = ()) -> ExitCode:
    """Exit 0 when nothing speaks against a boot that needs the secret, else 1."""
    project = find()
    ref, granted = secret_of(project, stack, name, allow)
    checked = store(ref).check(name, _reader(project, stack), granted=granted)
    words = {True: "yes", False: "no", None: "cannot tell"}
    output.result(
        {"stack": stack, "name": name, "project": ref.project, **asdict(checked), "ok": checked.ok},
        f"{name} in {ref.store} of {ref.project}: exists {words[checked.exists]}, enabled {words[checked.enabled]}, "
        f"readable by the machine {words[checked.readable]}" + (f" ({checked.why})" if checked.why else ""),
    )
    return ExitCode.DONE if checked.ok else ExitCode.FAILED


def secret_of(project: Project, stack: str, name: str, allow: Sequence[str] = ()) -> tuple[SecretRef, bool]:
    """Where the stack keeps its secret, and whether flexserve grants the machine access. Raises `BadConfig`."""
    if SECRET_VALUE.search(name):
        raise BadConfig(
            "this is a secret's value, not its name", way_out=f"flexserve secret put NAME -s {stack} asks for the value"
        )
    plan = load(project, stack, allow=allow)
    setting = plan.deployment.common.secret
    if plan.boot.secret is None or setting is None:
        raise BadConfig(f"{stack} reads no secret", way_out=f"add flexserve:secret with name: {name} to stacks/Pulumi.{stack}.yaml")
    return plan.boot.secret, setting.grant == "own"


def read_value(name: str, stack: str) -> str:
    """The value from the terminal without echo, or from stdin; trimmed. Raises `BadConfig` for an empty one, or for no text."""
    try:
        raw = getpass.getpass(f"value of {name} (not shown): ") if sys.stdin.isatty() else sys.stdin.read()
        value = raw.encode().decode().strip()
    except UnicodeError:
        raise BadConfig(f"the value for {name} is no text", way_out="a token has letters, digits and _ only") from None
    if not value:
        raise BadConfig(f"the value for {name} is empty", way_out=f"flexserve secret put {name} -s {stack} < FILE")
    return value


def _reader(project: Project, stack: str) -> str:
    """The machine's account when the state knows it; a state that cannot be read is no reason to fail here."""
    try:
        check_backend(stack_file=project.root / "stacks" / f"Pulumi.{stack}.yaml")
        ref = reference(project, stack)
    except FlexserveError:
        return ""
    return str(ref.outputs.get("service_account") or "") if ref else ""
