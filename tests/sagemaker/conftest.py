"""The room of the booted machines, as the tests of the machine have it."""

from tests.machine.conftest import room

__all__ = ("room",)
