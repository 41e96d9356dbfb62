"""`flexserve down`: nothing of the stack bills when this ends with 0."""

from __future__ import annotations

import sys

from flexserve.checks import metrics
from flexserve.lifecycle import keeps
from flexserve.lifecycle.build import parts, tunnel
from flexserve.lifecycle.down import Gone, Receipt, down
from flexserve.lifecycle.earlier import unknown
from flexserve.output import Output, dollars
from flexserve.project import Project, find
from infra.duration import words
from infra.targets.protocol import DeploymentRef
from verdict.errors import BadConfig, FlexserveError
from verdict.exit_codes import ExitCode


def run(stack: str, output: Output, *, yes: bool, purge: bool) -> ExitCode:
    """Destroy and look. Exit 7 when something is left, otherwise the engine's own error, otherwise 0."""
    project = find()
    surroundings = parts(project, stack, output.say)
    if not yes:
        _ask(stack)
    gone = down(surroundings, purge=purge, say=output.say, tokens=_tokens)
    if not gone.left_behind and gone.engine_error is not None:
        gone.engine_error.way_out = f"nothing of it bills any more, only Pulumi's state still has it; {gone.engine_error.way_out}"
        raise gone.engine_error
    if purge and (word := secret(project, stack)):
        output.say(f"not deleted: {word}")
    output.result(gone.as_dict(), page(gone))
    return ExitCode.LEFT_BEHIND if gone.left_behind or gone.alone else ExitCode.DONE


def secret(project: Project, stack: str) -> str:
    """The secret that the stack reads, which is no part of the deployment; empty without one, or where the plan cannot be made."""
    from flexserve.commands.plan import load
    from flexserve.secret.store import stays

    try:
        plan = load(project, stack)
    except FlexserveError:
        return ""
    ref = plan.boot.secret
    return stays(ref, next((s.per_month for s in plan.stays if s.name == f"secret {ref.name}"), None)) if ref is not None else ""


def _ask(stack: str) -> None:
    if not sys.stdin.isatty():
        raise BadConfig("down asks first, and there is no terminal to ask on", way_out="add --yes")
    print(f"Delete everything of {stack}? [Y/n] ", end="", file=sys.stderr, flush=True)
    answer = sys.stdin.readline()
    if not answer or answer.strip().lower() not in ("", "y", "yes"):
        raise FlexserveError("not confirmed; nothing was deleted")


def _tokens(ref: DeploymentRef) -> int | None:
    """Tokens served, when the server can still be asked. Whatever happens there does not keep the machine from being deleted."""
    try:
        with tunnel(ref) as opened:
            return metrics.fetch(opened.url)
    except Exception:
        return None


def page(gone: Gone) -> str:
    """What went, what stays, what is left, and the receipt."""
    count = gone.changes.counts.get("delete", 0) + len(gone.first) + len(gone.swept)
    lines = [f"{gone.stack}: {count} things deleted" if count else f"{gone.stack}: {_nothing(gone)}"]
    lines += [f"  deleted by id, {'kept until now' if b.kept else 'the engine had left it'}: {keeps.where(b)}" for b in gone.swept]
    lines += [f"  kept: {keeps.line(b)}" for b in gone.kept]
    lines += [f"  not touched: {unknown(gone.stack, life)}" for life in gone.others]
    lines += [f"  LEFT BEHIND, still bills: {keeps.where(b)}, {dollars(b.price_per_hour, '/h')}" for b in gone.left_behind]
    return "\n".join((*lines, *_receipt(gone.receipt)))


def _nothing(gone: Gone) -> str:
    """What is known where nothing was deleted: how far was looked."""
    if gone.kept:
        return "nothing was there but what is kept"
    if gone.known or gone.asked:
        return "nothing was there" if not gone.others else "this state knows of nothing"
    return "this state knows of nothing; the cloud was not asked"


def _receipt(receipt: Receipt | None) -> list[str]:
    if receipt is None:
        return []
    lived = words(receipt.seconds) if receipt.seconds is not None else "unknown time"
    cost = f"{receipt.cost_is} {dollars(receipt.cost)}".lstrip()
    lines = [f"  receipt: {lived}, {cost} ({'; '.join(receipt.parts) or 'no price known'})"]
    if receipt.tokens is not None:
        lines.append(f"  {receipt.tokens:,} tokens, {dollars(receipt.usd_per_million)} a million")
    return lines
