"""Refine a kernel in a session, and follow it to its end."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from cutegen_core import engine, views
from cutegen_core.commands.effort import read_effort
from cutegen_core.printing import print_json, session_json
from cutegen_core.problems import library
from cutegen_core.propose import registry
from cutegen_core.propose.llm import model_settings
from cutegen_core.propose.llm.model_settings import ModelSettings
from cutegen_core.records import as_json
from cutegen_core.records.decision import Autonomy, Decision, DecisionKind, Effort
from cutegen_core.records.errors import UsageError
from cutegen_core.records.event import AnsweredBy, Outcome, Role, SessionState
from cutegen_core.records.problem import Problem
from cutegen_core.records.trial import Status
from cutegen_core.records.wording import CAREFUL, counted
from cutegen_core.session import start
from cutegen_core.trajectory.state import WORKING, Step
from cutegen_core.trajectory.store import Store

_ANSWER_S = 60.0
"""How long an engine may take to take a decision: it starts, or another session's trial is in progress."""


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


def resume(arguments: argparse.Namespace) -> int:
    """Go on with a session: raise its budgets, let it run to the end, resume it; then follow it.

    Raises:
        UsageError: it is accepted, its budget is used up and none is given, or money would limit models without prices.
    """
    store = Store()
    session = store.find_session(arguments.session)
    state = views.session_view(store, session).state
    given = {
        "max_tokens": arguments.budget_tokens, "max_cost": arguments.budget_money,
        "max_minutes": arguments.budget_minutes,
    }  # fmt: skip
    raises = bool(arguments.max_steps) or any(value is not None for value in given.values())
    if state.status is SessionState.EXHAUSTED and not raises:
        raise UsageError(f"{state.reason}: --max-steps, --budget-tokens, --budget-money or --budget-minutes")
    if state.status is SessionState.ACCEPTED:
        raise UsageError(f"session {session} is accepted: rewind it to a step on its page to go on from there")
    registry.check_effort(replace(state.settings, effort=_with_money(state.settings.effort, arguments.budget_money)))
    steps = arguments.max_steps or state.max_steps
    decisions = [Decision(DecisionKind.BUDGET, max_steps=steps, **given)] if raises else []
    decisions += [Decision(DecisionKind.AUTONOMY, autonomy=Autonomy.AUTO)] if arguments.auto else []
    return _finish(arguments, store, session, (*decisions, Decision(DecisionKind.RESUME)))


def _with_money(effort: Effort, money: float | None) -> Effort:
    return replace(effort, max_cost=money) if money is not None else effort


def replay(arguments: argparse.Namespace) -> int:
    # Imported late: `run` need not wait for it.
    from cutegen_core.share.imports import import_path

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
        # Imported late: the engine loads it, too, and begins meanwhile.
        from cutegen_core.execute.executors.choice import make_executor

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
        effort=read_effort(arguments),
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


def _finish(arguments: argparse.Namespace, store: Store, session: str, decisions: Sequence[Decision] = ()) -> int:
    """Follow a session to its end and print how it went; `decisions` are sent to it before."""
    state = _follow(store, session, decisions, quiet=arguments.json)
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
    """Return what a closed step came to, why if it did not pass, and the warnings about its reply."""
    careful = "".join(f"\n  {CAREFUL}{warning}" for warning in views.warnings_of(step))
    if step.status is None:
        further = "further " if step.outcome is Outcome.UNANSWERED and step.number > 1 else ""
        return f"no {further}kernel: {step.note or step.outcome}"
    several = f", the best of {counted(len(step.alternatives), 'candidate')}" if step.alternatives else ""
    why = step.verdict.message if step.verdict and step.status is not Status.PASSED else ""
    return f"{step.idea}: {step.status} {step.outcome}{several}" + (f"\n  {why}" if why else "") + careful


def _follow(store: Store, session: str, decisions: Sequence[Decision] = (), *, quiet: bool) -> SessionState:
    """Send it the decisions, wait until it needs a person or is over, and print each step as it ends.

    Raises:
        UsageError: a decision was refused, or no engine took it.
    """
    try:
        with engine.kept_running():
            return _wait(store, session, decisions, quiet=quiet)
    except KeyboardInterrupt:
        store.submit(session, Decision(DecisionKind.STOP))
        raise


def _wait(store: Store, session: str, decisions: Sequence[Decision], *, quiet: bool) -> SessionState:
    """Send the decisions; return the state that needs a person or is the end; print each step as it ends."""
    told = sum(step.outcome is not None for step in views.session_view(store, session).state.steps)
    for decision in decisions:
        _send(store, session, decision)
    while True:
        view = views.session_view(store, session)
        closed = [step for step in view.state.steps if step.outcome is not None]
        for step in closed[told:]:
            if not quiet:
                print(f"step {step.number}: {_describe_end(step)}", file=sys.stderr)
        told = len(closed)
        if view.state.status not in WORKING:
            return view.state.status
        time.sleep(0.05)


def _send(store: Store, session: str, decision: Decision) -> None:
    ticket = start.await_answer(store, start.submit(store, session, decision), _ANSWER_S)
    if not ticket.taken or ticket.refusal:
        raise UsageError(ticket.refusal or f"no engine took the decision {decision.kind} within {_ANSWER_S:g} s")
