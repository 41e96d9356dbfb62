"""The tables against the classes of the installed pulumi_aws: the same properties, inputs and outputs, required ones."""

from __future__ import annotations

import importlib
import importlib.metadata
import inspect
import re
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from rehearsal.providers.aws import VERSION
from rehearsal.providers.aws.functions import FUNCTIONS
from rehearsal.providers.aws.resources import RESOURCES
from rehearsal.providers.schema import Fields, Kind

NOT_REQUIRED_BY_THE_SDK = {"BucketObjectv2": {"key"}}
"""What the table asks for although the SDK does not: an object's key, which Pulumi would make from the resource's name."""

# The SDK's own classes warn when they are looked at.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


def sdk(token: str) -> tuple[Any, str]:
    """The module that defines a resource, and the class's name."""
    package, path = re.match(r"aws:(\w+)/(\w+):", token).groups()  # type: ignore[union-attr]
    name = token.rpartition(":")[2]
    cls = getattr(importlib.import_module(f"pulumi_aws.{package}"), name)
    assert path == name[0].lower() + name[1:]
    return sys.modules[cls.__module__], name


def properties(cls: Any) -> dict[str, bool]:
    """A class's properties by their Pulumi names, and whether each must be given."""
    names = {
        key: getattr(value.fget, "_pulumi_name", None) or key
        for key, value in inspect.getmembers(cls, lambda member: isinstance(member, property))
    }
    parameters = inspect.signature(cls.__init__).parameters
    return {names[key]: parameter.default is inspect.Parameter.empty for key, parameter in parameters.items() if key in names}


def test_the_release_is_the_installed_one() -> None:
    assert importlib.metadata.version("pulumi-aws") == VERSION


@pytest.mark.parametrize("token", RESOURCES)
def test_properties(token: str) -> None:
    module, name = sdk(token)
    given, state = properties(getattr(module, f"{name}Args")), properties(getattr(module, f"_{name}State"))
    fields = RESOURCES[token].fields
    assert fields.keys() == state.keys()
    # What the table marks as an output but the SDK takes as an input is one that the stand-in refuses.
    assert {key for key, prop in fields.items() if not prop.output} <= given.keys()
    required = {key for key, must in given.items() if must} | NOT_REQUIRED_BY_THE_SDK.get(name, set())
    assert {key for key, prop in fields.items() if prop.required} == required


def blocks(fields: Fields, prefix: str) -> Iterator[tuple[str, Fields]]:
    for key, prop in fields.items():
        if prop.kind in (Kind.BLOCK, Kind.BLOCKS) and prop.fields and not prop.output:
            path = f"{prefix}{key[0].upper()}{key[1:]}"
            yield path, prop.fields
            yield from blocks(prop.fields, path.removesuffix("s") if prop.kind is Kind.BLOCKS else path)


@pytest.mark.parametrize("token", [token for token, resource in RESOURCES.items() if list(blocks(resource.fields, ""))])
def test_blocks(token: str) -> None:
    """The properties inside blocks, from the SDK's argument classes."""
    name = token.rpartition(":")[2]
    package = re.match(r"aws:(\w+)/", token)[1]  # type: ignore[index]
    inputs = importlib.import_module(f"pulumi_aws.{package}._inputs")
    for path, fields in blocks(RESOURCES[token].fields, name):
        cls = getattr(inputs, f"{path}Args", None) or getattr(inputs, f"{path.removesuffix('s')}Args", None)
        assert cls is not None, path
        there = properties(cls)
        assert fields.keys() == there.keys(), path
        assert {key for key, prop in fields.items() if prop.required} == {key for key, must in there.items() if must}, path


@pytest.mark.parametrize("token", FUNCTIONS)
def test_functions_are_the_sdks(token: str) -> None:
    package, name = token.split(":")[1].split("/")
    module = importlib.import_module("pulumi_aws" if package == "index" else f"pulumi_aws.{package}")
    function = getattr(module, re.sub(r"(?<!^)([A-Z])", r"_\1", name).lower())
    source = inspect.getsource(sys.modules[function.__module__])
    assert f"'{token}'" in source
