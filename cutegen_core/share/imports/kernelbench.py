"""Read a run folder of KernelBench: level_X_problem_Y_sample_Z_kernel.py files, and eval_results.json if it was
evaluated.

One session a problem, one step a sample. `eval_results.json` maps a problem id to a list of results (or one result):
sample_id, compiled, correctness, metadata, runtime (ms, -1 when it was not timed).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from cutegen_core.machine.visible_text import show_hidden
from cutegen_core.records.errors import UsageError
from cutegen_core.records.problem import Problem
from cutegen_core.records.trial import Status
from cutegen_core.share.imports.building import Imported, ImportedStep, build_session
from cutegen_core.share.imports.reading import LONGEST_MS, read_whole
from cutegen_core.trajectory.store import Store

_KERNEL = re.compile(r"level_(\d+)_problem_(\d+)_sample_(\d+)_kernel\.py")
_RESULTS = "eval_results.json"
_NUMBER = re.compile(r"[0-9]{1,9}")
_MOST_MESSAGE = 2000
_ERRORS = ("compilation_error", "runtime_error", "correctness_issue", "cuda_error", "other_error", "error")


class _Sample(NamedTuple):
    """A generated file."""

    level: int
    problem: int
    sample: int
    path: Path


def is_run(folder: Path) -> bool:
    """Return whether the folder holds KernelBench's generated kernels, or its results."""
    return (folder / _RESULTS).is_file() or any(_KERNEL.fullmatch(p.name) for p in folder.iterdir())


def import_run(store: Store, folder: Path) -> Imported:
    """Import one session for each problem of the run.

    Raises:
        UsageError: results that are not JSON, or neither a kernel nor a result.
    """
    samples = _samples(folder)
    results = _results(folder)
    problems = sorted({(s.level, s.problem) for s in samples} | {_without_kernel(p, samples) for p, _ in results})
    if not problems:
        raise UsageError(f"{folder} holds no level_X_problem_Y_sample_Z_kernel.py and no results")
    sessions, steps, judged = [], 0, 0
    for level, problem in problems:
        files = {s.sample: s.path for s in samples if (s.level, s.problem) == (level, problem)}
        numbers = sorted(set(files) | {sample for p, sample in results if p == problem})
        made = [_step(files.get(n), results.get((problem, n)), n) for n in numbers]
        judged += sum(step.status is not None for step in made)
        sessions.append(_session(store, folder, level, problem, made))
        steps += len(made)
    note = f"{len(samples)} kernels of {len(problems)} problems; {judged} of {steps} samples have a verdict"
    if not results:
        note += f" (there is no {_RESULTS})"
    return Imported(sessions[0], steps, note, tuple(sessions))


def _samples(folder: Path) -> list[_Sample]:
    found = ((_KERNEL.fullmatch(path.name), path) for path in sorted(folder.iterdir()))
    return [_Sample(int(m[1]), int(m[2]), int(m[3]), path) for m, path in found if m]


def _without_kernel(problem: int, samples: list[_Sample]) -> tuple[int, int]:
    """Return level and id of a problem that has results: results do not give the level, kernels do."""
    levels = [s.level for s in samples if s.problem == problem] or [s.level for s in samples] or [0]
    return levels[0], problem


def _results(folder: Path) -> dict[tuple[int, int], Mapping[str, Any]]:
    """Return (problem, sample) -> result."""
    path = folder / _RESULTS
    if not path.is_file():
        return {}
    try:
        data = json.loads(read_whole(path))
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path} is not JSON: {error}. Move it away to import without verdicts.") from error
    if not isinstance(data, dict):
        raise UsageError(f"{path} is a {type(data).__name__}; KernelBench writes one object, by problem id")
    found: dict[tuple[int, int], Mapping[str, Any]] = {}
    for problem, entry in data.items():
        entries = entry if isinstance(entry, list) else [entry]
        for position, result in enumerate(entries):
            if isinstance(result, dict) and _NUMBER.fullmatch(str(problem)):
                sample = result.get("sample_id", position)
                found[int(problem), sample if isinstance(sample, int) else position] = result
    return found


def _step(path: Path | None, result: Mapping[str, Any] | None, sample: int) -> ImportedStep:
    source = read_whole(path).decode("utf-8", "replace") if path else ""
    notes = [] if path else ["the kernel's file is not in the folder"]
    status, message = _verdict(result, notes)
    runtime = result.get("runtime") if result else None
    timed = isinstance(runtime, int | float) and 0 < runtime <= LONGEST_MS
    return ImportedStep(
        source=source,
        idea=f"sample {sample}",
        status=status,
        message=message,
        latency_ms=float(runtime) if timed and status is Status.PASSED and runtime is not None else None,
        record=json.dumps(result, indent=2, ensure_ascii=False) if result else "",
        note="; ".join(notes),
    )


def _verdict(result: Mapping[str, Any] | None, notes: list[str]) -> tuple[Status | None, str]:
    if result is None:
        notes.append("no result for this sample")
        return None, ""
    compiled, correct = result.get("compiled"), result.get("correctness")
    if not isinstance(compiled, bool) or not isinstance(correct, bool):
        notes.append("compiled and correctness are not both true or false: no verdict")
        return None, ""
    said = _said(result.get("metadata"))
    if not compiled:
        return Status.COMPILE_ERROR, said or "did not compile"
    if correct:
        return Status.PASSED, ""
    crashed = isinstance(result.get("metadata"), dict) and "runtime_error" in result["metadata"]
    return (Status.RUNTIME_ERROR if crashed else Status.INCORRECT_NUMERICAL), said or "wrong results"


def _said(metadata: object) -> str:
    if not isinstance(metadata, dict):
        return ""
    return next((str(metadata[name])[:_MOST_MESSAGE] for name in _ERRORS if metadata.get(name)), "")


def _session(store: Store, folder: Path, level: int, problem: int, steps: list[ImportedStep]) -> str:
    origin = f"imported from {show_hidden(folder.name)} (KernelBench run)"
    name = f"kernelbench_level{level}_problem{problem}"
    title = f"KernelBench level {level} problem {problem}"
    return build_session(store, Problem(name, title, "", origin, ()), origin, title, steps)
