"""`python -m rehearsal.machine.fakes CONFIG`: start every stand-in of one machine, print `ready`, serve for ever."""

from __future__ import annotations

import json
import ssl
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rehearsal.machine import making
from rehearsal.machine.fakes import aws, container, dns, ecr, google, hub, packages, registry
from rehearsal.machine.fakes.bridge import Bridge
from rehearsal.machine.fakes.holds import Holds
from rehearsal.machine.fakes.imds import Imds
from rehearsal.machine.fakes.metadata import MetadataServer
from rehearsal.machine.fakes.web import Reply, Request, serve

REGISTRY_BACKEND = "127.0.0.254:5001"


def names(address: str, hostname: str, flavour: str) -> dict[str, str]:
    """Every name the machine can resolve, and where it leads."""
    outside = (hub.HOST, hub.CDN, packages.HOST, *registry.NAMES)
    everywhere = {hostname: address, **dict.fromkeys(outside, dns.OUTSIDE)}
    if flavour in ("ec2", "container"):
        return {**everywhere, **dict.fromkeys((*aws.NAMES, *making.HOSTS), dns.OUTSIDE)}
    return {
        **everywhere,
        "metadata.google.internal": dns.METADATA,
        "metadata": dns.METADATA,
        "*.googleapis.com": dns.GOOGLE_APIS,
        "*.pkg.dev": dns.OUTSIDE,
    }


def main(config: Mapping[str, Any]) -> None:
    """Listen on all addresses of this machine's network, then say so on stdout."""
    bridge = Bridge(Path(config["bridge"]))
    folder = Path(config["folder"])
    holds = Holds(bridge, folder / "out" / "held.jsonl")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(config["certificate"], config["key"])
    flavour = config["flavour"]
    metadata = MetadataServer(bridge, holds).answer if flavour == "gce" else Imds(bridge, holds).answer
    if flavour == "container":
        metadata = container.only_stand_ins(metadata)
    servers = [serve(dns.METADATA, 80, metadata)]
    if flavour == "container":
        servers.append(serve(container.CREDENTIALS_HOST, 80, container.Credentials(bridge).answer))
    if flavour == "gce" and (config["egress"] or config["google"]):
        servers.append(serve(dns.GOOGLE_APIS, 443, google.GoogleApis(bridge).answer, context))
    if config["egress"]:
        if config["root"]:
            registry.start(Path(config["root"]), Path(config["registry"]), REGISTRY_BACKEND, folder)
        images = registry.Registry(bridge, holds, REGISTRY_BACKEND)
        models = hub.Hub(bridge, holds)
        services = aws.Aws(bridge, holds, "container-service" if flavour == "container" else "ec2-service")
        private = ecr.Ecr(bridge, holds, REGISTRY_BACKEND)

        def outside(request: Request) -> Reply:
            if flavour == "container" and ecr.HOST.fullmatch(request.host):
                return private.answer(request)
            if request.host.endswith(".amazonaws.com"):
                return services.answer(request)
            if request.host in making.HOSTS:
                return making.answer(request)
            return models.answer(request) if request.host in (hub.HOST, hub.CDN) else images.answer(request)

        servers.append(serve(dns.OUTSIDE, 443, outside, context))
        servers.append(serve(dns.OUTSIDE, 80, packages.Packages(bridge, holds, Path(config["repo"])).answer))
    queries = dns.listen()
    hosts = names(config["address"], config["hostname"], config["flavour"])
    for server in servers:
        threading.Thread(target=server.serve_forever, daemon=True).start()
    print("ready", flush=True)
    dns.serve(queries, hosts)


if __name__ == "__main__":
    main(json.loads(Path(sys.argv[1]).read_text()))
