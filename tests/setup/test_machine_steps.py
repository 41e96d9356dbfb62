"""The machine's parts: built where the machine looks for them."""

import dataclasses
import os
import shutil
import threading
import time

import pytest

from tools.setup import cache
from tools.setup.cache import mounted_below
from tools.setup.step import Skip, StepFailed, Stopped
from tools.setup.steps import apt, machine
from tools.setup.work import Work

BUILDER = """
set -e
PATH=/usr/bin:/bin
case "$*" in
*--key) echo "key-$3" ;;
*) shift 3; while [ $# -gt 1 ]; do [ "$1" = --into ] && into=$2; shift; done; mkdir "$into"; echo whole > "$into/file"; %s ;;
esac
"""


@pytest.fixture
def rooted(host, command):
    for name in apt.COMMANDS:
        command(name, "true")
    command("unshare", 'while [ "$1" != -- ]; do shift; done; shift; exec "$@"')
    return dataclasses.replace(host, uid=0)


@pytest.mark.parametrize("part", ["root", "images", "repo"])
def test_a_part_is_built_into_the_folder_of_its_key(rooted, work, command, part):
    command("python", BUILDER % "true", rooted.bin)
    assert machine.done(part, rooted) is None
    machine.run(part, rooted, work)
    assert (rooted.cache / f"machine-{part}-key-{part}" / "file").read_text() == "whole\n"
    assert machine.done(part, rooted)


def test_a_build_that_fails_leaves_nothing(rooted, work, command):
    command("python", BUILDER % "exit 4", rooted.bin)
    with pytest.raises(StepFailed) as failed:
        machine.run("root", rooted, work)
    assert failed.value.exit_code == 4 and list(rooted.cache.iterdir()) == []


def test_without_root_the_sandbox_stands_in(host, work):
    with pytest.raises(Skip, match="sandbox"):
        machine.run("root", host, work)


INTERRUPTED = """
case "$*" in
*--key) echo key ;;
*) while [ "$1" != --into ]; do shift; done
   mkdir -p "$2/proc" && mount -t tmpfs none "$2/proc" && touch "$2/proc/planted" && echo $$ > %s/ready && exec sleep 300 ;;
esac
"""


@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("unshare"), reason="needs root and unshare, to mount something")
def test_an_interrupted_build_leaves_no_mount_and_no_folder(host, command, tmp_path):
    real = dataclasses.replace(
        host, uid=0, environ={**host.environ, "PATH": f"{tmp_path}/path:{os.environ['PATH']}:/usr/sbin:/sbin"}
    )
    for name in apt.COMMANDS:
        if not real.which(name):
            command(name, "true")
    command("python", INTERRUPTED % tmp_path, real.bin)
    stop = threading.Event()
    work = Work(log=tmp_path / "step.log", stop=stop, deadline=time.monotonic() + 120)
    ended = []

    def build():
        try:
            machine.run("root", real, work)
        except Stopped:
            ended.append("stopped")

    thread = threading.Thread(target=build)
    thread.start()
    while not (tmp_path / "ready").exists():
        assert thread.is_alive(), work.tail()
        time.sleep(0.05)
    stop.set()
    thread.join(60)
    assert ended == ["stopped"] and mounted_below(tmp_path) == [] and list(real.cache.iterdir()) == []


def test_a_folder_with_a_mount_in_it_is_not_deleted(tmp_path, monkeypatch):
    (tmp_path / "root" / "proc").mkdir(parents=True)
    table = tmp_path / "mounts"
    table.write_text(f"proc {tmp_path}/root/proc proc rw 0 0\nother /elsewhere ext4 rw 0 0\n")
    assert mounted_below(tmp_path / "root", table) == [f"{tmp_path}/root/proc"]
    monkeypatch.setattr(cache, "mounted_below", lambda folder: mounted_below(folder, table))
    with pytest.raises(StepFailed, match="mounts"):
        cache.remove(tmp_path / "root")
    assert (tmp_path / "root" / "proc").is_dir()
