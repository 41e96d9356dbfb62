"""The hunt finds what it hunts, wherever it was put, and nothing else."""

import base64
import gzip
import os
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rehearsal.hunt import ProcessWatch, in_bytes, in_files

TOKEN = "hf_sentinelTokenOfTheTests123"

WRAPPINGS = {
    "plain": lambda b: b,
    "base64": base64.b64encode,
    "gzip": gzip.compress,
    "base64 of gzip": lambda b: base64.b64encode(gzip.compress(b)),
    "gzip of base64": lambda b: gzip.compress(base64.b64encode(b)),
}


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(sorted(WRAPPINGS)), st.binary(max_size=300), st.binary(max_size=300), st.binary(max_size=40))
def test_it_is_found_in_every_wrapping_at_every_offset(wrapping, before, after, around):
    packed = WRAPPINGS[wrapping](before + TOKEN.encode() + after)
    assert in_bytes(around + b'"' + packed + b'"' + around, TOKEN)


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(sorted(WRAPPINGS)), st.binary(max_size=500))
def test_it_is_not_found_where_it_is_not(wrapping, data):
    assert not in_bytes(WRAPPINGS[wrapping](data), TOKEN)


def test_a_sparse_file_is_read_where_it_has_data(tmp_path):
    path = tmp_path / "disk.img"
    with path.open("wb") as file:
        file.truncate(40 << 30)
        os.pwrite(file.fileno(), TOKEN.encode(), 30 << 30)
    assert in_files(tmp_path, TOKEN) == [str(path)]
    assert in_files(tmp_path, "hf_anotherTokenThatIsNotThere") == []


@pytest.mark.parametrize("place", ["argv", "environment"])
def test_a_process_that_holds_it_is_seen(place):
    argv = [sys.executable, "-c", "import time; print(flush=True); time.sleep(30)", *([TOKEN] if place == "argv" else [])]
    environment = {**os.environ, **({"SOME_TOKEN": TOKEN} if place == "environment" else {})}
    process = subprocess.Popen(argv, env=environment, stdout=subprocess.PIPE)
    assert process.stdout is not None
    try:
        process.stdout.readline()  # a process that is just being loaded has no arguments yet
        watch = ProcessWatch(TOKEN, "hf_anotherTokenThatIsNotThere")
        watch.look()
        assert watch.seen[TOKEN]
        assert not watch.seen["hf_anotherTokenThatIsNotThere"]
    finally:
        process.kill()
        process.communicate()


def test_the_private_project_does_not_take_the_lock_of_the_operators_state(tmp_path):
    from rehearsal.project import private_copy

    root = tmp_path / "root"
    (root / "stacks").mkdir(parents=True)
    (root / "Pulumi.yaml").write_text("name: flexserve\n")
    stack = root / "stacks" / "Pulumi.s.yaml"
    stack.write_text("encryptionsalt: v1:abc\nsecretsprovider: passphrase\nconfig:\n  flexserve:window: 4h\n")
    project = private_copy(root, tmp_path / "work", "s", {"gcp:project": "p"}, ["window=1h"])
    copied = (project / "stacks" / "Pulumi.s.yaml").read_text()
    assert "encryptionsalt" not in copied and "secretsprovider" not in copied
    assert "flexserve:window: 1h" in copied and "gcp:project: p" in copied
    assert "encryptionsalt: v1:abc" in stack.read_text()
