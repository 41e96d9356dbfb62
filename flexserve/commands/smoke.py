"""`flexserve smoke`: what works, by asking. First form: one chat completion with a nonce."""

from __future__ import annotations

from flexserve.checks.nonce import ask
from flexserve.lifecycle.build import parts, tunnel
from flexserve.lifecycle.look import look
from flexserve.lifecycle.state import GONE, describe
from flexserve.lifecycle.up import reference
from flexserve.output import Output, table
from flexserve.project import find
from verdict.errors import BadConfig, FlexserveError, Gone
from verdict.exit_codes import ExitCode

Check = dict[str, str]


def run(stack: str | None, url: str | None, output: Output) -> ExitCode:
    """Print each check's outcome: pass, unsupported or fail. Exit 1 when one fails."""
    if (stack is None) == (url is None):
        raise BadConfig("smoke asks one server: a stack's or a URL's", way_out="-s STACK, or --url http://localhost:8000")
    checks = at(url) if url is not None else through_tunnel(str(stack), output)
    output.result(
        {"stack": stack, "url": url, "checks": checks},
        table([(output.style(c["outcome"], "green" if c["outcome"] == "pass" else "red"), c["name"], c["why"]) for c in checks]),
    )
    return ExitCode.FAILED if any(c["outcome"] == "fail" for c in checks) else ExitCode.DONE


def through_tunnel(stack: str, output: Output) -> list[Check]:
    """Open the stack's tunnel and check behind it. Raises `Gone` for a deployment that expired."""
    surroundings = parts(find(), stack, output.say)
    ref, live = reference(surroundings)
    status = describe(stack, look(live, ref))
    if status.state in GONE:
        raise Gone(f"the deployment is {status.state}", why=status.cause, way_out=f"flexserve up -s {stack}")
    with tunnel(ref) as opened:
        return at(opened.url)


def at(url: str) -> list[Check]:
    """The checks against a server's root."""
    return [chat(url)]


def chat(url: str) -> Check:
    """One chat completion that repeats a nonce."""
    try:
        answer = ask(url)
    except FlexserveError as error:
        way_out = f" (way out: {error.way_out})" if error.way_out else ""
        return {"name": "chat", "outcome": "fail", "why": (f"{error.what}: {error.why}" if error.why else error.what) + way_out}
    if not answer.ok:
        return {"name": "chat", "outcome": "fail", "why": f"asked for {answer.nonce}, got {answer.text[:80]!r}"}
    return {"name": "chat", "outcome": "pass", "why": f"{answer.model} answered {answer.nonce} in {answer.seconds:.1f} s"}
