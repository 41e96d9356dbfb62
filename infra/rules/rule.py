"""What a rule is, and how the rules of a plan are applied."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from msgspec import Struct

from catalog.loader import Catalog
from catalog.rows import Accelerator, Image, MachineType, Model
from infra.deployment import Deployment
from infra.fit import disk_needed_gb
from infra.image_facts import ImageFacts
from infra.wording import nearest
from verdict.errors import BadConfig, Refused

CONFIG, CATALOG, TAG = "its own config", "the catalog", "its tag"
"""Who tells something about a container image."""
_CUDA = re.compile(r"(?:^|[-_])cu(\d{2})(\d)(?:[-_]|$)")


class Situation(Struct, frozen=True):
    """A deployment and the catalog rows that it names; None where the catalog has no such row."""

    deployment: Deployment
    catalog: Catalog
    machine: MachineType | None
    accelerator: Accelerator | None
    model: Model | None
    image: Image | None
    read: ImageFacts | None = None  # what the image itself says; None: nobody has read it

    @property
    def disk_gb(self) -> int:
        """The disk: the one that comes with the machine, or the one that is asked for."""
        return (self.machine.local_disk_gb if self.machine else 0) or self.deployment.target.disk_gb

    @property
    def host_image(self) -> str:
        """The host image, as far as it can be told without asking a cloud."""
        return self.deployment.target.host(self.cuda, self.catalog.host_images)

    @property
    def cuda(self) -> str:
        """The container image's CUDA version; empty where nobody tells."""
        return self.told_cuda[0]

    @property
    def told_cuda(self) -> tuple[str, str]:
        """The container image's CUDA version and who says so: the image itself, the catalog, or its tag (`cu130` is 13.0)."""
        if self.read is not None and self.read.cuda:
            return self.read.cuda, CONFIG
        if self.image is not None and self.image.cuda:
            return self.image.cuda, CATALOG
        found = _CUDA.search((self.deployment.image.tag or "") if self.deployment.image else "")
        return (f"{found[1]}.{found[2]}", TAG) if found else ("", "")

    @property
    def told_cards(self) -> tuple[tuple[str, ...], str]:
        """The CUDA capabilities that the container image holds code for and who says so; none where nobody tells."""
        if self.read is not None and self.read.cards:
            return self.read.cards, CONFIG
        return (self.image.kernels, CATALOG) if self.image is not None and self.image.kernels else ((), "")

    @property
    def unread(self) -> bool:
        """Whether the image will still say something: its config is read at `up`, and was not yet."""
        return self.read is None and self.deployment.image is not None and self.deployment.target.reads_image

    @property
    def disk_needed_gb(self) -> int | None:
        """The smallest boot disk that will do; None while a size is unknown."""
        if self.model is None or self.machine is None:
            return None
        target = self.deployment.target
        unpacked = self.image.unpacked_gib if self.image else None
        return disk_needed_gb(self.model, unpacked if self.deployment.image else 0.0, target.beside_gb(self.machine.memory_gib))


class Broken(Struct, frozen=True):
    """Why the rule is broken here, and the way out."""

    why: str
    way_out: str


class Rule(Struct, frozen=True):
    """`about` is the sentence of the docs' table. `final`: nothing can be planned past it, so `--allow` does not help."""

    id: str
    about: str
    check: Callable[[Situation], Broken | None]
    final: bool = False


def apply(
    rules: Iterable[Rule], situation: Situation, allow: Iterable[str], every: Callable[[], Iterable[Rule]] = tuple
) -> tuple[str, ...]:
    """Raise `Refused` for the first broken rule that is not allowed; the ids of those that were broken and allowed.

    Raises `BadConfig` for an allowed rule that there is not, also among `every` one (another target's may be allowed here as well):
    the word that was given would hold for nothing.
    """
    allowed, rules = frozenset(allow), tuple(rules)
    known = {rule.id for rule in rules}
    if not allowed <= known:
        known |= {rule.id for rule in every()}
    for name in sorted(allowed - known):
        raise BadConfig(f"no rule {name!r} to allow", way_out=nearest(name, known))
    passed = []
    for rule in rules:
        broken = rule.check(situation)
        if broken is None:
            continue
        if rule.final or rule.id not in allowed:
            hint = "" if rule.final else f"; or on your own word: --allow {rule.id} (in the stack file: flexserve:allow)"
            raise Refused(rule.id, why=broken.why, way_out=broken.way_out + hint)
        passed.append(rule.id)
    return tuple(passed)
