"""After a candidate misbehaves on the GPU: does the next trial pass, how fast is the device free, is anything left?

    python -m benchmarks.judge.gpu_recovery build FOLDER      # compiles the kernels; needs no GPU
    python -m benchmarks.judge.gpu_recovery run FOLDER [N]    # N misbehaving trials (100), an honest one after each

1. Crashes, hangs, wild accesses and failed assertions in a seeded order, each followed by an honest trial.
2. Some hangs have their runner stopped (SIGSTOP), so that only force ends it; some have the host killed with -9, so
   that the runner must leave by itself.
3. Kill latency: from the kernel's limit until the verdict is there, the runner's process is gone, and the device has
   been tried out.

`run` appends a line a trial to FOLDER/rows.jsonl and goes on where it was interrupted.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.conditions import write
from cutegen_core.execute.cuda import health, lock
from cutegen_core.execute.cuda.nvml import NvmlGpu
from cutegen_core.execute.executors.gpu import CUBIN
from cutegen_core.execute.port import Built
from cutegen_core.records.errors import MachineError
from cutegen_core.records.trial import Status
from tests.gpu.harness import Harness, build, launch

LIMIT_S = 0.5
N = 1000
X = np.random.default_rng(11).standard_normal(N).astype(np.float32)
HONEST = launch("relu", "x", "out", N, grid=4, block=256)
MISBEHAVIOUR = {
    "trap": (launch("traps", "out"), Status.RUNTIME_ERROR),
    "assertion": (launch("asserts", "x", "out", N), Status.RUNTIME_ERROR),
    "write past the end": (launch("at", "out", N), Status.MEMORY_ERROR),
    "write far away": (launch("at", "out", 1 << 33), Status.MEMORY_ERROR),
    "read past the end": (launch("read_at", "x", "out", N), Status.MEMORY_ERROR),
    "write to an input": (launch("writes_input", "x", "out", N), Status.INPUT_MODIFIED),
    "misaligned": (launch("misaligned", "out"), Status.MEMORY_ERROR),
    "hang": (launch("hang", "out"), Status.TIMEOUT),
    "hang of every SM": (launch("hang", "out", grid=132 * 8, block=256), Status.TIMEOUT),
    "hang, runner stopped": (launch("hang", "out"), Status.TIMEOUT),
    "hang, host killed": (launch("hang", "out"), None),
}
_WEIGHTS = (14, 8, 10, 6, 8, 6, 8, 16, 12, 6, 6)
_MEMORY_SLACK_BYTES = 32 << 20
_PATIENCE_S = 5.0


def main() -> None:
    action, folder = sys.argv[1], Path(sys.argv[2])
    if action == "build":
        build("sm_90a", folder)
    else:
        run(folder, int(sys.argv[3]) if len(sys.argv) > 3 else 100)


def run(folder: Path, count: int) -> None:
    """Make all trials that are still to be done, then the result file."""
    order = random.Random(7).choices(list(MISBEHAVIOUR), _WEIGHTS, k=count)
    rows_file = folder / "rows.jsonl"
    rows = [json.loads(line) for line in rows_file.read_text().splitlines()] if rows_file.exists() else []
    with tempfile.TemporaryDirectory(prefix="cutegen-recovery-") as scratch, rows_file.open("a") as log:
        harness = Harness(Path(scratch), Built(Status.PASSED, folder / CUBIN, False, 0.0))
        gpu = NvmlGpu(harness.executor.device.uuid)
        health.check(harness.executor.device.uuid)  # the driver keeps a little from its first client on
        before = _left(harness, gpu)
        for kind in order[len(rows) :]:
            rows.append(_trial(harness, kind))
            print(json.dumps(rows[-1]), file=log, flush=True)
        harness.executor.close()
        after = _left(harness, gpu)
        health.check(harness.executor.device.uuid)
        device = {"name": gpu.name, "driver": gpu.driver, "executor": harness.executor.describe()}
    result = _summary(rows) | {"before": before, "after": after, "device": device}
    print(json.dumps({k: v for k, v in result.items() if k != "rows"}, indent=1))
    write("gpu_recovery", result)
    memory_back = after["memory_used_bytes"] - before["memory_used_bytes"] < _MEMORY_SLACK_BYTES
    clean = after["processes"] == [] and not after["lock_held"] and memory_back
    if not (clean and result["next_trial_passed"] == result["right_verdicts"] == len(rows)):
        sys.exit("recovery is not complete: see the table above")


def _trial(harness: Harness, kind: str) -> Mapping[str, Any]:
    step, expected = MISBEHAVIOUR[kind]
    with _interference(harness, kind):
        started = time.monotonic()
        try:
            status: Status | None = harness.run(step, x=X, out=np.zeros_like(X), timeout_s=LIMIT_S).status
        except MachineError:
            status = None
        seconds = time.monotonic() - started
    runners = len(_processes("cutegen_core.execute.cuda.runner"))
    begun = time.monotonic()
    ran = harness.run(HONEST, x=X, out=np.zeros_like(X))
    right = ran.status is Status.PASSED and np.array_equal(ran.out, np.maximum(X, 0))
    return {
        "kind": kind, "verdict": status and status.value, "right": status is expected, "seconds": round(seconds, 3),
        "runners_left": runners, "next_passed": bool(right), "next_seconds": round(time.monotonic() - begun, 3),
    }  # fmt: skip


@contextmanager
def _interference(harness: Harness, kind: str) -> Iterator[None]:
    """Do what else happens while the kernel hangs."""
    actions = {"hang, runner stopped": ("runner", signal.SIGSTOP), "hang, host killed": ("host", signal.SIGKILL)}
    if kind not in actions:
        yield
        return
    module, sent = actions[kind]

    def interfere() -> None:
        for pid in _processes(f"cutegen_core.execute.cuda.{module}"):
            if module == "host" or pid in busy:
                os.kill(pid, sent)

    harness.executor.prepare()
    busy = _processes("cutegen_core.execute.cuda.runner")  # the standby, which the trial will take
    timer = threading.Timer(LIMIT_S / 2, interfere)
    timer.start()
    yield
    timer.join()


def _processes(module: str) -> list[int]:
    """Return processes that run a module of ours."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if module.encode() in words:
            found.append(int(folder.name))
    return found


def _left(harness: Harness, gpu: NvmlGpu) -> Mapping[str, Any]:
    """Return what a finished executor has left on the machine."""
    deadline = time.monotonic() + _PATIENCE_S
    while _ours() and time.monotonic() < deadline:
        time.sleep(0.02)
    return {
        "processes": _ours(), "lock_held": lock.find_holder(harness.executor.device.uuid) is not None,
        "memory_used_bytes": gpu.memory_used_bytes(),
    }  # fmt: skip


def _ours() -> list[int]:
    return [*_processes("cutegen_core.execute.cuda.runner"), *_processes("cutegen_core.execute.cuda.host")]


def _summary(rows: list[Mapping[str, Any]]) -> dict[str, Any]:
    hangs = [row["seconds"] - LIMIT_S for row in rows if row["verdict"] == Status.TIMEOUT]
    return {
        "trials": len(rows),
        "right_verdicts": sum(row["right"] for row in rows),
        "next_trial_passed": sum(row["next_passed"] for row in rows),
        "kernel_limit_s": LIMIT_S,
        "kill_latency_s": {"n": len(hangs), **_percentiles(hangs)},
        "next_trial_s": _percentiles([row["next_seconds"] for row in rows]),
        "most_runners_left": max(row["runners_left"] for row in rows),
        "by_kind": {kind: sum(row["kind"] == kind for row in rows) for kind in MISBEHAVIOUR},
        "rows": rows,
    }


def _percentiles(values: list[float]) -> Mapping[str, float]:
    return {f"p{p}": round(float(np.percentile(values, p)), 3) for p in (50, 99)} | {"max": round(max(values), 3)}


if __name__ == "__main__":
    main()
