"""Keep the times of points by device and content, so that a sweep which was stopped does not begin anew.

Times of different days differ by more than noise. So a kept time only spares a point that was clearly slow then: it is
not timed again. Those near the best are timed side by side each time.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from cutegen_core.evaluate.verdict_key import judge_digest
from cutegen_core.machine.device import Device
from cutegen_core.records import as_json
from cutegen_core.records.candidate import content_key
from cutegen_core.records.problem import Problem

CLEARLY_SLOWER = 1.1


class MeasuredPoints:
    """Times in µs by the content of a point's kernel file; one file for each device, driver, problem and judge."""

    def __init__(self, folder: Path, device: Device, problem: Problem) -> None:
        parts = (device.uuid or device.name, device.driver, as_json.dump(problem), judge_digest())
        self._path = folder / content_key("\0".join(parts))

    def load(self) -> Mapping[str, float]:
        """Return all times; the last one of a point counts, and a line that was cut off does not."""
        if not self._path.exists():
            return {}
        lines = [line.split(" ") for line in self._path.read_text().splitlines() if line.endswith(" us")]
        return {line[0]: float(line[1]) for line in lines if len(line) == 3}

    def add(self, times: Mapping[str, float]) -> None:
        """Append times in one write, so that several processes may do it."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        text = "".join(f"{key} {us:.6g} us\n" for key, us in times.items())
        descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            os.write(descriptor, text.encode())
        finally:
            os.close(descriptor)


def find_slow(keys: Sequence[str], known: Mapping[str, float]) -> Mapping[str, float]:
    """Return those of the points that were clearly slower than the fastest of them when they were timed."""
    times = {key: known[key] for key in keys if key in known}
    return {key: us for key, us in times.items() if us > CLEARLY_SLOWER * min(times.values())}
