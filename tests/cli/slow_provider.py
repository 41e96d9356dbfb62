"""A provider of one resource whose create takes as long as the test says: `slow:index:Thing`."""

from __future__ import annotations

import threading
from collections.abc import Callable

import grpc
from pulumi.runtime.proto import plugin_pb2, provider_pb2, provider_pb2_grpc


class SlowProvider(provider_pb2_grpc.ResourceProviderServicer):
    """`entered` is set once a create has begun; it ends when `release` is set. `refusal` makes it fail with that text."""

    def __init__(self) -> None:
        self.entered, self.release = threading.Event(), threading.Event()
        self.refusal = ""

    def Handshake(self, request, context):
        return provider_pb2.ProviderHandshakeResponse()

    def GetPluginInfo(self, request, context):
        return plugin_pb2.PluginInfo(version="1.0.0")

    def Attach(self, request, context):
        from google.protobuf.empty_pb2 import Empty

        return Empty()

    def CheckConfig(self, request, context):
        return provider_pb2.CheckResponse(inputs=request.news)

    def DiffConfig(self, request, context):
        return provider_pb2.DiffResponse()

    def Configure(self, request, context):
        return provider_pb2.ConfigureResponse(acceptSecrets=True, supportsPreview=True)

    def Check(self, request, context):
        return provider_pb2.CheckResponse(inputs=request.news)

    def Diff(self, request, context):
        return provider_pb2.DiffResponse(changes=provider_pb2.DiffResponse.DIFF_NONE)

    def Create(self, request, context):
        if request.preview:
            return provider_pb2.CreateResponse(properties=request.properties)
        self.entered.set()
        self.release.wait(900)  # a busy machine is many times slower
        if self.refusal:
            context.abort(grpc.StatusCode.UNKNOWN, self.refusal)
        return provider_pb2.CreateResponse(id="thing-1", properties=request.properties)

    def Read(self, request, context):
        return provider_pb2.ReadResponse(id=request.id, properties=request.properties, inputs=request.inputs)

    def Delete(self, request, context):
        from google.protobuf.empty_pb2 import Empty

        return Empty()

    def Cancel(self, request, context):
        from google.protobuf.empty_pb2 import Empty

        return Empty()


def serve(provider: SlowProvider) -> tuple[int, Callable[[], None]]:
    """Serve on a free loopback port; the port and a function that stops it."""
    from concurrent.futures import ThreadPoolExecutor

    server = grpc.server(ThreadPoolExecutor(4))
    provider_pb2_grpc.add_ResourceProviderServicer_to_server(provider, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    return port, lambda: server.stop(grace=0.5).wait()
