"""What Google's cloud can do to a flex-start machine. `expect_exit` is the code with which the rehearsal must end."""

from __future__ import annotations

from collections.abc import Callable

from rehearsal.cloud.google import LocalGoogleCloud, troubles
from rehearsal.cloud.google.call import Trouble
from rehearsal.contracts import Fault, LocalCloud
from verdict.exit_codes import ExitCode

TARGET = ("gce_flex",)
LATE_GRANT_S = 8.0
FIRST, SECOND = "europe-west4-a", "us-east5-b"
AFTER_SERVING_S = 0.5


def _google(broken: object) -> LocalGoogleCloud:
    """The local Google cloud: itself, or that of the stage that is to be broken. Raises TypeError for anything else."""
    cloud = getattr(broken, "cloud", broken)
    if not isinstance(cloud, LocalGoogleCloud):
        raise TypeError(f"this fault breaks the local Google cloud, not {type(cloud).__name__}")
    return cloud


def _arm(*armed: Callable[[], Trouble]) -> Callable[[LocalCloud], None]:
    def apply(cloud: LocalCloud) -> None:
        for trouble in armed:
            _google(cloud).arm(trouble())

    return apply


def _once_serving(act: Callable[[LocalGoogleCloud, str], None]) -> Callable[[LocalCloud], None]:
    """Do it half a second after a machine has reported that it serves, once."""

    def apply(cloud: LocalCloud) -> None:
        google = _google(cloud)
        seen: list[str] = []

        def reported(instance: str, namespace: str, key: str, value: str) -> None:
            if (namespace, key) == ("flexserve", "state") and '"serving"' in value and not seen:
                seen.append(instance)
                google.clock.after(AFTER_SERVING_S, lambda: act(google, instance))

        google.on_report(reported)

    return apply


def _close_window(cloud: LocalGoogleCloud, instance: str) -> None:
    end = cloud.window_end(instance)
    if end is not None:
        cloud.clock.advance(max(0.0, end - cloud.clock.now()) + 1)  # timestamps are cut to milliseconds


def _no_secret(cloud: LocalCloud) -> None:
    google = _google(cloud)
    for name in google.secret_names():
        google.drop_secret(name)


def _empty_secret(cloud: LocalCloud) -> None:
    google = _google(cloud)
    for name in google.secret_names():
        google.empty_secret(name)


def _planted_disk(cloud: LocalCloud) -> None:
    google = _google(cloud)
    google.put_disk("left-over", google.state.inventory.zones[0])


FAULTS = (
    Fault(
        "stock-out",
        TARGET,
        "no zone has the accelerator; the insert's operation fails in each of two, which lie in two regions",
        _arm(troubles.stock_out),
        ExitCode.NO_CAPACITY,
        "none of the 2 places",
        sets=(f"target.zones=[{FIRST}, {SECOND}]",),
    ),
    Fault(
        "first-zone-out",
        TARGET,
        "the first zone has none of the accelerator; the second, in another region, serves",
        _arm(lambda: troubles.stock_out(zone=FIRST)),
        ExitCode.DONE,
        sets=(f"target.zones=[{FIRST}, {SECOND}]",),
    ),
    Fault(
        "stock-out-details",
        TARGET,
        "no zone has the accelerator; the operation's error has the longer form with details",
        _arm(lambda: troubles.stock_out(details=True)),
        ExitCode.NO_CAPACITY,
    ),
    Fault(
        "machine-type-gone",
        TARGET,
        "no zone offers the machine type; refused at once",
        _arm(troubles.bad_machine_type),
        ExitCode.NO_CAPACITY,
    ),
    Fault("quota", TARGET, "the quota of the TPU family is 0; the operation fails", _arm(troubles.quota), ExitCode.NO_ACCESS),
    Fault(
        "quota-at-once",
        TARGET,
        "the quota of preemptible TPUs is 0; refused at once",
        _arm(troubles.quota_at_once),
        ExitCode.NO_ACCESS,
    ),
    Fault(
        "no-permission",
        TARGET,
        "the operator may not create instances",
        lambda cloud: _google(cloud).deny("compute.instances.create"),
        ExitCode.NO_ACCESS,
    ),
    Fault(
        "api-off",
        TARGET,
        "Compute Engine is not switched on in the project",
        lambda cloud: _google(cloud).disable("compute.googleapis.com"),
        ExitCode.NO_ACCESS,
    ),
    Fault(
        "bad-token",
        TARGET,
        "Google takes the operator's token for invalid when it comes to the machine",
        _arm(troubles.bad_token),
        ExitCode.NO_ACCESS,
    ),
    Fault(
        "unavailable",
        TARGET,
        "the insert is answered 503 twice; the provider tries again and all goes well",
        _arm(troubles.unavailable),
        ExitCode.DONE,
    ),
    Fault(
        "rate-limit",
        TARGET,
        "the insert is answered 429 twice; the provider tries again and all goes well",
        _arm(troubles.too_many_requests),
        ExitCode.DONE,
    ),
    Fault(
        "delete-fails-once",
        TARGET,
        "the first delete's operation ends in an error that Pulumi reports as done; the machine stays until asked again",
        _arm(troubles.delete_fails),
        ExitCode.DONE,
    ),
    Fault(
        "reclaimed",
        TARGET,
        "the cloud takes the machine back as soon as it serves",
        _once_serving(lambda cloud, instance: cloud.reclaim(instance)),
        ExitCode.GONE,
    ),
    Fault(
        "window-closes",
        TARGET,
        "the window closes as soon as the machine serves",
        _once_serving(_close_window),
        ExitCode.GONE,
    ),
    Fault(
        "late-iam",
        TARGET,
        f"grants take effect {LATE_GRANT_S:.0f} s late; the boot script asks again until they do",
        lambda cloud: _google(cloud).delay_grants(LATE_GRANT_S),
        ExitCode.DONE,
    ),
    Fault("secret-missing", TARGET, "the secret that the stack names does not exist", _no_secret, ExitCode.FAILED),
    Fault("secret-empty", TARGET, "the secret's newest version is empty", _empty_secret, ExitCode.FAILED),
    Fault(
        "planted-disk",
        TARGET,
        "a disk that nobody's stack made and no label marks; the ledger must show it",
        _planted_disk,
        ExitCode.LEFT_BEHIND,
    ),
)
