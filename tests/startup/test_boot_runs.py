"""The script run for real, under `env -i`, as Compute Engine's script runner starts it."""

import json
from itertools import pairwise
from pathlib import Path

import pytest
from msgspec.structs import replace

from startup.container import config_hash
from startup.render import render
from startup.spec import BootSpec
from tests.startup.specs import BASE, PLAIN
from tests.startup.world import World, served, wait_for, words

ORDER = ("packages", "docker", "token", "image", "weights", "load", "compile", "serving")
FEWER_TOKENS = replace(PLAIN, vllm_options=(*PLAIN.vllm_options[:-1], '{"image":0,"audio":0}', "--kv-cache-dtype", "fp8"))


def test_a_life(world: World) -> None:
    """First boot, a run with nothing to do, a power cut, a changed flag, a hung server: each time one healthy container."""
    first = world.boot(PLAIN)
    assert (first.code, first.status.state, first.status.cause) == (0, "serving", ""), first.out
    assert first.results() == dict.fromkeys(ORDER, "done")
    assert first.status.script == render(PLAIN).sha256
    assert first.reported == first.status  # the cloud has been told the same
    served(world, 1)
    at = {phase.name: (phase.start_s, phase.start_s + (phase.seconds or 0)) for phase in first.status.phases}
    for phase in first.status.phases:
        assert all(at[need][1] <= phase.start_s + 0.002 for need in phase.needs)
    assert "flexserve: serving" in (world.folder / "console").read_text()
    assert "flexserve: serving" in (world.folder / "state" / "boot.log").read_text()

    container = world.containers()[0]
    second = world.boot(PLAIN)
    assert (second.code, second.status.state) == (0, "serving"), second.out
    assert second.results() == {**dict.fromkeys(ORDER, "skipped"), "serving": "done"}
    assert world.containers() == [container]
    assert len(world.calls("docker", "pull")) == 1 and len(world.asked("secretmanager.googleapis.com")) == 1

    world.kill()
    after = world.boot(PLAIN)  # Docker has started the container again by itself
    assert (after.code, after.status.state) == (0, "serving"), after.out
    assert world.containers() == [container]

    changed = world.boot(FEWER_TOKENS)
    assert (changed.code, changed.status.state, changed.status.script) == (0, "serving", render(FEWER_TOKENS).sha256), changed.out
    served(world, 2)
    assert world.containers()[0]["label"] == config_hash(FEWER_TOKENS) != container["label"]
    order = [row["argv"][1:4] for row in world.calls("docker") if row["argv"][1] in ("stop", "rm", "run")]
    assert order == [
        ["run", "--detach", "--name"],
        ["stop", "-t", "60"],
        ["rm", "-f", "flexserve-vllm"],
        ["run", "--detach", "--name"],
    ]

    world.keep(world.containers()[0] | {"crash": "never-healthy"})  # it served, and answers no more
    healed = world.boot(FEWER_TOKENS)
    assert (healed.code, healed.status.state) == (0, "serving"), healed.out
    assert "replacing it" in healed.out
    served(world, 3)


def test_the_container_is_what_the_spec_says(world: World) -> None:
    spec = replace(PLAIN, environment={"VLLM_LOGGING_LEVEL": "DEBUG", "HF_HUB_OFFLINE": "0"})
    assert world.boot(spec).code == 0
    argv = world.calls("docker", "run")[0]["argv"]
    image = argv.index(spec.image_reference)
    assert argv[image + 1 :] == ["vllm", "serve", "/models/google/gemma-4-E2B-it", *spec.vllm_options]
    options = argv[2:image]
    assert [*spec.docker_options] == options[-len(spec.docker_options) :]
    assert options[options.index("--restart") :][:2] == ["--restart", "unless-stopped"]
    assert "VLLM_LOGGING_LEVEL=DEBUG" in options and "HF_HUB_OFFLINE=0" in options and "HF_HUB_OFFLINE=1" not in options
    mounts = [word for before, word in pairwise(options) if before == "--volume"]
    folder = f"/var/lib/flexserve/models/google--gemma-4-E2B-it/{spec.model_revision}"
    assert mounts == [f"{folder}:/models/google/gemma-4-E2B-it:ro", "/var/lib/flexserve/xla-cache:/var/cache/flexserve-xla"]
    here = world.folder / "state" / folder.removeprefix("/var/lib/flexserve/")
    names = {str(path.relative_to(here)) for path in here.rglob("*") if path.is_file()}
    assert names == {
        ".complete",
        "config.json",
        "empty.txt",
        "sub/tokenizer.json",
        *(f"model-0000{n}-of-00002.safetensors" for n in (1, 2)),
    }
    assert len(world.calls("dpkg", "--set-selections")) == 1  # which packages, the booted machine shows
    stopped = world.calls("systemctl", "mask", "--now")[0]["argv"]
    assert "unattended-upgrades.service" in stopped and "apt-daily.timer" in stopped


def test_a_base_model_without_a_token(world: World) -> None:
    boot = world.boot(BASE)
    assert (boot.code, boot.status.state) == (0, "serving"), boot.out
    assert "token" not in boot.results()
    assert [row["path"] for row in world.asked("127.0.0.1", "completions")] == ["/v1/completions"]
    assert not world.asked("secretmanager.googleapis.com")
    assert all(row["authorization"] is None for row in world.asked("huggingface.co"))


def test_guest_attributes_off_does_not_stop_the_boot(world: World) -> None:
    world.faults(**{"guest-attributes": "off"})
    boot = world.boot(PLAIN)
    assert (boot.code, boot.status.state, boot.reported) == (0, "serving", None), boot.out


@pytest.mark.parametrize("phase", ORDER)
def test_a_cut_in_any_phase_and_a_run_after_it(world: World, phase: str) -> None:
    world.install(PLAIN)
    world.hold(phase)
    process = world.start()
    wait_for(lambda: world.held(phase))
    if phase in ("image", "weights", "compile"):
        world.kill("startup.onboard boot")  # the boot alone: what it had started goes on
        process.wait(120)
    else:
        world.kill()
    assert process.wait(120) != 0
    world.release(phase)
    boot = world.boot(PLAIN)
    assert (boot.code, boot.status.state) == (0, "serving"), boot.out
    served(world, 2 if phase == "load" and len(world.calls("docker", "run")) == 2 else 1)
    assert not [line for line in world.processes().values() if "onboard" in line or "/script" in line]


def test_a_download_goes_on_where_it_broke_off(world: World) -> None:
    world.faults(hub="cut")
    boot = world.boot(PLAIN)
    assert (boot.code, boot.status.state) == (0, "serving"), boot.out
    ranges = [row["range"] for row in world.asked("cdn.huggingface.test")]
    assert len(ranges) == 5 and sum(one is not None for one in ranges) == 3


def test_packages_are_installed_anew_after_a_loss_of_power_and_not_otherwise(world: World) -> None:
    """dpkg did not wait for the disk: what another boot of the machine installed is trusted once that boot has waited for it."""

    def installs() -> list[list[str]]:
        return [row["argv"][row["argv"].index("install") + 1 :] for row in world.calls("apt-get") if "install" in row["argv"]]

    begun = world.folder / "state" / "installing"
    world.install(PLAIN)
    world.hold("image")
    process = world.start()
    wait_for(lambda: world.held("image"))
    now = begun.read_text()
    assert now == Path("/proc/sys/kernel/random/boot_id").read_text() and len(installs()) == 1
    world.kill()
    assert process.wait(120) != 0
    world.release("image")
    begun.write_text("another boot\n")
    notes = "/var/lib/dpkg/updates"
    world.inside("sh", "-c", f"mkdir -p {notes} && : >{notes}/0001 && echo kept >{notes}/0002")
    world.faults(dpkg="broken")  # its scripts are empty files
    again = world.boot(PLAIN)
    assert (again.code, again.results()["packages"]) == (0, "done"), again.out
    assert len(installs()) == 2 and "--reinstall" not in installs()[0]
    assert {"--reinstall", "docker.io", "containerd", "runc"} <= set(installs()[1]) and "docker-ce" not in installs()[1]
    assert world.inside("ls", notes).split() == ["0002"]  # an empty one keeps dpkg from doing anything
    assert not begun.exists() and len(world.calls("sync")) == 1
    third = world.boot(PLAIN)
    assert (third.code, third.results()["packages"], len(installs()), len(world.calls("sync"))) == (0, "skipped", 2, 1)


def test_daemons_start_as_soon_as_dpkg_has_unpacked_them(world: World) -> None:
    """dpkg's own status lines, of a first installation and of one that replaces it; a daemon that does not start ends nothing."""
    script = world.folder / "script"
    script.write_bytes(render(PLAIN).script)
    world.command("groupadd", (world.folder / "bin" / "systemctl").read_text())
    world.faults(systemctl="fails")
    lines = """
processing: install: docker.io
status: runc:amd64 1.1.5: half-installed
status: containerd 1.6.20: half-installed
status: containerd: unpacked
status: containerd-extra: unpacked
status: docker.io: half-installed
status: docker.io:amd64: unpacked
status: docker.io:amd64: half-configured
status: docker.io:amd64: installed
"""
    (world.folder / "lines").write_text(lines)
    early = f"PATH={world.folder}/bin:$PATH SYSTEMD_OFFLINE=1 bash {script} early <{world.folder}/lines && echo read to the end"
    assert world.inside("bash", "-c", early).split("\n")[-2] == "read to the end"
    started = [row["argv"][1:] for row in world.calls("systemctl")]
    assert started == [["start", "--no-block", "containerd"], ["start", "--no-block", "docker"]]
    assert [row["argv"][1:] for row in world.calls("groupadd")] == [["--system", "--force", "docker"]]
    assert "SYSTEMD_OFFLINE" not in (world.folder / "calls.raw").read_text()  # else systemctl starts nothing


def test_another_attempt_of_a_failed_boot_runs_on_the_live_machine(world: World) -> None:
    """What `up` does after a failed boot: the script differs in its attempt number, and the watcher runs it."""
    world.faults(pull="denied")
    failed = world.boot(PLAIN)
    assert (failed.code, failed.cause()) == (1, "image-denied"), failed.out
    (world.folder / "stub").write_bytes((world.folder / "state" / "stub").read_bytes())
    watcher = world.start("watch")
    wait_for(lambda: len(world.asked("metadata", "wait_for_change")) > 0)
    world.faults()
    wanted = world.install(replace(PLAIN, attempt=1))
    status = wait_for(lambda: (s := world.status()) and s.state == "serving" and s.script == wanted and s)
    results = {phase.name: phase.result for phase in status.phases}
    assert {"packages": "skipped", "docker": "skipped", "image": "done", "serving": "done"}.items() <= results.items()
    served(world, 1)
    world.kill()
    watcher.communicate(timeout=120)


def test_two_starts_at_once_are_one_boot(world: World) -> None:
    world.install(PLAIN)
    both = [world.start(), world.start()]
    outs = [process.communicate(timeout=240)[0] for process in both]
    assert [process.returncode for process in both] == [0, 0], outs
    served(world, 1)
    assert len(world.calls("docker", "pull")) == 1


def test_half_a_script_is_not_run(world: World) -> None:
    world.install(PLAIN)
    world.faults(metadata="cut")
    process = world.start()
    out, _ = process.communicate(timeout=240)
    assert process.returncode != 0 and "not complete" in out
    assert not (world.folder / "state" / "script").exists()


def test_a_changed_script_reaches_the_live_machine(world: World) -> None:
    """The watcher runs it once it has been quiet, whatever the metadata server does; a run of the old one makes way."""
    assert world.boot(PLAIN).code == 0
    assert ["systemctl", "start", "--no-block", "flexserve-watch.service"] in [row["argv"] for row in world.calls("systemctl")]
    assert "ExecStart=/bin/bash /var/lib/flexserve/stub watch" in (world.folder / "units" / "flexserve-watch.service").read_text()
    (world.folder / "stub").write_bytes((world.folder / "state" / "stub").read_bytes())
    world.faults(metadata="hiccup")
    watcher = world.start("watch")
    wait_for(lambda: len(world.asked("metadata", "wait_for_change")) > 0)

    broken: BootSpec = replace(PLAIN, vllm_options=("--no-such-flag",))
    world.faults(server="never-healthy")
    world.metadata(render(replace(PLAIN, vllm_options=("--half", "of", "the", "change"))).script)
    world.metadata(render(broken).script)
    wait_for(lambda: world.calls("docker", "run")[1:])
    assert world.calls("docker", "run")[1]["argv"][-1] == "--no-such-flag"

    world.faults()
    wanted = world.install(FEWER_TOKENS)  # while the run of the broken one still waits for its server
    status = wait_for(lambda: (s := world.status()) and s.state == "serving" and s.script == wanted and s)
    assert status
    served(world, 3)
    assert words(world.calls("docker", "run"))[-1].endswith("--kv-cache-dtype fp8")
    assert watcher.poll() is None
    world.kill()
    out = watcher.communicate(timeout=120)[0]
    assert out.count("the script in the metadata has changed") == 2


def test_a_limit_ends_everything_that_the_phase_started(world: World) -> None:
    spec = replace(PLAIN, phase_limits={**PLAIN.phase_limits, "image": 3})
    world.hold("image")
    boot = world.boot(spec)
    assert (boot.code, boot.status.state, boot.status.phase, boot.cause()) == (1, "failed", "image", "time-limit"), boot.out
    assert boot.results() == {"packages": "done", "docker": "done", "token": "done", "weights": "done", "image": "failed"}
    assert not [line for line in world.processes().values() if " docker pull" in line]
    assert json.loads((world.folder / "state" / "phase-image").read_text())["limit_s"] == 3
