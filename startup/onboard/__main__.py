"""What the boot script calls: `boot`, and the phases that are more than a few commands.

The process ends at once when its part is done: nobody waits for transfers that a failure made pointless.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from startup.onboard import causes


def main(words: Sequence[str]) -> int:
    """Run one part; the exit status is the phase's."""
    match list(words):
        case ["boot", tell, script, *steps]:
            from startup.onboard import boot

            return boot.main(tell, script, steps)
        case ["job", tell, script, *steps]:
            from startup.onboard import boot

            return boot.main(tell, script, steps, ends="done")
        case ["fail", cause]:
            raise causes.Failed(causes.say(cause))
        case ["attempt-unsynced", *rest] if rest:
            from startup.onboard import unsynced

            unsynced.begin()
            return main(["attempt", *rest])
        case ["attempt", phase, patience, *command] if command:
            from startup.onboard.attempt import attempt

            attempt(phase, command, patience=float(patience))
        case ["token", "google-secret-manager", project, secret]:
            from startup.onboard import secret as secrets

            secrets.fetch(project, secret)
        case ["token", "aws-secrets-manager", region, secret]:
            from startup.onboard import secret_aws

            secret_aws.fetch(region, secret)
        case ["driver", gpu, capability]:
            from startup.onboard import driver

            driver.check(gpu, capability)
        case ["build", region, bucket, folder, capability, place]:
            from startup.onboard import build

            build.take(build.Kept(region, bucket, folder, capability), Path(place))
        case ["take-or-make" | "make" as how, region, bucket, folder, capability, place, *recipe]:
            from startup.onboard import build, making

            making.main(build.Kept(region, bucket, folder, capability), Path(place), recipe, take=how != "make")
        case ["making", name, region, bucket, folder, capability, place, *recipe]:
            from startup.onboard import build, making

            making.phase(name, build.Kept(region, bucket, folder, capability), Path(place), recipe)
        case ["report", region, bucket, key]:
            from startup.onboard import keeping

            return 0 if keeping.report(region, bucket, key) else 1
        case ["reclaim"]:
            from startup.onboard import reclaim

            reclaim.watch()
        case ["weights", model, revision, secret, folder]:
            from startup.onboard import hub, places

            try:
                hub.download(hub.Source(model, revision, secret), Path(folder))
            finally:
                places.HUB_HEADER.unlink(missing_ok=True)
        case ["server", phase, engine, config, port, kind, starting_s, *run]:
            from startup.onboard import server
            from startup.onboard.engine import named

            wanted = server.Wanted(config, int(port), kind == "chat", int(starting_s), run, named(engine))
            return {"load": server.load, "compile": server.compile_, "serving": server.serving}[phase](wanted)
        case _:
            print(f"not a part of the boot: {' '.join(words)}", file=sys.stderr)
            return 2
    return 0


def ended(words: Sequence[str]) -> int:
    """`main`, with a failure noted for the report and no traceback for the log."""
    try:
        return main(words)
    except causes.Failed as failed:
        causes.note(failed.text)
        print(failed.text, flush=True)
        return 1


if __name__ == "__main__":
    status = ended(sys.argv[1:])
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)
