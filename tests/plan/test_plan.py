"""What a plan says: arguments, memory, price; and that it needs no SDK."""

import subprocess
import sys

import pytest

from catalog.loader import Catalog
from infra.fit import GIB, kv_bytes_per_token
from infra.plan import make_plan


@pytest.fixture
def plan(tpu_v6e):
    return make_plan(tpu_v6e(), Catalog.load())


def test_the_flags_are_those_of_the_measured_run(plan):
    assert plan.as_dict()["argv"] == [
        *["google/gemma-4-E2B-it", "--served-model-name", "google/gemma-4-E2B-it", "--port", "8000"],
        *["--tensor-parallel-size", "1", "--max-model-len", "65536", "--gpu-memory-utilization", "0.9"],
        *["--max-num-batched-tokens", "4096", "--disable-chunked-mm-input", "--enable-auto-tool-choice"],
        *["--tool-call-parser", "gemma4", "--reasoning-parser", "gemma4"],
        *["--limit-mm-per-prompt", '{"image":4,"audio":1}'],
    ]


def test_text_only_is_a_setting(tpu_v6e):
    argv = make_plan(tpu_v6e("serving.text_only=true"), Catalog.load()).as_dict()["argv"]
    assert argv[argv.index("--limit-mm-per-prompt") + 1] == '{"image":0,"audio":0}'


def test_kv_arithmetic_reproduces_the_measured_18_kib_a_token(plan):
    assert kv_bytes_per_token(plan.model, plan.accelerator, 2) == 18 * 1024
    assert plan.kv.pool_bytes == pytest.approx((31.24 * 0.9 - 8.97) * GIB, rel=1e-6)
    assert plan.kv.tokens == pytest.approx(1_151_744, rel=0.04)  # measured pool: 19.77 GiB


def test_four_chips_keep_four_copies_of_a_single_kv_head(tpu_v6e):
    plan = make_plan(tpu_v6e("target.machine_type=ct6e-standard-4t"), Catalog.load())
    assert plan.vllm.tensor_parallel_size == 4
    assert plan.kv.bytes_per_token == 4 * 18 * 1024


def test_fp8_halves_a_token(tpu_v6e):
    assert make_plan(tpu_v6e("serving.kv_cache_dtype=fp8"), Catalog.load()).kv.bytes_per_token == 9 * 1024


def test_the_price_is_all_in_and_says_what_it_does_not_know(plan):
    price = plan.as_dict()["price"]
    assert price["per_hour"] == pytest.approx(1.355)
    assert price["window"] == pytest.approx(5.42)
    assert price["unknown"] == ["200 GB hyperdisk-balanced"]
    assert all(part["source"] for part in price["parts"] if part["per_hour"] is not None)


def test_nat_adds_what_is_paid_for_every_gib(tpu_v6e):
    nat = make_plan(tpu_v6e("egress=nat"), Catalog.load()).cost
    once = next(p for p in nat.parts if p.once is not None)
    assert once.once == pytest.approx(0.045 * (8.5 + 10.25e9 / GIB), abs=1e-3)  # about 0.80 a boot
    assert nat.window > make_plan(tpu_v6e("egress=existing"), Catalog.load(), ["no-way-out"]).cost.window + 0.8


def test_the_contract_of_the_json_document(plan):
    assert {"stack", "target", "accelerator", "machine_type", "image", "argv", "disk_gb", "host_image", "price"} <= set(
        plan.as_dict()
    )
    assert {"window_s", "kv", "allowed"} <= set(plan.as_dict())
    assert set(plan.as_dict()["kv"]) == {"pool_bytes", "bytes_per_token", "tokens", "max_model_len"}
    assert plan.as_dict()["image"] == {"name": "vllm/vllm-tpu:v0.27.0", "digest": None}


def test_planning_imports_no_sdk():
    code = (
        "import sys; from infra.deployment import from_stack_text; from infra.plan import make_plan;"
        "import infra.rules.common, infra.targets.gce_flex.resources;"
        "print([m for m in ('pulumi', 'pulumi_gcp', 'boto3', 'google.cloud', 'grpc', 'httpx')"
        " if m in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == "[]"
