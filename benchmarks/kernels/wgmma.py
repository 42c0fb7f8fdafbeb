"""A kernel with TMA and wgmma written as a kernel file, on an H200: right, and its share of cuBLAS.

1. `python -m benchmarks.kernels.wgmma prepare FOLDER`, without a GPU: compiles every kernel and keeps cubin and plan.
2. `python -m benchmarks.kernels.wgmma run FOLDER --limit-s 240`, on the GPU:
   a. every layout of a tile and the transpose through the GPU executor, against float64;
   b. the matrix product at ragged shapes through the GPU executor, against float64;
   c. large products in this process, in turns with torch.mm, cold L2: the whole result against cuBLAS, rows of it
      against float64, median times;
   d. the same products through the workbench's own BENCHMARK stage.
Each step is a process of its own: one that fails is written down and the next begins. Results: results/gpu_wgmma.json.
"""

from __future__ import annotations

import argparse
import base64
import json
import statistics
import subprocess
import sys
import tempfile
import time
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import conditions
from benchmarks.kernels import wgmma_tiles
from cutegen_core.kernel import kernel_file
from cutegen_core.kernel.kernel_file import KernelFile
from cutegen_core.machine.device import detect
from cutegen_core.problems import library
from cutegen_core.records.problem import Signature, TensorRole, TensorSpec
from cutegen_core.records.trial import Status

ARCH = "sm_90a"
ROOT = Path(__file__).parents[2]
GEMM, TRANSPOSE, TILES = (
    ROOT / "tests" / "data" / f"{n}.cu" for n in ("gemm_bf16_wgmma", "transpose_tma", "wgmma_variants")
)
PROBLEM = ROOT / "tests" / "data" / "kernels" / "linear_bf16.py"
RAGGED = ((515, 264, 520), (70, 88, 96), (1, 8, 8), (259, 16, 200))
Choices = tuple[Mapping[str, int], ...]
SHAPES: tuple[tuple[tuple[int, int, int], Choices], ...] = (
    #  M, N, K and the parameters to try, the most promising first
    ((4096, 4096, 4096), ({}, {"RASTER": 8}, {"BN": 128, "STAGES": 5})),
    ((8192, 8192, 8192), ({}, {"RASTER": 8})),
    ((1024, 2048, 512), ({"BN": 128, "STAGES": 5}, {}, {"GROUPS": 1, "BN": 128, "STAGES": 5})),
)
SAMPLES = 40
FLUSH_BYTES = 256 << 20


@dataclass(frozen=True)
class Machine:
    """What the compiler made of a file with these parameters; an `executor.Machine`."""

    cubin: bytes
    lowered: Mapping[str, str]
    facts: Mapping[str, Any]


def key(path: Path, params: Mapping[str, int]) -> str:
    return "-".join([path.stem, *(f"{name}{value}" for name, value in sorted(params.items()))])


def prepare(folder: Path) -> None:
    """Compile everything that is not in `folder` yet."""
    from cutegen_core.execute.compiler.compilation import Compiler

    folder.mkdir(parents=True, exist_ok=True)
    compiler = Compiler(ARCH)
    wanted = {(GEMM, tuple(sorted(p.items()))) for _, choices in SHAPES for p in choices}
    for path, params in sorted({*wanted, (GEMM, ()), (TRANSPOSE, ()), (TILES, ())}):
        target = folder / f"{key(path, dict(params))}.json"
        file = kernel_file.parse(path.read_text())
        made = compiler.compile(file, {**file.defaults(), **dict(params)})
        assert made.lowered is not None, made.message
        kernel = made.kernels[0]
        facts = {
            "source": path.name, "params": dict(params), "registers": kernel.registers,
            "hgmma": sorted({word for word in made.sass.split() if word.startswith("HGMMA")}),
            "ptxas_c75": sum("(C75" in d.message for d in made.diagnostics), "compile_s": round(made.seconds, 1),
        }  # fmt: skip
        cubin = base64.b64encode(zlib.compress(made.cubin, 9)).decode()
        target.write_text(json.dumps({"cubin": cubin, "lowered": dict(made.lowered), "facts": facts}))
        print(target.name, json.dumps(facts), flush=True)
    compiler.close()


def load(folder: Path, path: Path, params: Mapping[str, int]) -> Machine:
    plain = json.loads((folder / f"{key(path, params)}.json").read_text())
    return Machine(zlib.decompress(base64.b64decode(plain["cubin"])), plain["lowered"], plain["facts"])


def signature(m: int, n: int, k: int) -> Signature:
    a, b = TensorSpec("a", "bfloat16", (m, k)), TensorSpec("b", "bfloat16", (n, k))
    return Signature((a, b), (TensorSpec("out", "bfloat16", (m, n), TensorRole.OUTPUT),))


def say(name: str, row: Mapping[str, Any]) -> None:
    """Hand a row to the parent process."""
    print(f"{_ROW}{json.dumps({'name': name, **row}, default=str)}", flush=True)


class Steps:
    """What the processes do."""

    def __init__(self, folder: Path) -> None:
        found = detect()
        assert found is not None, "there is no GPU in this machine"
        self.folder, self.device = folder, found

    # ---- small, through the executor

    def executor(self) -> None:
        """Run tiles, transposes and ragged products, each in a runner of its own, against float64."""
        from cutegen_core.execute.executors.gpu import GpuExecutor

        with tempfile.TemporaryDirectory(prefix="wgmma-") as scratch:
            executor = GpuExecutor(Path(scratch) / "cache", self.device)
            try:
                for row in self._cases(executor, Path(scratch)):
                    say(row["case"], row)
            finally:
                executor.close()

    def _cases(self, executor: Any, scratch: Path) -> Iterator[Mapping[str, Any]]:  # noqa: ANN401
        for kind, a_span, b_span in wgmma_tiles.LAYOUTS:
            made = wgmma_tiles.tile(kind)
            plan = wgmma_tiles.plan(made, kind, a_span, b_span)
            inputs = {"a": (made.a, made.dtype), "b": (made.b, made.dtype)}
            name = f"tile {kind} {a_span} {b_span}"
            yield self._judge(executor, scratch, name, TILES, plan, inputs, made.want, "float32")
        for m, n in ((32, 32), (40, 76), (1000, 2004)):
            yield self._transpose(executor, scratch, m, n)
        for m, n, k in RAGGED:
            yield self._ragged(executor, scratch, m, n, k)

    def _transpose(self, executor: Any, scratch: Path, m: int, n: int) -> Mapping[str, Any]:  # noqa: ANN401
        x = np.random.default_rng(m).standard_normal((m, n)).astype(np.float32)
        tensors = Signature((TensorSpec("x", "float32", (m, n)),), (TensorSpec("out", "float32", (n, m), _OUT),))
        plan = kernel_file.parse(TRANSPOSE.read_text()).plan(tensors, self.device)
        return self._judge(
            executor, scratch, f"transpose {m} {n}", TRANSPOSE, plan, {"x": (x, "float32")}, x.T, "float32"
        )

    def _ragged(self, executor: Any, scratch: Path, m: int, n: int, k: int) -> Mapping[str, Any]:  # noqa: ANN401
        draw = np.random.default_rng(k)
        a, b = (wgmma_tiles.bfloat16(draw.standard_normal((rows, k))) for rows in (m, n))
        plan = kernel_file.parse(GEMM.read_text()).plan(signature(m, n, k), self.device)
        inputs = {"a": (a, "bfloat16"), "b": (b, "bfloat16")}
        want = a.astype(np.float64) @ b.astype(np.float64).T
        return self._judge(executor, scratch, f"gemm {m} {n} {k}", GEMM, plan, inputs, want, "bfloat16")

    def _judge(
        self, executor: Any, scratch: Path, name: str, source: Path, plan: Any,  # noqa: ANN401
        inputs: Mapping[str, tuple[np.ndarray, str]], want: np.ndarray, dtype: str,
    ) -> Mapping[str, Any]:  # fmt: skip
        from cutegen_core.execute.port import Execution

        file = kernel_file.parse(source.read_text())
        built = executor.build(file, {}, lambda: load(self.folder, source, {}), checked=False)
        given = {TensorSpec(n, t, v.shape): scratch / f"{n}.bin" for n, (v, t) in inputs.items()}
        for spec, path in given.items():
            path.write_bytes(wgmma_tiles.stored(inputs[spec.name][0], spec.dtype))
        out = TensorSpec("out", dtype, want.shape, _OUT)
        target = scratch / "out.bin"
        target.write_bytes(bytes(out.nbytes))
        with executor.open(built) as execute:
            done = execute(Execution(built, plan, given, {out: target}))
        row: dict[str, Any] = {"case": name, "status": done.status.value, "message": done.message, "right": False}
        if done.status is Status.PASSED:
            got = _read(target.read_bytes(), out)
            limit = 2.0**-7 * np.abs(want) + 1e-3 if dtype == "bfloat16" else 1e-4 * np.abs(want) + 1e-4
            row["worst"] = float(np.nanmax(np.abs(got - want)))
            row["right"] = bool(np.isfinite(got).all() and (np.abs(got - want) <= limit).all())
        return row

    # ---- large, in this process

    def direct(self, shape: int) -> None:
        """Measure every choice of parameters for one shape."""
        (m, n, k), choices = SHAPES[shape]
        for params in choices:
            say(f"direct {m} {n} {k} {key(GEMM, params)}", self._direct(m, n, k, params))

    def _direct(self, m: int, n: int, k: int, params: Mapping[str, int]) -> Mapping[str, Any]:
        """Time it in turns with torch.mm over the same tensors; each sample after a flush of the L2."""
        import torch

        from cutegen_core.execute.cuda.launching import DeviceTensor, LoadedProgram
        from cutegen_core.execute.cuda.program import Function, make_program

        torch.manual_seed(0)
        a, b = (torch.randn(rows, k, device="cuda").to(torch.bfloat16) for rows in (m, n))
        out, expected = (torch.full((m, n), float("nan"), device="cuda", dtype=torch.bfloat16) for _ in range(2))
        flush = torch.empty(FLUSH_BYTES, device="cuda", dtype=torch.uint8)
        torch.mm(a, b.T, out=expected)
        torch.cuda.synchronize()
        machine = load(self.folder, GEMM, params)
        file: KernelFile = kernel_file.parse(GEMM.read_text())
        plan = file.plan(signature(m, n, k), self.device, {**file.defaults(), **params})
        functions = {name: Function(mangled, _SIGNATURE) for name, mangled in machine.lowered.items()}
        places = {t: DeviceTensor(v.data_ptr(), v.nbytes, t == "out") for t, v in (("a", a), ("b", b), ("out", out))}
        loaded = LoadedProgram(machine.cubin, make_program(plan, functions), [places], {})
        stream = torch.cuda.current_stream().cuda_stream
        try:
            loaded.run(stream, 0)
            torch.cuda.synchronize()
            checked = _compared(torch, a, b, out, expected)
            contenders = {"ours": lambda: loaded.run(stream, 0), "torch.mm": lambda: torch.mm(a, b.T, out=expected)}
            times: dict[str, list[float]] = {name: [] for name in contenders}
            for sample in range(-5, SAMPLES):
                order = list(contenders.items())
                for name, launch in order if sample % 2 else reversed(order):
                    flush.zero_()
                    begin: Any = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
                    end: Any = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
                    begin.record()
                    launch()  # type: ignore[no-untyped-call]
                    end.record()
                    torch.cuda.synchronize()
                    if sample >= 0:
                        times[name].append(begin.elapsed_time(end) * 1e3)
            again = _compared(torch, a, b, out, expected)
        finally:
            loaded.unload()
        tflops = {name: 2e-6 * m * n * k / statistics.median(us) for name, us in times.items()}
        return {
            "shape": [m, n, k], **machine.facts, "right": checked["right"] and again["right"], "first": checked,
            "median_us": {name: statistics.median(us) for name, us in times.items()}, "tflops": tflops,
            "share_of_cublas": tflops["ours"] / tflops["torch.mm"],
            "p10_us": {name: sorted(us)[len(us) // 10] for name, us in times.items()}, "samples": SAMPLES,
        }  # fmt: skip

    # ---- large, as the workbench measures

    def workbench(self, shape: int, choice: int) -> None:
        """Time it as BENCHMARK does: fresh values, whole output verified, eager, torch.compile, a fresh process."""
        from cutegen_core.evaluate.timing.contest import Contest, Entry
        from cutegen_core.evaluate.timing.timer import Timer
        from cutegen_core.execute.cuda.program import Function, make_program
        from cutegen_core.judge.reference import Reference
        from cutegen_core.records.problem import Workload, WorkloadRole

        (m, n, k), choices = SHAPES[shape]
        params = choices[choice]
        machine = load(self.folder, GEMM, params)
        file = kernel_file.parse(GEMM.read_text())
        plan = file.plan(signature(m, n, k), self.device, {**file.defaults(), **params})
        functions = {name: Function(mangled, _SIGNATURE) for name, mangled in machine.lowered.items()}
        entry = Entry(machine.cubin, make_program(plan, functions))
        workload = Workload("benchmark", WorkloadRole.BENCHMARK, {"M": m, "N": n, "K": k})
        problem = library.load(str(PROBLEM))
        with (
            tempfile.TemporaryDirectory(prefix="wgmma-") as scratch,
            Reference(problem, Path(scratch)) as reference,
            Timer(reference, self.device) as timer,
        ):
            measured = timer.measure(Contest(workload, 20261121, entry), _Watcher())
        plain: dict[str, Any] = {"shape": [m, n, k], "params": dict(params), "marks": measured.marks}
        plain |= {"failure": asdict(measured.failure) if measured.failure else None, "not_timed": measured.not_timed}
        plain |= {"comparisons": [asdict(c) for c in measured.comparisons], "seconds": measured.seconds}
        if measured.performance:
            timings = tuple(replace(t, samples_us=()) for t in measured.performance.timings)
            plain["performance"] = asdict(replace(measured.performance, timings=timings))
            plain["tflops"] = {t.contender: 2e-6 * m * n * k / t.median_us for t in timings}
        say(f"workbench {m} {n} {k}", plain)


class Parent:
    """Runs the steps within a limit and writes what they say down at once."""

    def __init__(self, folder: Path, limit_s: float) -> None:
        self.folder, self.deadline = folder, time.monotonic() + limit_s
        self.rows: dict[str, dict[str, Any]] = {}
        self.failures: list[str] = []
        found = detect()
        self.device = asdict(found) if found else None

    def run(self) -> int:
        # The number most wanted comes first.
        steps = [("direct", 0, 60), ("executor", -1, 90), *(("direct", shape, 60) for shape in range(1, len(SHAPES)))]
        for what, shape, most_s in [*steps, *(("workbench", shape, 90) for shape in range(len(SHAPES)))]:
            words = "" if shape < 0 else str(shape)
            if what == "workbench":
                words += f" {self._best(*SHAPES[shape])}"
            self.failures += filter(None, [self.step(what, words, most_s)])
            self._write()
        self._table()
        return int(bool(self.failures) or any(not row.get("right", True) for row in self.rows.values()))

    def _write(self) -> None:
        small = [row for row in self.rows.values() if "case" in row]
        conditions.write("gpu_wgmma", {
            "device": self.device, "failures": self.failures,
            "small_cases": {"of": len(small), "right": sum(row["right"] for row in small)},
            "rows": list(self.rows.values()),
        })  # fmt: skip

    def step(self, what: str, words: str, most_s: float) -> str:
        """Return what went wrong, "" when nothing did."""
        left = min(most_s, self.deadline - time.monotonic())
        if left < 15:
            return f"{what} {words}: no time left"
        command = [sys.executable, "-m", "benchmarks.kernels.wgmma", what, str(self.folder), *words.split()]
        print(f"== {what} {words}", flush=True)
        try:
            done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=left)
            text, ending = done.stdout, f"code {done.returncode}" if done.returncode else ""
        except subprocess.TimeoutExpired as error:
            text, ending = (error.stdout or b"").decode(errors="replace"), f"more than {left:.0f} s"
        for line in text.splitlines():
            if line.startswith(_ROW):
                row = json.loads(line.removeprefix(_ROW))
                self.rows[row["name"]] = row
        if ending:
            print(text[-3000:], flush=True)
        return f"{what} {words}: {ending}" if ending else ""

    def _best(self, sizes: tuple[int, int, int], choices: Choices) -> int:
        m, n, k = sizes

        def share(choice: int) -> float:
            row = self.rows.get(f"direct {m} {n} {k} {key(GEMM, choices[choice])}", {})
            return float(row.get("share_of_cublas", 0.0)) if row.get("right") else 0.0

        return max(range(len(choices)), key=share)

    def _table(self) -> None:
        small = [row for row in self.rows.values() if "case" in row]
        print(f"\nsmall cases right: {sum(row['right'] for row in small)} of {len(small)}")
        for row in small:
            if not row["right"]:
                print(f"  {json.dumps(row)[:300]}")
        print(f"{'product':50} {'right':5} {'TFLOP/s':>8} {'torch.mm':>8} {'share':>6}")
        for name, row in self.rows.items():
            if "share_of_cublas" in row:
                ours, theirs = row["tflops"]["ours"], row["tflops"]["torch.mm"]
                print(f"{name:50} {row['right']!s:5} {ours:8.1f} {theirs:8.1f} {row['share_of_cublas']:6.3f}")
            elif name.startswith("workbench"):
                shown = row.get("tflops") or {"verdict": row["failure"] or row["not_timed"]}
                print(f"{name:50} {json.dumps(shown)[:200]} {row['marks']}")
        for failure in self.failures:
            print(f"FAILED {failure}")


_ROW = "ROW "
_OUT = TensorRole.OUTPUT
_SIGNATURE = "matmul(cute::TmaDescriptor, cute::TmaDescriptor, cute::TmaDescriptor, int, int, int)"


class _Watcher:
    def say(self, text: str) -> None:
        print(f"  {text}", flush=True)

    def stopped(self) -> bool:
        return False


def _read(data: bytes, spec: TensorSpec) -> np.ndarray:
    if spec.dtype != "bfloat16":
        return np.frombuffer(data, np.dtype(spec.dtype)).reshape(spec.shape).astype(np.float64)
    bits = np.frombuffer(data, np.uint16).astype(np.uint32) << 16
    return bits.view(np.float32).reshape(spec.shape).astype(np.float64)


def _compared(torch: Any, a: Any, b: Any, out: Any, expected: Any) -> dict[str, Any]:  # noqa: ANN401 - torch tensors
    """Compare the whole result with cuBLAS, 64 rows of it against float64."""
    rows = torch.randint(0, a.shape[0], (64,), device=a.device)
    exact = a[rows].double() @ b.double().T
    error = (out[rows].double() - exact).abs()
    theirs = (expected[rows].double() - exact).abs()
    right = bool((error <= 2.0**-7 * exact.abs() + 1e-2).all()) and bool(out.isfinite().all())
    different = int((out != expected).sum())
    far = (out.float() - expected.float()).abs() > 2.0**-6 * expected.float().abs() + 1e-2
    return {
        "right": right and not bool(far.any()), "differs_from_cublas": different, "of": out.numel(),
        "worst_error": float(error.max()), "worst_error_of_cublas": float(theirs.max()),
    }  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("prepare", "run", "executor", "direct", "workbench"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("numbers", nargs="*", type=int, help="of a step: the shape, and the choice of parameters")
    parser.add_argument("--limit-s", type=float, default=240.0)
    chosen = parser.parse_args()
    if chosen.what == "run":
        return Parent(chosen.folder, chosen.limit_s).run()
    if chosen.what == "prepare":
        prepare(chosen.folder)
    else:
        getattr(Steps(chosen.folder), chosen.what)(*chosen.numbers)
    return 0


if __name__ == "__main__":
    sys.exit(main())
