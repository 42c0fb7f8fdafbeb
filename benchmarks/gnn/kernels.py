"""The gather problems as torch sees them: the playbook's kernels as plugged operators, beside torch's best, per layer.

    python -m benchmarks.gnn.kernels [--only gather_mean ...] [--levels packed persistent] [--samples 40]

1. Each benchmark workload of each problem: forward by every kernel of the playbook, and by every way torch has. Before
   a contender is timed, its result is compared with the first one's.
2. `gather_mean` forward and backward: by autograd, with kernels in both directions, and by each way of torch's.

Contenders are timed in turns (A B C, C B A), each sample after the L2 was overwritten, in device time by events: a
plugged operator's launch costs the host more than torch's own, which a queue of work hides, in training as here.
`results/gnn_kernels.json` has every median. Without a GPU two small workloads go the same way on the emulator; then
times are those of the host and say nothing, and nothing is written.
"""

from __future__ import annotations

import argparse
import gc
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import torch
import torch.nn.functional as F

from benchmarks.conditions import write
from cutegen_core.execute.compiler.compilation import Compiler
from cutegen_core.judge.reference import Reference
from cutegen_core.kernel import kernel_file
from cutegen_core.machine.device import choose_device
from cutegen_core.operators import GatherMean, Plugged, Source, compiled, plug
from cutegen_core.operators.gather_mean import Entries, torch_gradient, transpose
from cutegen_core.problems.library import load
from cutegen_core.propose import playbook
from cutegen_core.records.errors import CutegenError
from cutegen_core.records.problem import Problem, Workload, WorkloadRole

PROBLEMS = (
    "gather_rows", "gather_mean", "gather_mean_fp16", "gather_mean_bf16", "gather_mean_backward",
    "gather_mean_backward_deterministic", "sage_layer", "gat_softmax_aggregate",
)  # fmt: skip
Params = Mapping[str, int]
Sweep = Mapping[str, Sequence[Params]]
"""By a level's name the choices of its parameters."""
BOTH_WAYS: Mapping[str, Sweep | None] = {"gather_mean_backward": None, "gather_mean_backward_deterministic": None}
"""The gradients of gather_mean, and the choices of their kernels; None for every level with its defaults."""
FLUSH_BYTES = 256 << 20
FLUSHES = 24
"""Of the L2 before a sample: over a millisecond, in which the host enqueues the call before the device reaches it."""
WARM_UP = 3
NEAR = {torch.float32: 1e-4, torch.float16: 2e-2, torch.bfloat16: 2e-2}
"""Of the largest value: how far a contender's result may be from the first one's."""
Call = Callable[[], Any]
Tensors = Mapping[str, torch.Tensor]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", choices=PROBLEMS, default=PROBLEMS)
    parser.add_argument("--levels", nargs="+", default=None, help="names of the playbook's menu; all unless given")
    parser.add_argument("--samples", type=int, default=40)
    parser.add_argument("--budget-s", type=float, default=540.0, help="no workload begins after this")
    given = parser.parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    bench, started = GatherBench(device, given.samples), time.monotonic()
    sweep = {level: ({},) for level in given.levels} if given.levels else None
    rows: list[dict[str, Any]] = []
    try:
        for row in (row for name in given.only for row in bench.problem(name, sweep)):
            rows.append(row)
            show(row)
            if time.monotonic() - started > given.budget_s:
                break
    finally:
        bench.close()
    if device.type == "cuda":
        write("gnn_kernels", {"device": torch.cuda.get_device_name(), "torch": torch.__version__, "rows": rows})


class GatherBench:
    """Compiles, plugs in, compares and times.

    Args:
        inductor: problems whose references torch.compile compiles, too.
        both_ways: gradients with which gather_mean is measured, too.
    """

    def __init__(
        self, device: torch.device, samples: int, *, compilers: int = 1, inductor: Sequence[str] = PROBLEMS,
        both_ways: Mapping[str, Sweep | None] = BOTH_WAYS,
    ) -> None:  # fmt: skip
        self.device, self._inductor, self._both_ways, self._samples = device, inductor, both_ways, samples
        self._arch = choose_device().arch
        self._compilers = [Compiler(self._arch) for _ in range(compilers)]
        self._free: SimpleQueue[Compiler] = SimpleQueue()
        for compiler in self._compilers:
            self._free.put(compiler)
        self._flush = torch.empty(FLUSH_BYTES, dtype=torch.uint8, device=device) if device.type == "cuda" else None
        self._folder = tempfile.TemporaryDirectory(prefix="gnn-kernels-")
        self._sources: dict[tuple[str, str], Source] = {}

    def close(self) -> None:
        for compiler in self._compilers:
            compiler.close()
        self._folder.cleanup()

    def problem(self, name: str, sweep: Sweep | None = None, workloads: Sequence[str] = ()) -> Iterator[dict[str, Any]]:
        """Yield a row for each workload, and one more where it has a gradient.

        Args:
            sweep: levels and parameters; every level with its defaults unless given.
            workloads: names of the only ones on a GPU, unless empty.
        """
        problem = load(name)
        with Reference(problem, Path(self._folder.name) / name) as reference:
            plugged = {level: plug(source) for level, source in self._compiled(problem, reference, sweep).items()}
            for workload in self._workloads(problem):
                if workloads and self.device.type == "cuda" and workload.name not in workloads:
                    continue
                module: dict[str, Any] = {}
                exec(compile(reference.source(workload), problem.origin, "exec"), module)
                forward = self._forward(problem, workload, module, plugged, dict(reference.signature(workload).scalars))
                yield forward
                if name == "gather_mean" and self._both_ways:
                    yield self._forward_and_backward(workload, module, _fastest(forward, plugged))
                gc.collect()

    def sources(self, name: str, sweep: Sweep | None = None) -> Mapping[str, Source]:
        """Return the choices of a problem's kernels, compiled once."""
        if not any(key[0] == name for key in self._sources):
            problem = load(name)
            with Reference(problem, Path(self._folder.name) / name) as reference:
                self._compiled(problem, reference, sweep)
        return {choice: source for (of, choice), source in self._sources.items() if of == name}

    def _workloads(self, problem: Problem) -> tuple[Workload, ...]:
        roles = WorkloadRole.BENCHMARK if self.device.type == "cuda" else WorkloadRole.EMULATOR
        return problem.with_role(roles)[: None if self.device.type == "cuda" else 2]

    def _compiled(self, problem: Problem, reference: Reference, sweep: Sweep | None) -> Mapping[str, Source]:
        """Return the choices by their names, such as "packed UNROLL=2"."""
        workload = problem.workloads[0]
        graph, signature = reference.graph(workload), reference.signature(workload)
        target = playbook.Target.of(choose_device(), problem)
        texts = {
            " ".join([variant.name, *(f"{name}={value}" for name, value in params.items())]): _with(variant, params)
            for variant in playbook.propose(graph, signature, problem.name, target)
            for params in (({},) if sweep is None else sweep.get(variant.name, ()))
        }

        def make(text: str) -> Source:
            compiler = self._free.get()
            try:
                return compiled(problem, text, self._arch, compiler=compiler, reference=reference)
            finally:
                self._free.put(compiler)

        for workload in problem.workloads:  # a reference answers one thread; it keeps what it answered
            reference.signature(workload)
        with ThreadPoolExecutor(len(self._compilers)) as pool:
            made = dict(zip(texts, pool.map(make, texts.values()), strict=True))
        self._sources |= {(problem.name, choice): source for choice, source in made.items()}
        return made

    def _forward(
        self, problem: Problem, workload: Workload, module: Mapping[str, Any], plugged: Mapping[str, Plugged],
        numbers: Mapping[str, Any],
    ) -> dict[str, Any]:  # fmt: skip
        torch.manual_seed(1)
        model = module["Model"](*module["get_init_inputs"]()).to(self.device)
        inputs = [tensor.to(self.device) for tensor in module["get_inputs"]()]
        taken = next(iter(plugged.values())).runner.shapes
        named = dict(zip([spec.name for spec in taken.inputs], [*inputs, *model.state_dict().values()], strict=True))
        numbers = {name: numbers[name] for name in taken.numbers}
        with torch.no_grad():
            calls: dict[str, Call] = {"eager": lambda: model(*inputs)}
            calls |= baselines(problem.name, named, numbers)
            if self.device.type == "cuda" and problem.name in self._inductor:
                compiled_model = torch.compile(model)
                calls["torch.compile"] = lambda: compiled_model(*inputs)
            for level, operator in plugged.items():
                calls[f"plugged {level}"] = lambda operator=operator: operator(*named.values(), **numbers)
            return self._timed(problem.name, workload.name, calls)

    def _forward_and_backward(self, workload: Workload, module: Mapping[str, Any], level: str) -> dict[str, Any]:
        """Time forward and backward of gather_mean by autograd."""
        torch.manual_seed(1)
        table, idx, indptr = (tensor.to(self.device) for tensor in module["get_inputs"]())
        table.requires_grad_()
        along = torch.randn(len(indptr) - 1, table.shape[1], device=self.device)

        def both(aggregate: Callable[..., torch.Tensor]) -> Call:
            return lambda: torch.autograd.grad(aggregate(table, idx, indptr), table, along)[0]

        calls = {"embedding_bag": both(bag), "index_select + index_add": both(select_and_add)}
        if self.device.type == "cuda":
            calls["torch.compile of index_select + index_add"] = both(torch.compile(select_and_add))
        back = transpose(Entries(idx, indptr, len(table)))
        for name, choices in self._both_ways.items():
            for backward_level, source in self.sources(name, choices).items():
                aggregate = GatherMean(self._sources["gather_mean", level], source)
                contender = f"plugged {level}, {name.removeprefix('gather_mean_')} {backward_level}"
                calls[contender] = both(aggregate)
                if aggregate.ordered:  # as in training, where the loader's threads transpose
                    calls[f"{contender}, transposed before"] = both(lambda *graph, run=aggregate: run(*graph, back))
        return self._timed("gather_mean forward + backward", workload.name, calls)

    def _timed(self, name: str, workload: str, calls: Mapping[str, Call]) -> dict[str, Any]:
        """Compare each contender with the first, then time those that agree and work, in turns."""
        refused: dict[str, str] = {}
        want = next(iter(calls.values()))()
        near = NEAR[want.dtype]
        for contender, call in calls.items():
            try:
                torch.testing.assert_close(call(), want, rtol=near, atol=near * float(want.abs().max()))
            except (AssertionError, RuntimeError, CutegenError) as error:
                refused[contender] = str(error).strip().splitlines()[0]
        samples: dict[str, list[float]] = {contender: [] for contender in calls if contender not in refused}
        for turn in range(WARM_UP + self._samples):
            for contender in list(samples)[:: 1 if turn % 2 else -1]:
                measured = self._sample(calls[contender])
                if turn >= WARM_UP:
                    samples[contender].append(measured)
        times = {contender: statistics.median(found) for contender, found in samples.items()}
        return {"problem": name, "workload": workload, "us": times, "refused": refused}

    def _sample(self, call: Call) -> float:
        """Return the microseconds of one call: of the device behind an overwritten L2, or of the host."""
        if self._flush is None:
            started = time.perf_counter()
            call()
            return (time.perf_counter() - started) * 1e6
        before, after = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        for _ in range(FLUSHES):
            self._flush.zero_()
        before.record()
        call()
        after.record()
        after.synchronize()
        return 1e3 * float(before.elapsed_time(after))


def _fastest(row: Mapping[str, Any], plugged: Mapping[str, Plugged]) -> str:
    """Return the level whose kernel took the least time in a row."""
    return min((level for level in plugged if f"plugged {level}" in row["us"]), key=lambda n: row["us"][f"plugged {n}"])


def _with(variant: playbook.Variant, params: Params) -> str:
    """Return a variant's text with these parameters as its defaults."""
    text = variant.source
    for name, value in params.items():
        text = kernel_file.parse(text).with_param(name, value)
    return text


def bag(table: torch.Tensor, idx: torch.Tensor, indptr: torch.Tensor) -> torch.Tensor:
    return F.embedding_bag(idx, table, indptr, mode="mean", include_last_offset=True)


def select_and_add(table: torch.Tensor, idx: torch.Tensor, indptr: torch.Tensor) -> torch.Tensor:
    degrees = indptr.diff()
    rows = torch.repeat_interleave(degrees, output_size=len(idx))
    sums = table.new_zeros(len(degrees), table.shape[1]).index_add(0, rows, table.index_select(0, idx))
    return sums / degrees.clamp(min=1).unsqueeze(1).to(sums.dtype)


def spmm(table: torch.Tensor, idx: torch.Tensor, indptr: torch.Tensor) -> torch.Tensor:
    degrees = indptr.diff()
    values = torch.repeat_interleave(degrees.clamp(min=1).to(table.dtype).reciprocal(), degrees, output_size=len(idx))
    return torch.sparse_csr_tensor(indptr, idx, values, (len(degrees), len(table)), check_invariants=False) @ table


def baselines(name: str, given: Tensors, numbers: Mapping[str, Any]) -> dict[str, Call]:
    """Return further ways of torch's to compute a problem, beside its reference."""
    if name == "gather_rows":
        table, idx = given["table"], given["idx"]
        return {"table[idx]": lambda: table[idx], "embedding": lambda: F.embedding(idx, table)}
    if name.startswith("gather_mean_backward_deterministic"):
        return {}
    if name == "gather_mean_backward":
        grad, idx, indptr = given["grad"], given["idx"], given["indptr"]
        table = grad.new_zeros(numbers["sources"], grad.shape[1], requires_grad=True)
        with torch.enable_grad():
            result = bag(table, idx, indptr)
        return {
            "embedding_bag's": lambda: torch.autograd.grad(result, table, grad, retain_graph=True)[0],
            "index_add": lambda: torch_gradient(grad, Entries(idx, indptr, numbers["sources"])),
        }
    if name.startswith("gather_mean"):
        graph = (given["table"], given["idx"], given["indptr"])
        return {"index_select + index_add": lambda: select_and_add(*graph), "spmm": lambda: spmm(*graph)}
    return {}


def show(row: Mapping[str, Any]) -> None:
    """Print one workload: torch's best first, then how many times as fast each kernel is."""
    torchs = {name: us for name, us in row["us"].items() if not name.startswith("plugged")}
    best = min(torchs, key=lambda name: torchs[name])
    print(f"{row['problem']}, {row['workload']}: torch's best {best} {torchs[best]:.1f} us")
    for name, us in row["us"].items():
        ratio = f"{torchs[best] / us:5.2f}x" if name.startswith("plugged") else "      "
        print(f"  {ratio} {us:10.1f} us  {name}")
    for name, reason in row["refused"].items():
        print(f"  refused: {name}: {reason}")


if __name__ == "__main__":
    main()
