"""The stand-in for Pulumi's Google provider: the requests, states, changes and errors of the real one, as recorded."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from rehearsal.providers.google.config import Config
from rehearsal.providers.google.functions import FUNCTIONS
from rehearsal.providers.google.http import Google
from rehearsal.providers.google.resources import RESOURCES
from rehearsal.providers.server import serving
from rehearsal.providers.servicer import Servicer
from rehearsal.providers.waits import Sleep

VERSION: Final = "10.2.0"
"""The release of pulumi-gcp whose behaviour it stands in for."""


def make_servicer(sleep: Sleep) -> Servicer[Google]:
    """The provider, with every wait on `sleep`."""
    return Servicer(VERSION, "google-beta", RESOURCES, FUNCTIONS, lambda values: Google(Config.of(values), sleep))


@contextmanager
def google_provider(clock_sleep: Sleep) -> Iterator[int]:
    """Serve in this process. Yields the port for `PULUMI_DEBUG_PROVIDERS=gcp:PORT`.

    `clock_sleep(seconds)` lets cloud time pass; a turned clock makes the provider's waits cost nothing.
    """
    with serving(make_servicer(clock_sleep)) as port:
        yield port
