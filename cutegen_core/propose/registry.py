"""Which strategies there are, and who can answer in each.

A strategy says how a kernel is refined; who answers (a model, a person, the playbook, a recording) is a setting of its
own. To add a strategy: its package, and one line in `STRATEGIES`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from cutegen_core.propose.cutegen.strategy import CutegenStrategy
from cutegen_core.propose.model_port import Model
from cutegen_core.propose.playbook.proposer import PlaybookProposer
from cutegen_core.propose.port import Proposer
from cutegen_core.propose.replay import ReplayProposer
from cutegen_core.records.errors import UsageError
from cutegen_core.records.event import AnsweredBy, SessionSettings
from cutegen_core.trajectory.store import Store

_Make = Callable[[Store, SessionSettings], Proposer]


class Strategy(NamedTuple):
    """How a kernel is refined, and the proposer for each of those who can answer in it."""

    title: str
    proposers: Mapping[AnsweredBy, _Make]


def _asks_a_model(store: Store, settings: SessionSettings) -> Proposer:
    return CutegenStrategy()


def _uses_the_playbook(store: Store, settings: SessionSettings) -> Proposer:
    return PlaybookProposer()


def _replays(store: Store, settings: SessionSettings) -> ReplayProposer:
    return ReplayProposer(store, settings.recording)


STRATEGIES: Mapping[str, Strategy] = {
    "cutegen": Strategy(
        "CuTeGen: one evolving kernel, one idea per step",
        {
            AnsweredBy.PLAYBOOK: _uses_the_playbook,
            AnsweredBy.LLM: _asks_a_model,
            AnsweredBy.PERSON: _asks_a_model,
            AnsweredBy.RECORDING: _replays,
        },
    ),
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


def check(strategy: str, answered_by: AnsweredBy) -> None:
    """Raise UsageError, with what there is, if this version has no such strategy or it cannot be answered so."""
    if strategy not in STRATEGIES:
        raise UsageError(f"unknown strategy {strategy!r}; there is {', '.join(STRATEGIES)}")
    known = STRATEGIES[strategy].proposers
    if answered_by not in known:
        raise UsageError(f"{answered_by} cannot answer in the strategy {strategy!r}; there is {', '.join(known)}")


def make_proposer(store: Store, settings: SessionSettings) -> Proposer:
    """Return the session's proposer; UsageError if this version has none for its settings."""
    check(settings.strategy, settings.answered_by)
    return STRATEGIES[settings.strategy].proposers[settings.answered_by](store, settings)


def make_model(store: Store, settings: SessionSettings) -> Model | None:
    """Return who answers prompts; None where a person carries them."""
    if settings.answered_by is AnsweredBy.RECORDING:
        return _replays(store, settings)
    if settings.answered_by is not AnsweredBy.LLM:
        return None
    from cutegen_core.propose.llm.answers import ChatAnswers  # the openai package takes half a second to import

    return ChatAnswers()
