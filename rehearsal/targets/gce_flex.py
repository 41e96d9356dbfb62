"""The stage of `gce_flex`: local Google cloud, stand-in provider, booted machines, IAP relay, registry and Hub for the operator."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from importlib.metadata import version
from pathlib import Path

from catalog.loader import Catalog
from catalog.rows import Image
from rehearsal.cloud.google.cloud import OPERATOR_TOKEN, LocalGoogleCloud
from rehearsal.machine.faults import Behaviour
from rehearsal.prices import catalog_price
from rehearsal.providers.google import VERSION, google_provider
from rehearsal.reach import Reach
from rehearsal.relay.server import Relay
from rehearsal.room_stage import RoomStage
from rehearsal.stage import Part
from rehearsal.tools import program_version, why_stand_in

PROJECT = "rehearsal-1"
OPERATOR = "user:operator@rehearsal.test"

RECORDED_S = {"packages": 60.0, "image": 300.0, "weights": 10.0, "load": 50.0, "compile": 329.0}
"""Seconds that each of these took on a TPU v6e VM (public run of 2026-07-21, the parts one after another)."""

K = 300.0
"""How many times shorter the stand-ins hold than what was recorded; the verdict tells held and own time apart."""


class GceFlexStage(RoomStage):
    """Everything around one local Google project: cloud, provider, relay, the operator's registry and Hub."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, Behaviour(holds={what: seconds / K for what, seconds in RECORDED_S.items()}))
        self.google: LocalGoogleCloud

    def _start(self, stack: ExitStack) -> Mapping[str, str]:
        self.google = stack.enter_context(LocalGoogleCloud(self.room, project=PROJECT, price=catalog_price(Catalog.load())))
        self.cloud = self.google
        for image in images(Catalog.load()):
            self.room.images.push(image.repository, image.tag)
        port = stack.enter_context(google_provider(self.google.clock.sleep))
        reach = Reach(self.google, OPERATOR, OPERATOR_TOKEN)
        relay = stack.enter_context(Relay(reach.connect, allowed=reach.allowed, folder=self.folder))
        return {
            "PULUMI_DEBUG_PROVIDERS": f"gcp:{port}",
            "FLEXSERVE_IAP_URL": relay.url,
            "FLEXSERVE_REGISTRY_URL": self.room.images.url,
            "SSL_CERT_FILE": str(relay.ca_file),
        }

    def settings(self) -> Sequence[str]:
        """What fills in the shipped stack file's placeholders."""
        return (f"target.project={PROJECT}", f'access.members=["{OPERATOR}"]')

    def parts(self) -> Mapping[str, Part]:
        """Which parts were real."""
        return {
            "engine": Part(True, "pulumi", program_version("pulumi")),
            "provider": Part(
                False, "stand-in for pulumi-resource-gcp, held to recordings of the real one", VERSION, why_stand_in("gcp")
            ),
            "cloud": Part(False, "local Google APIs, checked against Google's discovery documents", "", "no account"),
            "machine": self._machine(),
            "relay": Part(False, "local IAP relay", "", "no account"),
            "vllm": Part(False, "stand-in server, arguments checked against vLLM's own list", "0.32.0", "no accelerator here")
            if self.room.machines
            else Part(None, "no server was started"),
            "sdk": Part(True, "pulumi-gcp", version("pulumi-gcp")),
        }

    def _machine(self) -> Part:
        if not self.room.machines:
            return Part(None, "no machine was made")
        if self.room.kind == "booted":
            return Part(True, "systemd-nspawn with a real dockerd and Google's guest agent")
        return Part(False, "a sandbox with stand-in commands", why=self.room.why_sandbox)


def stage(folder: Path) -> GceFlexStage:
    """The stage, not yet started."""
    return GceFlexStage(folder)


def images(catalog: Catalog) -> Iterator[Image]:
    """The container images that a machine of this cloud may be told to run."""
    ours = {machine.accelerator for machine in catalog.machine_types.values() if machine.cloud == "gce"}
    yield from (image for image in catalog.images if ours.intersection(image.accelerators))
