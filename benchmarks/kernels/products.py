"""The playbook's matrix products on the GPU of this machine, each with a short sweep, in turns with torch.matmul.

    python -m benchmarks.kernels.products [--only fp32 bf16 ...] [--name NAME] [--budget-s 120]

1. The playbook writes the kernels of every case for this device; each choice of their parameters is compiled, several
   at once, only the launch that the case's size takes.
2. direct: in one process each kernel runs in turns with torch.matmul over the same tensors, each sample after a flush
   of the L2; its whole result is held against torch.matmul's, and against float64.
3. workbench: the fastest right kernel of the foremost levels through the workbench's own BENCHMARK stage, beside eager,
   torch.compile and the library call.

Each row is printed as it is there; `results/NAME.json` has them all. `--compile-only` ends after the first
step and needs no GPU: registers, spills and shared memory.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks import conditions
from benchmarks.kernels.choices import (
    KernelMaker,
    Made,
    Params,
    Row,
    Sweep,
    compile_to,
    name_of,
    problem_of,
    read_choices,
)
from benchmarks.kernels.in_turns import in_turns, run_alone, tell
from cutegen_core.judge.reference import Reference
from cutegen_core.machine.device import Device, choose_device
from cutegen_core.records.problem import Problem

SAMPLES = 12
SEED = 20_261_123
WIDE: Params = {"BN": 256, "WIDE": 2}
SIMT: Sequence[Params] = (
    {}, {"TURN": 0}, {"STAGES": 3}, {"BK": 8, "STAGES": 3}, WIDE, {**WIDE, "STAGES": 3}, {**WIDE, "BK": 8, "STAGES": 4},
)  # fmt: skip
IN_THREE: Sequence[Params] = ({}, {"STAGES": 4}, {"DOWN": 4, "ACROSS": 2})
MMA: Sequence[Params] = ({}, {"BK": 32, "STAGES": 4}, {"BN": 256, "ACROSS": 4})
WARP_GROUPS: Sequence[Params] = ({}, {"RASTER": 8}, {"BN": 128, "STAGES": 5}, {"BN": 192})


@dataclass(frozen=True)
class ProductCase:
    """A product: its reference, sizes, and the choices of parameters to try by the level's name.

    Attributes:
        draw: operands as code of the sizes, `a` and `b`.
    """

    name: str
    forward: str
    draw: Mapping[str, str]
    sizes: Mapping[str, int]
    sweep: Sweep

    @property
    def problem(self) -> Problem:
        return problem_of(self.name, "import torch, torch.nn as nn", self.sizes, self.draw, self.forward)

    @property
    def flops(self) -> float:
        s = self.sizes
        return 2.0 * s.get("L", 1) * s["M"] * s["N"] * s["K"]


def _case(
    name: str, sizes: str, sweep: Sweep, dtype: str = "", forward: str = "torch.matmul(a, b)", **draw: str
) -> ProductCase:
    numbers = dict(zip("MNKL", map(int, sizes.split()), strict=False))
    drawn = draw or {"a": "torch.randn(M, K)", "b": "torch.randn(K, N)"}
    return ProductCase(name, forward, {k: code + dtype for k, code in drawn.items()}, numbers, sweep)


def _sized(dtype: str, m: int, n: int, k: int) -> ProductCase:
    """Return a linear layer without bias, all of whose foremost kernels are measured with their defaults."""
    levels = ("3xTF32", "3xTF32 split") if dtype == "fp32" else ("tensor cores", "warp groups", "split")
    cast = "" if dtype == "fp32" else ".bfloat16()"
    return _case(
        f"{dtype}-{m}-{n}-{k}", f"{m} {n} {k}", dict.fromkeys(levels, ({},)), cast,
        forward="torch.matmul(a, b.T)", a="torch.randn(M, K)", b="torch.randn(N, K)",
    )  # fmt: skip


SQUARE, ODD = "4096 4096 4096", "8205 5921 2949"
BOTH = {"multistage": SIMT[:3], "3xTF32": IN_THREE[:1]}
ZEROS = {"multistage": SIMT[:1], "skipping": SIMT[:1], "3xTF32 skipping": IN_THREE[:1]}
CASES = (
    _case("fp32", SQUARE, {"multistage": SIMT, "3xTF32": IN_THREE}),
    _case("bf16", "8192 8192 8192", {"tensor cores": MMA, "warp groups": WARP_GROUPS}, ".bfloat16()"),
    _case("fp16", SQUARE, {"tensor cores": MMA[:2], "warp groups": WARP_GROUPS[:3]}, ".half()"),
    _case("fp32-unsigned", SQUARE, {"multistage": SIMT[:1], "3xTF32": ({}, {"BK": 16, "STAGES": 4})},
          a="torch.rand(M, K)", b="torch.rand(K, N)"),
    _case("fp32-nt", SQUARE, BOTH, forward="torch.matmul(a, b.T)", a="torch.randn(M, K)", b="torch.randn(N, K)"),
    _case("fp32-tn", SQUARE, BOTH, forward="torch.matmul(a.T, b)", a="torch.randn(K, M)", b="torch.randn(K, N)"),
    _case("fp32-upper", SQUARE, ZEROS, forward="torch.triu(torch.matmul(a, b))",
          a="torch.triu(torch.rand(M, K))", b="torch.triu(torch.rand(K, N))"),
    _case("fp32-lower", SQUARE, ZEROS, forward="torch.tril(torch.matmul(a, b))",
          a="torch.tril(torch.rand(M, K))", b="torch.tril(torch.rand(K, N))"),
    _case("fp32-diagonal", SQUARE, {"3xTF32 skipping": IN_THREE[:1]}, forward="torch.matmul(torch.diag(a), b)",
          a="torch.rand(M)", b="torch.rand(M, N)"),
    _case("fp32-odd", ODD, BOTH),
    _case("fp16-odd", ODD, {"tensor cores": MMA[:2], "warp groups": WARP_GROUPS[:2]}, ".half()"),
    _case("bf16-vocabulary", "8192 50257 768", {"warp groups": WARP_GROUPS[:2]}, ".bfloat16()",
          forward="torch.matmul(a, b.T)", a="torch.randn(M, K)", b="torch.randn(N, K)"),
    _case("fp32-batched", "512 2048 1024 128", BOTH, forward="torch.bmm(a, b)",
          a="torch.randn(L, M, K)", b="torch.randn(L, K, N)"),
    _case("fp32-skinny", "16384 16384 32", {"multistage": SIMT[:2], "3xTF32": IN_THREE[:2]}),
    _case("fp32-large-k", "256 256 131072", {"split": ({},), "3xTF32 split": ({}, {"SPLITS": 32})}),
    _case("bf16-nt", SQUARE, {"warp groups": WARP_GROUPS[:2]}, ".bfloat16()", forward="torch.matmul(a, b.T)",
          a="torch.randn(M, K)", b="torch.randn(N, K)"),
    *(_sized("fp32", *sizes) for sizes in ((512, 512, 1024), (1024, 1024, 1024), (768, 3072, 768), (128, 1000, 2048),
                                           (64, 4096, 4096), (2048, 1000, 2048), (384, 384, 8192))),
    *(_sized("bf16", *sizes) for sizes in ((16, 4096, 4096), (64, 11008, 4096), (256, 4096, 4096), (512, 4096, 4096),
                                           (768, 3072, 768), (1536, 4096, 4096), (256, 256, 131072))),
)  # fmt: skip
TIMED_AS_THE_WORKBENCH_DOES = (("fp32", "3xTF32"), ("fp32", "multistage"), ("bf16", "warp groups"))


# ---- in turns with torch, in a process of its own


def direct(folder: Path, deadline: float) -> None:
    """Measure every choice in `folder`, cases in order; hand on a row each."""
    for case in CASES:
        made = read_choices(folder, case.name)
        if time.time() > deadline:
            print(f"{case.name}: no time left", flush=True)
        elif made:
            for row in _direct_case(case, made):
                tell(row)


def _direct_case(case: ProductCase, choices: Sequence[Made]) -> Iterator[Row]:
    import torch

    from cutegen_core.execute.cuda.driver import DriverError
    from cutegen_core.execute.cuda.launching import DeviceTensor, LaunchRefused, LoadedProgram

    torch.manual_seed(0)
    torch.backends.cuda.matmul.allow_tf32 = False
    scope: dict[str, Any] = {"torch": torch, **case.sizes}
    with torch.device("cuda"):
        for name, code in case.draw.items():
            scope[name] = eval(code, scope)
    forward = compile(case.forward, case.name, "eval")
    expected = eval(forward, scope)
    out = torch.empty_like(expected)
    places = {n: DeviceTensor(scope[n].data_ptr(), scope[n].nbytes, False) for n in case.draw}
    places["out"] = DeviceTensor(out.data_ptr(), out.nbytes, True)
    stream = torch.cuda.current_stream().cuda_stream

    for made in choices:
        out.fill_(float("nan"))
        spaces = {s.name: torch.zeros(max(1, s.nbytes), device="cuda", dtype=torch.uint8) for s in made.program.scratch}
        row: Row = {
            "case": case.name,
            "kernel": made.name,
            "level": made.level,
            "params": dict(made.params),
        } | made.facts
        try:
            loaded = LoadedProgram(made.cubin, made.program, [places], {n: t.data_ptr() for n, t in spaces.items()})
        except (LaunchRefused, DriverError) as refused:
            yield row | {"failure": str(refused)}
            continue
        loaded.run(stream, 0)
        torch.cuda.synchronize()
        row |= _compared(torch, case, scope, out, expected)
        turns = {"ours": lambda: loaded.run(stream, 0), "torch": lambda: eval(forward, scope)}  # noqa: B023
        medians = in_turns(torch, turns, SAMPLES)
        loaded.unload()
        rates = {f"tflops_{name}": round(1e-6 * case.flops / us, 1) for name, us in medians.items()}
        row |= {f"us_{name}": round(us, 2) for name, us in medians.items()} | rates
        yield row | {"share": round(medians["torch"] / medians["ours"], 4)}


def _compared(torch: Any, case: ProductCase, scope: Mapping[str, Any], out: Any, expected: Any) -> Row:  # noqa: ANN401
    """Return whether rows of the result are as near to float64 as torch's, and how far the whole is from torch's."""
    wide = {n: scope[n].double() if scope[n].numel() < 1 << 26 else None for n in case.draw}
    far = (out.float() - expected.float()).abs().max().item()
    scale = expected.float().abs().max().item()
    row: Row = {"far_from_torch": far / scale}
    if all(t is not None for t in wide.values()) and expected.numel() < 1 << 26:
        exact = eval(case.forward, {**scope, **wide})
        errors = [(one.double() - exact).abs().max().item() for one in (out, expected)]
        row |= {"error": errors[0], "error_of_torch": errors[1]}
    limit = 2.0**-6 if "bf16" in case.name else 2.0**-8 if "fp16" in case.name else 1e-5
    return row | {"right": bool(torch.isfinite(out).all().item()) and far <= limit * scale}


# ---- as the workbench measures


class _Watcher:
    def say(self, text: str) -> None:
        del text

    def stopped(self) -> bool:
        return False


def workbench(case: ProductCase, best: Made, device: Device, folder: Path) -> Row:
    """Return the BENCHMARK stage's figures of one kernel."""
    from cutegen_core.evaluate.timing.contest import Contest, Entry
    from cutegen_core.evaluate.timing.timer import Timer

    with Reference(case.problem, folder) as reference, Timer(reference, device) as timer:
        contest = Contest(case.problem.workloads[0], SEED, Entry(best.cubin, best.program), remeasure=False)
        measured = timer.measure(contest, _Watcher())
    row: Row = {
        "case": case.name,
        "level": best.level,
        "kernel": best.name,
        "workbench": True,
        "seconds": round(measured.seconds, 1),
    }
    row |= {"failure": asdict(measured.failure)} if measured.failure else {}
    if measured.performance:
        row |= {"us": {t.contender: round(t.median_us, 2) for t in measured.performance.timings}}
        row |= {"speedups": [asdict(s) for s in measured.performance.speedups]}
        row |= {"untimed": {u.contender: u.reason for u in measured.performance.untimed}}
    return row


def _fastest(case: str, level: str, rows: Sequence[Row], made: Sequence[Made]) -> Made | None:
    timed = [r for r in rows if (r["case"], r["level"]) == (case, level) and r.get("right") and "share" in r]
    if not timed:
        return None
    name = max(timed, key=lambda row: float(row["share"]))["kernel"]
    return next(m for m in made if m.case == case and m.name == name)


def show(row: Row) -> None:
    """Print one row."""
    head = f"{row['case']:14} {name_of(row):44}"
    spent = f"{row.get('registers', ''):>4} regs {row.get('spilled', ''):>4} B {row.get('smem', 0) / 1024:6.1f} KB"
    if "share" in row:
        rates = f"{row['tflops_ours']:7.1f} / {row['tflops_torch']:6.1f} TFLOP/s  {row['share']:6.3f}"
        print(head, spent, rates, "" if row["right"] else "WRONG", flush=True)
    elif row.get("workbench"):
        print(head, "workbench", row.get("us") or row.get("failure"), flush=True)
    else:
        print(head, spent, row.get("failure", ""), f"compiled in {row.get('compile_s')} s", flush=True)


def main() -> int:
    asked = _arguments()
    if asked.direct:
        direct(Path(asked.direct), asked.deadline)
        return 0
    begun, device = time.monotonic(), choose_device(None)
    cases = [c for c in CASES if not asked.only or c.name in asked.only]
    with tempfile.TemporaryDirectory(prefix="cutegen-products-") as scratch:
        folder, kept = Path(scratch), Path(scratch) / "made"
        kept.mkdir()
        maker = KernelMaker(device, folder, asked.compilers)
        made, rows = compile_to(kept, maker, cases, show, show_all=asked.compile_only)
        print(f"compiled {len(made)} in {time.monotonic() - begun:.0f} s", flush=True)
        if not asked.compile_only:
            rows += _measure(kept, asked.budget_s - (time.monotonic() - begun))
            for name, level in TIMED_AS_THE_WORKBENCH_DOES:
                best, case = _fastest(name, level, rows, made), next((c for c in cases if c.name == name), None)
                if best and case and time.monotonic() - begun < asked.budget_s:
                    rows.append(workbench(case, best, device, folder))
                    show(rows[-1])
            conditions.write(asked.name, {"device": asdict(device), "rows": rows})
    return int(any(not row.get("right", True) for row in rows))


def _measure(kept: Path, left_s: float) -> list[Row]:
    """Run `direct` in a process of its own and return its rows; it ends in time for the workbench's own stage."""
    deadline = str(time.time() + 0.6 * left_s)
    command = [sys.executable, "-m", "benchmarks.kernels.products", "--direct", str(kept), "--deadline", deadline]
    return run_alone(command, show).rows


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*", default=[], choices=[c.name for c in CASES])
    parser.add_argument("--name", default="products_h200", help="of the result file")
    parser.add_argument("--budget-s", type=float, default=120.0)
    parser.add_argument("--compilers", type=int, default=max(1, min(14, (os.cpu_count() or 2) - 2)))
    parser.add_argument("--compile-only", action="store_true")
    parser.add_argument("--direct", default="", help=argparse.SUPPRESS)
    parser.add_argument("--deadline", type=float, default=0.0, help=argparse.SUPPRESS)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
