"""What was chosen at create against what the stack file says now."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infra.kept import Choice, Kept, OnChange, Wanted, consents, from_state, reconcile
from infra.targets.protocol import Machine
from verdict.errors import FlexserveError, Refused

OLD = Kept("abc", 1000, {"k": Choice("asked", "value")})


def want(asked, value, on_change=OnChange.REFUSE, fits=()):
    return {"k": Wanted(asked, value, on_change, fits)}


@pytest.mark.parametrize(
    ("wanted", "live", "consent", "choice", "words", "replaces"),
    [
        pytest.param(want("asked", None), True, False, Choice("asked", "value"), 0, (), id="same name: kept, not resolved again"),
        pytest.param(want("other", "value"), True, False, Choice("asked", "value"), 0, (), id="pinned to what it was: kept"),
        pytest.param(
            want("a, value", "a", fits=("a", "value")), True, False, OLD.choices["k"], 0, (), id="still on the list: kept"
        ),
        pytest.param(want("new", "n", OnChange.IGNORE), True, False, OLD.choices["k"], 1, (), id="ignored with a word"),
        pytest.param(want("new", "n", OnChange.FOLLOW), True, False, Choice("new", "n"), 0, (), id="followed in place"),
        pytest.param(want("new", None, OnChange.FOLLOW), True, False, None, 0, (), id="followed, to be resolved"),
        pytest.param(
            want("new", "n", OnChange.IGNORE), True, True, Choice("new", "n"), 0, ("k",), id="consent: what is asked for wins"
        ),
        pytest.param(
            want("new", "n", OnChange.REFUSE), True, True, Choice("new", "n"), 0, ("k",), id="consent: also for the refused"
        ),
        pytest.param(
            want("new", "n", OnChange.REFUSE), False, False, Choice("new", "n"), 0, (), id="no machine: nothing to protect"
        ),
        pytest.param(want("new", "n", OnChange.NEVER), False, True, OLD.choices["k"], 1, (), id="never: not even with consent"),
        pytest.param(
            want("b", "b", OnChange.IGNORE, ("b",)), False, False, Choice("b", "b"), 0, (), id="no machine: the next zone"
        ),
    ],
)
def test_reconcile(wanted, live, consent, choice, words, replaces):
    verdict = reconcile(OLD, wanted, live=live, consent=consent)
    assert (verdict.choices["k"], len(verdict.words), verdict.replaces) == (choice, words, replaces)


def test_a_key_that_a_live_machine_cannot_take_is_refused_by_name():
    with pytest.raises(Refused) as error:
        reconcile(OLD, want("new", "n"), live=True, consent=False)
    assert error.value.rule == "live-machine-would-be-replaced"
    assert "flexserve:k is value on the live machine and new in the stack file" in error.value.why
    assert "FLEXSERVE_REPLACE=1" in error.value.way_out and "`flexserve up --replace`" in error.value.way_out
    with pytest.raises(Refused, match="live-machine") as error:
        reconcile(OLD, want("new", "n"), live=True, consent=False, stack="s")
    assert "`flexserve down -s s` and `flexserve up -s s` again; or `flexserve up -s s --replace`" in error.value.way_out


def test_a_key_that_an_older_version_did_not_keep_is_taken_as_it_is():
    assert reconcile(Kept("abc", 1), want("x", "y"), live=True, consent=False).choices == {"k": Choice("x", "y")}


def test_nothing_kept_means_all_is_new():
    assert reconcile(None, want("x", None), live=False, consent=False).choices == {"k": None}


@given(
    st.dictionaries(st.text(min_size=1), st.tuples(st.text(), st.text()), max_size=5),
    st.integers(min_value=0, max_value=2**40),
)
def test_the_state_survives_the_engine(choices, started):
    kept = Kept("0a1b", started, {k: Choice(*v) for k, v in choices.items()})
    state = json.loads(json.dumps(kept.as_state()))
    state["started"] = float(state["started"])  # as the engine returns ints
    assert from_state(state) == kept


@pytest.mark.parametrize(
    "state", [{}, {"id": "x", "started": 1}, {"id": "x", "started": "soon", "choices": {}}, {"id": 1, "started": 1, "choices": []}]
)
def test_another_shape_is_a_sentence(state):
    with pytest.raises(FlexserveError, match="cannot be read"):
        from_state(state)


@pytest.mark.parametrize(
    ("environ", "yes"),
    [({}, False), ({"FLEXSERVE_REPLACE": "1"}, True), ({"FLEXSERVE_REPLACE": "0"}, False), ({"FLEXSERVE_REPLACE": "yes"}, False)],
)
def test_consent_is_said_in_one_way_only(environ, yes):
    assert consents(environ) is yes


def test_the_engine_own_state_is_read_for_the_kept_value_and_a_machine():
    from infra.program import read

    stack = "urn:pulumi:s::flexserve::"
    nothing = read({}, "gce_flex")
    assert (nothing.kept, nothing.live) == (None, False)
    stash = {f"{stack}pulumi:index:Stash::kept": {"type": "pulumi:index:Stash", "outputs": {"input": OLD.as_state(), "output": {}}}}
    assert (read(stash, "gce_flex").kept, read(stash, "gce_flex").live) == (OLD, False)
    machine = {f"{stack}x::vm": {"type": "gcp:compute/instance:Instance", "outputs": {}}}
    assert read({**stash, **machine}, "gce_flex").live is True


def machine(dead: str = "") -> Machine:
    return Machine("fs-abc", "here", "", None, None, {}, dead=dead)


@pytest.mark.parametrize(
    ("answer", "live"),
    [(lambda: machine(), True), (lambda: None, False), (lambda: (_ for _ in ()).throw(FlexserveError("no answer")), True)],
    ids=["there", "gone", "cannot be asked"],
)
def test_a_recorded_machine_is_asked_for_and_counts_as_alive_without_an_answer(tpu_v6e, monkeypatch, answer, live):
    from infra import program

    asked = []

    class Live:
        def find(self, ref):
            asked.append(ref.id)
            return answer()

    monkeypatch.setattr(program.registry, "live", lambda kind, settings: Live())
    assert program.alive(program.Recorded(OLD, True), tpu_v6e()) is live
    assert asked == ["abc"]
    assert program.alive(program.Recorded(OLD, False), tpu_v6e()) is False and asked == ["abc"]


def test_a_recorded_machine_that_is_dead_is_neither_alive_nor_gone(tpu_v6e, monkeypatch):
    """The engine would change it, or take it for one that serves."""
    from infra import program

    class Live:
        def find(self, ref):
            return machine("it failed")

    monkeypatch.setattr(program.registry, "live", lambda kind, settings: Live())
    with pytest.raises(FlexserveError, match="cannot be changed") as error:
        program.alive(program.Recorded(OLD, True), tpu_v6e())
    assert error.value.why == "it failed" and "flexserve up -s tpu-v6e" in error.value.way_out
    assert program.alive(program.Recorded(OLD, False), tpu_v6e()) is False


def test_pure_modules_import_no_sdk():
    import subprocess
    import sys

    code = (
        "import sys, infra.settle, infra.kept, infra.targets.gce_flex.resources;"
        "print([m for m in ('pulumi', 'httpx', 'google.auth') if m in sys.modules])"
    )
    root = Path(__file__).resolve().parents[2]
    assert subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=True).stdout == "[]\n"
