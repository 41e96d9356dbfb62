"""`flexserve render`: the boot script, as the machine would run it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from flexserve.commands.plan import load
from flexserve.output import Output
from flexserve.project import find
from verdict.errors import FlexserveError
from verdict.exit_codes import ExitCode

if TYPE_CHECKING:
    from startup.spec import BootSpec

_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")


def run(
    stack: str, sets: Sequence[str], allow: Sequence[str], output: Output, *, stub: bool = False, live: bool = False
) -> ExitCode:
    """Print the script (or the stub) byte for byte; with --json its hash and whether everything in it is pinned."""
    from startup.render import render

    project = find()
    spec = load(project, stack, sets, allow).boot
    if live:
        outputs = project.outputs(stack)
        if not outputs:
            raise FlexserveError(f"{stack} is not up, so nothing was resolved", way_out="render it without --live")
        spec = resolved(spec, outputs)
    rendered = render(spec)
    text = (rendered.stub if stub else rendered.script).decode()
    if output.as_json:
        document = {"stack": stack, "sha256": rendered.sha256, "resolved": spec.resolved, "bytes": len(text.encode()), "text": text}
        output.result(document, "")
        return ExitCode.DONE
    output.text(text, end="")
    if not spec.resolved:
        output.say("unresolved: image digest and model revision are pinned at up; this is what would be rendered around them")
    return ExitCode.DONE


def resolved(spec: BootSpec, outputs: Mapping[str, object]) -> BootSpec:
    """The spec with what the first `up` pinned: outputs `id`, `image` (name@digest), `model` (name@revision)."""
    digest = str(outputs.get("image", "")).rpartition("@")[2]
    return replace(
        spec,
        deployment_id=str(outputs.get("id", spec.deployment_id)),
        image_digest=digest if _DIGEST.fullmatch(digest) else spec.image_digest,
        model_revision=str(outputs.get("model", "")).rpartition("@")[2] or spec.model_revision,
    )
