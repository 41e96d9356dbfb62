"""Spec -> bytes: right form, same bytes everywhere, nothing secret, nothing unquoted."""

import ast
import hashlib
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from msgspec.structs import replace

from startup.quote import quoted_only
from startup.render import END, ONBOARD, SCRIPT_BYTES, STUB_BYTES, _environment, render
from startup.templating import with_imports
from tests.startup.specs import ALL, AWKWARD, MAKES, PLAIN, SPOT, UNRESOLVED
from verdict.errors import BadConfig, Refused

ROOT = Path(__file__).parents[2]
SPECS = pytest.mark.parametrize("spec", ALL.values(), ids=ALL)


@SPECS
def test_form(spec, tmp_path):
    rendered = render(spec)
    assert rendered.sha256 == hashlib.sha256(rendered.script).hexdigest()
    for name, data, limit in (("stub", rendered.stub, STUB_BYTES), ("script", rendered.script, SCRIPT_BYTES)):
        assert data.startswith(b"#!/bin/bash\n") and b"\r" not in data and data.endswith(b"\n") and len(data) <= limit
        data.decode("utf-8")
        file = tmp_path / name
        file.write_bytes(data)
        subprocess.run(["bash", "-n", file], check=True)
        subprocess.run(["shellcheck", file], check=True)
    assert rendered.script.decode().splitlines()[-1] == END


def test_stub_is_the_same_for_every_deployment():
    assert len({render(spec).stub for spec in ALL.values() if spec.template == "gce_flex"}) == 1


def test_a_spot_machines_stub_changes_with_nothing_that_may_change_while_it_lives():
    changed = replace(
        SPOT, vllm_options=("--max-model-len", "9"), environment={"VLLM_X": "1"}, model_revision="0" * 40, secret=None
    )
    assert render(changed).stub == render(SPOT).stub and render(changed).script != render(SPOT).script


def test_same_bytes_from_other_processes(tmp_path):
    code = """
import sys
from startup.render import render
from tests.startup.specs import AWKWARD
rendered = render(AWKWARD)
sys.stdout.buffer.write(rendered.stub + rendered.script)
"""

    def bytes_of(**environment):
        env = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), "HOME": str(tmp_path), **environment}
        return subprocess.run(
            [sys.executable, "-c", code], cwd=environment.get("CWD", ROOT), env=env, check=True, capture_output=True
        ).stdout

    rendered = render(AWKWARD)
    one = bytes_of(PYTHONHASHSEED="1", TZ="UTC", LC_ALL="C")
    two = bytes_of(PYTHONHASHSEED="2", TZ="Asia/Tokyo", LC_ALL="C.UTF-8", CWD=tmp_path)
    assert one == two == rendered.stub + rendered.script


def test_order_of_environment_does_not_matter():
    turned = replace(AWKWARD, environment=dict(reversed(AWKWARD.environment.items())))
    assert render(turned) == render(AWKWARD)


def test_image_is_pulled_by_digest():
    assert f"IMAGE=vllm/vllm-tpu@{PLAIN.image_digest}\n" in render(PLAIN).script.decode()
    assert b":v0.27.0" not in render(PLAIN).script


def test_unresolved_script_runs_nothing(tmp_path):
    script = tmp_path / "script"
    script.write_bytes(render(UNRESOLVED).script)
    done = subprocess.run(["env", "-i", "bash", script], capture_output=True, text=True)
    assert done.returncode == 2 and "before image and model were pinned" in done.stdout
    assert not (tmp_path / "lib").exists()


@pytest.mark.parametrize("secret", ["hf_" + "a1B2" * 8, "AKIA" + "Z" * 16, "-----BEGIN " + "PRIVATE KEY-----"])
@pytest.mark.parametrize("place", ["option", "environment", "name"])
def test_what_looks_like_a_secret_is_refused(secret, place):
    spec = {
        "option": replace(PLAIN, vllm_options=("--api-key", secret)),
        "environment": replace(PLAIN, environment={"VLLM_API_KEY": secret}),
        "name": replace(PLAIN, secret=replace(PLAIN.secret, name=secret)),
    }[place]
    with pytest.raises(Refused) as refused:
        render(spec)
    assert refused.value.rule == "secret-in-script" and secret not in str(refused.value)


def test_too_long_is_refused():
    with pytest.raises(BadConfig, match="262144"):
        render(replace(PLAIN, vllm_options=("x" * SCRIPT_BYTES,)))


def test_limit_of_every_phase_is_needed():
    import jinja2

    with pytest.raises(jinja2.UndefinedError):
        render(replace(PLAIN, phase_limits={"packages": 1}))


@pytest.mark.parametrize("text", ["{{ x }}", "{{ x ~ 'a' }}", "{{ 1 }}", "{% macro m() %}a{% endmacro %}{{ m() }}"])
def test_unquoted_value_is_refused(text):
    with pytest.raises(BadConfig, match="without quoting"):
        _environment().from_string(text).render(x="value")


def test_bash_survives_the_template_language():
    text = "${#arr[@]} ${x%%y} {{ x | q }} <# gone #>|\n"
    assert _environment().from_string(text).render(x="a && b 'c'") == "${#arr[@]} ${x%%y} 'a && b '\"'\"'c'\"'\"'' |\n"
    assert quoted_only.__doc__


def test_carriage_returns_of_a_checkout_do_not_reach_the_script(tmp_path):
    from jinja2 import FileSystemLoader

    (tmp_path / "t").write_bytes(b"#!/bin/bash\r\necho {{ x | q }}\r\n")
    environment = _environment()
    environment.loader = FileSystemLoader(tmp_path)
    assert environment.get_template("t").render(x="1") == "#!/bin/bash\necho 1\n"


def carried_by(spec):
    """Path -> text of the Python in a rendered script."""
    parts = re.findall(r"  put (\S+) <<'FLEXSERVE_FILE'\n(.*?)FLEXSERVE_FILE\n", render(spec).script.decode(), re.DOTALL)
    assert parts
    return dict(parts)


NOT_ON_A_MACHINE = {"catalog.loader", "startup.turing.fetch", "startup.turing.prove"}  # imported by `prove` alone
KINDS = pytest.mark.parametrize("spec", [PLAIN, SPOT, MAKES], ids=("gce_flex", "ec2_spot", "ec2_spot that makes"))


@KINDS
def test_the_script_carries_every_module_that_it_runs(spec):
    carried = carried_by(spec)
    assert {f"startup/onboard/{name}.py" for name in ONBOARD} <= set(carried)
    for path, text in carried.items():
        assert text == ("" if path == "startup/__init__.py" else (ROOT / path).read_text())
    elsewhere = set(carried_by(PLAIN)) | set(carried_by(SPOT)) | set(carried_by(MAKES))
    for name, module in imports(carried):
        if module.partition(".")[0] in ("startup", "verdict", "catalog") and module not in NOT_ON_A_MACHINE:
            known = elsewhere if name.endswith("onboard/__main__.py") else set(carried)  # the one that has parts for both
            path = module.replace(".", "/")
            assert {f"{path}.py", f"{path}/__init__.py"} & known, (name, module)


def test_every_module_of_the_boot_is_carried_by_some_script():
    everywhere = set(carried_by(PLAIN)) | set(carried_by(SPOT)) | set(carried_by(MAKES))
    assert {f"startup/onboard/{path.name}" for path in (ROOT / "startup" / "onboard").glob("*.py")} <= everywhere


@KINDS
def test_carried_python_is_what_the_oldest_host_image_reads(spec):
    for name, module in imports(carried_by(spec)):
        top = module.partition(".")[0]
        ours = module.startswith(("startup.onboard", "startup.turing", "verdict")) or module in NOT_ON_A_MACHINE
        assert top in sys.stdlib_module_names or ours, (name, module)


def imports(carried):
    """(file, module) of every import; `from package import module` gives the module."""
    import ast

    for name, text in carried.items():
        for node in ast.walk(ast.parse(text, name, feature_version=(3, 10))):
            if isinstance(node, ast.Import):
                yield from ((name, alias.name) for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                base = node.module or ""
                inner = [f"{base}.{alias.name}" for alias in node.names]
                modules = [m for m in inner if (ROOT / f"{m.replace('.', '/')}.py").exists()]
                yield from ((name, module) for module in modules or [base])


def test_rendering_needs_no_sdk():
    code = """
import sys
import startup.render
assert "jinja2" not in sys.modules
from tests.startup.specs import PLAIN
startup.render.render(PLAIN)
print([name for name in sys.modules if name.partition(".")[0] in ("pulumi", "google", "boto3", "botocore")])
"""
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        check=True,
        capture_output=True,
        text=True,
    )
    assert done.stdout.strip() == "[]"


def test_compiled_templates_are_kept_and_never_change_a_byte(tmp_path, monkeypatch):
    monkeypatch.setenv("FLEXSERVE_CACHE", str(tmp_path / "cache"))
    first = render(PLAIN)
    kept = sorted((tmp_path / "cache" / "templates").iterdir())
    assert kept
    assert render(PLAIN) == first
    for path in kept:  # a torn or foreign file is as good as none
        path.write_bytes(path.read_bytes()[:40])
    assert render(PLAIN) == first
    monkeypatch.setenv("FLEXSERVE_CACHE", "/proc/nowhere")
    assert render(PLAIN) == first


def test_what_is_carried_brings_what_it_imports():
    found = with_imports(["startup/turing/__main__"])
    modules = {name for name in found if not name.endswith("__init__")}
    for name, text in found.items():
        for node in ast.parse(text).body:
            if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in ("startup", "verdict"):
                path = str(node.module).replace(".", "/")
                assert path in modules or all(f"{path}/{alias.name}" in modules for alias in node.names), (name, path)
    assert {"verdict/errors", "verdict/secrets"} <= modules and "startup/turing/__init__" in found  # errors need it
