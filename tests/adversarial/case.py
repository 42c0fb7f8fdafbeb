"""One adversarial case: a kernel file, the story of what it tries, and the verdict it must get on each executor.

`judged` holds a trial against a case: the status must be one of those expected and every word of the evidence must
stand in what the person reads (message, findings, diagnostics). A source line marked `// HERE` must be named, too.
"""

from __future__ import annotations

from dataclasses import dataclass

from cutegen_core.records.trial import Status, Trial

MARK = "// HERE"
_SEEN_BY_CHECKS = (Status.MEMORY_ERROR, Status.RUNTIME_ERROR, Status.INPUT_MODIFIED, Status.PASSED)


@dataclass(frozen=True)
class Expected:
    """What a trial must say.

    Attributes:
        statuses: the verdicts that are right here; never PASSED for a hostile kernel.
        words: each must stand in the evidence, whatever its case.
        line: whether the line marked `// HERE` must be named.
    """

    statuses: tuple[Status, ...]
    words: tuple[str, ...] = ()
    line: bool = True


@dataclass(frozen=True)
class Case:
    """One kernel file.

    Attributes:
        name: short, unique, in words.
        story: what it tries and why somebody would, in one line.
        problem: key of `problems.PROBLEMS`.
        emulator, gpu: what each executor must answer; None where the trick has nothing to work on.
        limited: compile it under `bench.SHORT_LIMITS`, since it exists to run into a limit.
        warning: words that a finding of the emulator must carry though the kernel passes (honest kernels only).
    """

    name: str
    story: str
    problem: str
    source: str
    emulator: Expected | None
    gpu: Expected | None
    limited: bool = False
    warning: str = ""

    def expected(self, executor: str) -> Expected | None:
        return self.emulator if executor == "cpu" else self.gpu

    @property
    def watched(self) -> bool:
        """Whether memory checks have a say in its verdict on a GPU (seconds each there; the emulator always checks)."""
        return self.gpu is None or any(status in _SEEN_BY_CHECKS for status in self.gpu.statuses)

    @property
    def hostile(self) -> bool:
        return all(Status.PASSED not in e.statuses for e in (self.emulator, self.gpu) if e)


def refused(*words: str, line: bool = True) -> Expected:
    """Make a trial that ended before any compiler saw it."""
    return Expected((Status.REJECTED,), words, line)


def status(*statuses: Status, words: tuple[str, ...] = (), line: bool = True) -> Expected:
    return Expected(statuses, words, line)


def evidence(trial: Trial) -> str:
    """Return everything the person reads about the verdict, in one text."""
    verdicts = trial.correctness.verdicts if trial.correctness else ()
    findings = [f"{f.kind} {f.variable} line {f.line}: {f.message}" for v in verdicts for f in v.findings]
    diagnostics = [f"{d.tool} line {d.line}: {d.message}" for d in trial.diagnostics]
    return "\n".join([trial.message, *findings, *diagnostics])


def judged(case: Case, trial: Trial) -> tuple[str, ...]:
    """Return what does not fit; empty when the trial says what it must."""
    wanted = case.expected(trial.executor)
    assert wanted is not None, f"{case.name} does not apply to {trial.executor}"
    text = evidence(trial)
    wrong = []
    if trial.status not in wanted.statuses:
        wrong.append(f"{trial.status}, not {' or '.join(wanted.statuses)}")
    wrong += [f"nothing about {word!r}" for word in wanted.words if word.lower() not in text.lower()]
    marked = [n for n, line in enumerate(case.source.splitlines(), 1) if MARK in line]
    if wanted.line and marked and not any(f"line {n}:" in text for n in marked):
        wrong.append(f"line {marked[0]} is not named")
    if trial.executor == "cpu" and case.warning not in text:
        wrong.append(f"no warning about {case.warning!r}")
    return tuple(wrong)
