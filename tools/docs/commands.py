"""The page of commands, from the command line itself."""

from __future__ import annotations

import inspect
from typing import Any

from flexserve.cli import app
from flexserve.help import EXAMPLES, EXITS, codes_of
from tools.docs import tunnel
from verdict.exit_codes import ExitCode

HEAD = """# Commands

Every command takes `-h`, `--json` (one JSON document on stdout; text and progress go to stderr) and `--debug` (the traceback of an
error). They work from the project's root and below. All exit codes: [exit codes](exit-codes.md).

A command that fails prints its error to stderr: what happened, `why:` and the `way out:`. With `--json` the one document on
stdout is the error:

```json
{"error": {"kind": "bad-config", "what": "no stack 'tpu-v6'",
           "why": "there is no stacks/Pulumi.tpu-v6.yaml", "way_out": "did you mean tpu-v6e?", "exit_code": 2}}
```

`why` and `way_out` may be empty. A refusal by a rule (exit 3) is `{"refused": {"rule": …, "why": …, "way_out": …}}`. `tunnel`,
whose output is events, ends with the event `failed` with the same fields. When stdout itself cannot be written, the error is in
words.
"""


def commands(group: Any = None, prefix: str = "") -> dict[str, Any]:
    """`secret put` -> its command object, in the order of the help."""
    found: dict[str, Any] = {}
    top: Any = group or app
    for name, command in top.commands.items():
        if hasattr(command, "commands"):
            found.update(commands(command, f"{prefix}{name} "))
        else:
            found[f"{prefix}{name}"] = command
    return found


def page() -> str:
    """The whole page."""
    assert set(EXAMPLES) == set(EXITS)
    return "\n".join([HEAD, *(_section(name, command) for name, command in commands().items())])


def _section(name: str, command: Any) -> str:
    shared = {"as_json", "debug"}
    rows = [_row(p) for p in command.params if p.name not in shared]
    table = ["| option | what it does | default |", "| --- | --- | --- |", *rows, ""] if rows else []
    codes = "; ".join(f"{int(c)} {c.meaning}" for c in codes_of(name) if c is not ExitCode.DONE)
    about = inspect.cleandoc(command.callback.__doc__ or "")
    more = [tunnel.of_the_command()] if name == "tunnel" else []
    examples = ["```sh", *EXAMPLES[name], "```", ""]
    return "\n".join(
        [f"## flexserve {name}", "", about, "", *table, f"Exit codes: 0 {ExitCode.DONE.meaning}; {codes}.", "", *more, *examples]
    )


def _row(param: Any) -> str:
    option = param.param_type_name == "option"
    spelled = ", ".join(f"`{name}`" for name in (*param.opts, *param.secondary_opts)) if option else f"`{param.name.upper()}`"
    shown_instead = getattr(param, "show_default", None)
    default = shown_instead if isinstance(shown_instead, str) else param.default
    shown = (
        "needed" if param.required else f"`{default}`" if isinstance(default, str | int) and not isinstance(default, bool) else ""
    )
    return f"| {spelled} | {getattr(param, 'help', None) or ''} | {shown} |"
