"""What the benchmarks of kernels in turns with torch share: samples, comparisons, and the processes they run in."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from benchmarks.kernels.choices import Row

SAMPLES, WARM, FLUSH_BYTES = 9, 2, 256 << 20
LONGEST_REST_S = 0.05
COPY_BYTES = 1 << 30
PEAK_TFLOPS = {"float16": 989.0, "bfloat16": 989.0, "float32": 67.0, "float64": 34.0}
"""Of an H100 or H200, dense; float32 and float64 without tensor cores."""
_ROW, _BEGUN = "ROW ", "BEGUN "


def copy_bandwidth(torch: Any) -> float:  # noqa: ANN401
    """Return the GB/s of a copy of 1 GiB, bytes read and written."""
    source, target = (torch.zeros(COPY_BYTES, device="cuda", dtype=torch.uint8) for _ in range(2))
    times = in_turns(torch, {"copy": lambda: target.copy_(source)})
    return round(2e-3 * COPY_BYTES / times["copy"], 1)


def in_turns(
    torch: Any, contenders: Mapping[str, Callable[[], Any]], samples: int = SAMPLES, warm: int = WARM  # noqa: ANN401
) -> dict[str, float]:  # fmt: skip
    """Return the median of each in microseconds, cold, the order turned round from one turn to the next."""
    flush = torch.empty(FLUSH_BYTES, device="cuda", dtype=torch.uint8)
    times: dict[str, list[float]] = {name: [] for name in contenders}
    for number in range(-warm, samples):
        for name in contenders if number % 2 else reversed(list(contenders)):
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            flush.zero_()
            begin.record()
            contenders[name]()
            end.record()
            torch.cuda.synchronize()
            us = begin.elapsed_time(end) * 1e3
            time.sleep(min(LONGEST_REST_S, 3e-6 * us))  # below the power limit, as the workbench measures
            if number >= 0:
                times[name].append(us)
    return {name: statistics.median(each) for name, each in times.items()}


def compared(torch: Any, out: Any, expected: Any) -> Row:  # noqa: ANN401
    """Return how far the whole result is from torch's, part by part, relative to its largest element."""
    if not out.is_floating_point():
        same = (out == expected).double().mean().item()
        return {"same": same, "right": same > 0.99999}
    far = scale = 0.0
    for one, other in zip(out.flatten().split(1 << 27), expected.flatten().split(1 << 27), strict=True):
        far = max(far, (one.float() - other.float()).abs().max().nan_to_num(float("inf")).item())
        scale = max(scale, other.float().abs().max().item())
    limit = {torch.float16: 2.0**-8, torch.bfloat16: 2.0**-6}.get(out.dtype, 1e-5)
    return {"far": far / max(scale, 1e-30), "right": far <= limit * scale}


def ratios(row: Row) -> str:
    """Return a row's speedups as text."""
    return " ".join(f"{k} {row[f'vs_{k}']:6.2f}x" for k in ("eager", "compile") if f"vs_{k}" in row)


class Warmers:
    """Processes that fill torch.compile's cache while kernels are compiled; each prints the names it has done.

    Args:
        commands: of the processes; the GPUs are shared out among them.
    """

    def __init__(self, commands: Sequence[Sequence[str]], gpus: Sequence[str]) -> None:
        self._running = [
            subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                             env=on_gpu(gpus[k % len(gpus)]))
            for k, command in enumerate(commands)
        ]  # fmt: skip

    def finish(self, left_s: float) -> set[str]:
        """Wait so long at most; return the names that the cache has."""
        deadline, done = time.monotonic() + left_s, set[str]()
        for child in self._running:
            try:
                out, _ = child.communicate(timeout=max(0.1, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                child.kill()
                out, _ = child.communicate()
            done |= set(out.split())
        return done


def visible_gpus(count: int) -> list[str]:
    """Return the first GPUs that this process may use, as CUDA_VISIBLE_DEVICES names them."""
    named = os.environ.get("CUDA_VISIBLE_DEVICES", "")
    return (named.split(",") if named else list(map(str, range(count))))[:count]


def on_gpu(gpu: str) -> dict[str, str]:
    """Return the environment of a process that sees only this GPU."""
    return os.environ | {"CUDA_VISIBLE_DEVICES": gpu}


def tell(row: Row) -> None:
    """Hand a row to the process that runs this one (`run_on`)."""
    print(f"{_ROW}{json.dumps(row)}", flush=True)


def tell_begun(name: str) -> None:
    """Say that a case is begun: if it ends the process, the others go on in a new one."""
    print(f"{_BEGUN}{name}", flush=True)


class Ended(NamedTuple):
    """What a process told, the case it began last ("" if it says none), and its exit status."""

    rows: list[Row]
    begun: str
    status: int


def run_alone(command: Sequence[str], show: Callable[[Row], None], gpu: str = "") -> Ended:
    """Run a command that tells rows; each is shown at once. With `gpu` it sees only that one."""
    begun, rows = "", list[Row]()
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=on_gpu(gpu) if gpu else None) as child:
        assert child.stdout is not None
        for line in child.stdout:
            if line.startswith(_ROW):
                rows.append(json.loads(line.removeprefix(_ROW)))
                show(rows[-1])
            elif line.startswith(_BEGUN):
                begun = line.removeprefix(_BEGUN).strip()
            else:
                print(line, end="", flush=True)
    return Ended(rows, begun, child.returncode)


def run_on(
    gpu: str, names: Sequence[str], command: Callable[[Sequence[str]], Sequence[str]], show: Callable[[Row], None]
) -> list[Row]:
    """Run the command for these cases in a process of its own, again after a case that ended it; return its rows."""
    left, rows = list(names), list[Row]()
    while left:
        ended = run_alone(command(left), show, gpu)
        rows += ended.rows
        if ended.status == 0 or not ended.begun:
            break
        failure = f"ended the process: {ended.status}"
        rows.append({"case": ended.begun, "kernel": "", "failure": failure, "right": False})
        show(rows[-1])
        left = left[left.index(ended.begun) + 1 :]
    return rows
