"""Completion of the command line in bash, zsh and fish: the script, and where a shell looks for it. Click makes the script."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from click.shell_completion import CompletionItem, get_completion_class

from verdict.errors import FlexserveError
from verdict.places import below_home

if TYPE_CHECKING:
    from click import Command

VARIABLE = "_FLEXSERVE_COMPLETE"
SHELLS = ("bash", "fish", "zsh")


def script(app: Command, environ: Mapping[str, str] = os.environ) -> str:
    """What the present shell has to run. Raises `FlexserveError` for a shell that Click cannot complete."""
    made = get_completion_class(shell(environ))
    assert made is not None  # for every one of SHELLS
    return made(app, {}, "flexserve", VARIABLE).source()


def install(app: Command, environ: Mapping[str, str] = os.environ) -> str:
    """Write it where the shell loads it by itself, in the user's own files; the sentence to say."""
    file = place(shell(environ), environ)
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(script(app, environ), encoding="utf-8")
    except OSError as error:
        raise FlexserveError(f"completion cannot be installed: {error}", way_out="flexserve --show-completion prints it") from error
    rest = f"; put `fpath+=({file.parent})` before compinit in ~/.zshrc" if shell(environ) == "zsh" else ""
    return f"{shell(environ)} completion is in {file}, for new shells{rest}"


def words(option: str, incomplete: str, kind: str = "") -> list[CompletionItem]:
    """What `--OPTION` may be, with what it means. The list is written by `python -m tools.docs`: reading it imports nothing.

    `kind`: of the stack's target, whose keys alone are given then.
    """
    import json

    lists = json.loads(Path(__file__).with_name("words.json").read_text(encoding="utf-8"))
    kinds = [name for name in lists if name.startswith(f"{option} ")]
    own = [name for name in kinds if name == f"{option} {kind}"] or kinds
    names = [option, *own]
    known = {word: about for name in names for word, about in lists[name].items()}
    return [CompletionItem(word, help=about) for word, about in sorted(known.items()) if word.startswith(incomplete)]


def shell(environ: Mapping[str, str]) -> str:
    """The user's shell, by $SHELL."""
    name = Path(environ.get("SHELL", "")).name
    if name not in SHELLS:
        raise FlexserveError(f"no completion for the shell {name!r}", way_out=f"set SHELL to one of {', '.join(SHELLS)}")
    return name


def place(name: str, environ: Mapping[str, str]) -> Path:
    """The file that a shell reads when it first completes `flexserve`: bash-completion's, fish's own, a folder for zsh's fpath."""
    home = below_home(environ)
    if name == "fish":
        return Path(environ.get("XDG_CONFIG_HOME") or home / ".config") / "fish" / "completions" / "flexserve.fish"
    data = Path(environ.get("XDG_DATA_HOME") or home / ".local" / "share")
    if name == "bash":
        return data / "bash-completion" / "completions" / "flexserve"
    return data / "zsh" / "site-functions" / "_flexserve"
