"""What all tests share."""

from __future__ import annotations

import gc
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from infra.deployment import Deployment, from_stack_text
from tests.parts import PARTS, belongs, has_some

ROOT = Path(__file__).resolve().parent.parent
COMMIT = "0123456789abcdef" * 2 + "01234567"
# A host with other work is no slow function, and no slow strategy.
settings.register_profile("busy", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("busy")
gc.set_threshold(50_000, 20, 20)  # imports and collection make many objects and no garbage
FILLED_IN = ("target.project=acme-1", 'access.members=["user:ops@acme.test"]')

# What takes minutes starts first, the longest before all, so that no process is left with one of these alone at the end. The rest
# follows as it is found. By what they took of a processor; a file that is missing here is merely later than it might be.
LONG = (
    *("rehearsal/test_life_g5g", "rehearsal/test_life_sagemaker", "rehearsal/test_life", "providers/test_conformance"),
    *("rehearsal/test_as_it_is_sagemaker", "rehearsal/test_again_sagemaker", "infra/test_program_ec2_spot"),
    *("rehearsal/test_pages_run", "cli/test_life", "cli/test_interrupted", "toy/test_toy_rehearsed", "rehearsal/test_life_builder"),
    *("startup/test_boot_makes", "cli/test_engine", "startup/test_boot_runs", "startup/test_boot_spot"),
    *("providers_aws/test_engine", "sagemaker/test_containers", "startup/test_boot_failures", "rehearsal/test_killed"),
    *("machine/test_ec2", "machine/test_served", "startup/test_boot_builder", "startup/test_boot_waits"),
    *("infra/test_live_sagemaker", "infra/test_live_ec2_spot", "cloud_aws/test_endpoints", "infra/test_component_sagemaker"),
)


def pytest_configure() -> None:
    """Begun in the background of a script, Ctrl-C is ignored, and so it would be by every command that a test stops with it."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--part`: the tests of one part of the product only (tests/parts.py)."""
    parser.addoption("--part", choices=sorted(PARTS), help="the tests of one part of the product only")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Files of no or another part are not even imported, nor what a folder without any shares. None: no opinion."""
    part, tests = config.getoption("--part"), ROOT / "tests"
    if part is None or not collection_path.is_relative_to(tests):
        return None
    place = collection_path.relative_to(tests).as_posix()
    if collection_path.is_dir():
        return None if place == "." or has_some(place, part) else True
    return None if belongs(place, part) or not collection_path.name.startswith("test_") else True


def pytest_collection_finish() -> None:
    """What was imported and collected stays: looking through it again and again took a sixth of the tests' own time. What little
    of it is garbage stays too: to look for that takes up to a second.
    """
    gc.freeze()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the long files first. Stable: within a file, and among the others, nothing moves."""
    order = {str(ROOT / "tests" / f"{name}.py"): number for number, name in enumerate(LONG)}
    items.sort(key=lambda item: order.get(str(item.path), len(LONG)))


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
