"""The table of resources: one file a resource or family."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from rehearsal.providers.google.http import Google
from rehearsal.providers.google.resources import (
    firewall,
    instance,
    members,
    network,
    project_service,
    repository,
    router,
    secret,
    service_account,
)
from rehearsal.providers.resource import Resource

RESOURCES: Final[Mapping[str, Resource[Google]]] = {
    resource.token: resource
    for module in (firewall, instance, members, network, project_service, repository, router, secret, service_account)
    for resource in module.RESOURCES
}
