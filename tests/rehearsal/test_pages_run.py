"""What README and the operator's pages tell to type is typed, in the order of one life, and prints what they show.

`FLEXSERVE_SNAPSHOTS=write` writes what was printed into the pages; review the change.
"""

from __future__ import annotations

import os
import socket
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from rehearsal.run import Rehearsal
from tests.docs import pages
from tests.docs.terminal import Typed, type_line
from tests.docs.varies import agrees, rewritten, same
from verdict.exit_codes import ExitCode

pytestmark = [pytest.mark.usefixtures("bootable"), pytest.mark.timeout(900)]

FIRST, FRAME = "README.md", "docs/operator/start.md"
TOKEN = "hf_aTokenThatIsTypedIntoThePrompt"
ANSWERS = {"[Y/n] ": "y", "(not shown): ": TOKEN}
LIMIT_S = 300.0
RUN = [c for c in pages.script(pages.read(), FIRST, FRAME).commands if not c.reason]
SHOWN = [c for c in RUN if c.shown is not None]


@dataclass
class Read:
    """What each command did, by its place, and what was left when all were done."""

    typed: dict[str, Typed] = field(default_factory=dict)
    rehearsal: Rehearsal = None  # type: ignore[assignment]


@pytest.fixture(scope="module")
def reader(root: Path) -> Iterator[Read]:
    """Somebody who types everything, once."""
    read = Read()
    read.rehearsal = Rehearsal(root, "tpu-v6e", secret="", say=lambda line: print(line, file=sys.stderr))
    with read.rehearsal as rehearsal:
        environment = {
            **rehearsal.product.environment,
            "TERM": "dumb",  # no line is written over
            "PULUMI_SKIP_CONFIRMATIONS": "true",  # its question is drawn with a library of its own
            "CI": "true",  # pulumi prints lines, as into a pipe
        }
        for command in RUN:
            done = _type(rehearsal, command, environment)
            environment = dict(done.environment)
            read.typed[command.place] = done
            print(f"{done.seconds:6.1f} s  exit {done.code}  {command.text}", file=sys.stderr)
    if os.environ.get("FLEXSERVE_SNAPSHOTS") == "write":
        write(read.typed)
    yield read


def _type(rehearsal: Rehearsal, command: pages.Command, environment: dict[str, str]) -> Typed:
    project = rehearsal.product.project
    if command.inside:
        (machine,) = rehearsal.stage.cloud.machines().values()
        started = time.monotonic()
        ran = machine.exec(["bash", "-c", command.text], timeout=LIMIT_S)
        return Typed(ran.returncode, tuple((ran.stdout + ran.stderr).splitlines()), environment, time.monotonic() - started)

    def shown(lines: Sequence[str]) -> bool:
        awaited = [same(line) for line in command.shown or () if line not in (pages.INTERRUPT, "…")][-1:]
        return command.interrupted and (not awaited or awaited[0] in map(same, lines))

    return type_line(_on_a_free_port(command), project, environment, answers=ANSWERS, stop_after=shown, limit_s=LIMIT_S)


def _on_a_free_port(command: pages.Command) -> str:
    """As it is shown, if the tunnel's own port is free on this machine."""
    if command.words[:2] != ("flexserve", "tunnel") or "--port" in command.words:
        return command.text
    with socket.socket() as port:
        try:
            port.bind(("127.0.0.1", 8000))
        except OSError:
            return f"{command.text.partition(' #')[0]} --port 0"
    return command.text


def printed(command: pages.Command, done: Typed) -> list[str]:
    """The lines on the screen; of a command that Ctrl-C ended, without the terminal's own `^C`."""
    if not command.interrupted:
        return list(done.lines)
    return [line for line in (text.replace(pages.INTERRUPT, "") for text in done.lines) if line]


def shown(command: pages.Command) -> tuple[str, ...]:
    """What the page shows of it."""
    return (command.shown or ())[:-1] if command.interrupted else command.shown or ()


def write(typed: dict[str, Typed]) -> None:
    """Put what was printed into the pages, where it differs in more than what always varies."""
    for page in {command.page for command in SHOWN}:
        path = pages.ROOT / page
        lines = path.read_text(encoding="utf-8").splitlines()
        for command in sorted((c for c in SHOWN if c.page == page), key=lambda c: -c.line):
            now = printed(command, typed[command.place])
            if not agrees(shown(command), now):
                lines[command.line : command.line + len(shown(command))] = rewritten(shown(command), now)
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")


@pytest.mark.parametrize("command", RUN, ids=lambda c: c.place)
def test_a_command_of_a_page_works(command, reader):
    done = reader.typed[command.place]
    wanted = ExitCode.INTERRUPTED if command.interrupted else ExitCode.DONE
    assert done.code == wanted, "\n".join(done.lines[-20:])


@pytest.mark.parametrize("command", SHOWN, ids=lambda c: c.place)
def test_it_prints_what_the_page_shows(command, reader):
    now = printed(command, reader.typed[command.place])
    assert agrees(shown(command), now), "review, then FLEXSERVE_SNAPSHOTS=write; it printed\n" + "\n".join(now)


def test_who_does_all_that_is_left_with_nothing_but_the_token(reader):
    assert [(item.kind, item.name) for item in reader.rehearsal.verdict.left] == [("secret_version", "hf-token/versions/1")]
    assert reader.rehearsal.verdict.host_left == []


def test_the_token_that_was_typed_is_on_no_screen(reader):
    assert [place for place, done in reader.typed.items() if any(TOKEN in line for line in done.lines)] == []
