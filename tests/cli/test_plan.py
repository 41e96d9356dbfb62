"""`plan` and `render` as commands: the contract's keys, the canonical manifest, the script byte for byte."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys

import pytest

from flexserve.commands import render as command
from infra.plan import make_plan
from startup.render import render
from tests.cli.conftest import document
from verdict.errors import FlexserveError

PLAN = (
    "stack",
    "target",
    "accelerator",
    "machine_type",
    "image",
    "argv",
    "disk_gb",
    "host_image",
    "price",
    "window_s",
    "kv",
    "allowed",
    "unresolved",
)


def test_plan_document(project, flexserve):
    code, out, err = flexserve("plan", "-s", "tpu-v6e", "--json")
    plan = document(out)
    assert (code, err) == (0, "") and set(PLAN) <= set(plan)
    assert set(plan["image"]) == {"name", "digest"} and plan["image"]["digest"] is None
    assert {"per_hour", "window", "parts"} <= set(plan["price"])
    assert set(plan["kv"]) == {"pool_bytes", "bytes_per_token", "tokens", "max_model_len"}
    assert plan["unresolved"] == ["image digest", "model revision", "host image"]


def test_plan_page_says_what_is_unresolved_and_unknown(project, flexserve):
    code, out, _ = flexserve("plan", "-s", "tpu-v6e")
    assert code == 0 and out.count("unresolved until up") == 2
    assert "not counted, price unknown: 200 GB hyperdisk-balanced" in out
    assert "\033[" not in out


def test_pinned_is_resolved(project, flexserve):
    pins = ("image.name=vllm/vllm-tpu:v0.27.0@sha256:" + "a" * 64, "model.revision=" + "b" * 40)
    _, out, _ = flexserve("plan", "-s", "tpu-v6e", "--json", *(w for p in pins for w in ("--set", p)))
    assert document(out)["unresolved"] == ["host image"]


def manifest(project, root, **env: str) -> bytes:
    argv = [sys.executable, "-m", "flexserve", "plan", "-s", "tpu-v6e", "--manifest"]
    done = subprocess.run(argv, cwd=project, env={**os.environ, "PYTHONPATH": str(root), **env}, capture_output=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert hashlib.sha256(done.stdout.removesuffix(b"\n")).hexdigest() in done.stderr.decode()
    return done.stdout


def test_manifest_is_the_same_bytes_from_two_processes(project, root):
    first = manifest(project, root, PYTHONHASHSEED="1", TZ="Asia/Kathmandu", LC_ALL="C")
    second = manifest(project, root, PYTHONHASHSEED="2", TZ="America/Lima", LC_ALL="C.UTF-8")
    assert first == second
    value = json.loads(first)
    assert value["script_sha256"] and value["settings"]["window"] == 14400 and value["machine"]["name"] == "ct6e-standard-1t"


@pytest.mark.parametrize(
    "setting", ["serving.text_only=true", "target.disk_gb=300", "window=5h", "access.members=[user:b@acme.test]"]
)
def test_whatever_is_set_is_in_the_manifest(project, flexserve, setting):
    plain = flexserve("plan", "-s", "tpu-v6e", "--manifest")[1]
    assert plain != flexserve("plan", "-s", "tpu-v6e", "--manifest", "--set", setting)[1]


def test_render_prints_the_script_byte_for_byte(project, flexserve, tpu_v6e):
    from catalog.loader import Catalog

    code, out, err = flexserve("render", "-s", "tpu-v6e")
    rendered = render(make_plan(tpu_v6e(), Catalog.load()).boot)
    assert code == 0 and out.encode() == rendered.script and out.startswith("#!") and "unresolved" in err
    assert flexserve("render", "-s", "tpu-v6e", "--stub")[1].encode() == rendered.stub
    value = document(flexserve("render", "-s", "tpu-v6e", "--json")[1])
    assert value["sha256"] == rendered.sha256 and value["resolved"] is False and value["text"] == out


def test_live_values_come_from_what_the_state_keeps(tpu_v6e):
    from catalog.loader import Catalog
    from infra.settle import settle
    from tests.infra.test_settle import TODAY, answers, at

    first = settle(tpu_v6e(), Catalog.load(), None, at(), answers(TODAY))
    live = command.as_kept(tpu_v6e(), first.kept.as_state())
    assert live.boot == first.plan.boot and live.boot.resolved
    with pytest.raises(FlexserveError, match="model"):
        command.as_kept(tpu_v6e("model.revision=v2"), first.kept.as_state())


def test_render_live_without_a_stack(project, flexserve, monkeypatch):
    from flexserve.project import Project

    monkeypatch.setattr(Project, "outputs", lambda self, stack: None)
    code, out, err = flexserve("render", "-s", "tpu-v6e", "--live")
    assert (code, out) == (1, "") and "is not up" in err
