"""The provider protocol without an engine: what the engine would send for one resource, and what comes back."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import grpc
from pulumi.runtime.proto import provider_pb2, provider_pb2_grpc

from rehearsal.cloud.google import LocalGoogleCloud
from rehearsal.providers.google import google_provider
from rehearsal.providers.values import Values, decode, encode


@dataclass
class Made:
    """A resource that is there: what the engine would keep of it."""

    type: str
    id: str
    inputs: Values
    outputs: Values


@dataclass(frozen=True)
class Answer:
    """An answer to Diff: op as previews name it, replaced properties, changes by path."""

    op: str
    replaces: tuple[str, ...]
    changes: Mapping[str, str]
    delete_first: bool


class Direct:
    """One configured provider."""

    def __init__(self, stub: provider_pb2_grpc.ResourceProviderStub) -> None:
        self.stub = stub

    def check(self, kind: str, given: Mapping[str, Any], name: str = "vm", olds: Mapping[str, Any] | None = None) -> Values:
        """Inputs with their defaults. Raises ValueError for inputs that are refused."""
        request = provider_pb2.CheckRequest(
            urn=urn(kind, name), news=encode(given), olds=encode(olds or {}), randomSeed=name.encode()
        )
        answer = self.stub.Check(request)
        if answer.failures:
            raise ValueError("; ".join(f"{failure.property}: {failure.reason}" for failure in answer.failures))
        return decode(answer.inputs)

    def create(self, kind: str, given: Mapping[str, Any], name: str = "vm", timeout: float = 0.0) -> Made:
        """Check and create."""
        inputs = self.check(kind, given, name)
        request = provider_pb2.CreateRequest(urn=urn(kind, name), properties=encode(inputs), timeout=timeout)
        answer = self.stub.Create(request)
        return Made(kind, answer.id, inputs, decode(answer.properties))

    def preview(self, kind: str, inputs: Mapping[str, Any]) -> Values:
        """The outputs that a preview of a create shows."""
        request = provider_pb2.CreateRequest(urn=urn(kind, "vm"), properties=encode(inputs), preview=True)
        return decode(self.stub.Create(request).properties)

    def read(self, made: Made) -> Made | None:
        """A refresh; None when it is gone."""
        request = provider_pb2.ReadRequest(
            id=made.id, urn=urn(made.type, "vm"), properties=encode(made.outputs), inputs=encode(made.inputs)
        )
        answer = self.stub.Read(request)
        return Made(made.type, answer.id, decode(answer.inputs), decode(answer.properties)) if answer.id else None

    def find(self, kind: str, identifier: str) -> Made | None:
        """An import: the id alone."""
        answer = self.stub.Read(provider_pb2.ReadRequest(id=identifier, urn=urn(kind, "vm")))
        return Made(kind, answer.id, decode(answer.inputs), decode(answer.properties)) if answer.id else None

    def diff(self, made: Made, inputs: Mapping[str, Any]) -> Answer:
        """What the new inputs (checked) would change."""
        request = provider_pb2.DiffRequest(id=made.id, urn=urn(made.type, "vm"), olds=encode(made.outputs), news=encode(inputs))
        answer = self.stub.Diff(request)
        kinds = provider_pb2.PropertyDiff.Kind
        changes = {path: kinds.Name(change.kind).lower().replace("_", "-") for path, change in answer.detailedDiff.items()}
        some = answer.changes == provider_pb2.DiffResponse.DIFF_SOME
        op = "replace" if answer.replaces else "update" if some else "same"
        return Answer(op, tuple(answer.replaces), changes, answer.deleteBeforeReplace)

    def update(self, made: Made, inputs: Mapping[str, Any]) -> Made:
        """Bring it to the new inputs (checked)."""
        request = provider_pb2.UpdateRequest(
            id=made.id,
            urn=urn(made.type, "vm"),
            olds=encode(made.outputs),
            news=encode(inputs),
            old_inputs=encode(made.inputs),
        )
        return Made(made.type, made.id, dict(inputs), decode(self.stub.Update(request).properties))

    def delete(self, made: Made, timeout: float = 0.0) -> None:
        """Delete it."""
        request = provider_pb2.DeleteRequest(id=made.id, urn=urn(made.type, "vm"), properties=encode(made.outputs), timeout=timeout)
        self.stub.Delete(request)

    def invoke(self, token: str, args: Mapping[str, Any]) -> Values:
        """Call a data source."""
        return decode(getattr(self.stub.Invoke(provider_pb2.InvokeRequest(tok=token, args=encode(args))), "return"))


def urn(kind: str, name: str) -> str:
    """A URN as the engine makes it."""
    return f"urn:pulumi:flt::fleet::{kind}::{name}"


@contextmanager
def provider_for(cloud: LocalGoogleCloud, **config: str) -> Iterator[Direct]:
    """A provider in this process, configured for the local cloud; its waits turn the cloud's clock."""
    settings = {key.removeprefix("gcp:"): value for key, value in cloud.stack_config().items()} | {"project": "demo"}
    with google_provider(cloud.clock.sleep) as port, grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        stub = provider_pb2_grpc.ResourceProviderStub(channel)
        stub.Configure(provider_pb2.ConfigureRequest(args=encode({**settings, **config}), acceptSecrets=True))
        yield Direct(stub)


def failure(error: grpc.RpcError) -> str:
    """The words of a call that failed."""
    return str(error.details())
