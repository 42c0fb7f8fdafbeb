"""Which strategies there are, and who can answer in each.

A strategy says how a kernel is refined; who answers (a model, a person, the playbook, a recording) is a setting of its
own. To add a strategy: its package, and one line in `STRATEGIES`.

A proposer is imported where it is made: the command line and the pages name all strategies and make none, and the
playbook is a third of what the command line would import.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from cutegen_core.propose.astra.roles import ROLES
from cutegen_core.propose.cutegen.switches import ABLATIONS
from cutegen_core.propose.model_port import Model
from cutegen_core.propose.port import Proposer
from cutegen_core.propose.replay import ReplayProposer
from cutegen_core.records.errors import UsageError
from cutegen_core.records.event import AnsweredBy, Role, SessionSettings
from cutegen_core.records.problem import Problem
from cutegen_core.trajectory.store import Store

_Make = Callable[[Store, SessionSettings], Proposer]


class Strategy(NamedTuple):
    """How a kernel is refined, and the proposer for each of those who can answer in it.

    Attributes:
        roles: those that may each be answered by somebody else.
        from_existing: it begins with the problem's existing kernel, and needs one.
        ablates: the strategy that it is a variant of, to be compared with; "" for one that is meant for use.
        several: a step of it may have several candidates.
    """

    title: str
    proposers: Mapping[AnsweredBy, _Make]
    roles: tuple[Role, ...] = ()
    from_existing: bool = False
    ablates: str = ""
    several: bool = False


def _asks_a_model(store: Store, settings: SessionSettings) -> Proposer:
    from cutegen_core.propose.cutegen.strategy import CutegenStrategy

    return CutegenStrategy(width=_width(settings))


def _has_roles(store: Store, settings: SessionSettings) -> Proposer:
    from cutegen_core.propose.astra.strategy import AstraStrategy

    return AstraStrategy({role: settings.answers(role) for role in ROLES})


def _has_one_role(store: Store, settings: SessionSettings) -> Proposer:
    from cutegen_core.propose.astra.single import SingleAgentStrategy

    return SingleAgentStrategy(settings.answers(Role.PROPOSER))


def _uses_the_playbook(store: Store, settings: SessionSettings) -> Proposer:
    from cutegen_core.propose.playbook.proposer import PlaybookProposer

    return PlaybookProposer()


def _replays(store: Store, settings: SessionSettings) -> ReplayProposer:
    return ReplayProposer(store, settings.recording)


def _width(settings: SessionSettings) -> int:
    return settings.effort.width if settings.answered_by is AnsweredBy.LLM else 1


def _ablation(key: str) -> Strategy:
    def asks_a_model(store: Store, settings: SessionSettings) -> Proposer:
        from cutegen_core.propose.cutegen.strategy import CutegenStrategy

        return CutegenStrategy(ABLATIONS[key].switches, _width(settings))

    answering = {AnsweredBy.LLM: asks_a_model, AnsweredBy.PERSON: asks_a_model, AnsweredBy.RECORDING: _replays}
    return Strategy(ABLATIONS[key].title, answering, ablates="cutegen", several=ABLATIONS[key].switches.refines)


STRATEGIES: Mapping[str, Strategy] = {
    "cutegen": Strategy(
        "CuTeGen: one evolving kernel, one idea per step",
        {
            AnsweredBy.PLAYBOOK: _uses_the_playbook,
            AnsweredBy.LLM: _asks_a_model,
            AnsweredBy.PERSON: _asks_a_model,
            AnsweredBy.RECORDING: _replays,
        },
        several=True,
    ),
    "astra": Strategy(
        "Astra: testing, profiling, planning and coding roles make an existing kernel faster",
        {
            AnsweredBy.PLAYBOOK: _has_roles,
            AnsweredBy.LLM: _has_roles,
            AnsweredBy.PERSON: _has_roles,
            AnsweredBy.RECORDING: _replays,
        },
        ROLES,
        from_existing=True,
    ),
    "astra-single": Strategy(
        "Astra's twin: one role plans and codes",
        {
            AnsweredBy.PLAYBOOK: _has_one_role,
            AnsweredBy.LLM: _has_one_role,
            AnsweredBy.PERSON: _has_one_role,
            AnsweredBy.RECORDING: _replays,
        },
        from_existing=True,
    ),
    **{key: _ablation(key) for key in ABLATIONS},
}

ANSWERERS: Mapping[AnsweredBy, str] = {
    AnsweredBy.PLAYBOOK: "playbook: tested templates, needs no model",
    AnsweredBy.LLM: "llm: a language model writes, repairs and tunes",
    AnsweredBy.PERSON: "person: you copy prompts to a model and paste its replies",
}
"""Who can be chosen for a new session, with a line for the person who chooses."""


def answerers(strategy: str) -> list[AnsweredBy]:
    """Return who can be chosen to answer in a new session of this strategy."""
    return [who for who in ANSWERERS if who in STRATEGIES[strategy].proposers]


def strategies_for(problem: Problem) -> list[str]:
    """Return the strategies that can begin with this problem, without those that are only compared with another."""
    return [
        key for key, found in STRATEGIES.items() if not found.ablates and (problem.existing or not found.from_existing)
    ]


def check(strategy: str, answered_by: AnsweredBy, roles: Mapping[Role, AnsweredBy] | None = None) -> None:
    """Raise UsageError, with what there is, if this version has no such strategy or it cannot be answered so."""
    if strategy not in STRATEGIES:
        raise UsageError(f"unknown strategy {strategy!r}; there is {', '.join(STRATEGIES)}")
    known = STRATEGIES[strategy].proposers
    if answered_by not in known:
        raise UsageError(f"{answered_by} cannot answer in the strategy {strategy!r}; there is {', '.join(known)}")
    for role, who in (roles or {}).items():
        if role not in STRATEGIES[strategy].roles:
            roles_of = ", ".join(STRATEGIES[strategy].roles) or "none"
            raise UsageError(f"the strategy {strategy!r} has no role {role.value!r} (its roles: {roles_of})")
        if who not in known or who not in ANSWERERS:
            raise UsageError(f"{who} cannot answer a role; there is {', '.join(ANSWERERS)}")


def check_problem(strategy: str, problem: Problem) -> None:
    """Raise UsageError where the strategy cannot begin with this problem."""
    if STRATEGIES[strategy].from_existing and not problem.existing:
        raise UsageError(
            f"the strategy {strategy!r} begins with an existing kernel, and the problem {problem.name!r} names none: "
            'give its file EXISTING = "kernel.cu", a kernel file next to it'
        )


def check_effort(settings: SessionSettings) -> None:
    """Raise UsageError where several candidates, or a limit in money, do not fit who answers."""
    effort, asked = settings.effort, _asked_roles(settings)
    several = effort.width > 1 or effort.models
    if several and not (settings.answered_by is AnsweredBy.LLM and STRATEGIES[settings.strategy].several):
        can = ", ".join(key for key, found in STRATEGIES.items() if found.several)
        raise UsageError(f"several candidates a step need a language model that answers, and a strategy of {can}")
    if effort.needs_prices and not asked:
        raise UsageError("a limit in money needs a language model that answers: nothing else costs money")
    if several or effort.needs_prices:
        from cutegen_core.propose.llm import budget, model_settings

        for model in model_settings.read().asked(settings, asked):
            if effort.needs_prices and not model.has_prices:
                raise UsageError(budget.no_prices(model))


def check_alone(settings: SessionSettings) -> None:
    """Raise UsageError where a session would not get far without a person: nobody, or no model, answers it."""
    check(settings.strategy, settings.answered_by, settings.roles)
    if settings.answered_by is AnsweredBy.PERSON:
        raise UsageError("without decisions nobody can paste replies: choose another proposer than a person")
    check_effort(settings)
    if asked := _asked_roles(settings):
        from cutegen_core.propose.llm import model_settings

        model_settings.read().asked(settings, asked)


def make_proposer(store: Store, settings: SessionSettings) -> Proposer:
    """Return the session's proposer; UsageError if this version has none for its settings."""
    check(settings.strategy, settings.answered_by, settings.roles)
    return STRATEGIES[settings.strategy].proposers[settings.answered_by](store, settings)


def make_model(store: Store, settings: SessionSettings, role: Role | None = None) -> Model | None:
    """Return the server or recording that answers the prompts of this role; of any role where none is given.

    None: a person, or the playbook, answers.
    """
    if settings.answered_by is AnsweredBy.RECORDING:
        return _replays(store, settings)
    asked = _asked_roles(settings)
    if not asked or (role is not None and settings.answers(role) is not AnsweredBy.LLM):
        return None
    from cutegen_core.propose.llm.answers import ChatAnswers  # the openai package takes half a second to import

    return ChatAnswers(asked)


def _asked_roles(settings: SessionSettings) -> tuple[Role, ...]:
    """Return the roles that a language model answers."""
    return tuple(r for r in _roles_of(settings.strategy) if settings.answers(r) is AnsweredBy.LLM)


def _roles_of(strategy: str) -> tuple[Role, ...]:
    """Return the roles whose prompts a strategy sends."""
    known = STRATEGIES.get(strategy)
    return known.roles if known and known.roles else (Role.PROPOSER, Role.DIAGNOSIS, Role.REPAIR)
