"""Take a set of problems through sessions, and print what came of it; go on with a bench that was stopped."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from cutegen_core import engine, views
from cutegen_core.commands.effort import read_effort
from cutegen_core.execute.executors.choice import make_executor
from cutegen_core.printing import print_json
from cutegen_core.problems import sets
from cutegen_core.records.bench import BenchSettings
from cutegen_core.records.errors import MachineError, UsageError
from cutegen_core.records.job import Job, JobKind, JobState
from cutegen_core.records.wording import lowered
from cutegen_core.session import start
from cutegen_core.trajectory import jobs
from cutegen_core.trajectory.store import Store

_POLL_S = 0.2


def bench(arguments: argparse.Namespace) -> int:
    """Run a bench to its end; exit code 0 if every problem has a kernel that passed."""
    store = Store()
    earlier = jobs.find(store, arguments.against, JobKind.BENCH) if arguments.against else ""
    job = _go_on(store, arguments) if arguments.go_on else _create(store, arguments)
    _follow(store, job, quiet=arguments.json)
    lines = views.bench_lines(store, job)
    figures = views.bench_figures(lines)
    changes = views.compare_benches(views.bench_lines(store, earlier), lines) if earlier else []
    if arguments.json:
        plain = [line._asdict() for line in lines]
        against = {"bench": earlier, "changes": [change._asdict() for change in changes]} if earlier else None
        print_json({
            "bench": job, "problems": plain, "figures": figures._asdict() if figures else None, "against": against,
        })  # fmt: skip
    else:
        compared = [f"compared with bench {earlier}:", *(map(_changed, changes) if changes else ["  nothing changed"])]
        print(*_table(lines), *views.bench_words(lines), *(compared if earlier else ()), sep="\n")
    return 0 if figures and figures.passed == figures.problems else 1


def _create(store: Store, arguments: argparse.Namespace) -> str:
    if not arguments.set:
        raise UsageError(f"name a set with --set: {', '.join(sets.SETS)}, or a folder; or go on with --go-on BENCH")
    problems = sets.resolve(arguments.set, arguments.checkout)
    if arguments.executor:
        make_executor(arguments.executor)
    named = arguments.set if arguments.set in sets.SETS else str(Path(arguments.set).expanduser().absolute())
    settings = BenchSettings(
        named, problems, arguments.proposer, arguments.strategy, arguments.executor, arguments.arch or "",
        arguments.max_steps, arguments.model, arguments.budget_tokens, arguments.at_once, arguments.tune,
        effort=read_effort(arguments),
    )  # fmt: skip
    return start.create_bench(store, settings)


def _go_on(store: Store, arguments: argparse.Namespace) -> str:
    if arguments.set:
        raise UsageError("a bench goes on with its own set and settings: leave out --set, or leave out --go-on")
    job = jobs.find(store, arguments.go_on, JobKind.BENCH)
    if jobs.get(store, job).is_over and not jobs.put_back(store, job):
        raise UsageError(f"bench {job} is done; `cutegen bench --set ...` begins another")
    return job


def _follow(store: Store, job: str, *, quiet: bool) -> None:
    """Wait for the end of a bench; Ctrl-C stops it, and `--go-on` goes on with it.

    Raises:
        MachineError: it failed.
    """
    try:
        with engine.kept_running():
            ended = _wait(store, job, quiet=quiet)
    except KeyboardInterrupt:
        jobs.request_stop(store, job)
        print(f"stopped; `cutegen bench --go-on {job}` goes on with it", file=sys.stderr)
        raise
    if ended.state is not JobState.DONE:
        why = (ended.error or "no reason was given").removesuffix(".")
        raise MachineError(f"bench {job} was {lowered(ended.state)}: {why}. Go on: --go-on {job}")


def _wait(store: Store, job: str, *, quiet: bool) -> Job:
    """Return the job once it is over; print each problem as it is done."""
    if not quiet:
        print(f"bench {job}", file=sys.stderr)
    told = 0
    while True:
        now = jobs.get(store, job)
        for line in () if quiet else views.bench_lines(store, job, told):
            print(f"{line.problem}: {line.outcome} {line.why or line.idea} ({line.seconds:.0f} s)", file=sys.stderr)
            told += 1
        if now.is_over:
            return now
        time.sleep(_POLL_S)


def _table(lines: Sequence[views.BenchLine]) -> list[str]:
    head = f"{'problem':46} {'outcome':24} {'s':>5} {'us':>9} {'bound':>6} " + " ".join(
        f"{name:>13}" for name in views.BASELINES
    )
    return [head, *map(_row, lines)]


def _row(line: views.BenchLine) -> str:
    times = f"{line.latency_us:9.1f}" if line.latency_us else f"{'-':>9}"
    reached = f"{100 * line.share:5.0f}%" if line.share else f"{'-':>6}"
    ratios = (line.speedups.get(name) for name in views.BASELINES)
    ratio = " ".join(f"{value:12.2f}x" if value else f"{'-':>13}" for value in ratios)
    return f"{line.problem[:46]:46} {line.outcome:24} {line.seconds:5.0f} {times} {reached} {ratio} {line.why}".rstrip()


def _changed(change: views.BenchChange) -> str:
    ratio = f" ({change.ratio:.2f}x)" if change.ratio else ""
    return f"  {change.problem}: {change.before} -> {change.after}{ratio}"
