"""What a verdict says of a rehearsal that failed, and of the parts that it never came to."""

from __future__ import annotations

import json
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace

import pytest

from flexserve.commands.rehearse import page
from rehearsal import run
from rehearsal.product import Ran
from rehearsal.run import TAIL, failure_of
from rehearsal.stage import Part
from rehearsal.targets.gce_flex import GceFlexStage
from rehearsal.tools import why_stand_in
from rehearsal.verdict import Verdict
from verdict.errors import FlexserveError, NoCapacity, Refused

ERRORS = [
    (NoCapacity("none there", why="STOCKOUT", way_out="another zone"), ["none there", "why: STOCKOUT", "way out: another zone"]),
    (Refused("window-bounds", why="too long", way_out="8h"), ["refused by rule window-bounds", "why: too long", "way out: 8h"]),
    (FlexserveError("it broke"), ["it broke"]),
]  # fmt: skip


def ran(stdout: str, *lines: str, code: int = 4) -> Ran:
    return Ran(("flexserve", "up", "-s", "tpu-v6e", "--json", "--yes"), code, stdout, "\n".join(lines), 1.0)


def shown(verdict: Verdict) -> str:
    return page(verdict.as_dict())


@pytest.mark.parametrize(("error", "said"), ERRORS)
def test_the_first_failure_is_shown_with_its_cause_and_where_the_rest_is(error, said):
    failure = failure_of(ran(json.dumps(error.as_dict()), *(f"line {n}" for n in range(TAIL + 5))))
    text = shown(Verdict("tpu-v6e", failure=failure, product_exit=4, kept_at="/kept"))
    assert "flexserve up -s tpu-v6e --json --yes ended with 4" in text
    for words in said:
        assert f"\n    {words}\n" in text
    assert f"| line {TAIL + 4}\n" in text and "| line 5\n" in text and "| line 4\n" not in text
    assert text.endswith("all of it: /kept/commands.log")


def test_a_command_that_died_without_a_document_shows_its_last_lines():
    text = shown(Verdict("s", failure=failure_of(ran("", "Segmentation fault", code=-11)), kept_at="/kept"))
    assert "ended with -11" in text and "    | Segmentation fault\n" in text


@pytest.mark.parametrize("provider", ["gcp", "aws"])
def test_the_stand_in_plugins_reason_is_the_one_there_is(tmp_path, provider):
    environ = {"PULUMI_HOME": str(tmp_path)}
    assert "make setup fetches it where" in why_stand_in(provider, environ)
    off = why_stand_in(provider, {**environ, "FLEXSERVE_DOWNLOADS": "no"})
    assert "switched off by FLEXSERVE_DOWNLOADS=no" in off and "unset it" in off
    (tmp_path / "plugins" / f"resource-{provider}-v{version(f'pulumi-{provider}')}").mkdir(parents=True)
    assert "is there, and was not tried" in why_stand_in(provider, environ)


def test_a_rehearsal_that_went_well_shows_no_failure():
    assert "ended with" not in shown(Verdict("s", served=True))


@pytest.mark.parametrize(
    ("made", "kind", "machine", "vllm"),
    [
        (0, "booted", "none", "none"),
        (0, "sandbox", "none", "none"),
        (1, "booted", "real", "stand-in"),
        (1, "sandbox", "stand-in", "stand-in"),
    ],
)
def test_what_was_never_made_is_neither_real_nor_a_stand_in(tmp_path: Path, made, kind, machine, vllm):
    stage = GceFlexStage(tmp_path)
    room = SimpleNamespace(machines=dict.fromkeys(range(made)), kind=kind, why_sandbox="not root")
    stage.room = room  # type: ignore[assignment]
    parts = {name: part.as_dict() for name, part in stage.parts().items()}
    assert (parts["machine"]["is"], parts["vllm"]["is"]) == (machine, vllm)
    assert ("sandbox" in parts["machine"]["name"]) == (machine == "stand-in")


def test_a_part_says_which_it_is():
    assert [Part(real, "x").as_dict()["is"] for real in (True, False, None)] == ["real", "stand-in", "none"]


@pytest.mark.parametrize(("left", "code"), [((), 130), (("process 7",), 7)])
def test_an_interrupted_rehearsal_says_what_is_left(monkeypatch, left, code):
    class Stopped:
        """A rehearsal whose life is cut off by Ctrl-C."""

        def __init__(self, _root, stack, **_more):
            self.verdict = Verdict(stack, host_left=left)

        def __enter__(self):
            return self

        def __exit__(self, *exc):
            self.verdict.kept_at = "/kept"

        def life(self):
            raise KeyboardInterrupt

    monkeypatch.setattr(run, "Rehearsal", Stopped)
    with pytest.raises(FlexserveError) as error:
        run.rehearse(Path(), "tpu-v6e", sets=(), faults=(), say=print)
    assert error.value.exit_code == code and ("process 7" in error.value.why if left else "/kept" in error.value.why)


def test_the_stage_has_each_image_that_a_machine_of_its_cloud_may_run_and_no_others():
    from catalog.loader import Catalog
    from rehearsal.targets.gce_flex import images

    names = {f"{image.repository}:{image.tag}" for image in images(Catalog.load())}
    assert "vllm/vllm-tpu:v0.27.0" in names and not any("{" in name or "sagemaker" in name for name in names)
