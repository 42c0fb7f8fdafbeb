"""Edit -> verdict the usual way, in a process of its own: torch's `load_inline`, then correctness and timing.

    python benchmarks/toolchain/load_inline_run.py SPEC.json

What KernelBench-style harnesses do with a candidate: nvcc and the host compiler build an extension with torch's
headers, it is loaded, five outputs are compared with PyTorch's, and 100 runs are timed with events. Inputs are drawn
on the GPU here, which is kinder than copying them there. Imports nothing of the workbench; prints one line of JSON.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from pathlib import Path

CORRECTNESS_RUNS, TIMED_RUNS = 5, 100
_REFERENCES = {"relu": "relu", "matmul_square": "matmul"}


def main() -> None:
    spec = json.loads(Path(sys.argv[1]).read_text())
    begun = time.monotonic()
    import torch
    from torch.utils.cpp_extension import load_inline

    torch.cuda.init()
    imported = time.monotonic()
    torch.backends.cuda.matmul.allow_tf32 = False
    module = load_inline(
        name=spec["name"],
        cpp_sources=[spec["cpp"]],
        cuda_sources=[spec["cuda"]],
        functions=["run"],
        extra_include_paths=[spec["include"]],
        extra_cuda_cflags=spec["flags"],
        build_directory=spec["folder"],
    )
    built = time.monotonic()
    reference = getattr(torch, _REFERENCES[spec["problem"]])
    right = True
    for seed in range(CORRECTNESS_RUNS):
        torch.manual_seed(seed)
        inputs = [torch.randn(shape, device="cuda") for shape in spec["shapes"]]
        right = right and bool(torch.allclose(module.run(*inputs), reference(*inputs), atol=1e-4, rtol=1e-4))
    torch.cuda.synchronize()
    compared = time.monotonic()
    samples = []
    for _ in range(TIMED_RUNS):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        module.run(*inputs)
        end.record()
        torch.cuda.synchronize()
        samples.append(start.elapsed_time(end))
    ended = time.monotonic()
    result = {
        "right": right, "import_torch": imported - begun, "build": built - imported, "correctness": compared - built,
        "timing": ended - compared, "total_without_import": ended - imported,
        "kernel_median_ms": statistics.median(samples),
    }  # fmt: skip
    print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main()
