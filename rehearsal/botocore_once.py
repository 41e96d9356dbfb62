"""What botocore works out anew for every session and client, and which is always the same: once in a process.

A stand-in provider configured by every command of the engine, and the tests with an account each, make clients by the
hundred, of few services. AWS's models are read from their files by every session; from them every client makes a class with a
method an operation (700 for EC2), and works out shapes and errors as it goes. What a session is told (credentials, settings,
what it adds to a class) is asked as before. A further session's client takes 8 ms instead of 50 to 400.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import botocore.client
import botocore.loaders
import botocore.session

_MODELS: dict[tuple[str, int], tuple[Any, Any]] = {}
"""By service and what was read (which is kept, so that its number is nobody else's): the model."""
_METHODS: dict[int, tuple[Any, dict[str, Any]]] = {}
"""By a model of those, which is kept: a client's methods. They hold nothing but the operation's name and documentation."""


@cache
def share() -> None:
    """From now on. A second call changes nothing."""
    creator: Any = botocore.client.ClientCreator
    methods = creator._create_methods

    def load_service_model(self: Any, service_name: str, api_version: str | None = None) -> Any:
        read = self._loader.load_service_model(service_name, "service-2", api_version=api_version)
        known = _MODELS.setdefault((service_name, id(read)), (read, botocore.client.ServiceModel(read, service_name=service_name)))
        return known[1]

    def create_methods(self: Any, service_model: Any) -> dict[str, Any]:
        if id(service_model) not in _METHODS:
            _METHODS[id(service_model)] = (service_model, methods(self, service_model))
        return dict(_METHODS[id(service_model)][1])

    creator._load_service_model, creator._create_methods = load_service_model, create_methods
    botocore.session.create_loader = botocore.loaders.create_loader = cache(botocore.loaders.create_loader)
