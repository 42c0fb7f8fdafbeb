"""Measure baselines on the GPU: eager and torch.compile, timed like a candidate (`cuda.measuring`).

A round of a baseline, with its warm-up, is captured once into a graph and replayed for every further round: this
excludes PyTorch's host time, as the candidate's measurement excludes launches. A round is timed between events instead
if it cannot be captured (a forward that waits for the GPU) or is slower as a graph (a large copy is: 396 against 254 µs
for 512 MiB on an H200). TF32 and reduced-precision sums are off unless the problem allows them; cuDNN may search for
its fastest algorithm.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from statistics import median

import torch

from cutegen_core.execute.cuda.measuring import GRAPH, Meter, RoundPlan, Samples
from cutegen_core.judge.gpu.sets import BufferSet
from cutegen_core.judge.reference_process.loading.live import Live

Forward = Callable[[Mapping[str, torch.Tensor]], object]
_TRIAL_RUNS = 3
_SLOWER = 1.02


class ReferenceBaseline:
    """One way to compute the reference; a `measuring.Work`."""

    def __init__(self, forward: Forward, live: Live, sets: Sequence[BufferSet], allow: Sequence[str]) -> None:
        self._forward, self._allow = forward, allow
        self._inputs = [one.inputs(live) for one in sets]
        self._graphs: dict[RoundPlan, torch.cuda.CUDAGraph | None] = {}

    def run(self, stream: int, index: int) -> None:
        self._forward(self._inputs[index])

    def poison(self, stream: int, index: int) -> None:
        """Do nothing: a baseline's outputs are fresh memory each time."""

    def measure(self, meter: Meter, stream: torch.cuda.Stream, steps: RoundPlan, deadline: float) -> Samples:
        """Measure one round; `meter` works on `stream`."""
        allow_precision(self._allow)
        with torch.cuda.stream(stream):
            if steps not in self._graphs:
                self._graphs[steps] = self._choose_graph(meter, stream, steps, deadline)
            graph = self._graphs[steps]
            return (
                meter.measure_directly(self, steps, deadline)
                if graph is None
                else _replay(meter, graph, steps, deadline)
            )

    def _choose_graph(
        self, meter: Meter, stream: torch.cuda.Stream, steps: RoundPlan, deadline: float
    ) -> torch.cuda.CUDAGraph | None:
        """Return the round as a graph, None if it cannot be captured or is slower as a graph."""
        graph = self._capture(meter, stream, steps)
        if graph is None:
            return None
        direct = meter.measure_directly(self, steps, deadline).us
        replayed = _replay(meter, graph, steps, deadline).us
        return graph if median(replayed) <= _SLOWER * median(direct) else None

    def _capture(self, meter: Meter, stream: torch.cuda.Stream, steps: RoundPlan) -> torch.cuda.CUDAGraph | None:
        for _ in range(_TRIAL_RUNS):
            self.run(stream.cuda_stream, steps.warm)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        try:
            with torch.cuda.graph(graph, stream=stream, capture_error_mode="thread_local"):
                meter.enqueue(self, steps, captured=True)
        except Exception:  # noqa: BLE001 - any file's forward may fail here; it is timed between events instead, and the record says so
            torch.cuda.synchronize()
            return None
        return graph


def _replay(meter: Meter, graph: torch.cuda.CUDAGraph, steps: RoundPlan, deadline: float) -> Samples:
    meter.reset()
    graph.replay()
    return Samples(meter.read_times(steps, deadline), GRAPH)


def make_eager(live: Live) -> Forward:
    """Return the reference's unchanged forward."""
    return live.call


def make_compiled(live: Live) -> Forward:
    """Return the reference through torch.compile with default settings; it compiles at the first call."""
    model = torch.compile(live.model, dynamic=False)

    def forward(tensors: Mapping[str, torch.Tensor]) -> object:
        for name, dotted in live.states.items():
            owner, _, leaf = dotted.rpartition(".")
            getattr(live.model.get_submodule(owner), leaf).data = tensors[name]
        args, kwargs = live.arguments(tensors)
        return model(*args, **kwargs)

    return forward


def allow_precision(allow: Sequence[str]) -> None:
    """Allow baselines the relaxations that the problem allows a kernel, and no others."""
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = "tf32" in allow
    torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = "fp16_accumulate" in allow
    torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = "bf16_accumulate" in allow
    torch.backends.cudnn.benchmark = True
