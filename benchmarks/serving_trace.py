"""Device time of serving kernels by a profiler trace, as Astra's figures in `serving_h200` were taken.

    python -m benchmarks.serving_trace [--only silu_and_mul ...] [--seconds 300] [--product] [--eager]

The workbench's own clock brackets a launch by events: it reads 3.7 us for a kernel that does nothing. A trace has the
kernel's own duration, which is what small shapes have to be compared by. For every problem in a process of its own:

1. The existing kernel, the playbook's, and the last one with other parameters: one changed at a time, or with --product
   every combination, beginning with the defaults.
2. Each runs 30 times a shape, behind a read of 512 MB that takes the L2 and leaves nothing to be written back; its
   results are compared with the reference's on the GPU. The time is the median of the sums of its launches.
3. `results/serving_trace.json`: problem -> shape -> kernel -> us, and the fastest.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from benchmarks.conditions import write
from benchmarks.serving_h200 import ASTRA, FLOOR_BYTES_PER_S
from cutegen_core.evaluate.sweep import with_params
from cutegen_core.execute.compiler.compilation import Compiler
from cutegen_core.execute.compiler.demangle import demangle
from cutegen_core.execute.cuda.program import Function, make_program
from cutegen_core.judge.reference import Reference
from cutegen_core.kernel.kernel_file import parse
from cutegen_core.machine.device import Device, choose_device
from cutegen_core.problems import library
from cutegen_core.propose import playbook
from cutegen_core.records.problem import Problem, Signature, Workload, WorkloadRole

Row = dict[str, Any]
RUNS, WARM, FLUSH_BYTES = 30, 3, 512 << 20
MOST_COMBINATIONS = 40
_ROW = "ROW "


def kernels_of(problem: Problem, reference: Reference, product: bool) -> Iterator[tuple[str, str]]:
    """Yield name and source of what is traced."""
    workload = problem.with_role(WorkloadRole.BENCHMARK)[0]
    graph, signature = reference.graph(workload), reference.signature(workload)
    yield "existing", problem.existing
    try:
        variants = playbook.propose(graph, signature, problem.name, problem.allow)
    except playbook.NotInPlaybook as reason:
        print(f"{problem.name}: {reason}", flush=True)
        return
    yield from ((v.name, v.source) for v in reversed(variants))
    kernel = parse(variants[-1].source)
    default = kernel.defaults()
    for choice in islice((c for c in kernel.combinations(choose_device(None)) if c != default), 500):
        changed = {name: value for name, value in choice.items() if value != default[name]}
        if product or len(changed) == 1:
            words = ", ".join(f"{name} = {value}" for name, value in changed.items())
            yield f"{variants[-1].name}, {words}", with_params(kernel, choice)


class Tracer:
    """Runs kernels of one problem in this process, which holds torch and the GPU."""

    def __init__(self, problem: Problem, reference: Reference, device: Device) -> None:
        import torch

        self._torch: Any = torch
        self._problem, self._device = problem, device
        self._flush = torch.zeros(FLUSH_BYTES // 4, device="cuda")
        self._mark = torch.zeros(1, device="cuda", dtype=torch.uint8)
        self._compiler = Compiler(device.arch)
        self._shapes = {w.name: self._prepare(w, reference) for w in problem.with_role(WorkloadRole.BENCHMARK)}

    def trace(self, source: str) -> Row:
        """Return shape -> us, or what is wrong."""
        from cutegen_core.execute.cuda.launching import LoadedProgram

        kernel = parse(source)
        compiled = self._compiler.compile(kernel, kernel.defaults())
        if not compiled.cubin or compiled.lowered is None:
            return {"failure": compiled.message or compiled.status}
        functions = {name: Function(mangled, demangle(mangled)) for name, mangled in compiled.lowered.items()}
        loaded: dict[str, LoadedProgram] = {}
        try:
            for name, (signature, places, outputs, *_) in self._shapes.items():
                plan = kernel.plan(signature, self._device, kernel.defaults(), workload=name)
                loaded[name] = LoadedProgram(compiled.cubin, make_program(plan, functions), [places], {})
                for out in outputs:
                    out.fill_(float("nan"))
            us = self._time({name: partial(program.run, self._stream, 0) for name, program in loaded.items()})
        finally:
            for program in loaded.values():
                program.unload()
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
        expected = model(*given)
        expected = list(expected) if isinstance(expected, tuple | list) else [expected]
        outputs = [torch.empty_like(x, memory_format=torch.contiguous_format) for x in expected]
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
        if not got.dtype.is_floating_point:
            return bool((got == want).all())
        limit = self._problem.tolerance_for(str(got.dtype).removeprefix("torch."))
        return bool(
            self._torch.isclose(got.float(), want.float(), rtol=max(limit.rtol, 1e-5), atol=max(limit.atol, 1e-5),
                                equal_nan=True).all()
        )  # fmt: skip


def child(name: str, product: bool, eager: bool, seconds: float) -> None:
    """Trace one problem and print a row for each kernel."""
    problem, device = library.load(name), choose_device(None)
    deadline = time.monotonic() + seconds
    with (
        tempfile.TemporaryDirectory(prefix="cutegen-trace-") as scratch,
        Reference(problem, Path(scratch)) as reference,
    ):
        tracer = Tracer(problem, reference, device)
        floors = {
            w.name: reference.signature(w).nbytes / FLOOR_BYTES_PER_S * 1e6
            for w in problem.with_role(WorkloadRole.BENCHMARK)
        }
        _say({"problem": name, "floors": floors})
        if eager:
            _say({"problem": name, "kernel": "eager", **tracer.eager()})
        for number, (kernel, source) in enumerate(kernels_of(problem, reference, product)):
            if time.monotonic() > deadline or number > MOST_COMBINATIONS:
                print(f"{name}: stopped at {kernel}", flush=True)
                break
            _say({"problem": name, "kernel": kernel, **tracer.trace(source)})


def _say(row: Row) -> None:
    print(f"{_ROW}{json.dumps(row)}", flush=True)


def run(name: str, asked: argparse.Namespace) -> list[Row]:
    """Trace one problem in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.serving_trace", "--child", name, "--seconds", str(asked.seconds)]
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
    rows = [row for name in names for row in run(name, asked)]
    found = table(rows)
    show(found)
    failures = [row for row in rows if "failure" in row]
    print(*(f"{row['problem']} {row['kernel']}: {row['failure']}" for row in failures), sep="\n")
    write("serving_trace", {"device": asdict(choose_device(None)), "table": found, "rows": rows})


if __name__ == "__main__":
    main()
