"""What a bench is asked, and what comes of it: a set of problems, each in a session of its own."""

from __future__ import annotations

from dataclasses import dataclass, field

from cutegen_core.records.decision import Effort
from cutegen_core.records.event import AnsweredBy
from cutegen_core.records.trial import ExecutorKind


@dataclass(frozen=True)
class BenchSettings:
    """How every problem of a set is taken through a session without decisions.

    Attributes:
        set_name: what a person called the set: its name, or a folder.
        problems: names of known problems, or paths of files, in order.
        executor: None: the GPU if there is one, else the emulator.
        at_once: so many sessions run at a time; with one, their seconds are comparable.
        tune: sweep the parameters of each session's best kernel before the session ends.
        effort: how much a step may try, and what ends each session.
        job: id of the bench; the engine fills it in, so that a bench that was stopped goes on where it was.
    """

    set_name: str
    problems: tuple[str, ...]
    answered_by: AnsweredBy = AnsweredBy.PLAYBOOK
    strategy: str = "cutegen"
    executor: ExecutorKind | None = None
    arch: str = ""
    max_steps: int = 40
    model: str = ""
    max_tokens: int | None = None
    at_once: int = 1
    tune: bool = False
    job: str = ""
    effort: Effort = field(default_factory=Effort)


@dataclass(frozen=True)
class BenchProgress:
    """Where a bench is.

    Attributes:
        running: the problems whose sessions run now.
    """

    done: int
    total: int
    running: tuple[str, ...] = ()


@dataclass(frozen=True)
class BenchRow:
    """One problem of a bench. What its session came to is read from the session.

    Attributes:
        problem: as in the settings.
        title: for a person; of a file, its place in the folder that all files share.
        session: "" where there is none, because the problem did not load.
        why: of that, else "".
        seconds: from the session's start to its end; of one that was taken up again, from there.
    """

    problem: str
    title: str
    session: str
    why: str
    seconds: float


@dataclass(frozen=True)
class BenchResult:
    """The end of a bench: how many problems it took, and how long."""

    problems: int
    seconds: float
