"""Puts roofline bounds into a recording that was made where the device's peaks had not been measured yet.

    python -m benchmarks.recording.bounds RECORDING RUN.json OUTPUT

RUN.json is what `cutegen run --json` printed for the same problem on the same kind of device, peaks measured: bounds
follow from counted work and peaks, not from the kernel, so they hold for every trial of that problem. Each trial that
gets them says so in the note of its BENCHMARK stage; nothing that was measured is touched.
"""

from __future__ import annotations

import gzip
import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from cutegen_core.records import as_json
from cutegen_core.records.candidate import content_key
from cutegen_core.records.performance import WorkloadPerformance
from cutegen_core.records.trial import Stage, Trial
from cutegen_core.share.exports.recording import write_lines


def main() -> None:
    recording, run, output = map(Path, sys.argv[1:4])
    measured = _measured(json.loads(run.read_text()))
    renamed: dict[str, str] = {}
    lines = [_line(text, measured, renamed) for text in gzip.decompress(recording.read_bytes()).decode().splitlines()]
    write_lines(iter(lines), output)
    print(f"{len(renamed)} trials with bounds from {measured.conditions.device}: {output}")


def _measured(answer: Any) -> WorkloadPerformance:  # noqa: ANN401 - JSON
    trial = as_json.load(Trial, json.dumps(answer["best"]["trial"]))
    assert trial.performance is not None
    assert trial.performance.workloads[0].bounds, "that run has no bounds: measure the peaks first"
    return trial.performance.workloads[0]


def _line(text: str, measured: WorkloadPerformance, renamed: dict[str, str]) -> str:
    line = json.loads(text)
    if "blob" in line and line.get("text", "").startswith('{"candidate":'):
        trial = as_json.load(Trial, line["text"])
        bounded = as_json.dump(_bounded(trial, measured))
        if bounded != as_json.dump(trial):
            renamed[line["blob"]] = content_key(bounded)
            line = {"blob": renamed[line["blob"]], "text": bounded}
    written = json.dumps(line, ensure_ascii=False, separators=(",", ":"))
    for old, new in renamed.items():
        written = written.replace(old, new)
    return written


def _bounded(trial: Trial, measured: WorkloadPerformance) -> Trial:
    performance = trial.performance
    if performance is None or not performance.workloads or performance.workloads[0].bounds:
        return trial
    workload = performance.workloads[0]
    if (workload.workload, workload.conditions.device) != (measured.workload, measured.conditions.device):
        return trial
    note = f"bounds: peaks measured in another run on an {measured.conditions.device}"
    stages = tuple(replace(s, note=note) if s.stage is Stage.BENCHMARK else s for s in trial.stages)
    workloads = (replace(workload, bounds=measured.bounds), *performance.workloads[1:])
    return replace(trial, stages=stages, performance=replace(performance, workloads=workloads))


if __name__ == "__main__":
    main()
