"""`flexserve rehearse`: the whole life of a stack on this machine, with no account."""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from verdict.errors import BadConfig
from verdict.exit_codes import ExitCode

HOLD_MAX_S = 30 * 86_400


def run(
    root: Path,
    stack: str | None,
    *,
    faults: Sequence[str] = (),
    list_faults: bool = False,
    sets: Sequence[str] = (),
    allow: Sequence[str] = (),
    hold: str | None = None,
    json_out: bool = False,
) -> ExitCode:
    """Rehearse and print the verdict. The exit code is the product's own; 7 when anything is left.

    The local cloud is imported here and nowhere else in the product.
    """
    os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")  # processes are started beside a server that is in this one
    from rehearsal.faults import FAULTS

    if list_faults:
        rows = [{"name": f.name, "targets": f.targets, "about": f.about, "exit_code": f.expect_exit} for f in FAULTS.values()]
        lines = (f"{f.name:<22} {', '.join(f.targets):<18} {f.about}" for f in FAULTS.values())
        print(json.dumps({"faults": rows}) if json_out else "\n".join(lines))
        return ExitCode.DONE
    if stack is None and hold is not None and _is_stack(root, hold):
        raise BadConfig(f"--hold {hold}: {hold} is a stack, not a time", way_out=f"flexserve rehearse {hold} --hold")
    if stack is None:
        raise BadConfig("which stack?", way_out="flexserve rehearse tpu-v6e")
    unknown = [name for name in faults if name not in FAULTS]
    if unknown:
        raise BadConfig(f"no fault {unknown[0]!r}", way_out="flexserve rehearse --faults lists them")
    hold_s = held_for(hold) if hold is not None else 0
    from rehearsal.run import rehearse

    def say(line: str) -> None:
        with contextlib.suppress(OSError):  # a terminal that was closed: the teardown goes on
            print(line, file=sys.stderr, flush=True)

    verdict = rehearse(root, stack, sets=sets, allow=allow, faults=[FAULTS[name] for name in faults], hold_s=hold_s, say=say)
    print(json.dumps(verdict.as_dict(), indent=2) if json_out else page(verdict.as_dict()))
    return ExitCode(verdict.exit_code) if verdict.exit_code in set(ExitCode) else ExitCode.FAILED


def _is_stack(root: Path, name: str) -> bool:
    from flexserve.project import Project

    return name in Project(root).stacks


def held_for(text: str) -> int:
    """Seconds of a `--hold`. Raises `BadConfig`."""
    from infra.duration import parse_seconds

    example = "for example flexserve rehearse tpu-v6e --hold 30m"
    try:
        seconds = parse_seconds(text)
    except ValueError as error:
        raise BadConfig(f"--hold {text}: {error}", way_out=example) from error
    if not 0 < seconds <= HOLD_MAX_S:
        raise BadConfig(f"--hold {text}: from one second to 30 days", way_out=example)
    return seconds


def failed(failure: object) -> list[str]:
    """Which command failed, what it said, and where all of it is."""
    if not isinstance(failure, dict):
        return []
    lines = ["", f"  {failure['command']} ended with {failure['exit']}", *(f"    {line}" for line in failure["error"])]
    if failure["log_tail"]:
        lines += ["  its last lines:", *(f"    | {line}" for line in failure["log_tail"])]
    return [*lines, f"  all of it: {failure['log']}"]


def phase_line(phase: Mapping[str, Any]) -> str:
    """A phase with its own time, and the time that stand-ins held."""
    own = max(0.0, float(phase.get("seconds") or 0) - float(phase.get("held_s") or 0))
    held = f" + {phase['held_s']:.1f} s held" if phase.get("held_s") else ""
    return f"  {phase['name']:<10} {phase['result']:<8} {own:6.1f} s{held}  {phase.get('cause') or ''}".rstrip()


def page(document: dict[str, object]) -> str:
    """The verdict for people."""
    phases, build = document["phases"], document.get("build", [])
    assert isinstance(phases, list) and isinstance(build, list)
    lines = [f"{document['stack']}: {document['verdict']}"]
    if build:
        lines += ["", "  the build, on a machine of its own", *map(phase_line, build)]
    if phases:
        lines += ["", *(["  the machine that serves"] if build else []), *map(phase_line, phases)]
    if document["answer"]:
        lines += ["", f"  asked to repeat {document['nonce']}, answered: {document['answer']}"]
    ledger = document["ledger"]
    assert isinstance(ledger, dict)
    lines += [
        "",
        f"  billed: {len(ledger['items'])} things, {ledger['total']:.2f} dollars of local cloud time; left: {len(ledger['left'])}",
    ]
    parts = document["parts"]
    assert isinstance(parts, dict)
    for name, part in parts.items():
        lines.append(f"  {name:<10} {part['is']:<9} {part['name']} {part['version']}  {part['why']}".rstrip())
    lines += ["", f"  {document['seconds']} s, exit {document['exit_code']}"]
    if document["kept_at"]:
        lines.append(f"  logs and state are kept at {document['kept_at']}")
    lines += failed(document.get("failure"))
    return "\n".join(lines)
