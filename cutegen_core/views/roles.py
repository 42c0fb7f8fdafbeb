"""Show the roles of a step: who answers each, how far it is, and what it said in short.

Only answers that count are read; those that were sent back or replaced are kept beside them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from cutegen_core.problems import suite
from cutegen_core.propose.registry import STRATEGIES
from cutegen_core.propose.replies.reading import find_done, find_idea
from cutegen_core.records.decision import Gate
from cutegen_core.records.errors import ProblemError
from cutegen_core.records.event import AnsweredBy, Role, SessionState, SuiteTried
from cutegen_core.records.problem import Problem, list_sizes
from cutegen_core.records.wording import counted
from cutegen_core.trajectory.state import Phase, State
from cutegen_core.trajectory.store import Store
from cutegen_core.views.code_text import diff
from cutegen_core.views.session import CallView, SessionView, StepView, base_trial
from cutegen_core.views.shapes import ShapeCell, shape_cells

if TYPE_CHECKING:  # it imports the evaluator, which takes a while to load
    from cutegen_core.evaluate.mutation.trust import SuiteCheck

_LABELLED = re.compile(r"^[ \t*_#>-]*(idea|shapes|effect|risk)[ \t*_]*:[ \t*_]*(\S.*)$", re.IGNORECASE | re.MULTILINE)
_GATES = (Gate.ANSWER, Gate.PROMPT, Gate.REPLY)
_SHOWN = 3


class CardState(StrEnum):
    """How far a role is in a step."""

    NOT_ASKED = "not asked"
    WAITING = "waiting for its turn"
    PROMPT = "its prompt waits for you"
    REPLY = "waits for your answer"
    WORKING = "working"
    REVIEW = "its answer waits for you"
    ANSWERED = "answered"
    FAILED = "no usable answer"


class Said(NamedTuple):
    """A line of a card: a label, "" without one, and what follows it."""

    label: str
    text: str


class SuiteFact(NamedTuple):
    """What became of the testing role's suite.

    Attributes:
        caught, different: mutants that fail it, of those that were proved different; None before the check.
        survivors: what the others changed, in short.
    """

    step: int
    trusted: bool
    message: str
    passes: bool | None = None
    caught: int | None = None
    different: int | None = None
    survivors: tuple[str, ...] = ()


class RoleCard(NamedTuple):
    """A role of a step.

    Attributes:
        by: who answered last, else who is to answer.
        calls: all exchanges of the role in this step, in order.
        dropped: those of them whose answers do not count.
        shapes: of the kernel that the profiling role looked at, by shape.
        counted: False where somebody answered who counts no tokens.
    """

    role: Role
    by: AnsweredBy
    model: str
    state: CardState
    said: tuple[Said, ...]
    suite: SuiteFact | None
    shapes: Mapping[str, ShapeCell]
    calls: tuple[CallView, ...]
    dropped: tuple[CallView, ...]
    tokens: int
    seconds: float
    counted: bool


def roles_of(state: State) -> tuple[Role, ...]:
    """Return the roles of the session's strategy, in the order they are asked; none where it has only one."""
    strategy = STRATEGIES.get(state.settings.strategy)
    return strategy.roles if strategy else ()


def role_cards(store: Store, view: SessionView, shown: StepView) -> tuple[RoleCard, ...]:
    """Return a card for each role of the session."""
    return tuple(_card(store, view, shown, role) for role in roles_of(view.state))


def suite_fact(store: Store, tried: SuiteTried) -> SuiteFact:
    """Return what was found of a suite."""
    if not tried.result:
        return SuiteFact(tried.step, tried.trusted, tried.message)
    from cutegen_core.evaluate.mutation.study import MutantOutcome
    from cutegen_core.evaluate.mutation.trust import SuiteCheck

    check: SuiteCheck = store.record(SuiteCheck, tried.result)
    caught = check.table.count(MutantOutcome.CAUGHT)
    survivors = [row for row in check.table.rows if row.outcome is MutantOutcome.SURVIVED]
    words = tuple(f"line {row.line}: {row.before} → {row.after}" for row in survivors)
    return SuiteFact(
        tried.step, tried.trusted, tried.message, check.existing.passed, caught, caught + len(survivors), words
    )


def _card(store: Store, view: SessionView, shown: StepView, role: Role) -> RoleCard:
    state, calls = view.state, tuple(call for call in shown.calls if call.role is role)
    used = [call for call in calls if _counts(call)]
    last = used[-1] if used else None
    answers = [call.answer for call in calls if call.answer]
    by = last.answer.by if last and last.answer else None
    return RoleCard(
        role,
        by or state.settings.answers(role),
        calls[-1].model if calls else "",
        _state(view, shown, role, calls, used),
        tuple(_said(store, view, shown, role, last)),
        _suite(store, state, shown, used) if role is Role.TESTING else None,
        _figures(store, view, shown) if role is Role.PROFILING and last else {},
        calls,
        tuple(call for call in calls if call.dropped),
        sum(answer.prompt_tokens + answer.completion_tokens for answer in answers),
        sum(answer.seconds for answer in answers),
        any(call.model for call in calls),
    )


def _counts(call: CallView) -> bool:
    return call.answer is not None and not call.answer.error and not call.dropped


def _state(
    view: SessionView, shown: StepView, role: Role, calls: tuple[CallView, ...], used: list[CallView]
) -> CardState:
    state, gate = view.state, view.state.gate
    is_open = state.open_step is not None and state.open_step.number == shown.step.number
    if is_open and gate and gate.role is role and gate.gate in _GATES:
        waits = {Gate.ANSWER: CardState.REVIEW, Gate.PROMPT: CardState.PROMPT}
        return waits.get(gate.gate, CardState.REPLY)
    if is_open and calls and (calls[-1].answer is None or _is_checked(state, shown, role, used)):
        return CardState.WORKING
    if used:
        return CardState.ANSWERED
    if calls and not is_open:
        return CardState.FAILED
    proposing = is_open and state.phase is Phase.GENERATING and state.status is not SessionState.ACCEPTED
    settled = role is Role.TESTING and bool(state.suites) and state.suites[-1].trusted
    return CardState.WAITING if proposing and not settled and shown.step.base else CardState.NOT_ASKED


def _is_checked(state: State, shown: StepView, role: Role, used: list[CallView]) -> bool:
    """Return whether the testing role's last suite is being checked."""
    tried = sum(suite.step == shown.step.number for suite in state.suites)
    return role is Role.TESTING and len(used) > tried and state.status is SessionState.RUNNING


def _suite(store: Store, state: State, shown: StepView, used: list[CallView]) -> SuiteFact | None:
    """Return the check of the suite that the card speaks of: this step's last one, else the one in force."""
    own = [tried for tried in state.suites if tried.step == shown.step.number]
    if used and len(own) < len(used):
        return None
    before = [tried for tried in state.suites if tried.step <= shown.step.number]
    return suite_fact(store, (own or before)[-1]) if own or before else None


def _figures(store: Store, view: SessionView, shown: StepView) -> Mapping[str, ShapeCell]:
    trial = base_trial(store, view.state, shown.step)
    return shape_cells(trial.performance) if trial and trial.passed else {}


# ---- what was said, in short


def _said(store: Store, view: SessionView, shown: StepView, role: Role, last: CallView | None) -> Iterator[Said]:
    if last is None or last.reply is None:
        return
    match role:
        case Role.TESTING:
            yield from _workloads(view.problem, last.reply)
        case Role.PLANNING:
            yield from _plan(last.reply)
        case Role.CODING:
            yield from _code(shown, last.reply)
        case _:
            yield Said("", last.reply.strip())


def _workloads(problem: Problem, reply: str) -> Iterator[Said]:
    """Yield the workloads that a suite adds, or why it cannot be read."""
    try:
        whole = suite.with_suite(problem, reply)
    except ProblemError as error:
        yield Said("cannot be read", str(error))
        return
    added = suite.added_workloads(whole, problem)
    yield Said("", f"{counted(len(added), 'workload')} added")
    for workload in whole.workloads:
        if workload.name in added:
            sizes = list_sizes(workload.sizes)
            yield Said(workload.name, ", ".join(filter(None, (sizes, workload.values.replace("_", " ")))))


def _plan(reply: str) -> Iterator[Said]:
    done, found = find_done(reply), list(_LABELLED.finditer(reply))
    if done is not None and not found:
        yield Said("done", done)
    elif not found:
        yield Said("", reply.strip())
    for line in found:
        yield Said(line[1].lower(), line[2].strip())


def _code(shown: StepView, reply: str) -> Iterator[Said]:
    plans = (call.reply for call in reversed(shown.calls) if call.role is Role.PLANNING and _counts(call))
    idea = shown.step.idea or find_idea(next(plans, "") or "")
    if idea:
        yield Said("idea", idea)
    if shown.source and shown.base_source:
        change = diff.summary(shown.base_source, shown.source)
        yield Said("size", f"+{change.added} −{change.removed} lines, {len(shown.source.splitlines())} in all")
    else:
        blocks = reply.count("<<<<<<< SEARCH")
        lines = counted(len(reply.strip().splitlines()), "line")
        yield Said("size", f"{counted(blocks, 'block')} to replace, {lines}" if blocks else f"a whole file, {lines}")
