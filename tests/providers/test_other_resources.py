"""The recorded program's other resources, without an engine: requests of create, refresh and destroy, and states."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from rehearsal.cloud.google import LocalGoogleCloud
from tests.providers import recordings, requests, states
from tests.providers.conftest import INSTANCE, bare
from tests.providers.deviations import Deviation, rows, unexplained
from tests.providers.direct import Direct, Made, provider_for

ACCOUNT = "flexserve-vm@demo.iam.gserviceaccount.com"
GROUP = ("mig", "instanceGroup", "instanceTemplates", "resizeRequests")

# In the order of their dependencies, as (type, resource name).
PROGRAM = (
    ("gcp:projects/service:Service", "iap"),
    ("gcp:serviceaccount/account:Account", "vm"),
    ("gcp:compute/firewall:Firewall", "iap"),
    ("gcp:secretmanager/secret:Secret", "hf"),
    ("gcp:secretmanager/secretVersion:SecretVersion", "hf"),
    ("gcp:secretmanager/secretIamMember:SecretIamMember", "hf"),
    ("gcp:projects/iAMMember:IAMMember", "log"),
    ("gcp:iap/tunnelInstanceIAMMember:TunnelInstanceIAMMember", "iap"),
    ("gcp:compute/network:Network", "n"),
    ("gcp:compute/subnetwork:Subnetwork", "n"),
    ("gcp:compute/router:Router", "n"),
    ("gcp:compute/routerNat:RouterNat", "n"),
    ("gcp:artifactregistry/repository:Repository", "r"),
)


def given(kind: str, made: dict[str, Made]) -> dict[str, Any]:
    """What the program gives a resource: the recorded inputs without what Check filled in."""
    args: dict[str, Any] = bare(recordings.other_states()[kind]["inputs"])
    network, router = (made.get(f"gcp:compute/{name}") for name in ("network:Network", "router:Router"))
    if network and "network" in args:
        args["network"] = network.id
    if router and "router" in args:
        args["router"] = router.outputs["name"]
    if "secretData" in args:
        args["secretData"] = "not-a-token"
    return args


class Session:
    """Everything made, read and deleted once; the requests of each part, the states after the first."""

    def __init__(self, cloud: LocalGoogleCloud, google: Direct, vm_args: dict[str, Any]) -> None:
        self.cloud = cloud
        self.made: dict[str, Made] = {}
        self.up = self._logged(lambda: self._make(google, vm_args))
        self.base = cloud.base
        self.refresh = self._logged(lambda: [google.read(made) for made in self.made.values()])
        self.destroy = self._logged(lambda: self._unmake(google))

    def _make(self, google: Direct, vm_args: dict[str, Any]) -> None:
        self.cloud.disable("iap.googleapis.com")
        for kind, name in PROGRAM:
            self.made[kind] = google.create(kind, given(kind, self.made), name)
        self.made[INSTANCE] = google.create(INSTANCE, vm_args)

    def _unmake(self, google: Direct) -> None:
        for made in reversed(self.made.values()):
            google.delete(made)

    def _logged(self, work: Callable[[], Any]) -> list[requests.Request]:
        self.cloud.log.clear()
        work()
        return [requests.normal(r.method, r.path, r.query, r.body) for r in self.cloud.log.entries()]


@pytest.fixture(scope="module")
def session() -> Iterator[Session]:
    with LocalGoogleCloud() as cloud, provider_for(cloud) as google:
        yield Session(cloud, google, bare(recordings.instance()["inputs"]) | {"labels": {"app": "flexserve", "stack": "all"}})
        assert cloud.own_errors() == ()


def recorded(step: str, *, without: Sequence[str] = ()) -> list[requests.Request]:
    """A step's requests, those of the managed instance group left out, and what the recorder's own faults caused."""
    left_out = (*GROUP, *without)
    return [r for r in recordings.requests_of(step) if not any(part in r.path or part in r.body for part in left_out)]


def found(session: Session) -> list[Deviation]:
    """All deviations of requests and states."""
    deviations = requests.compare(recorded("b0-all-up"), session.up)
    for kind, state in recordings.other_states().items():
        made = session.made[kind]
        ours = {"id": made.id, "inputs": masked(made.inputs), "outputs": masked(made.outputs)}
        deviations += states.compare(kind.rpartition(":")[2], state, ours, session.base)
    return deviations


def masked(values: dict[str, Any]) -> dict[str, Any]:
    """What the recorder wrote as secret."""
    secret = ("secretData", "secretDataWo", "effectiveLabels", "pulumiLabels")
    return {key: "<secret>" if key in secret else value for key, value in values.items()}


def test_create_requests_and_states(session: Session) -> None:
    left = unexplained(found(session), rows())
    assert not left, "\n".join(map(str, left))


def test_no_known_difference_is_stale(session: Session) -> None:
    deviations = found(session)
    assert not [row.id for row in rows() if row.found_by == "direct" and not any(map(row.covers, deviations))]


@pytest.mark.parametrize("step", ["52-refresh", "b3-destroy-again"])
def test_refresh_asks_as_recorded(session: Session, step: str) -> None:
    """Each recorded look of a refresh is one of ours. Looks only: what those steps also deleted comes below."""
    looks = {r for r in recorded(step) if r.method == "GET" or ":getIamPolicy" in r.path}
    looks = {r for r in looks if "/operations/" not in r.path}
    assert looks - set(session.refresh) == set()


@pytest.mark.parametrize("step", ["53-destroy", "73-destroy", "b2-gone-destroy", "b3-destroy-again"])
def test_destroy_asks_as_recorded(session: Session, step: str) -> None:
    """Each recorded change of a destroy is one of ours, with its body."""
    changes = {r for r in recorded(step) if r.method != "GET" and ":getIamPolicy" not in r.path}
    assert changes - set(session.destroy) == set()


def test_destroy_changes_nothing_else(session: Session) -> None:
    known = {r.what for step in ("53-destroy", "73-destroy", "b2-gone-destroy", "b3-destroy-again") for r in recorded(step)}
    known |= {r.what for r in recordings.requests_of("10-destroy-all")}
    assert {r.what for r in session.destroy if r.method != "GET"} - known == set()


def test_everything_that_is_gone_already_is_deleted_without_a_word(session: Session) -> None:
    """All but the instance; its own failure is step 21."""
    with provider_for(session.cloud) as google:
        for kind, _ in reversed(PROGRAM):
            google.delete(session.made[kind])


def test_what_is_gone_reads_as_gone(session: Session) -> None:
    with provider_for(session.cloud) as google:
        left = {kind for kind, made in session.made.items() if google.read(made) is not None}
    assert left <= {"gcp:projects/service:Service"}  # it stays on: `disableOnDestroy` is false
    assert ACCOUNT not in session.cloud.state.accounts
