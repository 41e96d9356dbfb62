"""A local cloud and a provider for the tests without an engine."""

from collections.abc import Iterator
from typing import Any

import pytest

from rehearsal.cloud.google import LocalGoogleCloud
from tests.providers.direct import Direct, provider_for
from tests.providers.recordings import instance

INSTANCE = "gcp:compute/instance:Instance"


@pytest.fixture
def cloud() -> Iterator[LocalGoogleCloud]:
    """A running cloud with the service account; whatever it answers must be what Google could answer."""
    with LocalGoogleCloud() as running:
        running.put_account("flexserve-vm")
        yield running
        assert running.own_errors() == ()


@pytest.fixture
def google(cloud: LocalGoogleCloud) -> Iterator[Direct]:
    """The stand-in, configured for that cloud."""
    with provider_for(cloud) as direct:
        yield direct


@pytest.fixture
def vm_args() -> dict[str, Any]:
    """What the recorded program gives the instance."""
    args: dict[str, Any] = bare(instance()["inputs"])
    return args


def bare(inputs: Any) -> Any:
    """Inputs as the program gives them: without what Check filled in."""
    if isinstance(inputs, list):
        return [bare(item) for item in inputs]
    if not isinstance(inputs, dict):
        return inputs
    filled = inputs.get("__defaults", [])
    return {key: bare(value) for key, value in inputs.items() if key != "__defaults" and key not in filled}
