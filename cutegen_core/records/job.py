"""Define jobs: long work in processes of their own, kept by the engine, shown by the page."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class JobKind(StrEnum):
    """What a job runs."""

    GNN = "gnn"
    EXPORT = "export"
    BENCH = "bench"


class JobState(StrEnum):
    """Where a job is in its life; STOPPED by a person, INTERRUPTED when its engine or its process was killed."""

    WAITING = "waiting"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    STOPPED = "stopped"
    INTERRUPTED = "interrupted"


@dataclass(frozen=True)
class Job:
    """One job as it stands.

    Attributes:
        settings: what it is asked, the JSON of its kind's settings record.
        progress: the latest progress line, JSON of its kind's progress record; "" before the first.
        result: key of the blob with the result's JSON; "" before the end.
        error: why it failed, for a person.
        created_at, started_at, ended_at: seconds since the Unix epoch; 0 before it happened.
        origin: "here", or which file it was imported from.
    """

    id: str
    kind: JobKind
    title: str
    settings: str
    state: JobState
    progress: str = ""
    result: str = ""
    error: str = ""
    created_at: float = 0.0
    started_at: float = 0.0
    ended_at: float = 0.0
    origin: str = "here"

    @property
    def is_over(self) -> bool:
        return self.state not in (JobState.WAITING, JobState.RUNNING)

    @property
    def imported(self) -> bool:
        return self.origin != "here"
