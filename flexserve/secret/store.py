"""A cloud's secret store, as the command line uses it. A value goes in and never comes out."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import Protocol, cast

from startup.spec import SecretRef
from verdict.errors import BadConfig

STORES = {"google-secret-manager": "flexserve.secret.google", "aws-secrets-manager": "flexserve.secret.aws"}
"""`SecretRef.store` -> the module that speaks to it; imported when it is used."""


@dataclass(frozen=True)
class Checked:
    """What is known of a secret without reading it. `readable` is None when that cannot be told; `why` says it in words."""

    exists: bool
    enabled: bool = False
    version: str = ""
    readable: bool | None = None
    why: str = ""

    @property
    def ok(self) -> bool:
        """Nothing speaks against a boot that needs it."""
        return self.exists and self.enabled and self.readable is not False


DELETES = {
    "google-secret-manager": "gcloud secrets delete {name} --project {place}",
    "aws-secrets-manager": "aws secretsmanager delete-secret --secret-id {name} --region {place}",
}
"""With what the operator deletes a secret: flexserve does not, since other stacks may read it."""


def stays(ref: SecretRef, per_month: float | None) -> str:
    """What is said of it when all else is deleted. `per_month`: dollars, None is unknown."""
    price = "at a price that is not known" if per_month is None else f"${per_month:,.2f} a month"
    delete = DELETES.get(ref.store, "").format(name=ref.name, place=ref.project)
    return f"secret {ref.name} in {ref.project}, where it is there: yours, and bills {price}" + f" until `{delete}`" * bool(delete)


class Store(Protocol):
    """One project's or region's store. Every method raises `NoAccess` when the cloud will not answer."""

    def put(self, name: str, value: str) -> str:
        """Add a version, making the secret when it is not there; the version's number."""

    def check(self, name: str, reader: str, *, granted: bool) -> Checked:
        """Look without reading. `reader` is the machine's account, empty when unknown; `granted`: flexserve grants it itself."""


def store(ref: SecretRef) -> Store:
    """The store that a boot would read from."""
    if ref.store not in STORES:
        raise BadConfig(f"flexserve cannot write to {ref.store}", way_out="put the secret there with the cloud's own tool")
    return cast("Store", importlib.import_module(STORES[ref.store]).connect(ref.project))
