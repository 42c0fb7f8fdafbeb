"""Record where the time of a trial goes: when certain functions begin and end, in this process and in its workers.

    python -m benchmarks.toolchain.gpu_edit_to_verdict --timeline FILE   # writes one span a line
    python -m benchmarks.toolchain.timeline FILE                         # prints them, nested and in order

`Timeline` replaces the functions below by ones that note their times, and starts workers through this module, which
does the same in them. Nothing in the package knows of it. All clocks are the machine's monotonic one.
"""

from __future__ import annotations

import functools
import importlib
import json
import os
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from cutegen_core.machine.worker import Worker

_EVALUATE, _EXECUTE, _JUDGE = "cutegen_core.evaluate", "cutegen_core.execute", "cutegen_core.judge"
_RUNNERS = tuple(
    f"{_EXECUTE}.cuda.runner_process:RunnerProcess.{name}"
    for name in ("__init__", "wait_until_ready", "_request", "close")
)
_HERE = (
    f"{_EVALUATE}.evaluator:_Run.carry_out",
    f"{_EVALUATE}.evaluator:plan_candidate",
    f"{_EVALUATE}.stages.preparing:check_machine_code",
    f"{_EVALUATE}.stages.runs:CandidateRuns.prepare",
    f"{_EVALUATE}.stages.timing:BenchmarkStage._add_bounds",
    *(
        f"{_EVALUATE}.timing.timer:_Measurement.{name}"
        for name in ("_prepare", "_check_first", "_prepare_others", "_remeasure", "_record")
    ),
    f"{_EVALUATE}.timing.contenders:RunnerPool.wait_until_idle",
    f"{_EVALUATE}.timing.contenders:RunnerPool.fill",
    *(
        f"{_EVALUATE}.timing.series:Series.{name}"
        for name in ("_estimate_times", "_measure_round", "_measure_held_sets")
    ),
    f"{_EXECUTE}.compiler.compilation:Compiler.compile",
    f"{_EXECUTE}.compiler.compilation:_save",
    f"{_EXECUTE}.compiler.disassembly:disassemble",
    f"{_EXECUTE}.executors.gpu:GpuExecutor.build",
    f"{_EXECUTE}.executors.gpu:GpuExecutor._execute",
    f"{_EXECUTE}.cuda.health:check",
    f"{_EXECUTE}.cuda.nvml:NvmlGpu.__init__",
    f"{_EXECUTE}.cuda.nvml:NvmlGpu.read_state",
    f"{_EXECUTE}.cuda.nvml:NvmlGpu.count_other_processes",
    *_RUNNERS,
    *(f"{_JUDGE}.reference:Reference.{name}" for name in ("signature", "graph", "find_derived", "facts_of")),
    "cutegen_core.machine.worker:Worker.request",
    "cutegen_core.machine.worker:Worker._start",
    "time:sleep",
)
_IN_WORKERS = {
    f"{_EXECUTE}.cuda.host": (
        *_RUNNERS,
        *(f"{_EXECUTE}.cuda.host:_Tensors.{name}" for name in ("__init__", "inspect", "write_outputs")),
        f"{_EXECUTE}.cuda.memory:Buffer.allocate",
        f"{_EXECUTE}.cuda.memory:Buffer.free",
    ),
    f"{_JUDGE}.gpu.main": (
        *(f"{_JUDGE}.gpu.sets:{name}" for name in ("allocate", "instantiate", "write")),
        f"{_JUDGE}.gpu.answers:expect",
        f"{_JUDGE}.gpu.answers:Answers._sample",
        f"{_JUDGE}.gpu.comparison:measure",
        f"{_JUDGE}.gpu.comparison:compare",
        f"{_JUDGE}.gpu.baselines:ReferenceBaseline._capture",
        f"{_JUDGE}.gpu.baselines:_replay",
        f"{_EXECUTE}.cuda.measuring:Meter.read_times",
        f"{_EXECUTE}.cuda.memory:Buffer.find_damage",
    ),
}  # fmt: skip


class Span(NamedTuple):
    """One call of a function; times in seconds of the monotonic clock."""

    begin: float
    end: float
    process: int
    thread: int
    what: str


class Timeline:
    """Records spans to a file, from its making on."""

    def __init__(self, file: Path) -> None:
        self._file = file.absolute()
        self._fd = os.open(self._file, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)

    def watch(self, functions: Sequence[str]) -> None:
        """Replace these functions, each `module:Class.name` or `module:name`."""
        for place in functions:
            module, _, path = place.partition(":")
            *owners, name = path.split(".")
            owner: Any = importlib.import_module(module)
            for each in owners:
                owner = getattr(owner, each)
            found = vars(owner)[name]
            made = self.timed(path, getattr(found, "__func__", found))
            setattr(owner, name, type(found)(made) if isinstance(found, classmethod) else made)

    def watch_workers(self) -> None:
        """Start workers whose functions are recorded, too, through this module."""
        launch, file = Worker._launch, str(self._file)

        @functools.wraps(launch)
        def launched(worker: Worker, *rest: Any) -> Any:  # noqa: ANN401 - as wrapped
            if worker._module in _IN_WORKERS:
                worker._arguments = (file, worker._module, *worker._arguments)
                worker._module = __spec__.name
            return launch(worker, *rest)

        Worker._launch = launched  # type: ignore[method-assign]

    def timed(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def timed(*args: Any, **keywords: Any) -> Any:  # noqa: ANN401 - as wrapped
            begun = time.monotonic()
            try:
                return function(*args, **keywords)
            finally:
                told = f"{name}{_tell(args)}"
                span = Span(begun, time.monotonic(), os.getpid(), threading.get_ident(), told)
                os.write(self._fd, json.dumps(span).encode() + b"\n")

        return timed


def record(file: Path) -> None:
    """Record this process and the workers that it starts from now on."""
    timeline = Timeline(file)
    timeline.watch(_HERE)
    timeline.watch_workers()


def _tell(args: Sequence[Any]) -> str:
    """Return what tells one call from another: a worker's name, a request's operation, a stage, a contender."""
    words = []
    for one in args[:3]:
        asked = one if isinstance(one, dict) else {}
        contender = getattr(one, "contender", None)
        words += [one.name] if isinstance(one, Worker) else [contender.name] if contender else []
        words += [str(asked[key]) for key in ("operation", "op") if key in asked]
        words += [f"{one:.3g}"] if isinstance(one, float) else [str(one)] if isinstance(one, str) else []
    return f"({', '.join(' '.join(word.split())[:40] for word in words)})"


def read(file: Path) -> list[Span]:
    """Return the spans in the order in which they began."""
    return sorted((Span(*json.loads(line)) for line in file.read_text().splitlines()), key=lambda s: (s.begin, -s.end))


def lines(spans: Sequence[Span], least_s: float = 0.002) -> Iterator[str]:
    """Yield a line for each span of `least_s` or more: begin after the first, length, thread, and its name indented."""
    first, names, processes = spans[0].begin, dict[tuple[int, int], str](), dict[int, int]()
    above: dict[tuple[int, int], list[float]] = defaultdict(list)
    for span in spans:
        key, process = (span.process, span.thread), processes.setdefault(span.process, len(processes))
        names.setdefault(key, f"p{process}t{len(names)}")
        ends = above[key] = [end for end in above[key] if end > span.begin]
        if span.end - span.begin >= least_s:
            told = f"{'  ' * len(ends)}{span.what}"
            yield f"{span.begin - first:9.3f} {span.end - span.begin:8.3f}  {names[key]:7} {told}"
        ends.append(span.end)


def _run_worker() -> None:
    """Run a worker's module as its own program does, recorded: `FILE MODULE ARGUMENT...`."""
    file, name, *sys.argv[1:] = sys.argv[1:]
    timeline, module = Timeline(Path(file)), importlib.import_module(name)
    serve = module.serve

    def serve_recorded(handle: Callable[..., Any]) -> None:
        timeline.watch(_IN_WORKERS[name])  # only now: a worker imports torch when its environment is as it must be
        serve(timeline.timed("handle", handle))

    module.serve = serve_recorded  # type: ignore[attr-defined]
    module.main()


if __name__ == "__main__":
    if len(sys.argv) > 2:
        _run_worker()
    else:
        print("\n".join(lines(read(Path(sys.argv[1])))))
