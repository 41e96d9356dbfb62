"""The table of resources: one file a resource or family."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from rehearsal.providers.aws.api import Aws
from rehearsal.providers.aws.resources import (
    association,
    bucket,
    bucket_object,
    budget,
    codebuild_project,
    ecr_repository,
    iam,
    instance,
    log_group,
    nat,
    network,
    routes,
    sagemaker_config,
    sagemaker_endpoint,
    sagemaker_model,
    scaling,
    schedule,
    security_group,
)
from rehearsal.providers.resource import Resource

RESOURCES: Final[Mapping[str, Resource[Aws]]] = {
    resource.token: resource
    for module in (
        association,
        bucket,
        bucket_object,
        budget,
        codebuild_project,
        ecr_repository,
        iam,
        instance,
        log_group,
        nat,
        network,
        routes,
        sagemaker_config,
        sagemaker_endpoint,
        sagemaker_model,
        scaling,
        schedule,
        security_group,
    )
    for resource in module.RESOURCES
}
