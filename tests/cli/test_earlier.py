"""What earlier deployments left, and those of another state: `down` and `status` with a fake cloud that knows them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pytest

from flexserve.commands import down as command
from flexserve.commands import status as status_command
from flexserve.commands.down import page
from flexserve.commands.status import now
from flexserve.lifecycle.down import Gone, down
from flexserve.lifecycle.show import page as status_page
from flexserve.output import Output
from infra.targets.protocol import Billable, DeploymentRef, Life, State
from tests.cli.fakes import FakeLive, World
from verdict.errors import CannotTell, NoAccess, TimedOut
from verdict.exit_codes import ExitCode

LOG = Billable("log-group", "fs-0", "here", None, "the endpoint's log, for 14 days")
IMAGES = Billable("repository", "fs-0", "here", 0.001137, "holds 8.30 GiB of built images")
OVER = Life(DeploymentRef("s", "id0"), "", (LOG, IMAGES))
OTHER = Life(DeploymentRef("s", "id9"), "endpoint fs-9 in here is there", (replace(LOG, name="fs-9"),))


@dataclass
class Recalling(FakeLive):
    """A cloud that knows lives by their tags; what each has is looked up by its id."""

    past: list[Life] = field(default_factory=list)
    refuses: Exception | None = None

    def lives(self, stack: str, owner: str) -> list[Life]:
        assert (stack, owner) == ("s", "me")
        if self.refuses is not None:
            raise self.refuses
        return [life for life in self.past if life.going_on or any(thing.name not in self.deleted for thing in life.kept)]

    def inventory(self, deployment: DeploymentRef) -> list[Billable]:
        held = [thing for life in self.past if life.ref.id == deployment.id for thing in life.kept]
        return [*self.things, *(thing for thing in held if thing.name not in self.deleted)]

    def delete(self, thing: Billable) -> None:
        self.deleted.append(thing.name)
        self.things = [t for t in self.things if t != thing]


def world(*past: Life, up: bool = False, refuses: Exception | None = None) -> World:
    made = World(live=Recalling(past=list(past), refuses=refuses), bare=not up)
    if up:
        made.lives()
    build = made.parts

    def parts():
        return replace(build(), recalls=lambda _: made.live, owner=lambda _: "me")

    made.parts = parts  # type: ignore[method-assign]
    return made


def run(made: World, *, purge: bool = False, said: list[str] | None = None) -> Gone:
    return down(made.parts(), purge=purge, say=(said if said is not None else []).append, tokens=lambda _: None)


@pytest.mark.parametrize("up", [True, False], ids=["after its own", "from another checkout"])
def test_what_earlier_lives_left_is_listed_and_purged(up):
    made = world(OVER, up=up)
    gone = run(made)
    assert gone.kept == (LOG, IMAGES) and made.live.deleted == [] and not gone.alone
    assert "kept: repository fs-0 in here, $0.83 a month: holds 8.30 GiB" in page(gone)
    assert "kept: log-group fs-0 in here, price unknown" in page(gone)
    made = world(OVER, up=up)
    gone = run(made, purge=True)
    assert gone.kept == () and set(made.live.deleted) == {"fs-0"} and gone.left_behind == ()
    assert "deleted by id, kept until now: log-group fs-0" in page(gone)


def test_nothing_is_there_only_where_the_cloud_said_so():
    assert page(run(world())) == "s: nothing was there"


@pytest.mark.parametrize("purge", [False, True])
def test_one_that_another_state_knows_is_not_touched_nor_what_it_may_use(purge):
    made, said = world(OVER, OTHER, up=True), []
    gone = run(made, purge=purge, said=said)
    assert made.live.deleted == [] and gone.kept == (LOG, IMAGES) and not gone.alone
    assert "not touched: deployment id9 of s" in page(gone)
    assert purge == any("id9 of s goes on, and may use it" in line for line in said)
    assert gone.as_dict()["others"] == [{"id": "id9", "why": "endpoint fs-9 in here is there"}]


def test_a_state_that_knows_of_nothing_does_not_say_that_nothing_bills(monkeypatch, capsys):
    made = world(OTHER)
    gone = run(made)
    assert gone.alone and page(gone).startswith("s: this state knows of nothing\n  not touched: deployment id9")
    for module in (command, status_command):
        monkeypatch.setattr(module, "find", lambda: None)
        monkeypatch.setattr(module, "parts", lambda *_: made.parts())
    monkeypatch.setattr(command, "secret", lambda *_: "")
    assert command.run("s", Output(), yes=True, purge=True) is ExitCode.LEFT_BEHIND
    assert status_command.run("s", Output(), wait=False, timeout="30m", boot=False) is ExitCode.CANNOT_TELL
    assert "cause  not this state's: deployment id9 of s" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("refused", "raises", "code"),
    [
        (NoAccess("no AWS credentials", way_out="run `aws configure`"), NoAccess, ExitCode.NO_ACCESS),
        (TimedOut("logs does not answer"), CannotTell, ExitCode.CANNOT_TELL),
    ],
)
def test_a_cloud_that_cannot_be_asked_is_not_an_empty_one(refused, raises, code):
    for ask in (run, lambda made: now(made.parts(), print)):
        with pytest.raises(raises, match=f"knows of no deployment of s, and the cloud cannot be asked: {refused.what}") as caught:
            ask(world(refuses=refused))
        assert caught.value.exit_code == code
    made, said = world(up=True, refuses=refused), []
    assert run(made, said=said).left_behind == () and made.calls == ["destroy"]
    assert any("left something cannot be seen" in line for line in said)


def test_status_lists_what_is_kept_of_what_is_gone():
    made = world(OVER)
    made.note.held, made.live.things = DeploymentRef("s", "id1"), [replace(LOG, name="fs-1")]
    status = now(made.parts(), print)
    assert status.state is State.ABSENT and [thing.name for thing in status.kept] == ["fs-1", "fs-0", "fs-0"]
    assert [row["price_per_month"] for row in status.as_dict()["kept"]] == [None, None, 0.83]
    assert "kept  repository fs-0 in here, $0.83 a month" in status_page(status, Output())
    assert now(World().parts(), print).cause == "this state knows of none; the cloud was not asked"
