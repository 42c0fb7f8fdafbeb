"""The playbook's last kernel for each file of a KernelBench level on the GPUs of this machine, in turns with torch.

    python -m benchmarks.kernels.levels CHECKOUT [--level 1] [--only 19 20 ...] [--add] [--budget-s 300] [--gpus 1]
    python -m benchmarks.kernels.levels FOLDER --name multikernelbench       # any folder with files of that shape
    python -m benchmarks.kernels.levels CHECKOUT --level 3 --made FOLDER --compile-only --arch sm_90a   # without a GPU
    python -m benchmarks.kernels.levels CHECKOUT --level 3 --made FOLDER     # measures what was compiled to FOLDER

1. The playbook writes the last kernel of each file for this device, which is compiled with its default parameters. A
   file that the playbook does not cover is listed with the reason. Meanwhile other processes run torch.compile on the
   files, so that its cache has them. `--made` keeps the kernels; those that are there already are not compiled again.
2. A process a GPU takes its share of the files: kernel, eager and torch.compile run in turns over the same tensors,
   each sample after a flush of the L2, below the power limit, TF32 off. The kernel's whole result is held against the
   eager one's; where it is not within 1e-5 of that, it must not be more than twice as far from float64's as eager's is:
   networks of many norms amplify what is rounded. The emulator's judge is stricter, and is not asked here.
3. `results/levelN_CARD.json` gets a row for each file, and over all files the geometric means, fast_p and shares of
   the bound: bytes and FLOPs of the traced graph at the copy bandwidth measured here and the nominal peak of the dtype;
   the means also over the named sets of `cutegen bench`. With `--add`, files that were not measured now keep their rows
   of the present result file, with the conditions under which those were taken.

fast_p: the share of files that are right and more than p times as fast (Ouyang et al., "KernelBench", 2025).
"""

from __future__ import annotations

import argparse
import copy
import json
import math
import os
import re
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks import conditions
from benchmarks.kernels.choices import KernelMaker, Made, Row, only
from benchmarks.kernels.in_turns import (
    PEAK_TFLOPS,
    Warmers,
    compared,
    copy_bandwidth,
    in_turns,
    ratios,
    run_on,
    tell,
    tell_begun,
    visible_gpus,
)
from cutegen_core.evaluate.roofline.work import graph_work
from cutegen_core.judge.reference import Reference
from cutegen_core.kernel import kernel_file
from cutegen_core.machine.device import Device, choose_device
from cutegen_core.problems import sets
from cutegen_core.propose import playbook
from cutegen_core.records.errors import CutegenError
from cutegen_core.records.problem import Problem, Workload, WorkloadRole

_NO_FURTHER = 2
"""Times as far from float64 as eager's a right result is at most, where it is not within the tolerance of eager's."""
WARMING_SHARE, SETUP_SHARE = 0.4, 0.9
"""Of the budget: when the processes that warm torch.compile's cache are stopped, and when no file is begun any more."""
FAST = (0.5, 0.8, 1.0, 1.2, 1.5, 2.0)


@dataclass(frozen=True)
class FileCase:
    """A file of the level."""

    path: Path

    @property
    def name(self) -> str:
        return self.path.stem

    @property
    def problem(self) -> Problem:
        own = (Workload("own", WorkloadRole.BENCHMARK),)
        return Problem(self.name, self.name, self.path.read_text(), "benchmark", own)


class LevelKernelMaker(KernelMaker):
    """Compiles the last kernel of each file; `refused` says why a file has none, `work` what its graph takes."""

    def __init__(self, device: Device, folder: Path, compilers: int) -> None:
        super().__init__(device, folder, compilers)
        self.refused: dict[str, str] = {}
        self.work: dict[str, Row] = {}

    def _jobs(self, case: Any) -> Iterator[Any]:  # noqa: ANN401 - what `KernelMaker` calls a job
        reference = Reference(case.problem, self.folder, worker=self._worker)
        own = case.problem.workloads[0]
        try:
            graph, signature = reference.graph(own), reference.signature(own)
            last = playbook.propose(graph, signature, case.name, playbook.Target.of(self.device, case.problem))[-1]
            file = kernel_file.parse(last.source)
            plan = file.plan(signature, self.device, file.defaults())
        except (playbook.NotInPlaybook, CutegenError) as reason:
            self.refused[case.name] = str(reason)
            return
        counted = graph_work(graph, signature)
        self.work[case.name] = {"bytes": counted.moved_bytes, "flops": dict(counted.flops)}
        yield case, last.name, only(file, plan), {}, plan, signature


# ---- torch.compile's cache


def warm(files: Sequence[Path]) -> None:
    """Run torch.compile on these files, so that its cache has them; leave the name of each on standard output."""
    import torch

    for path in files:
        try:
            live = _live(torch, path)
            _compiled(torch, live)()
            torch.cuda.synchronize()
            print(path.stem, flush=True)
        except RuntimeError as error:  # memory, shared with the other processes; or a file torch.compile cannot take
            print(f"{path.stem}: {error}", file=sys.stderr)
        live = None
        torch._dynamo.reset()
        torch.cuda.empty_cache()


def _live(torch: Any, path: Path) -> Any:  # noqa: ANN401
    from cutegen_core.judge.reference_process.loading.live import instantiate

    torch.set_grad_enabled(False)
    torch.set_default_device("cuda")
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    torch.backends.cudnn.benchmark = True
    return instantiate(path.read_text(), path.stem)


def _compiled(torch: Any, live: Any) -> Callable[[], Any]:  # noqa: ANN401
    model = torch.compile(live.model, dynamic=False)
    args, kwargs = live.arguments(live.tensors)
    return lambda: model(*args, **kwargs)


# ---- in turns, in a process of its own


def direct(folder: Path, files: Sequence[Path], warmed: Sequence[str], deadline: float) -> None:
    """Measure the kernels of `files`; print a row for each."""
    import torch

    torch.set_default_device("cuda")
    bandwidth = copy_bandwidth(torch)
    tell({"case": "copy", "gbs": bandwidth})
    for path in files:
        kept = folder / f"{path.stem}.json"
        if time.time() > deadline:
            print(f"{path.stem}: no time left", flush=True)
        elif kept.exists():
            tell_begun(path.stem)
            plain = json.loads(kept.read_text())
            work = plain.pop("work")
            row = _measured(torch, path, Made.from_json(plain), compiled=path.stem in warmed)
            tell(row | _share(row, work, bandwidth))
            torch._dynamo.reset()
            torch.cuda.empty_cache()


def _measured(torch: Any, path: Path, made: Made, *, compiled: bool) -> Row:  # noqa: ANN401
    from cutegen_core.execute.cuda.driver import DriverError
    from cutegen_core.execute.cuda.launching import DeviceTensor, LaunchRefused, LoadedProgram

    row: Row = {"case": path.stem, "kernel": made.level} | made.facts
    try:
        live = _live(torch, path)
        expected = live.call(live.tensors)
        if len(expected) != 1:
            return row | {"failure": "more than one output"}
        out = torch.empty(expected[0].shape, dtype=expected[0].dtype)
        places = {n: DeviceTensor(t.data_ptr(), t.nbytes, False) for n, t in live.tensors.items()}
        places["out"] = DeviceTensor(out.data_ptr(), out.nbytes, True)
        spaces = {s.name: torch.zeros(max(1, s.nbytes), dtype=torch.uint8) for s in made.program.scratch}
        program = LoadedProgram(made.cubin, made.program, [places], {n: t.data_ptr() for n, t in spaces.items()})
        out.fill_(float("nan") if out.is_floating_point() else -1)
        stream = torch.cuda.current_stream().cuda_stream
        program.run(stream, 0)
        torch.cuda.synchronize()
        row |= compared(torch, out, expected[0].contiguous())
        if not row["right"]:
            row |= _against_exact(live, out, expected[0])
        del expected
        contenders: dict[str, Callable[[], Any]] = {
            "kernel": lambda: program.run(stream, 0),
            "eager": lambda: live.call(live.tensors),
        }
        if compiled:
            contenders["compile"] = _compiled(torch, live)
            contenders["compile"]()
        medians = in_turns(torch, contenders)
        program.unload()
    except (LaunchRefused, DriverError, torch.OutOfMemoryError, CutegenError) as failure:
        return row | {"failure": str(failure)[:300]}
    us = medians["kernel"]
    row |= {"us": round(us, 2)} | {f"us_{n}": round(medians[n], 2) for n in contenders if n != "kernel"}
    return row | {f"vs_{n}": round(medians[n] / us, 3) for n in contenders if n != "kernel"}


def _against_exact(live: Any, out: Any, eager: Any) -> Row:  # noqa: ANN401
    """Return how far the kernel's and eager's results are from the model's in float64, relative to its largest."""
    args, kwargs = live.arguments(live.tensors)
    wide = [a.double() if hasattr(a, "is_floating_point") and a.is_floating_point() else a for a in args]
    exact = copy.deepcopy(live.model).double()(*wide, **kwargs)
    exact = exact[0] if isinstance(exact, tuple) else exact
    far, far_eager = (float((one - exact).abs().max() / exact.abs().max()) for one in (out, eager))
    return {"far_exact": far, "far_exact_eager": far_eager, "right": far <= _NO_FURTHER * far_eager}


def _share(row: Row, work: Row, bandwidth: float) -> Row:
    """Return the bound, in microseconds, and the kernel's share of it."""
    pipes = {
        kind: 1e-6 * count / PEAK_TFLOPS.get(kind, PEAK_TFLOPS["float32"]) for kind, count in work["flops"].items()
    }
    bound = max([1e-3 * work["bytes"] / bandwidth, *pipes.values()])
    return {"bound_us": round(bound, 2)} | ({"share": round(bound / row["us"], 4)} if "us" in row else {})


# ---- the whole


def main() -> int:
    asked = _arguments()
    if asked.warm:
        warm(asked.files)
        return 0
    if asked.direct:
        direct(Path(asked.direct), asked.files, asked.warmed, asked.deadline)
        return 0
    begun, device = time.monotonic(), choose_device(asked.arch)
    cases = [FileCase(path) for path in _files(asked)]
    with tempfile.TemporaryDirectory(prefix="cutegen-levels-") as scratch:
        folder = Path(scratch)
        kept = asked.made or folder / "made"
        kept.mkdir(exist_ok=True)
        os.environ |= {"TORCHINDUCTOR_CACHE_DIR": str(folder / "inductor"), "TORCHINDUCTOR_COMPILE_THREADS": "1"}
        gpus = visible_gpus(asked.gpus)
        shares = [] if asked.compile_only else [cases[k :: asked.warmers] for k in range(asked.warmers)]
        warmers = Warmers([_again("--warm", "--files", *_paths(share)) for share in shares if share], gpus)
        maker = LevelKernelMaker(device, folder, asked.compilers)
        rows = _compile(cases, maker, kept)
        print(f"{len(cases)} files, compiled in {time.monotonic() - begun:.0f} s", flush=True)
        if not asked.compile_only:
            warmed = warmers.finish(WARMING_SHARE * asked.budget_s - (time.monotonic() - begun))
            print(f"torch.compile has {len(warmed)} at {time.monotonic() - begun:.0f} s", flush=True)
            until = time.time() + SETUP_SHARE * asked.budget_s - (time.monotonic() - begun)
            by_name = {case.name: case for case in cases}

            def command(left: Sequence[str]) -> list[str]:
                kinds = ("--direct", str(kept), "--deadline", str(until), "--warmed", *sorted(warmed))
                return _again(*kinds, "--files", *_paths([by_name[name] for name in left]))

            with ThreadPoolExecutor(len(gpus)) as pool:
                names = [list(by_name)[k :: len(gpus)] for k in range(len(gpus))]
                for found in pool.map(lambda gpu, share: run_on(gpu, share, command, show), gpus, names):
                    rows += found
            _write(asked, device, rows)
    for row in rows:
        if "us" not in row and row["case"] != "copy":
            print(row["case"], row.get("refused") or row.get("failure"), flush=True)
    return 0


def _write(asked: argparse.Namespace, device: Device, rows: list[Row]) -> None:
    card = re.search(r"[A-Z]+\d+", device.name)
    name = f"{asked.name or f'level{asked.level}'}_{card[0].lower() if card else 'gpu'}"
    path = conditions.RESULTS / f"{name}.json"
    body: dict[str, Any] = {"device": asdict(device)}
    level = _files(asked)
    if asked.add and path.is_file():
        present = json.loads(path.read_text())
        tried = {row["case"] for row in rows} - {"copy"}
        rows = rows + [row for row in present["rows"] if row["case"] not in tried]
        body["earlier"] = [*present.get("earlier", []), present["conditions"]]
        level = _level(asked)
    whole = _summary(rows, level)
    for chosen, one in sets.SETS.items():
        inside = [path for path in level if path.stem.split("_")[0] in one.parts]
        if one.level == f"level{asked.level}" and inside and not asked.name:
            whole[chosen] = _summary(rows, inside)
    print(json.dumps(whole, indent=1), flush=True)
    conditions.write(name, body | {"summary": whole, "rows": sorted(rows, key=_number)})


def _files(asked: argparse.Namespace) -> list[Path]:
    return [path for path in _level(asked) if not asked.only or path.stem.split("_")[0] in asked.only]


def _level(asked: argparse.Namespace) -> list[Path]:
    chosen = asked.checkout if asked.name else f"level{asked.level}"
    return [Path(name) for name in sets.resolve(chosen, Path(asked.checkout))]


def _paths(cases: Sequence[FileCase]) -> list[str]:
    return [str(case.path) for case in cases]


def _number(row: Row) -> tuple[int, str]:
    found = re.match(r"\d+", row["case"])
    return (int(found[0]) if found else 0), row["case"]


def _compile(cases: Sequence[FileCase], maker: LevelKernelMaker, kept: Path) -> list[Row]:
    """Compile the kernels to files in `kept`, but for those that are there; return the rows of files without one."""
    known = kept / "without.json"
    without: list[Row] = json.loads(known.read_text()) if known.exists() else []
    done = {path.stem for path in kept.glob("*.json")} | {row["case"] for row in without}
    try:
        for one in maker.make([case for case in cases if case.name not in done]):
            if isinstance(one, Made):
                (kept / f"{one.case}.json").write_text(json.dumps(one.to_json() | {"work": maker.work[one.case]}))
                print(f"{one.case}: compiled in {one.facts['compile_s']} s", flush=True)
            else:
                without.append(one)
    finally:
        maker.close()
    without += [{"case": name, "refused": reason} for name, reason in maker.refused.items()]
    known.write_text(json.dumps(without))
    return [row for row in without if row["case"] in {case.name for case in cases}]


def _summary(rows: Sequence[Row], files: Sequence[Path]) -> dict[str, Any]:
    """Return means over those of the files that were timed and right, and fast_p over all of them."""
    names = {path.stem for path in files}
    timed = [row for row in rows if row["case"] in names and "us" in row and row["right"]]
    whole: dict[str, Any] = {"files": len(names), "timed_and_right": len(timed)}
    for other in ("eager", "compile"):
        ratios = [row[f"vs_{other}"] for row in timed if f"vs_{other}" in row]
        if ratios:
            whole[f"geometric_mean_vs_{other}"] = round(math.exp(sum(map(math.log, ratios)) / len(ratios)), 3)
            whole[f"counted_vs_{other}"] = len(ratios)
            whole[f"fast_p_vs_{other}"] = {p: round(sum(r > p for r in ratios) / len(names), 3) for p in FAST}
    if timed:
        whole["mean_share_of_bound"] = round(sum(row["share"] for row in timed) / len(timed), 3)
    return whole


def show(row: Row) -> None:
    """Print one row."""
    if row["case"] == "copy":
        print(f"copy {row['gbs']:.0f} GB/s", flush=True)
    elif "us" in row:
        print(f"{row['case']:50.50} {row['kernel']:12} {row['us']:9.1f} us  bound {row['bound_us']:9.1f} us "
              f"{row['share']:6.3f}  {ratios(row)}", "" if row["right"] else "WRONG", flush=True)  # fmt: skip
    else:
        print(f"{row['case']:50.50}", row.get("failure"), flush=True)


def _again(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "benchmarks.kernels.levels", ".", *arguments]


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkout")
    parser.add_argument("--level", type=int, default=1)
    parser.add_argument("--name", default="", help="of the result file, for a folder that is no level of KernelBench")
    parser.add_argument("--only", nargs="*", default=[], help="numbers of files")
    parser.add_argument("--add", action="store_true", help="keep other files' rows of the present result file")
    parser.add_argument("--budget-s", type=float, default=300.0)
    parser.add_argument("--gpus", type=int, default=1)
    parser.add_argument("--compilers", type=int, default=max(1, min(16, (os.cpu_count() or 2) // 2)))
    parser.add_argument("--warmers", type=int, default=max(1, min(8, (os.cpu_count() or 2) // 3)))
    parser.add_argument("--made", type=Path, help="a folder that keeps the compiled kernels")
    parser.add_argument("--arch", help="what to compile for where no GPU is, as sm_90a")
    parser.add_argument("--compile-only", action="store_true")
    parser.add_argument("--warm", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--direct", default="", help=argparse.SUPPRESS)
    parser.add_argument("--files", nargs="*", type=Path, default=[], help=argparse.SUPPRESS)
    parser.add_argument("--warmed", nargs="*", default=[], help=argparse.SUPPRESS)
    parser.add_argument("--deadline", type=float, default=0.0, help=argparse.SUPPRESS)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
