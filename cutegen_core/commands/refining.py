"""Refine a kernel in a session, and follow it to its end."""

from __future__ import annotations

import argparse
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from cutegen_core import engine, views
from cutegen_core.execute.executors.choice import make_executor
from cutegen_core.printing import print_json, session_json
from cutegen_core.problems import library
from cutegen_core.propose import registry
from cutegen_core.propose.llm import model_settings
from cutegen_core.propose.llm.model_settings import ModelSettings
from cutegen_core.records import as_json
from cutegen_core.records.decision import Autonomy, Decision, DecisionKind, Effort
from cutegen_core.records.errors import UsageError
from cutegen_core.records.event import AnsweredBy, Role, SessionState
from cutegen_core.records.problem import Problem
from cutegen_core.records.wording import counted
from cutegen_core.session import start
from cutegen_core.share.imports import import_path
from cutegen_core.trajectory.state import WORKING, Step
from cutegen_core.trajectory.store import Store


def run(arguments: argparse.Namespace) -> int:
    store = Store()
    strategy = _single(arguments.strategy) if arguments.single_agent else arguments.strategy
    return _finish(arguments, store, _start(arguments, store, strategy, dict(arguments.role)))


def twin(arguments: argparse.Namespace) -> int:
    """Run Astra with four roles, then with one, and compare."""
    store = Store()
    runs = []
    chosen: Mapping[Role, AnsweredBy] = dict(arguments.role)
    for agents, strategy, roles in (("four roles", "astra", chosen), ("one role", _single("astra"), {})):
        session = _start(arguments, store, strategy, roles)
        _follow(store, session, quiet=arguments.json)
        runs.append(views.agent_run(store, session, agents))
    if arguments.json:
        print_json([as_json.to_plain(run) for run in runs])
    for line in () if arguments.json else views.agent_lines(runs):
        print(line)
    return 0 if all(run.state is SessionState.ACCEPTED for run in runs) else 1


def replay(arguments: argparse.Namespace) -> int:
    store = Store()
    path = Path(arguments.session)
    recorded = import_path(store, path).session if path.exists() else store.find_session(arguments.session)
    settings = views.session_view(store, recorded).state.settings
    session = start.create(
        store,
        store.record(Problem, settings.problem),
        answered_by=AnsweredBy.RECORDING,
        executor=arguments.executor,
        autonomy=Autonomy.AUTO,
        max_steps=10_000,
        arch=arguments.arch or settings.arch,
        recording=recorded,
    )
    return _finish(arguments, store, session)


def _single(strategy: str) -> str:
    """Return the strategy's twin with one role."""
    if f"{strategy}-single" not in registry.STRATEGIES:
        raise UsageError(f"the strategy {strategy!r} has no twin with one role; give --strategy astra")
    return f"{strategy}-single"


def _start(arguments: argparse.Namespace, store: Store, strategy: str, roles: Mapping[Role, AnsweredBy]) -> str:
    problem = library.load(arguments.problem)
    if arguments.executor:
        make_executor(arguments.executor)
    registry.check(strategy, arguments.proposer, roles)
    registry.check_problem(strategy, problem)
    return start.create(
        store,
        problem,
        answered_by=arguments.proposer,
        strategy=strategy,
        executor=arguments.executor,
        autonomy=Autonomy.AUTO if arguments.auto else Autonomy.STEP,
        max_steps=arguments.max_steps,
        arch=arguments.arch,
        model=choose_model(arguments) if AnsweredBy.LLM in (arguments.proposer, *roles.values()) else "",
        max_tokens=arguments.budget_tokens,
        roles=roles,
        allow_regressions=arguments.allow_regressions,
        effort=_effort(arguments),
    )


def _effort(arguments: argparse.Namespace) -> Effort:
    return Effort(
        arguments.ideas,
        arguments.enough / 100,
        max(arguments.width, len(arguments.models)),
        arguments.models,
        arguments.budget_money,
        arguments.budget_minutes,
        arguments.worth_tokens,
        arguments.worth_money,
    )


def choose_model(arguments: argparse.Namespace) -> str:
    """Return the name of the model settings to use.

    `--base-url` is written into `models.toml`: as settings of its own, or into those of that name, whose prices and
    limits stay.

    Raises:
        UsageError: --base-url is given without --model.
    """
    models = model_settings.read()
    if not arguments.base_url:
        return str(arguments.model)
    if not arguments.model:
        raise UsageError("--base-url needs --model NAME, the model's name on that server")
    known = next((s for s in models.settings if s.name == arguments.model), None)
    made = (
        replace(known, base_url=arguments.base_url, model=arguments.model)
        if known
        else ModelSettings(arguments.model, arguments.base_url, arguments.model)
    )
    others = tuple(s for s in models.settings if s.name != made.name)
    model_settings.write(replace(models, settings=(*others, made)))
    return made.name


def _finish(arguments: argparse.Namespace, store: Store, session: str) -> int:
    """Follow a session to its end and print how it went."""
    state = _follow(store, session, quiet=arguments.json)
    view = views.session_view(store, session)
    best = view.state.best_step
    if arguments.json:
        print_json(session_json(store, session))
    else:
        print(f"session {session}: {state} - {view.state.reason}")
        print(f"best: {best.idea if best else 'none'}")
        for line in views.paid_lines(view.state):
            print(line)
    return 0 if state is SessionState.ACCEPTED else 1


def _describe_end(step: Step) -> str:
    """Return what a closed step came to, in one line."""
    if step.status is None:
        return f"no kernel: {step.note or step.outcome}"
    several = f", the best of {counted(len(step.alternatives), 'candidate')}" if step.alternatives else ""
    return f"{step.idea}: {step.status} {step.outcome}{several}"


def _follow(store: Store, session: str, *, quiet: bool) -> SessionState:
    """Wait until the session needs a person or is over; print each step as it ends."""
    done = threading.Event()
    threading.Thread(target=engine.keep_running, args=(done,), daemon=True).start()
    told = 0
    try:
        while True:
            view = views.session_view(store, session)
            closed = [step for step in view.state.steps if step.outcome is not None]
            for step in closed[told:]:
                if not quiet:
                    print(f"step {step.number}: {_describe_end(step)}", file=sys.stderr)
            told = len(closed)
            if view.state.status not in WORKING:
                return view.state.status
            time.sleep(0.1)
    except KeyboardInterrupt:
        store.submit(session, Decision(DecisionKind.STOP))
        raise
    finally:
        done.set()
