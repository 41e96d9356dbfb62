"""`down` with a fake engine and cloud: the engine's word is not taken for it."""

from __future__ import annotations

import errno
import json
from datetime import timedelta
from pathlib import Path

import pytest

from flexserve.commands import down as command
from flexserve.commands.down import page
from flexserve.lifecycle.down import Gone, down
from flexserve.lifecycle.note import Note
from flexserve.lifecycle.parts import Changes, EngineFailed
from flexserve.lifecycle.up import Wanted, up
from flexserve.output import Output
from infra.targets.protocol import Billable, DeploymentRef
from tests.cli.fakes import FakeNote, World, destroyed
from verdict.errors import FlexserveError, Interrupted, LeftBehind
from verdict.exit_codes import ExitCode

VM = Billable("instance", "fs-1", "europe-west4-a", 1.35)
DISK = Billable("disk", "fs-1-boot", "europe-west4-a", 0.02)
CACHE = Billable("disk", "cache", "europe-west4-a", 0.01, kept="weights for the next boot")


def run(world: World, *, purge: bool = False, tokens: int | None = None) -> Gone:
    return down(world.parts(), purge=purge, say=lambda line: None, tokens=lambda ref: tokens)


def test_all_gone():
    gone = run(World().lives())
    document = gone.as_dict()
    assert document["deleted"] == [{"by": "engine", "count": 12}]
    assert document["kept"] == document["left_behind"] == []


def test_what_the_engine_reports_deleted_and_is_still_there_is_deleted_by_id():
    """A delete whose operation ends in an error is reported as deleted."""
    world = World().lives()
    world.live.things = [VM]
    gone = run(world)
    assert world.live.deleted == ["fs-1"] and gone.left_behind == ()
    assert gone.as_dict()["deleted"][1]["name"] == "fs-1"
    assert "deleted by id, the engine had left it: instance fs-1" in page(gone)


def test_what_will_not_go_is_named_with_its_price():
    world = World().lives()
    world.live.things, world.live.undeletable = [VM, DISK], {"fs-1-boot"}
    gone = run(world)
    assert [b["name"] for b in gone.as_dict()["left_behind"]] == ["fs-1-boot"]
    assert "LEFT BEHIND, still bills: disk fs-1-boot in europe-west4-a, $0.02/h" in page(gone)


@pytest.mark.parametrize("purge", [False, True])
def test_a_state_that_is_bare_needs_no_engine_and_the_cloud_is_asked_all_the_same(purge):
    world = World(bare=True)
    world.note.held, world.live.things = DeploymentRef("s", "id1", {}), [VM, CACHE]
    gone = run(world, purge=purge)
    assert world.calls == [] and world.live.deleted == (["fs-1", "cache"] if purge else ["fs-1"])
    assert gone.kept == (() if purge else (CACHE,)) and (world.note.held is None) == purge


def test_nothing_known_of_a_stack_and_a_bare_state():
    world = World(bare=True)
    assert run(world) == Gone("s", Changes(), (), (), (), None, known=False) and world.calls == []


def test_an_engine_that_fails_does_not_save_the_machine():
    """And when what stood in its way is gone, it is asked once more, so that the state is emptied too."""

    def breaks(world: World) -> Changes:
        world.destroys = destroyed if helps else breaks
        raise EngineFailed("pulumi destroy failed", diagnostics=("in use by the machine",))

    for helps in (True, False):
        world = World(destroys=breaks).lives()
        world.live.things = [VM]
        gone = run(world)
        assert world.live.deleted == ["fs-1"] and world.calls == ["destroy", "destroy"]
        assert (gone.engine_error is None) == helps and gone.changes.counts.get("delete") == (12 if helps else None)


def test_an_engine_that_fails_is_not_asked_again_while_something_is_left():
    def breaks(world: World) -> Changes:
        raise EngineFailed("pulumi destroy failed")

    world = World(destroys=breaks).lives()
    world.live.things, world.live.undeletable = [VM], {"fs-1"}
    gone = run(world)
    assert world.calls == ["destroy"] and gone.left_behind == (VM,) and gone.engine_error is not None


def test_kept_on_purpose_is_listed_and_purged():
    world = World().lives()
    world.live.things = [CACHE]
    kept = run(world).as_dict()["kept"]
    assert kept == [
        {
            "kind": "disk",
            "name": "cache",
            "where": "europe-west4-a",
            "price_per_hour": 0.01,
            "price_per_month": 7.3,
            "why": CACHE.kept,
        }
    ]
    world = World().lives()
    world.live.things = [CACHE]
    assert run(world, purge=True).kept == () and world.live.deleted == ["cache"]


def test_why_something_is_deleted_by_id_is_said():
    world = World().lives()
    world.live.things = [CACHE, DISK]
    said: list[str] = []
    down(world.parts(), purge=True, say=said.append, tokens=lambda ref: None)
    assert said == [
        "deletes disk cache in europe-west4-a: kept until now, and --purge is given",
        "deletes disk fs-1-boot in europe-west4-a: still there after the engine",
    ]


def test_an_expired_deployment_is_a_clean_down():
    world = World().lives()
    world.live.machine, world.live.passed = None, timedelta(hours=9)
    gone = run(world)
    assert world.calls == ["destroy"] and gone.left_behind == ()
    assert gone.receipt.seconds == 14400 and gone.receipt.cost == 6.0


@pytest.mark.parametrize(("exists", "calls"), [(False, []), (True, ["destroy"])])
def test_a_stack_without_a_deployment(exists, calls):
    world = World(exists=exists, destroys=lambda w: Changes())
    gone = run(world)
    assert world.calls == calls and gone.receipt is None
    assert page(gone) == "s: this state knows of nothing; the cloud was not asked"


def test_receipt():
    world = World().lives()
    world.live.passed = timedelta(hours=2)
    receipt = run(world, tokens=3_000_000).as_dict()["receipt"]
    assert receipt["seconds"] == 7200 and receipt["cost"] == 3.0 and receipt["tokens"] == 3_000_000
    assert receipt["usd_per_million"] == 1.0
    assert any("disk: price unknown" in part for part in receipt["parts"])


def test_down_twice():
    world = World().lives()
    run(world)
    again = run(world)
    assert again.as_dict()["left_behind"] == [] and world.calls == ["destroy", "destroy"]


def test_the_id_outlives_an_empty_state(tmp_path):
    """The engine says that all is deleted, its state is empty, and the machine is still there: the next down still knows its id."""
    world = World().lives()
    world.live.things, world.live.undeletable = [VM], {"fs-1"}
    assert run(world).left_behind == (VM,) and world.ref is None
    with pytest.raises(LeftBehind, match="an earlier down of s left 1 things behind"):
        up(world.parts(), Wanted(("flex_start",), 1), consent=print, report=print, say=print)
    world.live.undeletable = set()
    assert run(world).left_behind == () and world.live.deleted == ["fs-1"]
    assert world.note.held is None


def test_the_note_is_a_file_that_goes_away(tmp_path):
    note = Note(tmp_path / "deep" / "s.json", "s")
    ref = World().lives().ref
    assert note.read() is None
    note.write(ref)
    assert note.read() == ref
    note.remove()
    note.remove()
    assert note.read() is None
    (tmp_path / "deep" / "s.json").write_text("{", encoding="utf-8")
    assert note.read() is None


def test_ctrl_c_in_the_sweep_says_that_something_may_be_left():
    world = World().lives()
    world.live.things = [VM]

    def press(thing: Billable) -> None:
        raise KeyboardInterrupt

    world.live.delete = press
    with pytest.raises(Interrupted, match="may still be there and bill"):
        run(world)
    assert world.note.held.id == "id1"


@pytest.mark.parametrize(("undeletable", "code"), [(set(), ExitCode.DONE), ({"fs-1-boot"}, ExitCode.LEFT_BEHIND)])
def test_the_command_ends_with_7_when_something_is_left(monkeypatch, capsys, undeletable, code):
    world = World().lives()
    world.live.things, world.live.undeletable = [VM, DISK], undeletable
    monkeypatch.setattr(command, "find", lambda: None)
    monkeypatch.setattr(command, "parts", lambda *_: world.parts())
    monkeypatch.setattr(command, "_tokens", lambda ref: None)
    assert command.run("tpu-v6e", Output(as_json=True), yes=True, purge=False) is code
    assert len(json.loads(capsys.readouterr().out)["left_behind"]) == len(undeletable)


class FullDisk(FakeNote):
    """A note that cannot be written."""

    def write(self, ref: DeploymentRef) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")


def test_a_full_disk_does_not_keep_the_machine_alive():
    world = World(note=FullDisk()).lives()
    world.live.things = [VM]
    said: list[str] = []
    gone = down(world.parts(), purge=False, say=said.append, tokens=lambda ref: None)
    assert world.live.deleted == ["fs-1"] and gone.left_behind == ()
    assert any("note the id id1" in line and "No space left on device" in line for line in said)


@pytest.mark.parametrize("error", [OSError("reset"), ValueError("no JSON"), RuntimeError("a defect"), FlexserveError("refused")])
def test_what_goes_wrong_while_tokens_are_counted_does_not_keep_the_machine_alive(monkeypatch, error):
    def broken(ref):
        raise error

    monkeypatch.setattr(command, "tunnel", broken)
    assert command._tokens(DeploymentRef("s", "id1", {})) is None


def test_a_note_is_never_half_there(tmp_path, monkeypatch):
    """Not while it is written, and not after a write that failed."""
    path = tmp_path / "unfinished" / "s.json"
    note, ref = Note(path, "s"), DeploymentRef("s", "id1", {"zone": "z"})
    note.write(ref)
    write = Path.write_text

    def cut_off(self, text, **named):
        write(self, text[:5], **named)
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_text", cut_off)
    with pytest.raises(OSError, match="No space"):
        note.write(DeploymentRef("s", "id2", {}))
    assert note.read() == ref and [p.name for p in path.parent.iterdir()] == ["s.json"]


def test_a_note_in_a_place_that_cannot_be_changed_stays(tmp_path, monkeypatch):
    note = Note(tmp_path / "s.json", "s")
    note.write(DeploymentRef("s", "id1", {}))

    def read_only(self, **named):
        raise PermissionError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(Path, "unlink", read_only)
    note.remove()
    assert note.read() is not None


def test_an_engine_that_fails_after_all_is_gone_says_that_nothing_bills(monkeypatch):
    """A wrong passphrase: the cloud's things are deleted by id, the state stays."""
    error = EngineFailed("pulumi destroy failed", log="kept.log")
    gone = Gone("s", Changes(), (VM,), (), (), None, error)
    monkeypatch.setattr(command, "find", lambda: None)
    monkeypatch.setattr(command, "parts", lambda *_: None)
    monkeypatch.setattr(command, "down", lambda *_, **__: gone)
    with pytest.raises(EngineFailed) as caught:
        command.run("s", Output(), yes=True, purge=False)
    assert caught.value.way_out == "nothing of it bills any more, only Pulumi's state still has it; the full log is kept.log"
