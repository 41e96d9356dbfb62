"""Who imports whom, and what a pure module brings in."""

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PARTS = ("verdict", "catalog", "startup", "templates", "infra", "flexserve", "rehearsal", "tools")
# What each part may import of the others. `rehearsal` may import all; nobody but its own command imports it.
ARROWS = {
    "verdict": set(),
    "catalog": {"verdict"},
    "templates": {"verdict"},
    "startup": {"verdict", "catalog", "templates"},
    "infra": {"verdict", "catalog", "startup", "templates"},
    "flexserve": {"verdict", "catalog", "startup", "templates", "infra"},
    "rehearsal": {"verdict", "catalog", "startup", "templates", "infra", "flexserve"},
    "tools": set(PARTS),
}
HEAVY = ("pulumi", "pulumi_gcp", "pulumi_aws", "boto3", "botocore", "google", "googleapiclient", "grpc", "httpx", "requests")


def modules(part):
    return [p for p in sorted((ROOT / part).rglob("*.py")) if "__pycache__" not in p.parts]


def dotted(file):
    parts = file.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imported(file):
    """Top-level names of every import statement in a file, also inside functions."""
    names = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file} imports by a relative name"
            names.add((node.module or "").split(".")[0])
    return names


@pytest.mark.parametrize("part", PARTS)
def test_arrows_run_one_way(part):
    wrong = {
        f"{dotted(file)} -> {name}"
        for file in modules(part)
        for name in imported(file) & set(PARTS) - {part} - ARROWS[part]
        if not (name == "rehearsal" and file.match("flexserve/commands/rehearse*.py"))
    }
    assert wrong == set()


def test_the_set_up_needs_only_the_standard_library():
    used = set().union(*(imported(file) for file in modules("tools/setup")))
    used |= set().union(*(imported(file) for file in modules("verdict")))
    assert used - set(sys.stdlib_module_names) == {"tools", "verdict"}


def pure():
    """Modules that may bring in neither Pulumi nor a cloud SDK."""
    files = [f for part in ("verdict", "catalog", "startup") for f in modules(part)]
    files += [f for f in (ROOT / "infra").glob("*.py") if f.name != "__main__.py"]
    files += [f for f in (ROOT / "infra" / "rules").glob("*.py")]
    files += [f for name in ("config", "access") for f in (ROOT / "infra" / "targets").glob(f"*/{name}.py")]
    return [dotted(f) for f in files if f.name not in ("__main__.py", "onboard.py")]


def fresh(program, *args):
    environ = {**os.environ, "PYTHONPATH": str(ROOT)}
    run = subprocess.run([sys.executable, "-c", program, *args], cwd=ROOT, env=environ, capture_output=True, text=True, timeout=300)
    assert run.returncode == 0, run.stderr
    return run.stdout.split()


BROUGHT = """
import importlib, sys
for name in sys.argv[2:]:
    importlib.import_module(name)
    for heavy in sys.argv[1].split(","):
        if heavy in sys.modules:
            print(f"{name}:{heavy}")
            del sys.modules[heavy]
"""


def test_pure_modules_bring_in_no_sdk():
    names = pure()
    assert {"infra.plan", "infra.deployment", "catalog.loader", "startup.vllm"} <= set(names)
    assert fresh(BROUGHT, ",".join(HEAVY), *names) == []


def test_the_look_for_sdks_sees_one():
    """The control: a module that does import an SDK is found."""
    assert fresh(BROUGHT, "pulumi,grpc", "infra.plan", "pulumi") == ["pulumi:pulumi", "pulumi:grpc"]


TWICE = """
import runpy, sys
sys.argv = ["infra"]
try:
    runpy.run_path("infra", run_name="__main__")
except BaseException as error:
    print("ended", type(error).__name__, file=sys.stderr)
seen = {}
for name, module in list(sys.modules.items()):
    file = getattr(module, "__file__", None)
    if file and name != "__main__":
        seen.setdefault(file, set()).add(name)
import os
root = os.getcwd() + os.sep
for file, names in seen.items():
    if file.startswith(root) and "/.venv/" not in file and len(names) > 1:
        print(file, *names)
print("loaded", sum(f.startswith(root) for f in seen))
"""


@pytest.mark.skipif(not (ROOT / "infra" / "__main__.py").exists(), reason="no program yet")
def test_no_module_is_loaded_under_two_names_when_the_program_runs():
    """Run as Pulumi's host does, `infra/` first on the path; without an engine it ends early, but after its imports."""
    found = fresh(TWICE)
    assert found[-2] == "loaded" and int(found[-1]) > 5
    assert found[:-2] == []
