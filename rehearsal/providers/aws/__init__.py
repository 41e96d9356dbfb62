"""The stand-in for Pulumi's AWS provider: a table over botocore. No recordings of the real one; each assumption has a source."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from rehearsal.providers.aws.api import Aws
from rehearsal.providers.aws.config import Config
from rehearsal.providers.aws.functions import FUNCTIONS
from rehearsal.providers.aws.resources import RESOURCES
from rehearsal.providers.server import serving
from rehearsal.providers.servicer import Servicer
from rehearsal.providers.waits import Sleep

VERSION: Final = "7.51.1"
"""The release of pulumi-aws whose behaviour it stands in for."""


def make_servicer(sleep: Sleep) -> Servicer[Aws]:
    """The provider, with every wait on `sleep`."""
    return Servicer(VERSION, "aws", RESOURCES, FUNCTIONS, lambda values: Aws(Config.of(values), sleep))


@contextmanager
def aws_provider(clock_sleep: Sleep) -> Iterator[int]:
    """Serve in this process. Yields the port for `PULUMI_DEBUG_PROVIDERS=aws:PORT`.

    `clock_sleep(seconds)` lets cloud time pass; a turned clock makes the provider's waits cost nothing.
    """
    with serving(make_servicer(clock_sleep)) as port:
        yield port
