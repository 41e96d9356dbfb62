"""Every shell block of README and the operator's pages is run, or says why not; how blocks are read and compared."""

from __future__ import annotations

import re

import pytest

from tests.docs import pages
from tests.docs.terminal import screen, type_line
from tests.docs.varies import agrees, rewritten

BLOCKS = pages.read()


def test_every_fence_of_every_page_is_read():
    for page in pages.PAGES:
        fences = re.findall(r"^```", (pages.ROOT / page).read_text(encoding="utf-8"), re.MULTILINE)
        assert len(fences) == 2 * len([b for b in BLOCKS if b.page == page]), page


def test_no_command_hides_in_an_indented_block():
    hidden = [
        f"{page}: {line}"
        for page in pages.PAGES
        for line in re.sub(r"^```.*?^```$", "", (pages.ROOT / page).read_text(encoding="utf-8"), flags=re.M | re.S).splitlines()
        if line.startswith("    ")
    ]
    assert hidden == []


def test_what_is_not_run_has_a_reason_and_is_there():
    assert [(b.page, b.line, b.bare) for b in BLOCKS if b.bare] == []
    assert [(b.page, b.line, b.stale) for b in BLOCKS if b.stale] == []


def test_every_command_of_every_shell_block_is_run_or_says_why_not():
    ordered = pages.script(BLOCKS, "README.md", "docs/operator/start.md").commands
    assert sorted(c.place for c in ordered) == sorted(c.place for b in BLOCKS for c in b.commands)
    run = {c.words[:2] for c in ordered if not c.reason}
    wanted = ("up", "status", "tunnel", "smoke", "logs", "down", "plan", "render", "secret")
    assert {("flexserve", verb) for verb in wanted} | {("pulumi", "up"), ("pulumi", "preview")} <= run
    last = ordered[-1]
    assert last.words[:2] == ("flexserve", "down") and not last.reason


PAGE = """
<!-- not run here
gcloud: needs a person there
curl: is not in this block
-->
```
gcloud auth login   # a comment
flexserve plan -s s
```

<!-- not run here: because -->
```sh
make it
```

```python
no_shell = True
```

```console
$ flexserve tunnel -s s
Listening
^C
$ true
```

<!-- on the machine -->
```
reboot
```
"""


def test_a_page_is_read_as_it_is_written():
    found = list(pages.blocks("p.md", PAGE))
    assert [(c.line, c.text, c.reason, c.shown, c.inside) for b in found for c in b.commands] == [
        (7, "gcloud auth login   # a comment", "needs a person there", None, False),
        (8, "flexserve plan -s s", "", None, False),
        (13, "make it", "because", None, False),
        (21, "flexserve tunnel -s s", "", ("Listening", "^C"), False),
        (24, "$ true".removeprefix("$ "), "", (), False),
        (29, "reboot", "", None, True),
    ]
    assert [b.stale for b in found if b.stale] == [("curl",)]
    assert [b.bare for b in found if b.bare] == [("the whole block",)]
    assert [c.interrupted for b in found for c in b.commands] == [False, False, False, True, False, False]


@pytest.mark.parametrize(
    ("shown", "printed", "agree"),
    [
        (["a"], ["a"], True),
        (["a"], ["b"], False),
        ([], ["a"], False),
        (["a"], ["a", "b"], False),
        (["a", "…"], ["a", "b"], True),
        (["…", "b"], ["a", "b"], True),
        (["…", "b"], ["b", "a"], False),
        (["a", "…", "c", "…", "d"], ["a", "b", "c", "d"], True),
        (["a", "…", "x", "…", "d"], ["a", "b", "c", "d"], False),
        (["a", "…", "a"], ["a"], False),
        (["it answered 0a1b2c3d4e5f in 0.1 s"], ["it answered ffeeddccbb00 in 12.3 s"], True),
        (["it answered 0a1b2c3d4e5f in 0.1 s"], ["it refused 0a1b2c3d4e5f in 0.1 s"], False),
        (["window  3h59m left, until 2026-11-29 23:00:00 UTC"], ["window  3h1s left, until 2027-01-01 00:00:01 UTC"], True),
        (["$1.355/h"], ["$1.36/h"], False),
        (["$0.01 so far at $1.355/h"], ["$0.2 so far at $1.355/h"], True),
        (["$0.01 so far at $1.355/h"], ["$0.2 so far at $1.5/h"], False),
        (["  a  1.0 s  2.0 s  done  ██", "  b  1.0 s  2.0 s  done  █"], ["  b  1 s", "  a  1.0 s  9.0 s  skipped  ███"], False),
        (
            ["  a  1.0 s  2.0 s  done  ██", "  b  1.0 s  9.0 s  done  █"],
            ["  b  1.2 s  1.0 s  skipped █", "  a  0.1 s  9.0 s  done  █"],
            True,
        ),
        (["  a  1.0 s  2.0 s  done  ██"], ["  a  1.0 s  2.0 s  failed  ██"], False),
        (["creating a", "creating b", "done"], ["creating b", "creating a", "done"], True),
        (["creating a", "creating b", "done"], ["creating b", "done", "creating a"], False),
        (["a"], ["warning: using pulumi-language-python from $PATH at /x", "a"], True),
    ],
)
def test_only_what_varies_may_differ(shown, printed, agree):
    assert agrees(shown, printed) is agree


def test_a_rewritten_output_leaves_out_what_was_left_out():
    assert rewritten(["a"], ["x", "y"]) == ("x", "y")
    assert rewritten(["a", "…"], ["x", "y", "z"]) == ("x", "…")
    assert rewritten(["a", "  …", "b", "c"], ["w", "x", "y", "z"]) == ("w", "  …", "y", "z")


def test_the_screen_shows_what_a_line_became():
    assert screen(b"one\r\n\r\x1b[Klive 1\r\x1b[Klive 2\r\x1b[K\x1b[32mtwo\x1b[0m\r\n") == ["one", "two", ""]


def test_a_line_is_typed_into_a_terminal(tmp_path):
    ask = 'read -r -p "Sure? [Y/n] " said; test -t 0 && echo "got $said"; export SEEN=$said; exit_code() { return 3; }; exit_code'
    done = type_line(ask, tmp_path, {"PATH": "/usr/bin:/bin"}, answers={"[Y/n] ": "yes"}, limit_s=60)
    assert (done.code, done.lines, done.environment["SEEN"]) == (3, ("Sure? [Y/n] yes", "got yes"), "yes")


def test_ctrl_c_comes_when_the_line_is_there_and_not_before(tmp_path):
    wait = "trap 'echo stopped; exit 130' INT; echo ready; while :; do sleep 0.1; done"
    done = type_line(
        f'bash -c "{wait}"', tmp_path, {"PATH": "/usr/bin:/bin"}, answers={}, stop_after=lambda lines: "ready" in lines, limit_s=60
    )
    assert done.code == 130 and done.lines[0] == "ready" and done.lines[-1].endswith("stopped")


def test_a_line_that_does_not_end_is_ended(tmp_path):
    with pytest.raises(TimeoutError, match="it had printed\nbegun"):
        type_line("echo begun; sleep 600", tmp_path, {"PATH": "/usr/bin:/bin"}, answers={}, limit_s=5)
