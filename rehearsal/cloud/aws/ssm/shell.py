"""A document of type Command, run in a machine: `AWS-RunShellScript`."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rehearsal.cloud.aws.errors import AwsError
from rehearsal.contracts import Machine

DOCUMENT = "AWS-RunShellScript"
PARAMETERS = ("commands", "workingDirectory", "executionTimeout")
STDOUT_CHARACTERS = 24000
STDERR_CHARACTERS = 8000
DEFAULT_TIMEOUT_S = 3600


@dataclass(frozen=True)
class Ran:
    """How it ended. `status` is Success, Failed or TimedOut; `code` as the agent reports it (-1: it never ended)."""

    status: str
    code: int
    stdout: str
    stderr: str


def check(document: str, parameters: Mapping[str, Sequence[str]]) -> None:
    """Raises AwsError for another document or its wrong parameters."""
    if document != DOCUMENT:
        raise AwsError("InvalidDocument", f"Document with name {document} does not exist.")
    if strange := sorted(set(parameters) - set(PARAMETERS)):
        raise AwsError("InvalidParameters", f"Parameter {strange[0]} is not defined in document {DOCUMENT}")
    if not parameters.get("commands"):
        raise AwsError("InvalidParameters", "Missing required parameter: commands")
    if not str((parameters.get("executionTimeout") or ["3600"])[0]).isdigit():
        raise AwsError(
            "InvalidParameters",
            "executionTimeout must match (([1-9][0-9]{0,4})|(1[0-6][0-9]{4})|(17[0-1][0-9]{3})|(172[0-7][0-9]{2})|(172800))",
        )


def run(machine: Machine, parameters: Mapping[str, Sequence[str]], most_s: float = DEFAULT_TIMEOUT_S) -> Ran:
    """Run the lines as one script, with sh, as root. Returns also when the machine went away meanwhile."""
    script = "\n".join(parameters["commands"])
    folder = str((parameters.get("workingDirectory") or [""])[0])
    if folder:
        script = f"cd {shlex.quote(folder)} || exit 1\n{script}"
    limit = min(float((parameters.get("executionTimeout") or [str(most_s)])[0]), most_s)
    try:
        done = machine.exec(["sh", "-c", script], timeout=limit)
    except TimeoutError:
        return Ran("TimedOut", 137, "", "")
    except (RuntimeError, OSError) as gone:
        return Ran("Failed", -1, "", str(gone))
    status = "Success" if done.returncode == 0 else "Failed"
    return Ran(status, done.returncode, done.stdout[:STDOUT_CHARACTERS], done.stderr[:STDERR_CHARACTERS])
