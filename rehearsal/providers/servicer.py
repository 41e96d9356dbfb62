"""The resource provider protocol over a table of resources: what every stand-in provider answers the engine.

Errors leave as the official bridge's do: a log line with the resource's URN, then the call's own error.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any, Generic

import grpc
from google.protobuf import empty_pb2
from google.rpc import code_pb2, status_pb2
from grpc_status import rpc_status
from pulumi.runtime.proto import engine_pb2, engine_pb2_grpc, plugin_pb2, provider_pb2, provider_pb2_grpc

from rehearsal.providers import diff as differ
from rehearsal.providers import plan as planner
from rehearsal.providers import schema
from rehearsal.providers.resource import Api, Call, Change, Function, Incomplete, ProviderError, Resource
from rehearsal.providers.values import Values, decode, encode, has_unknown
from rehearsal.providers.wire import configuration, ignore, keeps_its_name, name_for, private_state, sealed, stored, top

_LOG = logging.getLogger(__name__)


class _Failed(Exception):
    """A call that must end with an error status."""


class Servicer(provider_pb2_grpc.ResourceProviderServicer, Generic[Api]):
    """One provider. `configure` makes the cloud's API object from the provider's configuration.

    The last `Configure` holds for all calls: one server is for one configuration.
    """

    def __init__(
        self,
        version: str,
        log_name: str,
        resources: Mapping[str, Resource[Api]],
        functions: Mapping[str, Function[Api]],
        configure: Callable[[Mapping[str, Any]], Api],
    ) -> None:
        self._version = version
        self._log_name = log_name
        self._resources = resources
        self._functions = functions
        self._configure = configure
        self._api: Api | None = None
        self._engine: str | None = None

    # Life

    def Handshake(self, request: Any, context: grpc.ServicerContext) -> Any:
        self._engine = request.engine_address
        return provider_pb2.ProviderHandshakeResponse()

    def Attach(self, request: Any, context: grpc.ServicerContext) -> Any:
        self._engine = request.address
        return empty_pb2.Empty()

    def GetPluginInfo(self, request: Any, context: grpc.ServicerContext) -> Any:
        return plugin_pb2.PluginInfo(version=self._version)

    def CheckConfig(self, request: Any, context: grpc.ServicerContext) -> Any:
        return provider_pb2.CheckResponse(inputs=request.news)

    def DiffConfig(self, request: Any, context: grpc.ServicerContext) -> Any:
        return provider_pb2.DiffResponse(changes=provider_pb2.DiffResponse.DIFF_UNKNOWN)

    def Configure(self, request: Any, context: grpc.ServicerContext) -> Any:
        try:
            self._api = self._configure(configuration(request))
        except ProviderError as error:
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
        return provider_pb2.ConfigureResponse(supportsPreview=True)

    def Cancel(self, request: Any, context: grpc.ServicerContext) -> Any:
        return empty_pb2.Empty()  # as the official one: what has begun is finished

    # Resources

    def Check(self, request: Any, context: grpc.ServicerContext) -> Any:
        resource, news = self._resource(request.urn, context), decode(request.news)
        olds = decode(request.olds)
        if resource.check is not None:
            news = resource.check(self._ready(), news)
        failures = schema.unexpected(resource.fields, news)
        inputs = schema.with_defaults(resource.fields, news, lambda key: name_for(request, olds, key))
        return provider_pb2.CheckResponse(
            inputs=encode(sealed(resource, inputs)),
            failures=[provider_pb2.CheckFailure(property=path, reason=f"{path} {why}") for path, why in failures],
        )

    def Diff(self, request: Any, context: grpc.ServicerContext) -> Any:
        resource, state, inputs = self._resource(request.urn, context), decode(request.olds), decode(request.news)
        for path in request.ignoreChanges:
            ignore(path, state, inputs)
        changes = self._changes(resource, state, self._planned(resource, state, inputs), inputs)
        kinds = provider_pb2.PropertyDiff.Kind
        detailed = {
            path: provider_pb2.PropertyDiff(kind=kinds.Value(change.value.replace("-", "_").upper()))
            for path, change in changes.items()
        }
        replaces = sorted(top(path) for path, change in changes.items() if change.replaces)
        some = provider_pb2.DiffResponse.DIFF_SOME if changes else provider_pb2.DiffResponse.DIFF_NONE
        return provider_pb2.DiffResponse(
            changes=some,
            replaces=replaces,
            stables=sorted(key for key, prop in resource.fields.items() if prop.replace and key not in replaces),
            deleteBeforeReplace=bool(replaces) and keeps_its_name(resource.fields, inputs),
            diffs=sorted({top(path) for path in changes}),
            detailedDiff=detailed,
            hasDetailedDiff=True,
        )

    def Create(self, request: Any, context: grpc.ServicerContext) -> Any:
        resource, inputs = self._resource(request.urn, context), decode(request.properties)
        planned = self._planned(resource, None, inputs)
        if request.preview or has_unknown(inputs):
            return provider_pb2.CreateResponse(properties=encode(sealed(resource, planned)))
        planned = planner.known(planned)
        call = self._call(resource, "create", request.timeout)
        try:
            identifier, told = self._run(request.urn, context, lambda: resource.create(call, planned))
        except Incomplete as error:
            self._log(request.urn, str(error))
            there = schema.complete(resource.fields, error.told, planned)
            kept = stored(resource, error.identifier, there, private_state(resource, "create", request.timeout))
            self._partly(context, error.identifier, kept, request.properties, _one_error(error))
        state = schema.complete(resource.fields, told, planned)
        return provider_pb2.CreateResponse(
            id=identifier,
            properties=stored(resource, identifier, state, private_state(resource, "create", request.timeout)),
        )

    def Read(self, request: Any, context: grpc.ServicerContext) -> Any:
        resource = self._resource(request.urn, context)
        state, inputs = decode(request.properties), decode(request.inputs)
        found_only = not request.properties.fields
        call = self._call(resource, "read", 0.0)

        def read() -> Values | None:
            before = state
            if found_only and resource.import_state is not None:
                before = resource.import_state(call, request.id)
            return resource.read(call, request.id, before)

        told = self._run(request.urn, context, read, "refreshing {urn}: ")
        if told is None:
            return provider_pb2.ReadResponse()
        now = schema.complete(resource.fields, told, state)
        if found_only:
            inputs = planner.imported_inputs(resource.fields, now)
        else:
            inputs = planner.refreshed_inputs(resource.fields, inputs, now)
        properties = stored(resource, request.id, now, state.get(differ.META) or private_state(resource, "", 0.0))
        return provider_pb2.ReadResponse(id=request.id, properties=properties, inputs=encode(sealed(resource, inputs)))

    def Update(self, request: Any, context: grpc.ServicerContext) -> Any:
        resource, state, inputs = self._resource(request.urn, context), decode(request.olds), decode(request.news)
        for path in request.ignoreChanges:
            ignore(path, state, inputs)
        planned = self._planned(resource, state, inputs)
        if request.preview or has_unknown(inputs):
            return provider_pb2.UpdateResponse(properties=encode(sealed(resource, planned)))
        planned = planner.known(planned)
        change = Change(state, planned, self._changes(resource, state, planned, inputs))
        call = self._call(resource, "update", request.timeout)
        try:
            beyond = change.beyond(resource.updates)
            if beyond or resource.update is None:
                raise ProviderError(f"the stand-in provider does not change in place: {', '.join(beyond)}")
            told = resource.update(call, request.id, change)
        except ProviderError as error:
            self._log(request.urn, str(error))
            reason = f"updating {request.urn}: {_one_error(error)}"
            self._partly(context, request.id, request.olds, request.old_inputs, reason)
        now = schema.complete(resource.fields, told, planned)
        return provider_pb2.UpdateResponse(
            properties=stored(resource, request.id, now, private_state(resource, "update", request.timeout))
        )

    def Delete(self, request: Any, context: grpc.ServicerContext) -> Any:
        resource, state = self._resource(request.urn, context), decode(request.properties)
        call = self._call(resource, "delete", request.timeout)
        self._run(request.urn, context, lambda: resource.delete(call, request.id, state), "deleting {urn}: ")
        return empty_pb2.Empty()

    def Invoke(self, request: Any, context: grpc.ServicerContext) -> Any:
        function = self._functions.get(request.tok)
        if function is None:
            context.abort(grpc.StatusCode.UNIMPLEMENTED, f"the stand-in has no function {request.tok}")
            raise _Failed  # abort raises; this tells the type checker
        try:
            return provider_pb2.InvokeResponse(**{"return": encode(function.call(self._ready(), decode(request.args)))})
        except ProviderError as error:
            context.abort(grpc.StatusCode.UNKNOWN, f"invoking {request.tok}: {_one_error(error)}")
            raise _Failed from error

    # Between the protocol and the table

    def _resource(self, urn: str, context: grpc.ServicerContext) -> Resource[Api]:
        token = urn.split("::")[2].split("$")[-1]
        resource = self._resources.get(token)
        if resource is None:
            context.abort(grpc.StatusCode.UNIMPLEMENTED, f"the stand-in has no resource {token}")
            raise _Failed
        return resource

    def _ready(self) -> Api:
        if self._api is None:
            raise ProviderError("the provider has not been configured")
        return self._api

    def _call(self, resource: Resource[Api], verb: str, asked: float) -> Call[Api]:
        return Call(self._ready(), asked or resource.timeouts.get(verb, 1200.0))

    def _planned(self, resource: Resource[Api], state: Values | None, inputs: Values) -> Values:
        planned = planner.plan(resource.fields, state, inputs)
        return resource.customize(self._ready(), state, planned) if resource.customize else planned

    def _changes(self, resource: Resource[Api], state: Values, planned: Values, inputs: Values) -> differ.Changes:
        changes = differ.diff(resource.fields, state, planned, inputs)
        return resource.extra(self._ready(), state, planned, changes) if resource.extra else changes

    def _run(self, urn: str, context: grpc.ServicerContext, work: Callable[[], Any], prefix: str = "") -> Any:
        try:
            return work()
        except Incomplete:
            raise
        except ProviderError as error:
            self._log(urn, str(error))
            context.abort(grpc.StatusCode.UNKNOWN, prefix.format(urn=urn) + _one_error(error))
            raise _Failed from error

    def _partly(self, context: grpc.ServicerContext, identifier: str, properties: Any, inputs: Any, reason: str) -> None:
        """End a create or update that failed halfway: the engine keeps this state, marked as not brought up to date."""
        detail = provider_pb2.ErrorResourceInitFailed(id=identifier, properties=properties, reasons=[reason], inputs=inputs)
        status = status_pb2.Status(code=code_pb2.UNKNOWN, message="resource failed to initialize")
        status.details.add().Pack(detail)
        context.abort_with_status(rpc_status.to_status(status))

    def _log(self, urn: str, message: str) -> None:
        """Tell the engine, with the URN; an engine that is gone is no reason to fail."""
        line = f"  sdk-v2/provider2.go:572: sdk.helper_schema: {message}: provider={self._log_name}@{self._version}"
        if not self._engine:
            return
        try:
            with grpc.insecure_channel(self._engine) as channel:
                request = engine_pb2.LogRequest(severity=engine_pb2.ERROR, message=line, urn=urn)
                engine_pb2_grpc.EngineStub(channel).Log(request, timeout=5)
        except grpc.RpcError as error:
            _LOG.debug("engine did not take a log line: %s", error)


def _one_error(error: ProviderError) -> str:
    return f"1 error occurred:\n\t* {error}\n\n"
