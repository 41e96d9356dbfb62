"""Run under a Python that has Triton, no torch and no vLLM: what a module's own tile selection launches, and its shared memory.

`python measure.py` reads `{"runs", "cells", "known"}` as JSON from stdin and prints the results of each run. The module is the
real one; what it imports of torch and vLLM is stubbed, the launch is caught, and what was launched is compiled for sm_75. Nothing
of this project is imported here: the two environments share this file only.
"""

from __future__ import annotations

import enum
import hashlib
import importlib.util
import inspect
import json
import sys
import types
from pathlib import Path
from typing import Any, NamedTuple

OPS = "vllm.v1.attention.ops"
KERNEL = "kernel_unified_attention"
POINTERS = {"half": "*fp16", "float": "*fp32", "int": "*i32"}
ALIGNED = 16  # bytes or elements: what Triton's own launcher tells the compiler about pointers and integers


class Tensor:
    """As much of a tensor as the module asks about: shape, strides, element size, element kind."""

    def __init__(self, *shape: int, kind: str = "half") -> None:
        self.shape, self.dtype = shape, kind

    def stride(self, axis: int) -> int:
        """Elements between neighbours along an axis, as in a contiguous tensor."""
        total = 1
        for extent in self.shape[axis + 1 :]:
            total *= extent
        return total

    def element_size(self) -> int:
        """Bytes an element."""
        return 2 if self.dtype == "half" else 4

    def __len__(self) -> int:
        return self.shape[0]


class Capability(NamedTuple):
    """vLLM's own type of that name compares as a tuple too."""

    major: int
    minor: int


class Platform:
    """`vllm.platforms.current_platform` of an NVIDIA card of one capability; counts how often it was asked."""

    def __init__(self, capability: tuple[int, int]) -> None:
        self.capability, self.asked = Capability(*capability), 0

    def is_cuda(self) -> bool:
        """Whether this is an NVIDIA card."""
        return True

    def get_device_capability(self, _device: int = 0) -> Capability:
        """Major and minor."""
        self.asked += 1
        return self.capability

    def has_device_capability(self, wanted: Any, _device: int = 0) -> bool:
        """Whether the card has at least that capability, a pair or 10 x major + minor."""
        return self.capability >= (tuple(wanted) if isinstance(wanted, tuple) else divmod(wanted, 10))

    def is_device_capability_family(self, family: int, _device: int = 0) -> bool:
        """Whether the major number is that of `family` (100 is 10.x)."""
        return self.capability.major == family // 10

    def fp8_dtype(self) -> str:
        """The name of the 8-bit type."""
        return "float8"


class Catch:
    """Stands for a kernel: a launch is kept, nothing runs."""

    def __init__(self) -> None:
        self.launched: dict[str, Any] = {}

    def __getitem__(self, grid: Any) -> Any:
        return lambda **arguments: self.launched.update(arguments)


class _Quiet:
    def __getattr__(self, _name: str) -> Any:
        return lambda *_args, **_kwargs: None


class _Quantisation(enum.IntEnum):
    NONE, FP8_PER_TENSOR, INT8_PER_TOKEN_HEAD, FP8_PER_TOKEN_HEAD, INT4_PER_TOKEN_HEAD, NVFP4 = range(6)


def stub(name: str, **members: Any) -> types.ModuleType:
    """Put a module of that name into `sys.modules`."""
    module = types.ModuleType(name)
    module.__dict__.update(members)
    sys.modules[name] = module
    return module


def load(tree: Path, platform: Any, triton: Any, tl: Any, torch: Any = None) -> types.ModuleType:
    """The attention module under `tree`, in a world of stubs; `torch` may be the real one."""
    sys.modules["torch"] = torch or stub(
        "torch",
        Tensor=Tensor,
        float8_e4m3fn="float8",
        dtype=object,
        device=object,
        finfo=lambda _: types.SimpleNamespace(min=-448.0, max=448.0),
    )
    for package in ("vllm", "vllm.v1", "vllm.v1.attention", OPS):
        stub(package).__path__ = []
    sys.modules["vllm"].envs = stub("vllm.envs", VLLM_BATCH_INVARIANT=False)  # type: ignore[attr-defined]
    stub("vllm.logger", init_logger=lambda _: _Quiet())
    stub("vllm.platforms", current_platform=platform)
    stub("vllm.triton_utils", tl=tl, triton=triton)
    stub("vllm.v1.kv_cache_interface", KVQuantMode=_Quantisation)
    for name in ("triton_attention_helpers", "triton_unified_attention"):
        spec = importlib.util.spec_from_file_location(f"{OPS}.{name}", tree / Path(*OPS.split("."), f"{name}.py"))
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module
        spec.loader.exec_module(module)
    return module


def select(module: types.ModuleType, cell: dict[str, Any]) -> dict[str, Any]:
    """The arguments that the module launches its kernel with.

    A cell: `head`, `group` (query heads a KV head), `kind` (`prefill`, `decode`; 3D when `segments` buffers are given),
    `block` (tokens a KV block), `window` (sliding, tokens; 0 for none).
    """
    catch, kernel, reduce = Catch(), getattr(module, KERNEL), getattr(module, "reduce_segments", None)
    module.__dict__.update({KERNEL: catch, "reduce_segments": Catch()})
    head, group, decode = cell["head"], cell["group"], cell["kind"] == "decode"
    tokens, sequences, segments = (4 if decode else 512), 4, cell["segments"]
    cache = Tensor(64, cell["block"], 1, head)
    buffers: dict[str, Any] = {}
    if segments:
        buffers = {
            "seq_threshold_3D": 128,
            "num_par_softmax_segments": segments,
            "softmax_segm_output": Tensor(tokens, group, segments, head, kind="float"),
            "softmax_segm_max": Tensor(tokens, group, segments, kind="float"),
            "softmax_segm_expsum": Tensor(tokens, group, segments, kind="float"),
        }
    try:
        module.unified_attention(
            q=Tensor(tokens, group, head),
            k=cache,
            v=cache,
            out=Tensor(tokens, group, head),
            cu_seqlens_q=Tensor(sequences + 1, kind="int"),
            max_seqlen_q=1 if decode else 128,
            seqused_k=Tensor(sequences, kind="int"),
            max_seqlen_k=1024,
            softmax_scale=0.5,
            causal=True,
            window_size=(cell["window"] - 1, 0) if cell["window"] else (-1, -1),
            block_table=Tensor(sequences, 64, kind="int"),
            softcap=0.0,
            q_descale=None,
            k_descale=None,
            v_descale=None,
            **buffers,
        )
    finally:
        module.__dict__.update({KERNEL: kernel, "reduce_segments": reduce})
    return catch.launched


def source_of(kernel: Any, launched: dict[str, Any]) -> Any:
    """What Triton's launcher would make of these arguments: types, constants, alignment."""
    from triton.compiler import ASTSource

    signature: dict[str, str] = {}
    constants: dict[tuple[int, ...], Any] = {}
    attributes: dict[tuple[int, ...], list[list[Any]]] = {}
    for index, (name, parameter) in enumerate(inspect.signature(kernel.fn).parameters.items()):
        value = launched.get(name, None if parameter.default is inspect.Parameter.empty else parameter.default)
        kind = str(parameter.annotation)
        if "constexpr" in kind or value is None or (isinstance(value, int) and value == 1):
            signature[name], constants[(index,)] = "constexpr", value
            continue
        if isinstance(value, Tensor):
            signature[name] = POINTERS[value.dtype]
        elif isinstance(value, float):
            signature[name] = "fp32"
        else:
            signature[name] = "i64" if "int64" in kind else "i32"
        if isinstance(value, Tensor) or (isinstance(value, int) and value % ALIGNED == 0):
            attributes[(index,)] = [["tt.divisibility", ALIGNED]]
    return ASTSource(fn=kernel, signature=signature, constexprs=constants, attrs=attributes)


def shared(kernel: Any, launched: dict[str, Any], whole: bool = False) -> int:
    """Bytes of shared memory a block asks for on sm_75.

    Triton's own stages up to the pass that gives out shared memory, the one `metadata.shared` is read after. `whole`: on to LLVM,
    and the number that the compiler itself reports; ten times as long, and the same number.
    """
    from triton._C.libtriton import ir, nvidia, passes
    from triton.backends.compiler import GPUTarget
    from triton.backends.nvidia.compiler import get_ptx_version_from_options
    from triton.compiler.compiler import make_backend

    target = GPUTarget("cuda", 75, 32)
    source, backend = source_of(kernel, launched), make_backend(target)
    options = backend.parse_options({name: launched[name] for name in ("num_warps", "num_stages") if name in launched})
    stages: dict[str, Any] = {}
    backend.add_stages(stages, options, source.language)
    context = ir.context()
    ir.load_dialects(context)
    backend.load_dialects(context)
    module = source.make_ir(target, options, backend.get_codegen_implementation(options), backend.get_module_map(), context)
    metadata: dict[str, Any] = {"target": target, **options.__dict__}
    for name in ("ttir", "ttgir", *(("llir",) if whole else ())):
        module = stages[name](module, metadata)
    if whole:
        return int(metadata["shared"])
    manager = ir.pass_manager(context)
    passes.ttgpuir.add_combine_tensor_select_and_if(manager)
    passes.ttgpuir.add_allocate_warp_groups(manager, False)
    passes.convert.add_scf_to_cf(manager)
    passes.gluon.add_inliner(manager)
    nvidia.passes.ttgpuir.add_allocate_shared_memory_nv(manager, target.arch, get_ptx_version_from_options(options, target.arch))
    manager.run(module, "allocate_shared_memory")
    return int(module.get_int_attr("ttg.shared"))


def measure(runs: list[dict[str, Any]], cells: list[dict[str, Any]], known: dict[str, int] | None = None) -> dict[str, Any]:
    """The cells of each run, with tile and bytes; a run has a name, a tree, a capability and `compiled`.

    `compiled`: `no`, `memory` or `whole` (see `shared`). Equal launches of equal kernels are compiled once, by one Triton to one
    depth; `known` has those of earlier measurements, and is in the answer with the new ones.
    """
    import triton
    import triton.language as tl

    known = {} if known is None else known
    found: dict[str, Any] = {"triton": triton.__version__, "known": known}
    for run in runs:
        module = load(Path(run["tree"]), Platform(tuple(run["capability"])), triton, tl)
        found[run["name"]] = results = []
        for cell in cells:
            launched = select(module, cell)
            result = {**cell, "tile": launched["TILE_SIZE"], "rows": launched["BLOCK_M"], "three_d": launched["IS_3D"]}
            if run["compiled"] != "no":
                kernel = getattr(module, KERNEL)
                source = source_of(kernel, launched)
                options = [launched.get(name) for name in ("num_warps", "num_stages")]
                launch = (source.signature, source.constants, source.attrs, options)
                text = repr((triton.__version__, run["compiled"], kernel.cache_key, *launch))
                key = hashlib.sha256(text.encode()).hexdigest()
                if key not in known:
                    known[key] = shared(kernel, launched, run["compiled"] == "whole")
                result["bytes"] = known[key]
            results.append(result)
    return found


if __name__ == "__main__":
    asked = json.load(sys.stdin)
    json.dump(measure(asked["runs"], asked["cells"], asked.get("known")), sys.stdout)
