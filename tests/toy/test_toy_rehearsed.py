"""The recipe of `docs/contributors/add-a-target.md`, done to a copy of the product: the toy then lives through the real engine."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tools.lint import tracked

pytestmark = pytest.mark.timeout(900)

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
PRODUCT = ("catalog", "flexserve", "infra", "rehearsal", "stacks", "startup", "templates", "verdict", "Pulumi.yaml")
STANDS_IN = ("tests/cli/openai_server.py", "tests/infra/nets.py")  # what the toy's stage is made of
ADDED = ("infra", "rehearsal", "stacks", "templates")
LIMIT_S = 600


@pytest.fixture(scope="module")
def checkout(tmp_path_factory) -> Path:
    """The product, file by file, the toy's files beside its neighbours', the toy's rows below the catalog's."""
    copy = tmp_path_factory.mktemp("checkout") / "flexserve"
    for path in tracked(ROOT):
        name = path.relative_to(ROOT)
        if name.parts[0] in PRODUCT or str(name) in STANDS_IN:
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(path, copy / name)
    for folder in ADDED:
        for path in (p for p in (HERE / folder).rglob("*") if p.is_file() and p.suffix != ".pyc"):
            name = path.relative_to(HERE)
            assert not (copy / name).exists(), f"{name}: a target replaces no file"
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(path, copy / name)
    for path in (HERE / "catalog").iterdir():
        with (copy / "catalog" / path.name).open("a", encoding="utf-8") as catalog:
            catalog.write("\n" + path.read_text(encoding="utf-8"))
    (copy / ".venv").symlink_to(ROOT / ".venv", target_is_directory=True)
    return copy


def run(checkout: Path, state: Path, *argv: str) -> tuple[int, dict]:
    """Run Python there; its exit code and the JSON document that it printed."""
    environment = {
        **os.environ,
        "PYTHONPATH": str(checkout),
        "FLEXSERVE_STATE": str(state),
        "GRPC_ENABLE_FORK_SUPPORT": "0",
        "PYTHONDONTWRITEBYTECODE": "",  # the copy is compiled once, not by each of some twenty processes
        "PATH": os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"])),
    }
    done = subprocess.run(
        [sys.executable, "-P", *argv], cwd=checkout, env=environment, capture_output=True, text=True, timeout=LIMIT_S, check=False
    )
    assert done.stdout.startswith("{"), done.stderr[-3000:] + done.stdout[-1000:]
    return done.returncode, json.loads(done.stdout)


@pytest.fixture(scope="module")
def life(checkout, tmp_path_factory) -> dict:
    code, document = run(checkout, tmp_path_factory.mktemp("state"), str(HERE / "life.py"))
    assert code == 0
    return document


def test_every_command_works_on_it(life):
    assert set(life["exits"].values()) == {0}, life["said"]


def test_it_serves_and_a_second_preview_has_nothing_to_change(life):
    assert life["up"]["state"] == life["status"]["state"] == "serving"
    assert life["status"]["zone"] == "north-room" and life["status"]["seconds_left"] > 0
    assert life["status"]["script"]["running"] == life["status"]["script"]["wanted"]
    assert life["verdict"]["nonce"] in life["verdict"]["answer"]
    assert life["exits"]["preview"] == 0


def test_the_script_is_rendered_again_from_its_outputs(life):
    assert life["render"]["sha256"] == life["status"]["script"]["wanted"]


def test_a_changed_flag_reaches_it_in_place_and_its_room_is_kept(life):
    assert life["changed"]["id"] == life["up"]["id"] and life["changed"]["zone"] == "north-room"
    assert life["changed"]["changes"].get("update") == 1 and "replace" not in life["changed"]["changes"]
    assert life["changed"]["script"]["running"] != life["up"]["script"]["running"]
    assert life["machines"] == [life["up"]["id"]]


def test_destroy_empties_the_ledger_and_down_finds_nothing_more(life):
    assert life["after_destroy"] == []
    assert life["verdict"]["verdict"] == "served and gone" and life["verdict"]["exit_code"] == 0
    assert [item["kind"] for item in life["verdict"]["ledger"]["items"]] == ["toy"]


def test_its_fault_is_found_by_name_and_ends_with_its_code(checkout, tmp_path):
    code, verdict = run(checkout, tmp_path, "-m", "flexserve", "rehearse", "toy", "--fault", "room-full", "--json")
    assert (code, verdict["exit_code"]) == (4, 4)
    assert verdict["verdict"] == "not served (none of the 2 places of toy has a machine now) and gone"
