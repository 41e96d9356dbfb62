"""The table of resources: one file a resource or family."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from rehearsal.providers.aws.api import Aws
from rehearsal.providers.aws.resources import (
    association,
    bucket,
    bucket_object,
    iam,
    instance,
    nat,
    network,
    routes,
    schedule,
    security_group,
)
from rehearsal.providers.resource import Resource

RESOURCES: Final[Mapping[str, Resource[Aws]]] = {
    resource.token: resource
    for module in (association, bucket, bucket_object, iam, instance, nat, network, routes, schedule, security_group)
    for resource in module.RESOURCES
}
