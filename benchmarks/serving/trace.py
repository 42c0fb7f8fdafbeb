"""Device time of serving kernels by a profiler trace, as Astra's figures in `kernels.py` were taken.

    python -m benchmarks.serving.trace [--only silu_and_mul ...] [--seconds 300] [--product] [--eager]

The workbench's own clock brackets a launch by events: it reads 3.7 us for a kernel that does nothing. A trace has the
kernel's own duration, which is what small shapes have to be compared by. For every problem in a process of its own:

1. The existing kernel, the playbook's, and the last one with other parameters: one changed at a time, or with --product
   every combination, those with the fewest changes first, until the time is over.
2. Each runs 24 times a shape, behind a read of 512 MB that takes the L2 and leaves nothing to be written back; its
   results are compared with the reference's on the GPU. The time is the median of the sums of its launches.
3. `results/serving_trace.json`: problem -> shape -> kernel -> us, and the fastest.
"""

from __future__ import annotations

import argparse
import copy
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from benchmarks.conditions import RESULTS, write
from benchmarks.serving.kernels import ASTRA, FLOOR_BYTES_PER_S
from cutegen_core.evaluate.sweep import with_params
from cutegen_core.execute.compiler.compilation import Compiler, CompileResult
from cutegen_core.execute.compiler.demangle import demangle
from cutegen_core.execute.cuda.program import Function, make_program
from cutegen_core.judge.reference import Reference
from cutegen_core.kernel.kernel_file import parse
from cutegen_core.machine.device import Device, choose_device
from cutegen_core.problems import library
from cutegen_core.propose import playbook
from cutegen_core.records.problem import Problem, Signature, Workload, WorkloadRole

Row = dict[str, Any]
RUNS, WARM, FLUSH_BYTES = 24, 3, 512 << 20
MOST_COMBINATIONS, COMPILERS = 500, 8
_ROW = "ROW "


def kernels_of(problem: Problem, reference: Reference, product: bool) -> Iterator[tuple[str, str]]:
    """Yield name and source of what is traced."""
    workload = problem.with_role(WorkloadRole.BENCHMARK)[0]
    graph, signature = reference.graph(workload), reference.signature(workload)
    yield "existing", problem.existing
    try:
        variants = playbook.propose(graph, signature, problem.name, playbook.Target(allow=problem.allow))
    except playbook.NotInPlaybook as reason:
        print(f"{problem.name}: {reason}", flush=True)
        return
    yield from ((v.name, v.source) for v in reversed(variants))
    kernel = parse(variants[-1].source)
    default = kernel.defaults()
    choices = islice(kernel.combinations(choose_device(None)), MOST_COMBINATIONS)
    changes = [{name: value for name, value in choice.items() if value != default[name]} for choice in choices]
    for changed in sorted(changes, key=len):
        if len(changed) == 1 or (product and changed):
            words = ", ".join(f"{name} = {value}" for name, value in changed.items())
            yield f"{variants[-1].name}, {words}", with_params(kernel, {**default, **changed})


class Builds:
    """Compiles kernels ahead, several at a time."""

    def __init__(self, arch: str) -> None:
        self._arch, self._local = arch, threading.local()
        self._compilers: list[Compiler] = []
        self._pool = ThreadPoolExecutor(max(1, min(COMPILERS, (os.cpu_count() or 2) // 2)))

    def start(self, sources: Sequence[str]) -> list[Future[CompileResult]]:
        return [self._pool.submit(self._compile, source) for source in sources]

    def _compile(self, source: str) -> CompileResult:
        if not hasattr(self._local, "compiler"):
            self._local.compiler = Compiler(self._arch)
            self._compilers.append(self._local.compiler)
        kernel = parse(source)
        compiler: Compiler = self._local.compiler
        return compiler.compile(kernel, kernel.defaults())

    def close(self) -> None:
        self._pool.shutdown(cancel_futures=True)
        for compiler in self._compilers:
            compiler.close()


class Tracer:
    """Runs kernels of one problem in this process, which holds torch and the GPU."""

    def __init__(self, problem: Problem, reference: Reference, device: Device) -> None:
        import torch

        self._torch: Any = torch
        self._problem, self._device = problem, device
        self._flush = torch.zeros(FLUSH_BYTES // 4, device="cuda")
        self._mark = torch.zeros(1, device="cuda", dtype=torch.uint8)
        self._shapes = {w.name: self._prepare(w, reference) for w in problem.with_role(WorkloadRole.BENCHMARK)}

    def trace(self, source: str, compiled: CompileResult) -> Row:
        """Return shape -> us, or what is wrong."""
        from cutegen_core.execute.cuda.launching import LoadedProgram

        kernel = parse(source)
        if not compiled.cubin or compiled.lowered is None:
            return {"failure": compiled.message or compiled.status}
        functions = {name: Function(mangled, demangle(mangled)) for name, mangled in compiled.lowered.items()}
        loaded: dict[str, LoadedProgram] = {}
        held: list[Any] = []
        try:
            for name, (signature, places, outputs, *_) in self._shapes.items():
                plan = kernel.plan(signature, self._device, kernel.defaults(), workload=name)
                program = make_program(plan, functions)
                room = {
                    s.name: self._torch.zeros(s.nbytes, device="cuda", dtype=self._mark.dtype) for s in program.scratch
                }
                held.append(room)
                addresses = {scratch: memory.data_ptr() for scratch, memory in room.items()}
                loaded[name] = LoadedProgram(compiled.cubin, program, [places], addresses)
                for out in outputs:
                    out.fill_(float("nan"))
            us = self._time({name: partial(ready.run, self._stream, 0) for name, ready in loaded.items()})
        finally:
            for ready in loaded.values():
                ready.unload()
        for name, (_, _, outputs, expected, _) in self._shapes.items():
            if not all(self._is_close(got, want) for got, want in zip(outputs, expected, strict=True)):
                return {"failure": f"wrong at {name}"}
        return {"us": us, "registers": {k.kernel: k.registers for k in compiled.kernels}}

    def eager(self) -> Row:
        """Return the sums of eager's kernels, by shape."""
        return {"us": self._time({name: run for name, (*_, run) in self._shapes.items()})}

    @property
    def _stream(self) -> int:
        return int(self._torch.cuda.current_stream().cuda_stream)

    def _prepare(self, workload: Workload, reference: Reference) -> tuple[Signature, Any, list[Any], list[Any], Any]:
        from cutegen_core.execute.cuda.launching import DeviceTensor

        torch, signature = self._torch, reference.signature(workload)
        names: dict[str, Any] = {}
        exec(compile(reference.source(workload), self._problem.name, "exec"), names)
        torch.manual_seed(7)
        model = names["Model"](*names["get_init_inputs"]()).cuda().requires_grad_(False)
        given = [x.cuda() if hasattr(x, "cuda") else x for x in names["get_inputs"]()]
        held = [*model.parameters(), *model.buffers()]
        tensors = [x.contiguous() for x in (*given, *held) if hasattr(x, "data_ptr")]
        outputs = [torch.empty(s.shape, device="cuda", dtype=getattr(torch, s.dtype)) for s in signature.outputs]
        double = copy.deepcopy(model).double()
        exact = double(*(x.double() if hasattr(x, "dtype") and x.is_floating_point() else x for x in given))
        expected = list(exact) if isinstance(exact, tuple | list) else [exact]
        pairs = [*zip(signature.inputs, tensors, strict=True), *zip(signature.outputs, outputs, strict=True)]
        written = {spec.name for spec in signature.outputs}
        places = {s.name: DeviceTensor(x.data_ptr(), x.nbytes, s.name in written) for s, x in pairs}
        return signature, places, outputs, expected, lambda: (model(*given), tensors)

    def _time(self, runs: Mapping[str, Callable[[], object]]) -> dict[str, float]:
        """Return for each name the median, over its runs, of the sum of its kernels, which stand between two marks."""
        torch = self._torch
        for run in runs.values():
            for _ in range(WARM):
                run()
        torch.cuda.synchronize()
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
            for run in runs.values():
                for _ in range(RUNS):
                    self._flush.amax()
                    self._mark.fill_(1)
                    run()
                    self._mark.fill_(2)
            torch.cuda.synchronize()
        events = [e for e in profile.events() if e.device_type == torch.autograd.DeviceType.CUDA]
        events.sort(key=lambda e: e.time_range.start)
        marks = [k for k, e in enumerate(events) if "FillFunctor<unsigned char>" in e.name]
        if len(marks) != 2 * RUNS * len(runs):
            names = sorted({e.name for e in events})
            raise RuntimeError(f"{len(marks)} marks in the trace, not {2 * RUNS * len(runs)}; it has {names}")
        sums = [
            sum(e.time_range.elapsed_us() for e in events[begin + 1 : end])
            for begin, end in zip(marks[::2], marks[1::2], strict=True)
        ]
        return {name: round(statistics.median(sums[k * RUNS : (k + 1) * RUNS]), 2) for k, name in enumerate(runs)}

    def _is_close(self, got: Any, want: Any) -> bool:  # noqa: ANN401 - torch tensors
        """Tell whether they agree about as far as they must: the judge is the evaluator, this finds a wrong launch."""
        if not got.dtype.is_floating_point:
            return bool((got == want).all())
        limit = self._problem.tolerance_for(str(got.dtype).removeprefix("torch."))
        near = {"rtol": max(2 * limit.rtol, 1e-5), "atol": max(2 * limit.atol, 1e-5)}
        return bool(self._torch.isclose(got.double(), want.double(), **near, equal_nan=True).all())


def child(name: str, product: bool, eager: bool, seconds: float) -> None:
    """Trace one problem and print a row for each kernel."""
    problem, device = library.load(name), choose_device(None)
    deadline = time.monotonic() + seconds
    with (
        tempfile.TemporaryDirectory(prefix="cutegen-trace-") as scratch,
        Reference(problem, Path(scratch)) as reference,
    ):
        kernels, builds = list(kernels_of(problem, reference, product)), Builds(device.arch)
        compiled = builds.start([source for _, source in kernels])
        tracer = Tracer(problem, reference, device)
        floors = {
            w.name: reference.signature(w).nbytes / FLOOR_BYTES_PER_S * 1e6
            for w in problem.with_role(WorkloadRole.BENCHMARK)
        }
        _say({"problem": name, "floors": floors})
        if eager:
            _say({"problem": name, "kernel": "eager", **tracer.eager()})
        for (kernel, source), build in zip(kernels, compiled, strict=True):
            if time.monotonic() > deadline:
                print(f"{name}: stopped at {kernel}", flush=True)
                break
            _say({"problem": name, "kernel": kernel, **tracer.trace(source, build.result())})
        builds.close()


def _say(row: Row) -> None:
    print(f"{_ROW}{json.dumps(row)}", flush=True)


def run(name: str, asked: argparse.Namespace) -> list[Row]:
    """Trace one problem in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.serving.trace", "--child", name, "--seconds", str(asked.seconds)]
    command += [flag for flag, on in (("--product", asked.product), ("--eager", asked.eager)) if on]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    rows = [json.loads(line.removeprefix(_ROW)) for line in done.stdout.splitlines() if line.startswith(_ROW)]
    print(*(line for line in done.stdout.splitlines() if not line.startswith(_ROW)), sep="\n", flush=True)
    return rows


def table(rows: Sequence[Row]) -> Mapping[str, Any]:
    """Return problem -> shape -> floor, Astra's figures, every kernel's time, the fastest."""
    found: dict[str, dict[str, Any]] = {}
    for row in rows:
        for shape, floor in row.get("floors", {}).items():
            base, best = ASTRA.get(row["problem"], {}).get(shape, (None, None))
            line = {"floor_us": round(floor, 2), "astra": {"baseline": base, "optimised": best}, "kernels": {}}
            found.setdefault(row["problem"], {})[shape] = line
        for shape, us in row.get("us", {}).items():
            found[row["problem"]][shape]["kernels"][row["kernel"]] = us
    return found


def show(found: Mapping[str, Any]) -> None:
    """Print a line per shape: existing, the last kernel with its defaults, the fastest, Astra, floor."""
    for name, shapes in found.items():
        for shape, line in shapes.items():
            kernels = dict(line["kernels"])
            eager, existing = kernels.pop("eager", None), kernels.pop("existing", None)
            fastest = sorted(kernels.items(), key=lambda one: one[1])[:3]
            best = "; ".join(f"{kernel} {us}" for kernel, us in fastest)
            print(f"{name} {shape}: eager {eager} existing {existing} tuned {kernels.get('tuned')} "
                  f"Astra {line['astra']['optimised']} floor {line['floor_us']} | {best}")  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", nargs="*", default=[], help="problems, by name")
    parser.add_argument("--seconds", type=float, default=150.0, help="of each problem")
    parser.add_argument("--product", action="store_true", help="every combination of the last kernel's parameters")
    parser.add_argument("--eager", action="store_true")
    parser.add_argument("--child", default="", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.child:
        child(asked.child, asked.product, asked.eager, asked.seconds)
        return
    names = [p.name for p in library.catalogue() if p.existing and (not asked.only or p.name in asked.only)]
    earlier = RESULTS / "serving_trace.json"
    rows = json.loads(earlier.read_text())["rows"] if earlier.exists() else []
    for name in names:
        rows = [row for row in rows if row["problem"] != name] + run(name, asked)
        found = table(rows)
        write("serving_trace", {"device": asdict(choose_device(None)), "table": found, "rows": rows})
        show({name: found.get(name, {})})
    for row in rows:
        if "failure" in row:
            print(f"{row['problem']} {row['kernel']}: {row['failure']}")


if __name__ == "__main__":
    main()
