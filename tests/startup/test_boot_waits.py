"""What may pass is waited for, by name, and the boot goes on when it has passed."""

from collections.abc import Iterable

from msgspec.structs import replace

from startup.phases import BootStatus
from tests.startup.specs import ANONYMOUS, PLAIN
from tests.startup.world import World, served, wait_for


def waits(world: World, phase: str, steps: Iterable[tuple[dict[str, object], str]], spec=PLAIN) -> BootStatus:
    """Start with the first fault; see each cause while the phase runs, here and in the cloud; then no fault, and it serves."""
    steps = list(steps)
    world.faults(**steps[0][0])
    world.install(spec)
    process = world.start()
    for faults, cause in steps:
        world.faults(**faults)
        for look in (world.status, world.reported):
            wait_for(lambda look=look, cause=cause: _cause(look(), phase) == cause)
    world.faults()
    out, _ = process.communicate(timeout=240)
    status = world.status()
    assert (process.returncode, status.state) == (0, "serving"), out
    served(world, 1)
    return status


def _cause(status: BootStatus | None, phase: str) -> str:
    found = [one for one in status.phases if one.name == phase and one.result == "running"] if status else []
    return found[0].cause.partition(":")[0] if found else ""


def test_token(world: World) -> None:
    waits(
        world,
        "token",
        [
            ({"identity": "none"}, "no-service-account"),
            ({"secret": "missing"}, "secret-missing"),
            ({"secret": "api-off"}, "secret-api-disabled"),
            ({"secret": "unavailable"}, "secret-unreachable"),
            ({"secret": "permission"}, "secret-permission"),  # last: a grant that takes effect late
        ],
    )
    assert (
        "vm@your-project.iam.gserviceaccount.com may not read secret hf-token" in (world.folder / "state" / "boot.log").read_text()
    )


def test_packages(world: World) -> None:
    waits(world, "packages", [({"apt": "lock"}, "apt-lock"), ({"apt": "mirror"}, "apt-mirror")])
    assert any("DPkg::Lock::Timeout=60" in word for row in world.calls("apt-get") for word in row["argv"])


def test_image(world: World) -> None:
    patient = replace(PLAIN, throttled_s=1800)
    waits(world, "image", [({"pull": "429"}, "image-pull-limit"), ({"pull": "network"}, "image-registry")], patient)


def test_weights_with_a_token(world: World) -> None:
    waits(world, "weights", [({"hub": "429"}, "hub-throttled")])
    asked = [row for row in world.asked("huggingface.co")]
    assert len(asked) < 40  # it waited as it was told


def test_weights_without(world: World) -> None:
    waits(world, "weights", [({"hub": "429-anonymous"}, "hub-throttled-anonymous")], ANONYMOUS)


def test_the_hubs_own_pause_is_kept(world: World) -> None:
    world.faults(hub="429-once")
    assert world.boot(PLAIN).code == 0
    raw = (world.folder / "calls.raw").read_bytes()
    assert b"/sleep 1 " in raw and "again in 1 s: hub-throttled" in (world.folder / "state" / "boot.log").read_text()
