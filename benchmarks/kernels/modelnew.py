"""Builds exported `ModelNew` files and holds them against their `Model` on a GPU; imports nothing of the workbench.

    python benchmarks/kernels/modelnew.py FOLDER RESULT.json

Loaded as KernelBench describes: exec the file, `ModelNew(*get_init_inputs())`, `forward`. Right: three seeds at the
problem's own size against the reference in float64, within the problem's tolerance or 16 times the error that eager
float32 makes there, whichever is larger. Times: CUDA events around one
forward, warm caches, host launch included, median of 30 after 5, `Model` and `ModelNew` in turns; so they are an
indication for whoever drops the file in, not the workbench's measurement of a kernel.
"""

from __future__ import annotations

import json
import platform
import statistics
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import torch

CATALOGUE = {
    path.name: path for path in (Path(__file__).parents[2] / "cutegen_core" / "problems" / "catalogue").rglob("*.py")
}
SEEDS, WARMUP, SAMPLES = (1, 2, 3), 5, 30
BUILDS_AT_ONCE = 12


def loaded(source: str) -> dict[str, Any]:
    context: dict[str, Any] = {}
    exec(compile(source, "<problem>", "exec"), context)
    return context


def build(path: Path) -> float:
    """Compile in a process of its own, so that builds can run side by side; the loader keeps the result."""
    begun = time.monotonic()
    program = f"exec(compile(open({str(path)!r}).read(), 'x', 'exec')); ModelNew(*get_init_inputs())"
    source = CATALOGUE[path.name].read_text()
    done = subprocess.run([sys.executable, "-c", source + "\n" + program], capture_output=True, text=True, check=False)
    if done.returncode:
        print(path.name, done.stderr[-800:], flush=True)
    return time.monotonic() - begun


def compare(path: Path) -> dict[str, Any]:
    """Compare one file with its reference."""
    source = CATALOGUE[path.name].read_text()
    context, new_context = loaded(source), loaded(source)
    exec(compile(path.read_text(), str(path), "exec"), new_context)
    worst, times_own, right = 0.0, 0.0, True
    for seed in SEEDS:
        torch.manual_seed(seed)
        model = context["Model"](*context["get_init_inputs"]()).cuda()
        torch.manual_seed(seed)
        new = new_context["ModelNew"](*context["get_init_inputs"]()).cuda()
        torch.manual_seed(seed)
        inputs = [x.cuda() for x in context["get_inputs"]()]
        with torch.no_grad():
            got = new(*inputs)
            eager = model(*inputs)
            want = model.double()(*[x.double() if x.is_floating_point() else x for x in inputs])
            own = (eager.double() - want).abs().max().item()
            tolerance = next(iter(context["TOLERANCE"].values()))
            allowed = (tolerance["atol"] + tolerance["rtol"] * want.abs()).clamp(min=16 * own)
            error = (got.double() - want).abs()
            worst = max(worst, (error / allowed).max().item())
            times_own = max(times_own, error.max().item() / own if own else 0.0)
            right = right and got.shape == want.shape and bool(torch.isfinite(got).all()) and worst <= 1.0
        del model, eager, want, error, allowed
    torch.manual_seed(SEEDS[0])
    model = context["Model"](*context["get_init_inputs"]()).cuda()
    eager_ms, new_ms = timed(model, new, inputs)
    errors = {"error_over_allowed": worst, "error_over_eager_error": times_own}
    return {"right": right, **errors, "eager_ms": eager_ms, "modelnew_ms": new_ms}


def timed(model: Any, new: Any, inputs: list[torch.Tensor]) -> tuple[float, float]:  # noqa: ANN401 - user modules
    """Median milliseconds of both, in turns."""
    samples: tuple[list[float], list[float]] = ([], [])
    for i in range(WARMUP + SAMPLES):
        for module, kept in zip((model, new), samples, strict=True):
            begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            with torch.no_grad():
                begin.record()
                module(*inputs)
                end.record()
            torch.cuda.synchronize()
            if i >= WARMUP:
                kept.append(begin.elapsed_time(end))
    return statistics.median(samples[0]), statistics.median(samples[1])


def main() -> None:
    torch.backends.cuda.matmul.allow_tf32 = False
    files = sorted(Path(sys.argv[1]).glob("*.py"))
    with ThreadPoolExecutor(BUILDS_AT_ONCE) as pool:
        built = dict(zip(files, pool.map(build, files), strict=True))
    rows = []
    for path in files:
        try:
            row = compare(path)
        except Exception as error:  # noqa: BLE001 - one broken file must not hide the others
            row = {"right": False, "error": f"{type(error).__name__}: {error}"[-300:]}
        rows.append({"problem": path.stem, **row, "build_seconds": round(built[path], 1)})
        print({k: round(v, 4) if isinstance(v, float) else v for k, v in rows[-1].items()}, flush=True)
        torch.cuda.empty_cache()
    conditions = {
        "gpu": torch.cuda.get_device_name(),
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "python": platform.python_version(),
        "tf32": False,
        "timing": "CUDA events around one forward, warm, host launch included, median of 30, both in turns",
        "builds_at_once": BUILDS_AT_ONCE,
    }
    right = sum(bool(row["right"]) for row in rows)
    print(f"{right} of {len(rows)} right")
    Path(sys.argv[2]).write_text(json.dumps({"conditions": conditions, "right": right, "rows": rows}, indent=2) + "\n")


if __name__ == "__main__":
    main()
