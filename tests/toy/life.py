"""One life of the toy, run in the checkout that it was added to: what each command ended with, as JSON."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from rehearsal.run import Rehearsal

with Rehearsal(Path.cwd(), "toy", say=lambda line: print(line, file=sys.stderr)) as rehearsal:
    cloud = rehearsal.stage.cloud
    up = rehearsal.step("up", "--yes")
    status = rehearsal.step("status", "--boot")
    rehearsal.ask()
    live = rehearsal.step("render", "--live")
    preview = rehearsal.product.pulumi("preview", "-s", "toy", "--expect-no-changes")
    rehearsal.change("serving.text_only=true")
    rehearsal.change("target.rooms=[south-room]")
    changed = rehearsal.step("up", "--yes")
    machines = [item.name for item in cloud.ledger.left()]
    destroy = rehearsal.product.pulumi("destroy", "-s", "toy", "--yes", "--skip-preview")
    after_destroy = [item.name for item in cloud.ledger.left()]
    down = rehearsal.step("down", "--yes")

steps = {"up": up, "status": status, "render": live, "preview": preview, "changed": changed, "destroy": destroy, "down": down}
print(
    json.dumps(
        {
            "exits": {name: ran.returncode for name, ran in steps.items()},
            "said": {name: ran.stderr[-2000:] + ran.stdout[-2000:] for name, ran in steps.items() if ran.returncode},
            "up": up.document,
            "status": status.document,
            "render": live.document,
            "changed": changed.document,
            "machines": machines,
            "after_destroy": after_destroy,
            "verdict": rehearsal.verdict.as_dict(),
        }
    )
)
