"""Stand-in for CodeBuild's agent: runs a buildspec's phases as its documentation says, with the programs of this machine.

`codebuild.py FOLDER` reads `FOLDER/build.json` (`phases`: name -> commands, `shell`), works in `FOLDER/src`, writes `FOLDER/log`
as it goes and `FOLDER/result.json` at the end. A phase's commands share one shell; variables are handed on from phase to phase.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any

ORDER = ("install", "pre_build", "build", "post_build")
ENDS = ("install", "pre_build")  # a failure in one of these goes past all that follow; after a failed build, post_build runs


def run(folder: Path) -> list[dict[str, Any]]:
    """The phases that were run: name, status, seconds, message."""
    wanted = json.loads((folder / "build.json").read_text())
    done: list[dict[str, Any]] = []
    succeeding = True
    with (folder / "log").open("a", buffering=1) as log:
        for name in ORDER:
            began = time.monotonic()
            log.write(f"[Container] Entering phase {name.upper()}\n")
            message = phase(folder, wanted["phases"].get(name, ()), wanted["shell"], log, succeeding=succeeding)
            status = "FAILED" if message else "SUCCEEDED"
            log.write(f"[Container] Phase complete: {name.upper()} State: {status}\n")
            log.write(f"[Container] Phase context status code: {'COMMAND_EXECUTION_ERROR' if message else ''} Message: {message}\n")
            seconds = round(time.monotonic() - began, 3)
            done.append({"name": name.upper(), "status": status, "seconds": seconds, "message": message})
            succeeding = succeeding and not message
            if message and name in ENDS:
                break
    return done


def phase(folder: Path, commands: Sequence[str], shell: str, log: IO[str], *, succeeding: bool) -> str:
    """Why it failed; empty when it did not."""
    kept, at = folder / "variables", folder / "command"
    lines = [f"[ ! -f {kept} ] || . {kept}", f"export CODEBUILD_BUILD_SUCCEEDING={int(succeeding)}"]
    for number, command in enumerate(commands):
        lines += [f"echo {number} >{at}", f"echo '[Container] Running command' {number + 1} of {len(commands)}", command]
        lines += ["_code=$?; [ $_code = 0 ] || exit $_code"]
    lines.append(f"export -p >{kept}")
    script = folder / "phase.sh"
    script.write_text("\n".join(lines) + "\n")
    argv = [shell, str(script)]
    process = subprocess.run(
        argv, cwd=folder / "src", stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, env=dict(os.environ)
    )
    if process.returncode == 0:
        return ""
    failed = commands[int(at.read_text())] if at.exists() and commands else ""
    return f"Error while executing command: {failed}. Reason: exit status {process.returncode}"


if __name__ == "__main__":
    place = Path(sys.argv[1])
    result = run(place)
    (place / "result.new").write_text(json.dumps(result))
    (place / "result.new").rename(place / "result.json")
