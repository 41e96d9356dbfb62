"""The resource provider protocol over a table of resources: what every stand-in provider answers the engine.

Errors leave as the official bridge's do: a log line with the resource's URN, then the call's own error.
"""

from __future__ import annotations

import json
import logging
import random
from collections.abc import Callable, Mapping
from typing import Any, Generic

import grpc
from google.protobuf import empty_pb2
from pulumi.runtime.proto import engine_pb2, engine_pb2_grpc, plugin_pb2, provider_pb2, provider_pb2_grpc

from rehearsal.providers import diff as differ
from rehearsal.providers import plan as planner
from rehearsal.providers import schema
from rehearsal.providers.resource import Api, Call, Change, Function, ProviderError, Resource
from rehearsal.providers.values import Secret, Values, decode, encode, has_unknown

_TIMEOUT_KEY = "e2bfb730-ecaa-11e6-8f88-34363bc7c4c0"  # where Terraform keeps a resource's timeouts in its state
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
            self._api = self._configure(_config(request))
        except ProviderError as error:
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
        return provider_pb2.ConfigureResponse(supportsPreview=True)

    def Cancel(self, request: Any, context: grpc.ServicerContext) -> Any:
        return empty_pb2.Empty()  # as the official one: what has begun is finished

    # Resources

    def Check(self, request: Any, context: grpc.ServicerContext) -> Any:
        resource, news = self._resource(request.urn, context), decode(request.news)
        olds = decode(request.olds)
        failures = schema.unexpected(resource.fields, news)
        inputs = schema.with_defaults(resource.fields, news, lambda: _name(request, olds))
        return provider_pb2.CheckResponse(
            inputs=encode(_sealed(resource, inputs)),
            failures=[provider_pb2.CheckFailure(property=path, reason=f"{path} {why}") for path, why in failures],
        )

    def Diff(self, request: Any, context: grpc.ServicerContext) -> Any:
        resource, state, inputs = self._resource(request.urn, context), decode(request.olds), decode(request.news)
        for path in request.ignoreChanges:
            _ignore(resource.fields, path, state, inputs)
        changes = self._changes(resource, state, self._planned(resource, state, inputs), inputs)
        kinds = provider_pb2.PropertyDiff.Kind
        detailed = {
            path: provider_pb2.PropertyDiff(kind=kinds.Value(change.value.replace("-", "_").upper()))
            for path, change in changes.items()
        }
        replaces = sorted(_top(path) for path, change in changes.items() if change.replaces)
        some = provider_pb2.DiffResponse.DIFF_SOME if changes else provider_pb2.DiffResponse.DIFF_NONE
        return provider_pb2.DiffResponse(
            changes=some,
            replaces=replaces,
            stables=sorted(key for key, prop in resource.fields.items() if prop.replace and key not in replaces),
            deleteBeforeReplace=bool(replaces) and _keeps_its_name(resource.fields, state, inputs),
            diffs=sorted({_top(path) for path in changes}),
            detailedDiff=detailed,
            hasDetailedDiff=True,
        )

    def Create(self, request: Any, context: grpc.ServicerContext) -> Any:
        resource, inputs = self._resource(request.urn, context), decode(request.properties)
        planned = self._planned(resource, None, inputs)
        if request.preview or has_unknown(inputs):
            return provider_pb2.CreateResponse(properties=encode(_sealed(resource, planned)))
        planned = planner.known(planned)
        call = self._call(resource, "create", request.timeout)
        identifier, told = self._run(request.urn, context, lambda: resource.create(call, planned))
        state = schema.complete(resource.fields, told, planned)
        return provider_pb2.CreateResponse(
            id=identifier,
            properties=self._stored(resource, identifier, state, _meta(resource, "create", request.timeout)),
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
        properties = self._stored(resource, request.id, now, state.get(differ.META) or _meta(resource, "", 0.0))
        return provider_pb2.ReadResponse(id=request.id, properties=properties, inputs=encode(_sealed(resource, inputs)))

    def Update(self, request: Any, context: grpc.ServicerContext) -> Any:
        resource, state, inputs = self._resource(request.urn, context), decode(request.olds), decode(request.news)
        for path in request.ignoreChanges:
            _ignore(resource.fields, path, state, inputs)
        planned = self._planned(resource, state, inputs)
        if request.preview or has_unknown(inputs):
            return provider_pb2.UpdateResponse(properties=encode(_sealed(resource, planned)))
        planned = planner.known(planned)
        change = Change(state, planned, self._changes(resource, state, planned, inputs))
        call = self._call(resource, "update", request.timeout)
        try:
            told = resource.update(call, request.id, change) if resource.update else {}
        except ProviderError as error:
            self._log(request.urn, str(error))
            self._partly(context, request, state, f"updating {request.urn}: {_one_error(error)}")
        now = schema.complete(resource.fields, told, planned)
        return provider_pb2.UpdateResponse(
            properties=self._stored(resource, request.id, now, _meta(resource, "update", request.timeout))
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
        return resource.extra(state, planned, changes) if resource.extra else changes

    def _run(self, urn: str, context: grpc.ServicerContext, work: Callable[[], Any], prefix: str = "") -> Any:
        try:
            return work()
        except ProviderError as error:
            self._log(urn, str(error))
            context.abort(grpc.StatusCode.UNKNOWN, prefix.format(urn=urn) + _one_error(error))
            raise _Failed from error

    def _partly(self, context: grpc.ServicerContext, request: Any, state: Values, reason: str) -> None:
        """End an update that failed: the engine keeps the state before, marked as not brought up to date."""
        detail = provider_pb2.ErrorResourceInitFailed(
            id=request.id, properties=request.olds, reasons=[reason], inputs=request.old_inputs
        )
        from google.rpc import code_pb2, status_pb2

        status = status_pb2.Status(code=code_pb2.UNKNOWN, message="resource failed to initialize")
        status.details.add().Pack(detail)
        from grpc_status import rpc_status

        context.abort_with_status(rpc_status.to_status(status))

    def _stored(self, resource: Resource[Api], identifier: str, state: Values, meta: str) -> Any:
        return encode(_sealed(resource, {**state, "id": identifier, **({differ.META: meta} if meta else {})}))

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


def _config(request: Any) -> Values:
    """Provider configuration as plain values: typed arguments come as JSON text."""
    values = decode(request.args) or {key.rpartition(":")[2]: value for key, value in request.variables.items()}
    return {key: _parsed(value) for key, value in values.items()}


def _parsed(value: Any) -> Any:
    if isinstance(value, str) and value[:1] in '[{tf"':
        try:
            return json.loads(value)
        except json.JSONDecodeError:
            return value
    return value


def _name(request: Any, olds: Values) -> str:
    """The name before, or a new one: the resource's own and seven random hexadecimal digits, the same for one seed."""
    if olds.get("name"):
        return str(olds["name"])
    if request.autonaming.proposed_name:
        return str(request.autonaming.proposed_name)
    digits = random.Random(request.randomSeed).getrandbits(28)
    return f"{request.urn.rpartition('::')[2]}-{digits:07x}"


def _sealed(resource: Resource[Any], values: Values) -> Values:
    return {
        key: Secret(value) if key in resource.fields and resource.fields[key].secret else _sealed_inside(resource, key, value)
        for key, value in values.items()
    }


def _sealed_inside(resource: Resource[Any], key: str, value: Any) -> Any:
    prop = resource.fields.get(key)
    if prop is None or not isinstance(value, dict) or prop.kind is not schema.Kind.BLOCK:
        return value
    return {name: Secret(item) if name in prop.fields and prop.fields[name].secret else item for name, item in value.items()}


def _meta(resource: Resource[Any], verb: str, asked: float) -> str:
    """Terraform's private part of the state: timeouts in nanoseconds and the schema's version."""
    timeouts = {**resource.timeouts, **({verb: asked} if verb and asked else {})}
    meta: Values = {}
    if timeouts:
        meta[_TIMEOUT_KEY] = {key: int(seconds * 1e9) for key, seconds in sorted(timeouts.items())}
    if resource.schema_version:
        meta["schema_version"] = str(resource.schema_version)
    return json.dumps(meta, separators=(",", ":")) if meta else ""


def _keeps_its_name(fields: schema.Fields, state: Mapping[str, Any], inputs: Mapping[str, Any]) -> bool:
    """Whether old and new cannot stand side by side: the name is the program's own."""
    defaulted = inputs.get(schema.DEFAULTS, [])
    return any(prop.autoname and key in inputs and key not in defaulted for key, prop in fields.items())


def _ignore(fields: schema.Fields, path: str, state: Mapping[str, Any], inputs: Values) -> None:
    """Take the state's value of a top-level property, whatever the program says."""
    key = _top(path)
    if key in inputs and key in fields:
        inputs[key] = state.get(key)


def _top(path: str) -> str:
    return path.split(".")[0].split("[")[0]


def _one_error(error: ProviderError) -> str:
    return f"1 error occurred:\n\t* {error}\n\n"
