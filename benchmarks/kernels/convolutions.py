"""The playbook's convolutions and poolings on the GPU of this machine, in turns with torch: cuDNN with TF32 off and on.

    python -m benchmarks.kernels.convolutions [--only conv2d ...] [--budget-s 100] [--compilers 14] [--compiled]

1. The playbook writes the kernels of every case for this device; each level above naive is compiled at its defaults,
   the tunable ones also at a few other choices, several at once.
2. In one process each kernel runs in turns with torch over the same tensors, each sample after a flush of the L2. Its
   whole result is held against torch's with TF32 off, the first image's also against float64.

Rows are printed as they are there; `results/convolutions_h200.json` has them all. `--compiled` adds torch.compile,
`--compile-only` ends after the first step and needs no GPU.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from math import prod
from pathlib import Path
from typing import Any

from benchmarks import conditions
from benchmarks.kernels.choices import KernelMaker, Made, Params, Row, Sweep, compile_to, name_of, read_choices
from benchmarks.kernels.in_turns import in_turns, run_alone, tell
from benchmarks.kernels.products import ProductCase
from cutegen_core.machine.device import choose_device

HALVES = {".half()": 2.0**-8, ".bfloat16()": 2.0**-6}
"""How far results of halves may be from torch's, relative to the largest."""
FLOAT_LIMIT = 1e-5

ONCE: Sequence[Params] = ({},)
MMA: Sequence[Params] = (
    {}, {"BK": 64, "STAGES": 3}, {"BN": 256, "ACROSS": 4}, {"BM": 64, "BN": 256, "DOWN": 1, "ACROSS": 4},
)  # fmt: skip
IN_THREE: Sequence[Params] = ({}, {"BK": 16}, {"BN": 128}, {"BM": 128, "BN": 128, "ACROSS": 4})
BLOCKS: Sequence[Params] = ({}, {"BY": 8}, {"BX": 64})
STAGED: Sequence[Params] = ({}, {"ITEMS": 4}, {"BX": 128}, {"BX": 32, "BY": 8}, {"BX": 128, "ITEMS": 4}, {"ITEMS": 16})
WHOLE: Sweep = {
    "tiled": ONCE, "direct": ONCE, "prefetch": ONCE, "multistage": ONCE, "tensor cores": MMA, "3xTF32": IN_THREE,
    "tuned": BLOCKS, "staged": STAGED,
}  # fmt: skip
SHORT: Sweep = {
    "multistage": ONCE, "tensor cores": MMA[:2], "3xTF32": IN_THREE[:2], "tuned": BLOCKS, "staged": STAGED[:4],
}  # fmt: skip


@dataclass(frozen=True)
class WindowsCase(ProductCase):
    """A convolution or pooling.

    Attributes:
        outputs: how many elements the result has; of a transposed convolution, the image.
        seen: how many multiplications each of them takes; 0 of a pooling.
        half: what makes operands halves, such as ".half()".
    """

    outputs: int = 0
    seen: int = 0
    half: str = ""

    @property
    def flops(self) -> float:
        return 2.0 * self.outputs * self.seen

    @property
    def is_convolution(self) -> bool:
        return self.seen > 0


def _convolution(
    name: str, x: Sequence[int], w: Sequence[int], out: Sequence[int], more: str = "", half: str = "", call: str = "",
    sweep: Sweep = SHORT,
) -> WindowsCase:  # fmt: skip
    rank = len(x) - 2
    function = f"torch.nn.functional.{call or 'conv'}{rank}d"
    draw = {"x": f"torch.randn({_listed(x)}){half}", "w": f"torch.randn({_listed(w)}){half}"}
    # Transposed: each element of the image reaches the filters of its group through every tap.
    outputs, seen = prod(x) if call else prod(out), prod(w[1:])
    forward = f"{function}(x, w{', ' + more if more else ''})"
    return WindowsCase(name, forward, draw, {}, sweep, outputs, seen, half)


def _pooling(name: str, function: str, x: Sequence[int], more: str, sweep: Sweep = SHORT) -> WindowsCase:
    draw = {"x": f"torch.randn({_listed(x)})"}
    return WindowsCase(name, f"torch.nn.functional.{function}(x, {more})", draw, {}, sweep)


def _listed(sizes: Sequence[int]) -> str:
    return ", ".join(map(str, sizes))


CASES = (
    _convolution("conv2d", (8, 64, 256, 512), (128, 64, 3, 3), (8, 128, 254, 510), sweep=WHOLE),
    _convolution("conv2d-fp16", (8, 64, 256, 512), (128, 64, 3, 3), (8, 128, 254, 510), half=".half()", sweep=WHOLE),
    _convolution("conv2d-bf16", (16, 256, 64, 64), (256, 256, 3, 3), (16, 256, 64, 64), "padding=1", ".bfloat16()"),
    _convolution("pointwise", (16, 64, 256, 512), (128, 64, 1, 1), (16, 128, 256, 512)),
    _convolution("depthwise", (16, 64, 512, 512), (64, 1, 3, 3), (16, 64, 510, 510), "groups=64", sweep=WHOLE),
    _convolution("grouped", (16, 64, 256, 256), (128, 16, 3, 3), (16, 128, 256, 256), "padding=1, groups=4"),
    _convolution("strided-11x11", (128, 3, 224, 224), (96, 3, 11, 11), (128, 96, 55, 55), "stride=4, padding=2"),
    _convolution("dilated-5x9", (8, 32, 256, 256), (64, 32, 5, 9), (8, 64, 252, 240),
                 "padding=(2, 4), dilation=(2, 3)"),
    _convolution("transposed2d", (8, 64, 256, 256), (64, 64, 3, 3), (), call="conv_transpose"),
    _convolution("transposed3d-grouped", (4, 32, 32, 64, 64), (32, 8, 3, 3, 3), (), "stride=2, padding=1, groups=4",
                 call="conv_transpose", sweep={"3xTF32": ({}, {"STAGES": 4})}),
    _convolution("conv1d-dilated", (32, 64, 131064), (128, 64, 3), (32, 128, 43686), "stride=3, dilation=4"),
    _convolution("conv3d", (16, 3, 64, 64, 64), (64, 3, 3, 3, 3), (16, 64, 62, 62, 62)),
    _convolution("conv3d-32", (8, 32, 32, 64, 64), (64, 32, 3, 3, 3), (8, 64, 30, 62, 62)),
    _pooling("max1d", "max_pool1d", (64, 192, 16384), "8, 1, 4, 3"),
    _pooling("max2d", "max_pool2d", (16, 64, 512, 512), "4, 1, 1", WHOLE),
    _pooling("max3d", "max_pool3d", (8, 32, 128, 128, 128), "3, 2, 1, 3"),
    _pooling("avg1d", "avg_pool1d", (64, 128, 16384), "8, 1, 4"),
    _pooling("avg2d-11x11", "avg_pool2d", (8, 64, 1024, 1024), "11"),
    _pooling("avg3d", "avg_pool3d", (8, 32, 64, 128, 256), "3, 2, 1"),
)  # fmt: skip


def direct(folder: Path, deadline: float, compiled: bool) -> None:
    """Measure every kernel in `folder`, cases in order; hand on a row each."""
    for case in CASES:
        made = read_choices(folder, case.name)
        if time.time() > deadline:
            print(f"{case.name}: no time left", flush=True)
        elif made:
            for row in _case(case, made, compiled):
                tell(row)
                if time.time() > deadline:
                    break


def _case(case: WindowsCase, choices: Sequence[Made], compiled: bool) -> Iterator[Row]:
    """Yield a row for torch's contenders and one for each kernel."""
    import torch

    from cutegen_core.execute.cuda.driver import DriverError
    from cutegen_core.execute.cuda.launching import DeviceTensor, LaunchRefused, LoadedProgram

    torch.manual_seed(0)
    torch.backends.cuda.matmul.allow_tf32 = False
    scope: dict[str, Any] = {"torch": torch}
    with torch.device("cuda"):
        tensors = {name: eval(code, scope) for name, code in case.draw.items()}
    exec(f"def forward({', '.join(tensors)}):\n    return {case.forward}", scope)
    forward = scope["forward"]
    eager = _contenders(torch, case, forward, tensors, compiled)
    expected = eager["eager"]()
    out = torch.empty_like(expected)
    places = {n: DeviceTensor(t.data_ptr(), t.nbytes, False) for n, t in tensors.items()}
    places["out"] = DeviceTensor(out.data_ptr(), out.nbytes, True)
    stream = torch.cuda.current_stream().cuda_stream
    floor_bytes = out.nbytes + sum(t.nbytes for t in tensors.values())
    exact = _exact(forward, tensors, expected)
    for made in choices:
        row: Row = {
            "case": case.name,
            "kernel": made.name,
            "level": made.level,
            "params": dict(made.params),
        } | made.facts
        spaces = {s.name: torch.zeros(max(1, s.nbytes), device="cuda", dtype=torch.uint8) for s in made.program.scratch}
        try:
            loaded = LoadedProgram(made.cubin, made.program, [places], {n: t.data_ptr() for n, t in spaces.items()})
        except (LaunchRefused, DriverError) as refused:
            yield row | {"failure": str(refused)}
            continue
        out.fill_(float("nan"))
        loaded.run(stream, 0)
        torch.cuda.synchronize()
        row |= _compared(torch, case, out, expected, exact)
        medians = in_turns(torch, {"ours": lambda: loaded.run(stream, 0), **eager}, warm=1)  # noqa: B023
        loaded.unload()
        row |= {"us": {name: round(us, 2) for name, us in medians.items()}}
        row |= {"tflops": {name: round(1e-6 * case.flops / us, 1) for name, us in medians.items()}}
        row |= {"gb_s": round(1e-3 * floor_bytes / medians["ours"], 1)}
        yield row | {"speedup": {n: round(us / medians["ours"], 3) for n, us in medians.items() if n != "ours"}}


def _contenders(
    torch: Any, case: WindowsCase, forward: Callable[..., Any], tensors: Mapping[str, Any], compiled: bool  # noqa: ANN401
) -> dict[str, Callable[[], Any]]:  # fmt: skip
    """Return what torch does, by name: "eager" has TF32 off, and is what results are held against."""

    def run(function: Callable[..., Any], tf32: bool) -> Callable[[], Any]:
        def call() -> Any:  # noqa: ANN401
            torch.backends.cudnn.allow_tf32 = tf32
            return function(**tensors)

        return call

    found = {"eager": run(forward, tf32=False)}
    if case.is_convolution and not case.half:
        found["eager, TF32"] = run(forward, tf32=True)
    if compiled:
        found["torch.compile"] = run(torch.compile(forward), tf32=False)
    return found


def _exact(forward: Callable[..., Any], tensors: Mapping[str, Any], expected: Any) -> Any:  # noqa: ANN401
    """Return the result of the first image in float64."""
    first = {name: (t[:1] if name == "x" else t).double() for name, t in tensors.items()}
    return forward(**first) if expected.numel() else expected.double()


def _compared(torch: Any, case: WindowsCase, out: Any, expected: Any, exact: Any) -> Row:  # noqa: ANN401
    """Return how far the result is from torch's, and the first image's from float64, relative to the largest."""
    scale = exact.abs().max().item()
    far = (out - expected).abs().max().item() / scale
    errors = [(one[:1].double() - exact).abs().max().item() / scale for one in (out, expected)]
    right = bool(torch.isfinite(out).all().item()) and far <= HALVES.get(case.half, FLOAT_LIMIT)
    return {"far_from_torch": far, "error": errors[0], "error_of_torch": errors[1], "right": right}


def show(row: Row) -> None:
    """Print one row."""
    head = f"{row['case']:21} {name_of(row):34}"
    spent = f"{row.get('registers', ''):>4} regs {row.get('spilled', ''):>4} B {row.get('smem', 0) / 1024:6.1f} KB"
    if "speedup" in row:
        rate = f"{row['tflops']['ours']:6.1f} TFLOP/s" if row["tflops"]["ours"] else " " * 14
        against = "  ".join(f"{factor:6.3f} x {name}" for name, factor in row["speedup"].items())
        print(head, spent, f"{row['us']['ours']:9.1f} us {rate} {row['gb_s']:7.1f} GB/s  {against}",
              "" if row["right"] else f"WRONG by {row['far_from_torch']:.1e}", flush=True)  # fmt: skip
    else:
        print(head, spent, row.get("failure", ""), f"compiled in {row.get('compile_s')} s", flush=True)


def main() -> int:
    asked = _arguments()
    if asked.direct:
        direct(Path(asked.direct), asked.deadline, asked.compiled)
        return 0
    begun, device = time.monotonic(), choose_device(None)
    cases = [c for c in CASES if not asked.only or c.name in asked.only]
    with tempfile.TemporaryDirectory(prefix="cutegen-convolutions-") as scratch:
        kept = Path(scratch) / "made"
        kept.mkdir()
        maker = KernelMaker(device, Path(scratch), asked.compilers)
        made, rows = compile_to(kept, maker, cases, show, show_all=asked.compile_only)
        print(f"compiled {len(made)} in {time.monotonic() - begun:.0f} s", flush=True)
        if not asked.compile_only:
            rows += _measure(kept, asked.budget_s - (time.monotonic() - begun), asked.compiled)
            conditions.write("convolutions_h200", {"device": asdict(device), "rows": rows})
    _show_best(rows)
    return int(any(not row.get("right", True) for row in rows))


def _show_best(rows: Sequence[Row]) -> None:
    """Print the fastest right kernel of each case."""
    timed = [row for row in rows if row.get("right")]
    for case in dict.fromkeys(row["case"] for row in timed):
        show(min((row for row in timed if row["case"] == case), key=lambda row: float(row["us"]["ours"])))


def _measure(kept: Path, left_s: float, compiled: bool) -> list[Row]:
    """Run `direct` in a process of its own and return its rows."""
    command = [sys.executable, "-m", "benchmarks.kernels.convolutions", "--direct", str(kept)]
    command += ["--deadline", str(time.time() + left_s - 5), *(["--compiled"] if compiled else [])]
    return run_alone(command, show).rows


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*", default=[], choices=[c.name for c in CASES])
    parser.add_argument("--budget-s", type=float, default=100.0)
    parser.add_argument("--compilers", type=int, default=max(1, min(14, (os.cpu_count() or 2) - 2)))
    parser.add_argument("--compile-only", action="store_true")
    parser.add_argument("--compiled", action="store_true")
    parser.add_argument("--direct", default="", help=argparse.SUPPRESS)
    parser.add_argument("--deadline", type=float, default=0.0, help=argparse.SUPPRESS)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
