"""Strategies and who answers are one table: a line there is offered, made and run; what is not there says so."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from cutegen_core.problems import library
from cutegen_core.propose import registry
from cutegen_core.propose.cutegen.switches import ABLATIONS
from cutegen_core.propose.port import Answer, Finished, Proposal, ProposalRequest, Width
from cutegen_core.propose.registry import Strategy, answerers, make_model, make_proposer
from cutegen_core.records.candidate import Author
from cutegen_core.records.decision import Autonomy
from cutegen_core.records.errors import UsageError
from cutegen_core.records.event import AnsweredBy, Role, SessionSettings, SessionState
from cutegen_core.trajectory.state import State
from cutegen_core.trajectory.store import Store
from tests.session.scripted import ScriptedSessions

SETTINGS = SessionSettings("p", "relu", AnsweredBy.PLAYBOOK, "cpu", "sm_90a", "H200")


@dataclass(frozen=True)
class TwoKernels:
    """A new strategy, as a contributor writes one: two kernels, then the end."""

    name: str = "two"
    max_repairs: int = 0

    def width(self, done: int) -> Width:
        return Width()

    def respond(self, request: ProposalRequest) -> Answer:
        tried = len(request.attempts)
        if tried == 2:
            return Finished("both were tried")
        return Proposal(f"// kernel {tried}\n", Author.MODEL, f"kernel {tried}", "")


class RegisteredSessions(ScriptedSessions):
    """Scripted trials with the registry's proposers."""

    def proposer(self, state: State):
        return make_proposer(self.store, state.settings)


@pytest.fixture
def two(monkeypatch):
    line = Strategy("two kernels", {AnsweredBy.PLAYBOOK: lambda store, settings: TwoKernels()})
    monkeypatch.setattr(registry, "STRATEGIES", {**registry.STRATEGIES, "two": line})


@pytest.mark.usefixtures("two")
def test_a_strategy_is_its_module_and_one_line(tmp_path: Path) -> None:
    desk = RegisteredSessions(tmp_path, [])
    state = desk.go(desk.start(strategy="two", autonomy=Autonomy.AUTO))
    assert state.status is SessionState.ACCEPTED
    assert desk.made.tried == ["// kernel 0\n", "// kernel 1\n"]
    desk.store.close()


@pytest.mark.usefixtures("two")
def test_only_those_who_can_answer_in_a_strategy_are_offered() -> None:
    assert answerers("two") == [AnsweredBy.PLAYBOOK]
    assert answerers("cutegen") == [AnsweredBy.PLAYBOOK, AnsweredBy.LLM, AnsweredBy.PERSON]


def test_what_is_not_registered_says_what_is(tmp_path: Path) -> None:
    store = Store(tmp_path / "store.db")
    with pytest.raises(UsageError, match="unknown strategy 'none'; there is cutegen"):
        make_proposer(store, replace(SETTINGS, strategy="none"))
    with pytest.raises(UsageError, match="imported cannot answer in the strategy 'cutegen'; there is playbook"):
        make_proposer(store, replace(SETTINGS, answered_by=AnsweredBy.ELSEWHERE))
    store.close()


@pytest.mark.parametrize(
    ("who", "answers"), [(AnsweredBy.PLAYBOOK, False), (AnsweredBy.PERSON, False), (AnsweredBy.LLM, True)]
)
def test_only_a_server_or_a_recording_answers_prompts_by_itself(tmp_path: Path, who: AnsweredBy, answers: bool) -> None:
    store = Store(tmp_path / "store.db")
    assert (make_model(store, replace(SETTINGS, answered_by=who)) is not None) == answers
    store.close()


def test_a_strategy_that_begins_with_an_existing_kernel_is_offered_where_there_is_one() -> None:
    assert registry.strategies_for(library.load("relu")) == ["cutegen"]
    assert registry.strategies_for(library.load("silu_and_mul")) == ["cutegen", "astra", "astra-single"]
    with pytest.raises(UsageError, match="the problem 'relu' names none"):
        registry.check_problem("astra", library.load("relu"))


def test_a_server_answers_the_roles_that_a_model_plays_and_no_others(tmp_path: Path) -> None:
    store = Store(tmp_path / "store.db")
    mixed = replace(SETTINGS, strategy="astra", roles={Role.PLANNING: AnsweredBy.LLM})
    assert make_model(store, mixed, Role.PLANNING) is not None
    assert make_model(store, mixed, Role.CODING) is None
    assert make_model(store, mixed) is not None
    assert make_model(store, replace(mixed, roles={})) is None
    with pytest.raises(UsageError, match="the strategy 'astra' has no role 'proposer'"):
        make_proposer(store, replace(mixed, roles={Role.PROPOSER: AnsweredBy.LLM}))
    with pytest.raises(UsageError, match="recording cannot answer a role"):
        make_proposer(store, replace(mixed, roles={Role.CODING: AnsweredBy.RECORDING}))
    store.close()


def test_the_variants_of_cutegens_strategy_are_for_a_model_and_offered_for_comparison_only() -> None:
    for key in ABLATIONS:
        assert registry.STRATEGIES[key].ablates == "cutegen"
        assert answerers(key) == [AnsweredBy.LLM, AnsweredBy.PERSON]
        assert key not in registry.strategies_for(library.load("silu_and_mul"))
