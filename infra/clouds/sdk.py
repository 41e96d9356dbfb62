"""Pulumi's cloud SDKs, a resource at a time.

Each package of an SDK imports all of its modules: `pulumi_gcp.compute` and `pulumi_aws.ec2` have hundreds, a program uses ten, and
nobody who waits for `pulumi preview` gets anything for it. After `lighten` a package loads the module of a name at its first use.
"""

from __future__ import annotations

import importlib
import importlib.util
import re
import sys
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

_WORDS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_TYPES = ("_inputs", "outputs", "_enums")


def module_of(name: str) -> str:
    """Where the generated code has a resource: `RouterNat` is in `router_nat`."""
    return _WORDS.sub("_", name).lower()


class _Light(ModuleType):
    """A package that was found and not run. What is not where the generator puts it is had by running the package after all."""

    def __init__(self, spec: ModuleSpec) -> None:
        super().__init__(spec.name)
        self.__spec__, self.__loader__, self.__package__ = spec, spec.loader, spec.name
        self.__path__ = list(spec.submodule_search_locations or ())
        self.__file__ = spec.origin

    def __setattr__(self, name: str, value: object) -> None:
        """As the whole package has it: `get_ami` is the function of the module `get_ami`, which an import puts here."""
        super().__setattr__(name, getattr(value, name, value) if isinstance(value, ModuleType) else value)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        for part in dict.fromkeys((name, module_of(name), *_TYPES)):
            module = _imported(f"{self.__name__}.{part}")
            if module is not None and (part == name or hasattr(module, name)):
                setattr(self, name, getattr(module, name, module))
                return vars(self)[name]
        self.__class__ = ModuleType  # type: ignore[assignment]
        self.__spec__.loader.exec_module(self)  # type: ignore[union-attr]
        return getattr(self, name)


def lighten(sdk: ModuleType, *packages: str) -> None:
    """Make these packages of an SDK (`"compute"` of `pulumi_gcp`) light, unless something has loaded them."""
    for package in packages:
        name = f"{sdk.__name__}.{package}"
        there = sys.modules.get(name)
        if there is not None and type(there).__name__ != "_LazyModule":  # one that has run is no longer of Pulumi's lazy type
            continue
        sys.modules.pop(name, None)
        spec = importlib.util.find_spec(name)
        if spec is not None:
            sys.modules[name] = light = _Light(spec)
            setattr(sdk, package, light)


def _imported(name: str) -> ModuleType | None:
    """The module, or None where there is none of this name."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name == name:
            return None
        raise
