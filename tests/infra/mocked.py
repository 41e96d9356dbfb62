"""Runs a component under Pulumi's mocks and gives what it registered."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pulumi

ANSWERS: dict[str, Any] = {
    "creationTimestamp": "2026-11-29T18:34:04.000-00:00",
    "email": "fs-0123456789@acme-1.iam.gserviceaccount.com",
}
"""What Google would add to a resource."""


class Recorder(pulumi.runtime.Mocks):
    """Keeps every registered resource; ids are names."""

    def __init__(self, answers: Mapping[str, Any]) -> None:
        self._answers = answers
        self.resources: list[pulumi.runtime.MockResourceArgs] = []

    def new_resource(self, args: pulumi.runtime.MockResourceArgs) -> tuple[str, dict[str, Any]]:
        """The state is the inputs and what the cloud would add."""
        self.resources.append(args)
        return f"{args.name}-id", {**args.inputs, **self._answers}

    def call(self, args: pulumi.runtime.MockCallArgs) -> dict[str, Any]:
        """Nothing is asked."""
        raise AssertionError(f"unexpected call of {args.token}")


def registered(
    build: Callable[[], Any], answers: Mapping[str, Any] = ANSWERS, configuration: Mapping[str, str] | None = None
) -> tuple[list[pulumi.runtime.MockResourceArgs], dict[str, Any]]:
    """What `build()` registers (inputs in camelCase, ints as floats), and its outputs, resolved."""
    recorder, outputs = Recorder(answers), {}

    def run() -> Any:
        stack = build()
        return pulumi.Output.all(**stack.outputs()).apply(outputs.update)

    with a_loop():
        pulumi.runtime.set_all_config(dict(configuration or {}))
        pulumi.runtime.set_mocks(recorder, project="flexserve", stack="tpu-v6e")
        pulumi.runtime.test(run)()
    return recorder.resources, outputs


@contextmanager
def a_loop() -> Iterator[None]:
    """An event loop as the current one: the SDK asks for it, and another test's `asyncio.run` leaves none behind."""
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    try:
        yield
    finally:
        asyncio.set_event_loop(None)
        loop.close()
