"""The local base image: AWS's vLLM container in layout (entry point, `SM_VLLM_*`, ports), with the stand-in server for vLLM.

Its torch is a module that knows its build flags and nothing else; its attention kernel has the shape that the Turing patch looks
for. So the patch, the check of the flags and the entry point are real while an image is built from it. Nothing in it computes.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from rehearsal.machine.builds import KERNEL
from rehearsal.machine.images import APPLICATION, OPTIONS, packed

AWS_IMAGES = "763104351884"
"""The account of AWS's Deep Learning Containers."""
REPOSITORY = "vllm"
ARCHES = ("sm_75", "sm_80", "sm_86", "sm_90", "sm_100", "sm_120")
"""Of torch in the real image, 0.30.0 for CUDA 13 (public run of 2026-09-30)."""
HERE = Path(__file__).parent / "container"
SITE = "usr/local/lib/python3.11/dist-packages"
API_SERVER = b'''"""Stand-in: vLLM's server, its arguments checked against vLLM's own list."""
import sys

sys.path.insert(0, "/opt/vllm")
from rehearsal.machine.vllm.server import main

sys.exit(main(["serve", *sys.argv[1:]]))
'''

TORCH = b'''"""Stand-in: knows what it was built for."""
from torch import _C

__version__ = "2.12.0+cu130"
'''


@dataclass(frozen=True)
class Base:
    """What a test or a fault may want different: the version, torch's flags, the kernel's text, the CUDA that it asks for."""

    version: str = "0.30.0"
    arches: tuple[str, ...] = ARCHES
    kernel: bytes = KERNEL
    cuda: str = "13.0"
    entry: str = "/usr/local/bin/sagemaker_entrypoint.sh"

    def config(self) -> dict[str, object]:
        """The image's own configuration."""
        variables = {
            "PATH": "/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            "LANG": "C.UTF-8",
            "PYTHONUNBUFFERED": "1",
            "PYTHONDONTWRITEBYTECODE": "1",
            "CUDA_VERSION": f"{self.cuda}.0",
            "NVIDIA_REQUIRE_CUDA": f"cuda>={self.cuda}",
            "STAND_IN_VERSION": self.version,
            "STAND_IN_DEVICE": "cuda",
        }
        return {
            "Env": [f"{name}={value}" for name, value in variables.items()],
            "Entrypoint": [self.entry],
            "WorkingDir": "/",
            "Labels": {"flexserve.stand-in": "vllm", "flexserve.version": self.version},
        }

    def layer(self) -> tuple[bytes, str]:
        """Everything over the system's layer: packed bytes and the digest of the unpacked tar."""
        package = "opt/vllm/rehearsal/machine/vllm"
        files = {f"{package}/{path.name}": path.read_bytes() for path in sorted(APPLICATION.glob("*.py"))}
        files |= dict.fromkeys(("opt/vllm/rehearsal/__init__.py", "opt/vllm/rehearsal/machine/__init__.py"), b"")
        files |= dict.fromkeys((f"{SITE}/vllm{below}/__init__.py" for below in ("", "/entrypoints", "/entrypoints/openai")), b"")
        flags = " ".join(self.arches)
        programs = {
            "usr/local/bin/sagemaker_entrypoint.sh": (HERE / "sagemaker_entrypoint.sh").read_bytes(),
            "usr/local/bin/standard-supervisor": (HERE / "standard_supervisor.py").read_bytes(),
        }
        files |= {
            **programs,
            "opt/vllm/options.json": OPTIONS.read_bytes(),
            "usr/local/bin/sagemaker_args.py": (HERE / "sagemaker_args.py").read_bytes(),
            f"{SITE}/vllm/entrypoints/openai/api_server.py": API_SERVER,
            f"{SITE}/vllm/v1/attention/ops/triton_unified_attention.py": self.kernel,
            f"{SITE}/torch/__init__.py": TORCH,
            f"{SITE}/torch/_C.py": f"def _cuda_getArchFlags():\n    return {flags!r}\n".encode(),
        }
        return packed(files, programs.keys())
