"""How far the timer can be believed, on the GPU of this machine; kernels from `prepared.py`.

python -m benchmarks.timing.precision precision|calibrate|change|aa|fresh FOLDER [SECONDS]
python -m benchmarks.timing.precision report FOLDER

* precision: what the clock reads for nothing and for an empty kernel, and what a flush that only writes would do.
* calibrate: of kernels with a little more work, which one is nearest to 3 % slower.
* change: that pair; how often the word is FASTER (100 comparisons). The true ratio is that of all runs together.
* aa: a kernel against itself, two processes; how often the word is not SAME (200 comparisons).
* fresh: 40 kernels measured once more in a fresh process; how many agree within 2 %, and are the others marked.

Each part appends to FOLDER/PART.jsonl, goes on where it stopped and ends after SECONDS (500 by default). `report` makes
`results/gpu_timing.json` of them.
"""

from __future__ import annotations

import json
import random
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.conditions import conditions, write
from benchmarks.timing.prepared import Prepared, load
from cutegen_core.evaluate.timing.contest import Contest, ContestResult
from cutegen_core.evaluate.timing.statistics import geometric_mean
from cutegen_core.evaluate.timing.timer import Timer
from cutegen_core.judge.reference import Reference, start_worker
from cutegen_core.machine.device import detect
from cutegen_core.problems import library
from cutegen_core.records.performance import BEST, Word

AA, CHANGE, FRESH = 200, 100, 40
AA_KERNELS = (
    "blocks-small/0", "work-small/200", "blocks-large/0", "relu/tuned", "layernorm/registers", "silu_and_mul/tuned",
    "matmul_square/multistage", "softmax/registers", "sum_reduction/tuned", "max_reduction/registers",
)  # fmt: skip
BASES = ("blocks-large/0", "work-large/200", "blocks-small/0", "work-small/200")
CALIBRATIONS = 2
TRUE = 1.03
Row = dict[str, Any]


class Silent:
    """Nobody is watching."""

    def say(self, text: str) -> None: ...

    def stopped(self) -> bool:
        return False


class Bench:
    """Timers by problem, kept while consecutive kernels share one; one reference worker for all."""

    def __init__(self, folder: Path, seconds: float) -> None:
        self.folder, self.kernels = folder, load(folder / "kernels")
        self.deadline = time.monotonic() + seconds
        found = detect()
        assert found is not None, "needs a GPU"
        self.device = found
        self._scratch = tempfile.TemporaryDirectory(prefix="cutegen-timing-")
        self._worker = start_worker(Path(self._scratch.name))
        self._timer: Timer | None = None

    def measure(self, kernel: Prepared, best: Prepared | None = None, *, remeasure: bool = False) -> ContestResult:
        """Run one contest with fresh values."""
        entry = best.entry if best else None
        seed = random.SystemRandom().randrange(1 << 40)
        contest = Contest(kernel.workload, seed, kernel.entry, entry, baselines=False, remeasure=remeasure)
        return self._for(kernel.problem).measure(contest, Silent())

    def close(self) -> None:
        if self._timer:
            self._timer.close()
        self._worker.close()
        self._scratch.cleanup()

    def _for(self, name: str) -> Timer:
        if self._timer is None or self._timer.reference.problem.name != name:
            if self._timer:
                self._timer.close()
            problem = next(p for p in library.catalogue() if p.name == name)
            reference = Reference(problem, Path(self._scratch.name) / name, worker=self._worker)
            self._timer = Timer(reference, self.device)
        return self._timer


def aa(bench: Bench, done: Sequence[Row]) -> Iterator[Row]:
    """Measure every kernel as often as the others."""
    for name in AA_KERNELS:
        for number in range(sum(r["kernel"] == name for r in done), AA // len(AA_KERNELS)):
            kernel = bench.kernels[name]
            yield {"kernel": name, "number": number, **_compared(bench.measure(kernel, kernel))}


def calibrate(bench: Bench, done: Sequence[Row]) -> Iterator[Row]:
    """Measure each base against every kernel of its knob."""
    for base in BASES:
        knob = base.split("/")[0]
        for name, kernel in bench.kernels.items():
            if name.startswith(f"{knob}/") and name != base:
                for number in range(sum(r["pair"] == [base, name] for r in done), CALIBRATIONS):
                    row = _compared(bench.measure(bench.kernels[base], kernel))
                    yield {"pair": [base, name], "number": number, **row}


def change(bench: Bench, done: Sequence[Row]) -> Iterator[Row]:
    """Measure what must be FASTER: the base kernel is the candidate, the slower one the best so far."""
    for pair in _pairs(read(bench.folder, "calibrate")):
        base, more = (bench.kernels[name] for name in pair)
        for number in range(sum(r["pair"] == pair for r in done), CHANGE // len(BASES)):
            yield {"pair": pair, "number": number, **_compared(bench.measure(base, more))}


def _pairs(calibrated: Sequence[Row]) -> list[list[str]]:
    """Return for each base the kernel that is nearest to 3 % slower."""
    found = {}
    for _, group in _grouped(calibrated, "pair"):
        base, ratio = group[0]["pair"][0], geometric_mean([r["ratio"] for r in group])
        if base not in found or abs(ratio - TRUE) < abs(found[base][0] - TRUE):
            found[base] = (ratio, group[0]["pair"])
    return [pair for _, pair in found.values()]


def fresh(bench: Bench, done: Sequence[Row]) -> Iterator[Row]:
    """Distinct kernels, each measured and measured again."""
    names = [k.name for k in bench.kernels.values() if not k.sizes and not k.name.endswith("/naive")]
    for name in names[:FRESH]:
        if any(r["kernel"] == name for r in done):
            continue
        measured = bench.measure(bench.kernels[name], remeasure=True)
        assert measured.performance is not None, f"{name}: {measured.failure} {measured.not_timed}"
        first, again = measured.performance.candidate, measured.performance.remeasured_us
        yield {
            "kernel": name, "us": first.median_us, "again_us": again, "noise": measured.performance.aa_noise,
            "n": first.n, "dropped": first.dropped, "marks": list(measured.marks), "seconds": measured.seconds,
            "conditions": asdict(measured.performance.conditions),
        }  # fmt: skip


def _compared(measured: ContestResult) -> Row:
    assert measured.performance is not None, f"{measured.failure} {measured.not_timed}"
    found, candidate = measured.performance.speedup(BEST), measured.performance.candidate
    assert found is not None
    return {
        "us": candidate.median_us, "ratio": found.ratio, "low": found.low, "high": found.high, "word": found.word,
        "noise": measured.performance.aa_noise, "n": candidate.n, "dropped": candidate.dropped,
        "method": candidate.method, "seconds": measured.seconds,
        "conditions": asdict(measured.performance.conditions),
        "samples_us": {t.contender: [round(us, 3) for us in t.samples_us] for t in measured.performance.timings},
    }  # fmt: skip


def _precision(bench: Bench, done: Sequence[Row]) -> Iterator[Row]:
    from benchmarks.timing.clock import readings

    if not done:
        yield from readings(bench.device.l2_bytes)


PARTS: Mapping[str, Callable[[Bench, Sequence[Row]], Iterator[Row]]] = {
    "precision": _precision, "calibrate": calibrate, "change": change, "aa": aa, "fresh": fresh,
}  # fmt: skip


def run(part: str, folder: Path, seconds: float) -> None:
    """Go on with a part until it is complete or the time is over."""
    path = folder / f"{part}.jsonl"
    (folder / "conditions.json").write_text(json.dumps(conditions()))
    with _bench(folder, seconds) as bench, path.open("a") as file:
        for row in PARTS[part](bench, read(folder, part)):
            file.write(json.dumps(row) + "\n")
            file.flush()
            if time.monotonic() > bench.deadline:
                break
    for line in summary(part, read(folder, part))[1]:
        print(line, flush=True)


def read(folder: Path, part: str) -> list[Row]:
    path = folder / f"{part}.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


@contextmanager
def _bench(folder: Path, seconds: float) -> Iterator[Bench]:
    bench = Bench(folder, seconds)
    try:
        yield bench
    finally:
        bench.close()


def summary(part: str, rows: Sequence[Row]) -> tuple[Row, list[str]]:
    """Return what a part shows, for the result file and as lines of a table."""
    makers = {"aa": _summary_aa, "change": _summary_change, "calibrate": _summary_change, "fresh": _summary_fresh}
    if not rows or part not in makers:
        return {"rows": list(rows)}, [json.dumps(row) for row in rows]
    return makers[part](rows)


def _summary_aa(rows: Sequence[Row]) -> tuple[Row, list[str]]:
    wrong = [r for r in rows if r["word"] != Word.SAME]
    lines = [f"A/A: {len(wrong)} of {len(rows)} called different"]
    kernels = []
    for name, group in _grouped(rows, "kernel"):
        spread = statistics.pstdev(r["ratio"] for r in group)
        largest = max(abs(r["ratio"] - 1) for r in group)
        us, noise = (statistics.median(r[k] for r in group) for k in ("us", "noise"))
        kernels.append(
            {"kernel": name, "n": len(group), "us": us, "noise": noise, "spread": spread, "largest": largest}
        )
        lines.append(f"  {name:26} {us:9.2f} µs  noise {noise:6.2%}  spread {spread:6.2%}  largest {largest:6.2%}")
    return {"comparisons": len(rows), "different": len(wrong), "kernels": kernels, "called_different": wrong}, lines


def _summary_change(rows: Sequence[Row]) -> tuple[Row, list[str]]:
    found = sum(r["word"] == Word.FASTER for r in rows)
    lines, pairs = [f"a little slower: {found} of {len(rows)} found"], []
    for name, group in _grouped(rows, "pair"):
        true = geometric_mean([r["ratio"] for r in group])
        detected = sum(r["word"] == Word.FASTER for r in group)
        us, noise = (statistics.median(r[k] for r in group) for k in ("us", "noise"))
        pairs.append({"pair": name, "n": len(group), "us": us, "ratio": true, "found": detected, "noise": noise})
        lines.append(f"  {name:34} {us:9.2f} µs  ratio {true:.4f}  noise {noise:6.2%}  {detected} of {len(group)}")
    return {"comparisons": len(rows), "found": found, "pairs": pairs}, lines


def _summary_fresh(rows: Sequence[Row]) -> tuple[Row, list[str]]:
    off = {r["kernel"]: r["again_us"] / r["us"] - 1 for r in rows}
    within = sum(abs(v) <= 0.02 for v in off.values())
    marked = [r["kernel"] for r in rows if r["marks"]]
    unmarked = [k for k, v in off.items() if abs(v) > 0.02 and k not in marked]
    lines = [
        f"fresh process: {within} of {len(rows)} within 2 %; UNSTABLE {marked}; further off within noise {unmarked}"
    ]
    lines += [f"  {r['kernel']:34} {r['us']:10.2f} µs  {off[r['kernel']]:+7.2%}" for r in rows]
    kernels = [{"kernel": r["kernel"], "us": r["us"], "again": off[r["kernel"]], "noise": r["noise"]} for r in rows]
    return {
        "kernels": len(rows), "within_2_percent": within, "marked_unstable": marked, "unmarked": unmarked,
        "measured": kernels,
    }, lines  # fmt: skip


def _grouped(rows: Sequence[Row], key: str) -> list[tuple[str, list[Row]]]:
    groups: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        groups[row[key] if isinstance(row[key], str) else " -> ".join(row[key])].append(row)
    return list(groups.items())


def report(folder: Path) -> None:
    """Write the result file."""
    result: Row = {}
    for part in PARTS:
        rows = read(folder, part)
        result[part], lines = summary(part, rows)
        print(*lines, sep="\n")
    found = [r["conditions"] for part in PARTS for r in read(folder, part) if "conditions" in r]
    measured_on = json.loads((folder / "conditions.json").read_text())
    write("gpu_timing", {"conditions": measured_on | {"gpu": _gpu(found)}, **result})


def _gpu(found: Sequence[Mapping[str, Any]]) -> Row:
    """Lowest and highest over all measurements."""
    spans = {
        key: [min(c[key][0] for c in found), max(c[key][1] for c in found)]
        for key in ("sm_clock_mhz", "temperature_c", "power_w")
    }
    reasons = sorted({reason for c in found for reason in c["throttled"]})
    return {**{k: found[0][k] for k in ("device", "driver", "memory_clock_mhz")}, **spans, "throttled": reasons}


def main() -> None:
    part, folder = sys.argv[1], Path(sys.argv[2])
    if part == "report":
        report(folder)
    else:
        run(part, folder, float(sys.argv[3]) if len(sys.argv) > 3 else 500.0)


if __name__ == "__main__":
    main()
