"""What the timer's clock itself reads: nothing, an empty kernel, reads of known size; in a graph and launched directly.

Used by `precision.py`; one process with a context of its own.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any

from cuda.bindings import driver as cuda

from cutegen_core.execute.cuda import driver
from cutegen_core.execute.cuda.driver import call
from cutegen_core.execute.cuda.measuring import Meter, RoundPlan, Samples

_BYTES = 256 << 20
_STEPS = RoundPlan(tuple(range(1, 32)), 0, 20)
_ROUNDS = 6


class Reads:
    """So many launches of a kernel that reads so many bytes; a `measuring.Work`."""

    def __init__(self, meter: Meter, memory: int, nbytes: int, launches: int = 1) -> None:
        self._reading, self._launches = meter.flush.reading(memory, nbytes), launches

    def run(self, stream: int, index: int) -> None:
        for _ in range(self._launches):
            self._reading.enqueue(stream)

    def poison(self, stream: int, index: int) -> None: ...


def readings(l2_bytes: int) -> Iterator[dict[str, Any]]:
    """Yield a row for each kind of work: median, p10 and p90 in µs by graph, directly, after a flush by writes."""
    driver.start()
    stream = driver.create_stream()
    meter = Meter(stream, l2_bytes)
    memory = int(call(cuda.cuMemAlloc, _BYTES))
    call(cuda.cuMemsetD8, memory, 0, _BYTES)
    kinds = {
        "nothing": Reads(meter, memory, 0, 0), "an empty kernel": Reads(meter, memory, 0),
        "ten empty kernels": Reads(meter, memory, 0, 10), "reading 8 MiB": Reads(meter, memory, 8 << 20),
        "reading 64 MiB": Reads(meter, memory, 64 << 20), "reading 256 MiB": Reads(meter, memory, 256 << 20),
    }  # fmt: skip
    whole = meter.flush.enqueue

    def only_writes(stream: int) -> None:
        call(cuda.cuMemsetD8Async, memory, 0, meter.flush.nbytes, stream)

    for name, work in kinds.items():
        row: dict[str, Any] = {"work": name, "graph": _quantiles(lambda w=work: meter.measure(w, _STEPS, _soon()))}
        row["direct"] = _quantiles(lambda w=work: meter.measure_directly(w, _STEPS, _soon()))
        meter.flush.enqueue = only_writes  # type: ignore[method-assign]
        row["graph, flush only writes"] = _quantiles(lambda w=work: meter.measure(w, _STEPS, _soon()))
        meter.flush.enqueue = whole  # type: ignore[method-assign]
        yield row


def _quantiles(measure: Callable[[], Samples]) -> list[float]:
    measure()
    us = [u for _ in range(_ROUNDS) for u in measure().us]
    deciles = statistics.quantiles(us, n=10)
    return [round(v, 3) for v in (statistics.median(us), deciles[0], deciles[-1])]


def _soon() -> float:
    return time.monotonic() + 20.0
