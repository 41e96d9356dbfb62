"""The patched attention on a real card: the 7.5 selection is forced, its result compared with a torch reference.

`python -m benchmarks.turing_on_a_card TREE`, where TREE holds an unpacked vLLM (`vllm/v1/attention/ops/triton_*.py`), under a
Python with torch and Triton and a CUDA card of any kind. Prints a table and exits 1 when a tile is not the expected one or an
element is off by more than float16 rounding: weights and output are rounded to 11 bits, so |error| <= 2**-11 (A|V| + |out|), and a
little for the float32 sums. The kernel runs on the card that is there: it shows that the numbers are right, not that Turing has
the memory.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

import torch
import triton
import triton.language as tl

from startup.turing import limits, measure, patch
from startup.turing.tree import MODULE

HALF = 2.0**-11
SUMS = 2e-5  # float32 sums and exponentials, for values of order one
KV_HEADS, SEGMENTS, DEVICE = 2, 16, "cuda"
LENGTHS = ((37, 37), (1, 611), (64, 700), (200, 200))  # query tokens, all tokens of a sequence


class Platform(measure.Platform):
    """Says 7.5 on any card; the real 8-bit type, since torch is real here."""

    def fp8_dtype(self) -> Any:  # noqa: D102
        return torch.float8_e4m3fn


class Spy:
    """Launches the kernel and keeps what it was launched with."""

    def __init__(self, kernel: Any) -> None:
        self.kernel, self.launched = kernel, {}

    def __getitem__(self, grid: Any) -> Any:
        def launch(**arguments: Any) -> None:
            self.launched = {name: arguments[name] for name in ("TILE_SIZE", "IS_3D", "BLOCK_M")}
            self.kernel[grid](**arguments)

        return launch


def inputs(head: int, group: int, decode: bool, block: int) -> dict[str, Any]:
    """Queries, a paged cache with its blocks out of order, and lengths."""
    lengths = [(1, total) for _, total in LENGTHS] if decode else list(LENGTHS)
    pages = [-(-total // block) for _, total in lengths]
    order = torch.randperm(sum(pages), device=DEVICE).to(torch.int32)
    table = torch.zeros(len(lengths), max(pages), dtype=torch.int32, device=DEVICE)
    for row, (count, start) in enumerate(zip(pages, [sum(pages[:i]) for i in range(len(pages))], strict=True)):
        table[row, :count] = order[start : start + count]
    tokens = sum(query for query, _ in lengths)
    starts = [0, *torch.tensor([query for query, _ in lengths]).cumsum(0).tolist()]
    return {
        "lengths": lengths,
        "q": torch.randn(tokens, group * KV_HEADS, head, dtype=torch.float16, device=DEVICE),
        "k": torch.randn(sum(pages), block, KV_HEADS, head, dtype=torch.float16, device=DEVICE),
        "v": torch.randn(sum(pages), block, KV_HEADS, head, dtype=torch.float16, device=DEVICE),
        "table": table,
        "starts": torch.tensor(starts, dtype=torch.int32, device=DEVICE),
    }


def reference(given: dict[str, Any], scale: float, window: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Attention in float64, and A|V|."""
    outs, sizes, first = [], [], 0
    for row, (query, total) in enumerate(given["lengths"]):
        pages = given["table"][row].long()
        k, v = (given[name][pages].flatten(0, 1)[:total].double() for name in ("k", "v"))
        q = given["q"][first : first + query].double()
        group = q.shape[1] // KV_HEADS
        k, v = (x.repeat_interleave(group, 1) for x in (k, v))
        scores = torch.einsum("qhd,thd->hqt", q, k) * scale
        at = torch.arange(total - query, total, device=DEVICE)[:, None]
        key = torch.arange(total, device=DEVICE)[None]
        seen = (key <= at) & ((at - key < window) if window else True)
        weights = scores.masked_fill(~seen, float("-inf")).softmax(-1)
        outs.append(torch.einsum("hqt,thd->qhd", weights, v))
        sizes.append(torch.einsum("hqt,thd->qhd", weights, v.abs()))
        first += query
    return torch.cat(outs), torch.cat(sizes)


def run(module: Any, given: dict[str, Any], scale: float, window: int, segments: int) -> tuple[torch.Tensor, dict[str, Any]]:
    """The module's own result, and what it launched."""
    q, sequences = given["q"], len(given["lengths"])
    out = torch.full_like(q, float("nan"))
    shape = (q.shape[0], q.shape[1], segments)
    buffers: dict[str, Any] = {}
    if segments:
        buffers = {
            "seq_threshold_3D": 128,
            "num_par_softmax_segments": segments,
            "softmax_segm_output": torch.empty(*shape, q.shape[2], device=DEVICE),
            "softmax_segm_max": torch.empty(shape, device=DEVICE),
            "softmax_segm_expsum": torch.empty(shape, device=DEVICE),
        }
    spy = Spy(module.kernel_unified_attention)
    module.kernel_unified_attention = spy
    try:
        module.unified_attention(
            q=q,
            k=given["k"],
            v=given["v"],
            out=out,
            cu_seqlens_q=given["starts"],
            max_seqlen_q=max(query for query, _ in given["lengths"]),
            seqused_k=torch.tensor([total for _, total in given["lengths"]], dtype=torch.int32, device=DEVICE),
            max_seqlen_k=max(total for _, total in given["lengths"]),
            softmax_scale=scale,
            causal=True,
            window_size=(window - 1, 0) if window else (-1, -1),
            block_table=given["table"],
            softcap=0.0,
            q_descale=None,
            k_descale=None,
            v_descale=None,
            **buffers,
        )
    finally:
        module.kernel_unified_attention = spy.kernel
    assert sequences == given["table"].shape[0]
    return out, spy.launched


def main(tree: Path) -> int:
    """All cells; the exit code."""
    torch.manual_seed(7)
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, Triton {triton.__version__}")
    print(f"{'head':>4} {'group':>5} {'kernel':<10} {'block':>5} {'tile':>4} {'largest error':>13} {'of what rounding allows':>23}")
    bad = 0
    with tempfile.TemporaryDirectory() as scratch:
        folder = (Path(scratch) / "vllm" / MODULE).parent
        folder.mkdir(parents=True)
        for file in (tree / "vllm" / MODULE).parent.glob("triton_*.py"):
            content = file.read_bytes()
            (folder / file.name).write_bytes(patch.apply(content) if file.name == MODULE.name else content)
        module = measure.load(Path(scratch), Platform((7, 5)), triton, tl, torch)
        for head, window in ((256, 512), (512, 0)):
            for group in (1, 2, 4, 8, 16):
                for kind, segments, block in (
                    ("prefill", 0, 16),
                    ("prefill", 0, 32),
                    ("decode", 0, 16),
                    ("decode 3D", SEGMENTS, 16),
                ):
                    given = inputs(head, group, kind != "prefill", block)
                    scale = head**-0.5
                    out, launched = run(module, given, scale, window, segments)
                    wanted, size = reference(given, scale, window)
                    error = (out.double() - wanted).abs()
                    share = (error / (HALF * (size + wanted.abs()) + SUMS)).max().item()
                    tile = limits.SMALLEST_TILE if segments else limits.patched_tile(head)
                    right = share <= 1 and launched["TILE_SIZE"] == tile and launched["IS_3D"] == bool(segments)
                    bad += not right
                    figures = f"{launched['TILE_SIZE']:>4} {error.max().item():>13.2e} {share:>22.0%}"
                    print(f"{head:>4} {group:>5} {kind:<10} {block:>5} {figures}{'' if right else '  WRONG'}", flush=True)
    print("within float16 rounding" if not bad else f"{bad} WRONG")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
