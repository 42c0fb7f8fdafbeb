"""What each part of CuTeGen's strategy is worth: a set of problems taken through it, and through its variants.

CUTEGEN_API_KEY=... python -m benchmarks.guide.ablation --model NAME [--base-url URL]     (three built-in problems)
... --set level1 --checkout KernelBench --max-steps 20                              (a set of `cutegen bench`)
... --strategies cutegen                                                            (three problems, no variants)

1. Each strategy is a bench of its own; the page Bench shows it, and a session of each problem.
2. The variants are those of `propose.cutegen.switches`: no profile, profile always, no menus, CUDA instead of CuTe, one
   shot.
3. The report (NAME.md and NAME.json in --out) has a line for each strategy: problems with a kernel that passed, how its
   kernels compare with those of the first strategy, speedup over eager, calls and tokens; and a table by problem.

Kernels are compared by time where both were timed, else by the estimates of both, which are no times; the report says
which. Without a key it says so, and asks nobody. Interrupted, it stops its bench; the report has the strategies before.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from benchmarks.conditions import RESULTS, conditions
from cutegen_core import engine, views
from cutegen_core.commands.refining import choose_model
from cutegen_core.evaluate.timing.statistics import geometric_mean
from cutegen_core.problems import sets
from cutegen_core.propose import registry
from cutegen_core.propose.cutegen.switches import ABLATIONS
from cutegen_core.records.bench import BenchSettings
from cutegen_core.records.errors import CutegenError
from cutegen_core.records.event import AnsweredBy
from cutegen_core.records.job import JobState
from cutegen_core.session import start
from cutegen_core.trajectory import jobs
from cutegen_core.trajectory.read import state_of
from cutegen_core.trajectory.store import Store

KEY = "CUTEGEN_API_KEY"
NO_KEY = (
    f"No model can be reached: {KEY} is not set. Set it to the key of your server (to any word for a local server "
    "without keys), and give --model and --base-url, or a model from Setup."
)
THREE = ("softmax", "matmul_bias_relu", "conv_bias_relu")
_POLL_S = 0.5


class Run(NamedTuple):
    """One problem under one strategy.

    Attributes:
        latency_us, estimate_us: of the best kernel; None where there is none, or nothing was timed or estimated.
        over_eager: eager's time / its own.
    """

    problem: str
    session: str
    outcome: str
    why: str
    latency_us: float | None
    estimate_us: float | None
    over_eager: float | None
    steps: int
    calls: int
    tokens: int
    seconds: float


def main() -> int:
    arguments = _parser().parse_args()
    if not os.environ.get(KEY):
        print(NO_KEY, file=sys.stderr)
        return 2
    try:
        return _run(arguments)
    except CutegenError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--set", default="", help="a set of `cutegen bench`, or a folder (default: three problems)")
    parser.add_argument("--checkout", type=Path, help="KernelBench, for the sets that are parts of it")
    parser.add_argument("--strategies", type=_strategies, default=("cutegen", *ABLATIONS), metavar="A,B",
                        help=f"out of cutegen, {', '.join(ABLATIONS)} (default: all)")  # fmt: skip
    parser.add_argument("--model", default="", help="model name on that server, or a model from Setup")
    parser.add_argument("--base-url", default="", help="an OpenAI-compatible server")
    parser.add_argument("--max-steps", type=int, default=20, help="step limit of a session (default: %(default)s)")
    parser.add_argument("--budget-tokens", type=int, help="token limit of each session")
    parser.add_argument("--at-once", type=int, default=1, help="sessions at a time (default: %(default)s)")
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder of the report (default: %(default)s)")
    parser.add_argument("--name", default="ablation", help="name of the report (default: %(default)s)")
    return parser


def _strategies(text: str) -> tuple[str, ...]:
    names = tuple(text.split(","))
    unknown = [name for name in names if name not in ("cutegen", *ABLATIONS)]
    if unknown:
        raise argparse.ArgumentTypeError(f"no such strategy: {', '.join(unknown)}")
    return names


def _run(arguments: argparse.Namespace) -> int:
    problems = sets.resolve(arguments.set, arguments.checkout) if arguments.set else THREE
    model = choose_model(arguments)
    store, found = Store(), dict[str, tuple[Run, ...]]()
    with engine.kept_running(), closing(store):
        for strategy in arguments.strategies:
            settings = BenchSettings(
                arguments.set or "three problems", problems, AnsweredBy.LLM, strategy, max_steps=arguments.max_steps,
                model=model, max_tokens=arguments.budget_tokens, at_once=arguments.at_once,
            )  # fmt: skip
            found[strategy] = _bench(store, settings)
            _write(arguments, found)
    print(report(found))
    return 0 if all(run.outcome == views.BenchOutcome.PASSED for runs in found.values() for run in runs) else 1


def _bench(store: Store, settings: BenchSettings) -> tuple[Run, ...]:
    """Take the problems through one strategy; Ctrl-C stops the bench and goes on to the report's end."""
    job = start.create_bench(store, settings)
    print(f"{settings.strategy}: bench {job}", file=sys.stderr, flush=True)
    try:
        while not jobs.get(store, job).is_over:
            time.sleep(_POLL_S)
    except KeyboardInterrupt:
        jobs.request_stop(store, job)
        raise
    ended = jobs.get(store, job)
    if ended.state is not JobState.DONE:
        raise CutegenError(
            f"bench {job} of {settings.strategy} is {ended.state}: {ended.error or 'no reason was given'}"
        )
    return tuple(_read(store, line) for line in views.bench_lines(store, job))


def _read(store: Store, line: views.BenchLine) -> Run:
    state = state_of(store, line.session) if line.session else None
    best = state.best_step if state else None
    return Run(
        line.problem, line.session, line.outcome, line.why, line.latency_us,
        best.verdict.estimate_us if best and best.verdict else None, line.speedups.get("eager"), line.steps,
        sum(len(step.calls) for step in state.steps) if state else 0, state.tokens if state else 0, line.seconds,
    )  # fmt: skip


def compared(first: Sequence[Run], other: Sequence[Run]) -> tuple[float | None, int, str]:
    """Return how many times as long the other strategy's kernels take (geometric mean over the problems where both have
    one), over how many, and by what: "time", or "estimate" where not all of these were timed."""
    ours = {run.problem: run for run in first}
    pairs = [(ours[run.problem], run) for run in other if run.problem in ours]
    for what in ("latency_us", "estimate_us"):
        both = [(getattr(a, what), getattr(b, what)) for a, b in pairs]
        ratios = [b / a for a, b in both if a and b]
        if ratios:
            return geometric_mean(ratios), len(ratios), "time" if what == "latency_us" else "estimate"
    return None, 0, "time"


def report(found: Mapping[str, Sequence[Run]]) -> str:
    """Write the tables: a line for each strategy, then a line for each problem."""
    return "\n".join([*_by_strategy(found), "", *_by_problem(found)])


def _by_strategy(found: Mapping[str, Sequence[Run]]) -> Iterator[str]:
    first = next(iter(found))
    yield f"| strategy | passed | kernels against {first}'s | over eager | steps | calls | tokens | seconds |"
    yield "|---|---|---|---|---|---|---|---|"
    for strategy, runs in found.items():
        ratio, count, what = compared(found[first], runs)
        against = f"{ratio:.2f}x the {what} ({count})" if ratio and strategy != first else "-"
        eager = [run.over_eager for run in runs if run.over_eager]
        mean = f"{geometric_mean(eager):.2f}x ({len(eager)})" if eager else "not timed"
        passed = sum(run.outcome == views.BenchOutcome.PASSED for run in runs)
        totals = (sum(getattr(run, name) for run in runs) for name in ("steps", "calls", "tokens"))
        cells = [registry.STRATEGIES[strategy].title, f"{passed} of {len(runs)}", against, mean, *map(str, totals)]
        yield f"| {' | '.join(cells)} | {sum(run.seconds for run in runs):.0f} |"


def _by_problem(found: Mapping[str, Sequence[Run]]) -> Iterator[str]:
    yield f"| problem | {' | '.join(found)} |"
    yield f"|---|{'---|' * len(found)}"
    by_name = {strategy: {run.problem: run for run in runs} for strategy, runs in found.items()}
    for problem in dict.fromkeys(run.problem for runs in found.values() for run in runs):
        cells = (_cell(runs.get(problem)) for runs in by_name.values())
        yield f"| {problem} | {' | '.join(cells)} |"


def _cell(run: Run | None) -> str:
    if run is None:
        return "-"
    if run.outcome != views.BenchOutcome.PASSED:
        return (f"{run.outcome}: {run.why}" if run.why else run.outcome)[:100].replace("|", "/")
    us = (
        f"{run.latency_us:.4g} us"
        if run.latency_us
        else f"estimate {run.estimate_us:.4g} us"
        if run.estimate_us
        else "passed"
    )
    return f"{us}, {run.steps} steps, {run.tokens} tokens"


def _write(arguments: argparse.Namespace, found: Mapping[str, Sequence[Run]]) -> None:
    """Write both files anew after each strategy, so that an interruption loses none."""
    arguments.out.mkdir(parents=True, exist_ok=True)
    asked = {"model": arguments.model, "set": arguments.set or list(THREE), "max_steps": arguments.max_steps}
    rows = {strategy: [run._asdict() for run in runs] for strategy, runs in found.items()}
    whole = {"conditions": conditions(), "asked": asked, "strategies": rows}
    (arguments.out / f"{arguments.name}.json").write_text(json.dumps(whole, indent=2) + "\n")
    head = f"# Ablation of CuTeGen's strategy\n\nModel: {arguments.model}. Steps: at most {arguments.max_steps}.\n\n"
    (arguments.out / f"{arguments.name}.md").write_text(f"{head}{report(found)}\n")


if __name__ == "__main__":
    sys.exit(main())
