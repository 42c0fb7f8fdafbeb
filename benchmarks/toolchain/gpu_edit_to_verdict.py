"""Edit -> verdict on a GPU: compile, correctness and timing of an edited kernel, every cache missed.

    python -m benchmarks.toolchain.gpu_edit_to_verdict [--repeats 5] [--usual 1] [--reads-s 0] [--limit-s 400]
        [--executor cpu] [--only ROW ...] [--timeline FILE] [--name NAME]

1. ReLU and a square float32 matrix product, on tensor cores and without, each at its problem's own size, through the
   evaluator as a session has it: NVRTC, all small workloads, the whole output at full size, timing in turns with the
   baselines, a second measurement. The judge is warm, as it is while a person edits; its first start is in the file,
   too.
2. Beside it, in the same run, the same kernel through torch's `load_inline` (`load_inline_run`), nothing cached.

With `--reads-s`, a person reads for so long before each edit: the compile server prepares for it meanwhile, where the
machine has room. With `--timeline`, FILE gets the spans of which the times are made (`timeline`).
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from secrets import randbits
from typing import Any

from benchmarks.conditions import write
from benchmarks.toolchain import timeline
from benchmarks.trials import edited, open_evaluator, playbook_kernel
from cutegen_core.evaluate.evaluator import Evaluator
from cutegen_core.kernel.kernel_file import parse
from cutegen_core.machine import toolchain
from cutegen_core.machine.device import Device, choose_device
from cutegen_core.problems import library
from cutegen_core.records.candidate import Author, Candidate
from cutegen_core.records.launch import ScalarArgument, TensorArgument, TensorMapArgument
from cutegen_core.records.performance import WorkloadPerformance
from cutegen_core.records.problem import WorkloadRole
from cutegen_core.records.trial import ExecutorKind, Trial
from cutegen_core.trajectory.store import Store
from cutegen_core.wiring import Tools

Argument = TensorArgument | TensorMapArgument | ScalarArgument
PROBLEMS = {
    "relu": ("relu", ""), "matmul_square": ("matmul_square", ""), "simt_matmul": ("matmul_square", "multistage"),
}  # fmt: skip
"""Name of a row -> problem, and level of the playbook's kernel: its last one, or the last without tensor cores."""
_USUAL = Path(__file__).parent / "load_inline_run.py"
_USUAL_LIMIT_S = 240


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="*", choices=PROBLEMS, help="rows")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--usual", type=int, default=1, help="repeats of load_inline, a minute each")
    parser.add_argument("--reads-s", type=float, default=0.0, help="seconds before each edit in which nothing is asked")
    parser.add_argument("--name", default="gpu_edit_to_verdict", help="of the file with the results")
    parser.add_argument("--limit-s", type=float, default=400.0, help="no further repeat is begun after this")
    parser.add_argument("--executor", type=ExecutorKind, default=ExecutorKind.GPU)
    parser.add_argument("--timeline", type=Path, help="write the spans of all trials to this file")
    chosen = parser.parse_args()
    if chosen.timeline:
        timeline.record(chosen.timeline)
    deadline = time.monotonic() + chosen.limit_s
    rows: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(prefix="cutegen-bench-") as folder:
        store = Store(Path(folder) / "store.db")
        tools = Tools(store)
        try:
            for name in chosen.only or PROBLEMS:
                rows[name] = _problem(name, store, tools, chosen, deadline, Path(folder))
                _show(name, rows[name])
        finally:
            tools.close()
            store.close()
    conditions = {"device": asdict(choose_device(None)), "executor": chosen.executor, "reads_s": chosen.reads_s}
    write(chosen.name, {**conditions, "problems": rows})


def _problem(
    name: str, store: Store, tools: Tools, chosen: argparse.Namespace, deadline: float, folder: Path
) -> dict[str, Any]:
    problem, level = PROBLEMS[name]
    evaluator = open_evaluator(store, tools, library.load(problem), chosen.executor)
    source = playbook_kernel(evaluator, level)
    begun = time.monotonic()
    first = _trial(evaluator, source)  # starts workers, warms the judge, compiles the baselines
    first_s = time.monotonic() - begun
    repeats: list[dict[str, float]] = []
    while len(repeats) < chosen.repeats and time.monotonic() < deadline:
        time.sleep(chosen.reads_s)
        begun = time.monotonic()
        trial = _trial(evaluator, source)
        seconds = time.monotonic() - begun
        repeats.append({"total": seconds} | {str(r.stage).lower(): r.seconds for r in trial.stages if r.seconds})
    row: dict[str, Any] = {"idea": parse(source).idea, "first_seconds": round(first_s, 3), **_medians(repeats)}
    performance = first.performance
    if performance and performance.workloads:
        row["speed"] = _speed(performance.workloads[0])
    usual: list[dict[str, float]] = []
    while chosen.executor == ExecutorKind.GPU and len(usual) < chosen.usual and time.monotonic() < deadline:
        usual.append(_load_inline(problem, source, evaluator, evaluator.device, folder))
    if usual:
        row["load_inline"] = {"n": len(usual), **_median_of(usual), "samples": usual}
        row["times_faster"] = round(row["load_inline"]["total_without_import"] / row["median_seconds"]["total"], 1)
    return row


def _trial(evaluator: Evaluator, source: str) -> Trial:
    """Take an edit that nobody has seen through the stages."""
    trial = evaluator.evaluate(Candidate(edited(source), Author.PERSON), seed=randbits(31))
    if not trial.passed:
        raise SystemExit(f"{evaluator.problem.name}: {trial.status}: {trial.message}")
    return trial


def _medians(repeats: list[dict[str, float]]) -> dict[str, Any]:
    return {
        "n": len(repeats),
        "median_seconds": _median_of(repeats),
        "samples_seconds": [{name: round(value, 3) for name, value in each.items()} for each in repeats],
    }


def _median_of(rows: list[dict[str, float]]) -> dict[str, float]:
    names = [name for name in rows[0] if all(name in row for row in rows)] if rows else []
    return {name: round(statistics.median(float(row[name]) for row in rows), 3) for name in names}


def _speed(measured: WorkloadPerformance) -> Mapping[str, Any]:
    return {
        "workload": measured.workload,
        "median_us": {timing.contender: round(timing.median_us, 2) for timing in measured.timings},
        "words": {speedup.baseline: str(speedup.word) for speedup in measured.speedups},
        "aa_noise": measured.aa_noise,
    }


# -- the usual way -----------------------------------------------------------------------------------------------------


def _load_inline(name: str, source: str, evaluator: Evaluator, device: Device, folder: Path) -> dict[str, float]:
    """Make one build, comparison and timing through `load_inline`, in a process and a build folder of its own."""
    build = Path(tempfile.mkdtemp(dir=folder))
    cuda, cpp, shapes = _extension(source, evaluator)
    arch = device.arch.removeprefix("sm_")
    spec = {
        "name": f"edit_{randbits(60)}", "problem": name, "cuda": cuda, "cpp": cpp, "shapes": shapes,
        "folder": str(build), "include": str(toolchain.find_include_dirs()[0]),
        "flags": ["-O3", "-std=c++17", "--expt-relaxed-constexpr", f"-gencode=arch=compute_{arch},code=sm_{arch}"],
    }  # fmt: skip
    (build / "spec.json").write_text(json.dumps(spec))
    command = [sys.executable, str(_USUAL), str(build / "spec.json")]
    environment = os.environ | {"TORCH_CUDA_ARCH_LIST": "9.0a"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=_USUAL_LIMIT_S, env=environment, check=False)
    shutil.rmtree(build, ignore_errors=True)
    if done.returncode:
        raise SystemExit(f"load_inline of {name} failed: {done.stderr[-1500:]}")
    answer: dict[str, float] = json.loads(done.stdout.strip().splitlines()[-1])
    return answer


def _extension(source: str, evaluator: Evaluator) -> tuple[str, str, list[list[int]]]:
    """Return the kernel file as an extension's sources, its launches written out for the problem's own size."""
    kernel = parse(source)
    workload = evaluator.problem.with_role(WorkloadRole.BENCHMARK)[0]
    signature = evaluator.reference.signature(workload)
    plan = kernel.plan(signature, evaluator.device, kernel.defaults())
    assert not plan.scratch
    constants, body = kernel.to_cpp(kernel.defaults()).split("#line", 1)
    given = ", ".join(f"torch::Tensor {spec.name}" for spec in signature.inputs)
    out = signature.outputs[0]
    shape = ", ".join(map(str, out.shape))
    launches = ""
    for launch in plan.launches:
        arguments = ", ".join(map(_argument, launch.args))
        grid, block = (", ".join(map(str, three)) for three in (launch.grid, launch.block))
        stream = "at::cuda::getCurrentCUDAStream()"
        launches += f"  {launch.kernel}<<<dim3({grid}), dim3({block}), {launch.smem_bytes}, {stream}>>>({arguments});\n"
    function = f"torch::Tensor run({given})"
    allocated = f"  auto {out.name} = torch::empty({{{shape}}}, {signature.inputs[0].name}.options());\n"
    headers = "#include <torch/extension.h>\n#include <ATen/cuda/CUDAContext.h>\n#include <cute/tensor.hpp>\n"
    device_code = constants + body.split("\n", 1)[1]
    cuda = f"{headers}{device_code}\n{function} {{\n{allocated}{launches}  return {out.name};\n}}\n"
    return cuda, f"{function};", [list(spec.shape) for spec in signature.inputs]


def _argument(argument: Argument) -> str:
    assert not isinstance(argument, TensorMapArgument)
    return f"{argument.name}.data_ptr<float>()" if isinstance(argument, TensorArgument) else str(argument.value)


def _show(name: str, row: Mapping[str, Any]) -> None:
    usual = row.get("load_inline", {}).get("total_without_import")
    beside = f"; load_inline {usual:.1f} s (x {row['times_faster']})" if usual else ""
    print(
        f"{name:16} first {row['first_seconds']:.1f} s, then {row['median_seconds']} s (n = {row['n']}){beside}",
        flush=True,
    )


if __name__ == "__main__":
    main()
