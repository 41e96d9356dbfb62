"""Every recorded change of the instance: updated in place or replaced, and by which paths."""

from collections.abc import Iterator
from typing import Any

import pytest

from rehearsal.cloud.google import LocalGoogleCloud
from tests.providers.conftest import INSTANCE
from tests.providers.direct import Direct, Made, provider_for
from tests.providers.recordings import changes, instance

GONE = object()

EDITS: dict[str, dict[str, Any]] = {
    "autodelete": {"bootDisk.autoDelete": False},
    "delprot": {"deletionProtection": True},
    "descr": {"description": "a machine"},
    "disksize": {"bootDisk.initializeParams.size": 200},
    "disktype": {"bootDisk.initializeParams.type": "pd-ssd"},
    "image": {"bootDisk.initializeParams.image": "projects/debian-cloud/global/images/family/debian-12"},
    "labels": {"labels.app": "other"},
    "machinetype": {"machineType": "ct6e-standard-4t"},
    "metarm": {"metadata.startup-script": GONE},
    "name": {"name": "other"},
    "network": {"networkInterfaces.0.network": "other"},
    "nopublicip": {"networkInterfaces.0.accessConfigs": GONE},
    "provmodel": {"scheduling.provisioningModel": "SPOT", "scheduling.preemptible": True},
    "reservation": {"reservationAffinity.type": "ANY_RESERVATION"},
    "saemail": {"serviceAccount.email": "other@demo.iam.gserviceaccount.com"},
    "scopes": {"serviceAccount.scopes": ["cloud-platform", "logging-write"]},
    "seconds": {"scheduling.maxRunDuration.seconds": 7200},
    "shielded": {"shieldedInstanceConfig.enableSecureBoot": False},
    "startup": {"metadataStartupScript": "#!/bin/sh\necho other"},
    "stopupd": {"allowStoppingForUpdate": True, "machineType": "ct6e-standard-4t"},
    "tags": {"tags": ["flexserve", "x"]},
    "termaction": {"scheduling.instanceTerminationAction": "STOP"},
    "zone": {"zone": "us-east5-a"},
}


def edited(args: dict[str, Any], edits: dict[str, Any]) -> dict[str, Any]:
    for path, value in edits.items():
        *way, last = path.split(".")
        at: Any = args
        for key in way:
            at = at[int(key) if key.isdigit() else key]
        if value is GONE:
            del at[last]
        else:
            at[last] = value
    return args


@pytest.fixture(scope="module")
def google() -> Iterator[Direct]:
    """A provider that asks nothing of its cloud here."""
    with LocalGoogleCloud() as cloud, provider_for(cloud) as direct:
        yield direct
        assert cloud.requests() == ()


@pytest.fixture
def settled() -> Made:
    """The recorded instance, read back once."""
    recorded = instance()
    labels = recorded["inputs"]["labels"]
    outputs = {key: value for key, value in recorded["outputs"].items() if not key.startswith("__")}
    outputs["pulumiLabels"] = outputs["effectiveLabels"] = {**labels, "goog-pulumi-provisioned": "true"}
    outputs["bootDisk"] = outputs["bootDisk"] | {"interface": None, "diskEncryptionKeyRaw": "", "diskEncryptionKeyRsa": ""}
    return Made(INSTANCE, recorded["id"], recorded["inputs"], outputs)


def test_every_recorded_change_has_its_edit() -> None:
    assert {row["change"] for row in changes()} == set(EDITS)


@pytest.mark.parametrize("row", changes(), ids=lambda row: row["change"])
def test_change(row: dict[str, str], google: Direct, settled: Made, vm_args: dict[str, Any]) -> None:
    inputs = google.check(INSTANCE, edited(vm_args, EDITS[row["change"]]), olds=settled.inputs)
    answer = google.diff(settled, inputs)
    shown = {path: kind for path, kind in answer.changes.items() if not path.startswith("__")}
    reasons = sorted({path for path in answer.replaces if not path.startswith("__")})
    assert answer.op == row["op"]
    assert " ".join(f"{path}={kind}" for path, kind in sorted(shown.items())) == " ".join(sorted(row["detailedDiff"].split(" ")))
    assert " ".join(reasons) == row["replaceReasons"]


def test_the_same_inputs_change_nothing(google: Direct, settled: Made, vm_args: dict[str, Any]) -> None:
    inputs = google.check(INSTANCE, vm_args, olds=settled.inputs)
    assert inputs == settled.inputs  # defaults and where they are listed, as recorded
    assert google.diff(settled, inputs).op == "same"


def test_an_instance_with_a_name_of_its_own_goes_before_its_successor_comes(
    google: Direct, settled: Made, vm_args: dict[str, Any]
) -> None:
    answer = google.diff(settled, google.check(INSTANCE, edited(vm_args, EDITS["zone"]), olds=settled.inputs))
    assert answer.delete_first
