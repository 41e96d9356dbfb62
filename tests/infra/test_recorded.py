"""What the program reads of its own state: the kept choices, and whether a machine is recorded, of whichever target."""

import subprocess
import sys

import pytest

from infra import program
from infra.kept import Kept
from infra.state import STASH, STASH_TYPE

KEPT = {f"urn:pulumi:s::flexserve::{STASH_TYPE}::{STASH}": {"type": STASH_TYPE, "outputs": {"input": Kept("x1", 5).as_state()}}}
MACHINES = {
    "gce_flex": "gcp:compute/instance:Instance",
    "ec2_spot": "aws:ec2/instance:Instance",
    "sagemaker": "aws:sagemaker/endpoint:Endpoint",
}


def machine(kind):
    return {"urn:m": {"type": MACHINES[kind], "outputs": {}}}


def test_an_empty_state_has_neither():
    assert program.read({}, "gce_flex") == program.Recorded(None, False)


def test_the_kept_choices_without_a_machine():
    assert program.read({**KEPT, "urn:n": {"type": "gcp:compute/network:Network", "outputs": {}}}, "gce_flex").live is False


@pytest.mark.parametrize("kind", MACHINES)
@pytest.mark.parametrize("recorded", MACHINES)
def test_a_machine_of_another_target_counts_too(kind, recorded):
    found = program.read({**KEPT, **machine(recorded)}, kind)
    assert found.live and found.kept == Kept("x1", 5)


def test_other_targets_are_not_loaded_for_a_machine_of_this_one(root):
    code = (
        "import sys; from infra import program\n"
        f"assert program.read({machine('gce_flex')!r}, 'gce_flex').live\n"
        "print([m for m in sys.modules if m.startswith(('infra.targets.ec2_spot', 'infra.targets.sagemaker'))])"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout.strip() == "[]", done.stderr
