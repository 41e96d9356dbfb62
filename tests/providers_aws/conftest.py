"""An account, the provider for it, and the requests that pass between them."""

from collections.abc import Iterator

import pytest

from tests.providers.direct import Direct
from tests.providers_aws.account import Account, Requests, account, provider_for


@pytest.fixture
def owner() -> Iterator[Account]:
    with account() as made:
        yield made


@pytest.fixture
def requests(monkeypatch: pytest.MonkeyPatch) -> Requests:
    return Requests(monkeypatch)


@pytest.fixture
def aws(owner: Account, requests: Requests) -> Iterator[Direct]:
    """The stand-in, configured for that account."""
    with provider_for(owner) as direct:
        yield direct
