"""docs/reference/live-changes.md: what a changed key of the stack file does to a live machine."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from infra.deployment import Deployment, from_stack_text
from infra.kept import ALLOW, CONSENT, PLACE, RERUN, RULE, OnChange
from infra.settle import Circumstances, wanted_of

ROOT = Path(__file__).resolve().parents[2]
MEANS = {
    OnChange.FOLLOW: "reaches the live machine in place",
    OnChange.IGNORE: "ignored with a word while the machine lives; the next machine has it",
    OnChange.REFUSE: f"refused by rule `{RULE}` while the machine lives",
    OnChange.NEVER: "ignored with a word until `flexserve down`",
}
TEXT = f"""# Changing a stack that is up

A live accelerator is never replaced by surprise, neither by `flexserve up` nor by a plain `pulumi up`. What was decided when the
machine was created is kept in the state. Every key that is not in these tables reaches the machine in place: its script changes and
runs again, and one server restarts.

{{table}}

A tag, branch or image family that the stack file names is resolved once, when it is first asked for; later it is the kept digest,
commit or image, until the stack file names another one.

| variable | what it says |
| --- | --- |
| `{CONSENT}=1` | for plain `pulumi` only: the live machine is given up where it must be, and what the stack file says wins |
| `{RERUN}=1` | the boot runs again on the live machine, though nothing else changes; `flexserve up` sets it after a failed boot |
| `{PLACE}` | the zone to ask, out of those that the stack file lists; matters only while there is no machine |
| `{ALLOW}` | rules to go past, separated by commas; `flexserve up --allow` goes over it |
| `FLEXSERVE_REGISTRY_URL` | another container registry to ask for digests, e.g. a mirror |

`flexserve up` does not read `{CONSENT}`: there the consent is `--replace`, and a yes to its question.
"""


def page() -> str:
    """docs/reference/live-changes.md."""
    return TEXT.format(table="\n\n".join(_table(deployment) for deployment in _shipped()))


def _table(deployment: Deployment) -> str:
    at = Circumstances(live=True, consent=False, now=lambda: 0, new_id="", login="you")
    rows = [f"| `flexserve:{key}` | {MEANS[want.on_change]} |" for key, want in sorted(wanted_of(deployment, at).items())]
    return "\n".join([f"With `target.kind: {deployment.target.kind}`:", "", "| key | a change |", "| --- | --- |", *rows])


def _shipped() -> Iterator[Deployment]:
    """One deployment of each kind of target that there is a stack file for."""
    found: dict[str, Deployment] = {}
    for file in sorted((ROOT / "stacks").glob("Pulumi.*.yaml")):
        deployment = from_stack_text(file.stem.removeprefix("Pulumi."), file.read_text(encoding="utf-8"))
        found.setdefault(deployment.target.kind, deployment)
    yield from found.values()
