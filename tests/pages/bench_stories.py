"""Benches as the engine leaves them: their sessions are stories, timed on a GPU or only tested on the emulator."""

from __future__ import annotations

from cutegen_core.records import as_json
from cutegen_core.records.bench import BenchProgress, BenchRow, BenchSettings
from cutegen_core.records.event import SessionState, StateChanged
from cutegen_core.records.job import Job, JobKind, JobState
from cutegen_core.records.performance import Performance
from cutegen_core.records.trial import ExecutorKind
from cutegen_core.trajectory import jobs
from cutegen_core.trajectory.store import Store
from tests.pages.gpu_stories import measured, timed
from tests.pages.stories import KERNEL, Story, passed

MEDIANS = {
    "softmax": 203.4, "layernorm": 182.9, "rmsnorm": 199.8, "gelu": 169.1, "relu": 168.0, "swish": 169.9,
    "logsoftmax": 236.2, "max_reduction": 266.3, "mean_reduction": 365.8, "sum_reduction": 187.7,
}  # fmt: skip
"""Problem -> time of its best kernel; the baselines take as long in all."""
BROKEN, UNKNOWN = "broken", "inverse"
_SECONDS = 30.0


def bench_story(
    store: Store, *, on_gpu: bool = True, faster: float = 1.0, done: int | None = None, created_at: float = 1.79e9
) -> str:
    """Return a bench of twelve problems, two without a kernel; return its id.

    Args:
        faster: what the times are divided by.
        done: so many are; the bench still runs. None: all, and it is done.
    """
    problems = (BROKEN, UNKNOWN, *MEDIANS)
    settings = BenchSettings("built-in", problems, max_steps=8, arch="sm_90a")
    finished = problems[: len(problems) if done is None else done]
    reports = [as_json.dump(_row(store, name, faster, on_gpu=on_gpu)) for name in finished]
    state, ended_at = (JobState.DONE, created_at + 312.0) if done is None else (JobState.RUNNING, 0.0)
    job = Job("", JobKind.BENCH, "built-in: 12 problems, playbook", as_json.dump(settings), state,
              created_at=created_at, started_at=created_at, ended_at=ended_at)  # fmt: skip
    made = jobs.adopt(store, job, reports)
    running = problems[len(finished) : len(finished) + 1]
    jobs.set_progress(store, made, as_json.dump(BenchProgress(len(finished), len(problems), running)))
    return made


def _row(store: Store, name: str, faster: float, *, on_gpu: bool) -> BenchRow:
    if name == BROKEN:
        return BenchRow(f"/problems/{name}.py", name, "", "broken.py: has no Model", 0.1)
    story = Story(store).begin(held=True, executor=ExecutorKind.GPU if on_gpu else ExecutorKind.CPU)
    if name != UNKNOWN:
        kernel = story.propose(f"{KERNEL}\n// {name}", f"{name}, one block a row")
        us = MEDIANS[name] / faster
        trial = timed(store, kernel, Performance((measured(us),))) if on_gpu else passed(store, kernel)
        story.test(trial).promote(kernel)
    story.add(StateChanged(SessionState.STOPPED, "the playbook does not know linalg_inv; nothing passed")).publish()
    return BenchRow(name, name, story.session, "", _SECONDS)
