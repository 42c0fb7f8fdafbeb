"""Hostile trials in a row, and what they leave behind: processes, files, memory.

1. Ten kernels, each another way to misbehave, are tried twice (once before a single round): compiled, workers started,
   pools filled.
2. What exists then is counted; the kernels are tried again and again, round robin; it is counted once more.
Nothing may have come to stay: the counts of processes and files are equal, memory has not grown with the trials.
"""

from __future__ import annotations

import gc
import os
import re
import tempfile
import time
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from secrets import randbits
from typing import Any

from cutegen_core.machine import workspace
from cutegen_core.records.candidate import Author, Candidate
from tests.adversarial.bench import Bench
from tests.adversarial.case import Case
from tests.adversarial.corpus import named
from tests.crowd import descendants
from tests.shared_tools import SharedTools

KERNELS = (
    "far past the end", "writes inputs", "endless loop", "waits for the next block", "trap", "walks over its stack",
    "prints without end", "divergent barrier", "misaligned vector", "keeps its result",
)  # fmt: skip
RUN_TIMEOUT_S = 0.25
ENGINE = "-m cutegen_core.engine"
SETTLE_S = 30.0
_PAGE = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True)
class Remains:
    """What there is at one moment.

    Attributes:
        processes: descendants of this process, zombies among them.
        zombies: descendants that have ended and were not waited for.
        orphans: runners and compilers of this workspace that are nobody's of ours.
        files: entries below the temporary folder, the workspace and /dev/shm that are ours.
        descriptors: open files of this process.
        memory_mb: resident memory of this process and its descendants.
    """

    processes: int
    zombies: int
    orphans: int
    files: int
    descriptors: int
    memory_mb: float


@dataclass(frozen=True)
class Endured:
    """Before and after."""

    trials: int
    verdicts: Mapping[str, Mapping[str, int]]
    before: Remains
    after: Remains
    seconds: float

    def plain(self) -> dict[str, Any]:
        return asdict(self)


def endure(rounds: int, shared: SharedTools | None = None, names: Sequence[str] = KERNELS) -> Endured:
    """Try every kernel `rounds` times after a warm-up; with the tools of this process's tests, if they are given."""
    cases = [named(name) for name in names]
    verdicts: dict[str, Counter[str]] = {case.name: Counter() for case in cases}
    with _own_temporary_folder(), Bench("cpu", shared=shared) as bench:
        for _ in range(min(2, rounds)):
            _round(bench, cases, {case.name: Counter() for case in cases})
        before, begun = remains(bench.scratch), time.monotonic()
        for _ in range(rounds):
            _round(bench, cases, verdicts)
        after = _settled(before, bench.scratch)
    counts = {name: dict(counter) for name, counter in verdicts.items()}
    return Endured(rounds * len(cases), counts, before, after, round(time.monotonic() - begun, 1))


def _settled(before: Remains, scratch: Path) -> Remains:
    """Count once what other work of this process has just ended is waited for: that takes it a moment."""
    deadline = time.monotonic() + SETTLE_S
    while (now := remains(scratch)).zombies > before.zombies and time.monotonic() < deadline:
        time.sleep(0.1)
    return now


@contextmanager
def _own_temporary_folder() -> Iterator[None]:
    """Keep a folder for temporary files of its own: what others on this machine put into /tmp does not count."""
    with tempfile.TemporaryDirectory(prefix="cutegen-endurance-") as folder:
        before, tempfile.tempdir = tempfile.tempdir, folder
        try:
            yield
        finally:
            tempfile.tempdir = before


def _round(bench: Bench, cases: list[Case], verdicts: dict[str, Counter[str]]) -> None:
    for case in cases:
        evaluator = bench.evaluator(case.problem, run_timeout_s=RUN_TIMEOUT_S)
        trial = evaluator.evaluate(Candidate(case.source, Author.PERSON), seed=randbits(31))
        verdicts[case.name][str(trial.status)] += 1


def remains(scratch: Path) -> Remains:
    """Count now; `scratch` is the trials' own folder."""
    gc.collect()
    ours = descendants(os.getpid())
    states = {pid: _stat(pid) for pid in ours}
    zombies = sum(state[0] == "Z" for state in states.values() if state)
    resident = sum(_resident(pid) for pid in {os.getpid(), *ours})
    return Remains(
        processes=len(ours), zombies=zombies, orphans=len(set(_of_this_workspace()) - ours - {os.getpid()}),
        files=len(set(_files(ours, scratch))), descriptors=len(os.listdir("/proc/self/fd")),
        memory_mb=round(resident / 1e6, 1),
    )  # fmt: skip


def _stat(pid: int) -> list[str]:
    """State, parent and so on; empty when it is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    except OSError:
        return []


def _resident(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE
    except OSError:
        return 0


def _of_this_workspace() -> Iterator[int]:
    """Yield processes whose command line names the workspace: the emulator's runners, compilers.

    Those of an engine, which another test has started and which stays for a minute, are the engine's.
    """
    home = f"{workspace.home()}/"
    for entry in Path("/proc").glob("[0-9]*"):
        if home in _command(pid := int(entry.name)) and not any(ENGINE in _command(one) for one in _ancestors(pid)):
            yield pid


def _ancestors(pid: int) -> Iterator[int]:
    while (state := _stat(pid)) and (pid := int(state[1])) > 1:
        yield pid


def _command(pid: int) -> str:
    """Return the command line; "" when it is gone."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""


def _files(ours: Collection[int], scratch: Path) -> Iterator[Path]:
    for path in Path("/dev/shm").glob("*"):
        compiler = re.match(r"cutegen-compile-(\d+)-", path.name)
        if compiler is None or int(compiler[1]) in ours or not Path(f"/proc/{compiler[1]}").exists():
            yield path
    for root in (Path(tempfile.gettempdir()), workspace.home(), scratch):
        yield from root.rglob("*")


def faults(endured: Endured, allowed_growth_mb: float) -> list[str]:
    """Return what must not have happened."""
    before, after = endured.before, endured.after
    found = [
        f"{name}: {getattr(before, name)} before, {getattr(after, name)} after"
        for name in ("processes", "files", "descriptors")
        if getattr(after, name) > getattr(before, name)
    ]
    zombies = after.zombies - before.zombies
    found += [f"{zombies} zombies"] * (zombies > 0) + [f"{after.orphans} orphans"] * (after.orphans > 0)
    growth = after.memory_mb - before.memory_mb
    if growth > allowed_growth_mb:
        found.append(f"memory grew by {growth:.1f} MB")
    passed = [name for name, counts in endured.verdicts.items() if "PASSED" in counts]
    return found + [f"{name} passed" for name in passed]
