"""A cloud's SDK, loaded a resource at a time: the same classes, fewer modules."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from infra.clouds.sdk import module_of

ROOT = Path(__file__).resolve().parents[2]
COMPONENTS = sorted((ROOT / "infra" / "targets").glob("*/component.py"))

RUN = """
import importlib, json, sys
import {sdk} as sdk
from infra.clouds.sdk import lighten
lighten(sdk, {package!r})
package = sdk.{package}
for name in {names!r}:
    if name.startswith("get_"):  # a module and its function have one name
        importlib.import_module(package.__name__ + "." + name)
light = {{name: getattr(package, name) for name in {names!r}}}
few = len([m for m in sys.modules if m.startswith(package.__name__ + ".")])
missing = []
for absent in ("Nothing", "__wrapped__"):
    try:
        getattr(package, absent)
    except AttributeError:
        missing.append(absent)
whole = {{name: getattr(package, name) for name in {names!r}}}
many = len([m for m in sys.modules if m.startswith(package.__name__ + ".")])
print(json.dumps([few, many, missing, light == whole, type(package).__name__]))
"""


def used(component):
    """SDK, then package and names of each resource that a component registers."""
    text = component.read_text(encoding="utf-8")
    ((sdk, short),) = re.findall(r"^import (pulumi_\w+) as (\w+)$", text, re.MULTILINE)
    found: dict[str, set[str]] = {}
    for package, name in re.findall(rf"\b{short}\.(\w+)\.([A-Z]\w+)", text):
        found.setdefault(package, set()).add(name)
    return sdk, {package: sorted(names) for package, names in found.items()}


def python(program):
    ran = subprocess.run([sys.executable, "-W", "ignore", "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout.splitlines()[-1])


WHERE = {
    "Instance": "instance",
    "RouterNat": "router_nat",
    "BucketObjectv2": "bucket_objectv2",
    "VpcEndpoint": "vpc_endpoint",
    "TunnelInstanceIAMMember": "tunnel_instance_iam_member",
    "get_ami": "get_ami",
    "Eip": "eip",
}


@pytest.mark.parametrize(("name", "module"), WHERE.items())
def test_a_resource_is_where_the_generator_puts_it(name, module):
    assert module_of(name) == module


@pytest.mark.parametrize("component", COMPONENTS, ids=lambda path: path.parent.name)
def test_each_package_that_a_component_uses_is_light(component):
    """And what it registers is found without running a whole package."""
    sdk, packages = used(component)
    names = ";".join(f"sdk.{package}.{name}" for package, found in packages.items() for name in found)
    kind = component.parent.name
    program = f"import json, {sdk} as sdk, infra.targets.{kind}.component as c; {names}; " + (
        "print(json.dumps([sorted(c.PACKAGES), {p: type(getattr(sdk, p)).__name__ for p in c.PACKAGES}]))"
    )
    made_light, types = python(program)
    assert made_light == sorted(packages)
    assert set(types.values()) == {"_Light"}


@pytest.mark.parametrize(("sdk", "package"), [("pulumi_aws", "ssm"), ("pulumi_gcp", "iap")])
def test_a_name_is_the_same_thing_before_and_after_the_whole_package_was_run_for_another(sdk, package):
    names = {"ssm": ["Association", "AssociationTargetArgs", "get_parameter"], "iap": ["TunnelInstanceIAMMember"]}[package]
    few, many, missing, same, kind = python(RUN.format(sdk=sdk, package=package, names=names))
    assert same and kind == "module" and missing == ["Nothing", "__wrapped__"] and few < many / 2
