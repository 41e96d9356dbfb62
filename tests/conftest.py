"""What all tests share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from infra.deployment import Deployment, from_stack_text

ROOT = Path(__file__).resolve().parent.parent
COMMIT = "0123456789abcdef" * 2 + "01234567"
# A host with other work is no slow function, and no slow strategy.
settings.register_profile("busy", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("busy")
FILLED_IN = ("target.project=acme-1", 'access.members=["user:ops@acme.test"]')


@pytest.fixture(scope="session")
def root() -> Path:
    """The project's root."""
    return ROOT


@pytest.fixture
def tpu_v6e() -> Callable[..., Deployment]:
    """The shipped stack with its placeholders filled in, and whatever else is set."""
    text = (ROOT / "stacks" / "Pulumi.tpu-v6e.yaml").read_text(encoding="utf-8")

    def make(*sets: str) -> Deployment:
        return from_stack_text("tpu-v6e", text, (*FILLED_IN, *sets))

    return make


@pytest.fixture
def g5g_spot() -> Callable[..., Deployment]:
    """The other shipped stack, likewise."""
    text = (ROOT / "stacks" / "Pulumi.g5g-spot.yaml").read_text(encoding="utf-8")

    def make(*sets: str) -> Deployment:
        return from_stack_text("g5g-spot", text, (f"target.build.commit={COMMIT}", "target.bucket=own", *sets))

    return make


def _stack(name: str) -> Callable[..., Deployment]:
    text = (ROOT / "stacks" / f"Pulumi.{name}.yaml").read_text(encoding="utf-8")

    def make(*sets: str) -> Deployment:
        return from_stack_text(name, text, sets)

    return make


@pytest.fixture
def sagemaker_t4() -> Callable[..., Deployment]:
    """The endpoint on a T4 as it is shipped; nothing has to be filled in."""
    return _stack("sagemaker-t4")


@pytest.fixture
def sagemaker_l4() -> Callable[..., Deployment]:
    """The endpoint on an L4, likewise."""
    return _stack("sagemaker-l4")
