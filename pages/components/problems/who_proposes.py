"""Say before a session starts who could propose kernels: whether the playbook knows the problem, and who else."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future

import streamlit as st

from cutegen_core.machine.background import OneAfterAnother
from cutegen_core.propose.playbook import Coverage
from cutegen_core.records.errors import CutegenError, MachineError
from cutegen_core.records.event import AnsweredBy
from cutegen_core.records.problem import Problem
from cutegen_core.records.wording import counted
from cutegen_core.views.who_proposes import ask_about_all, ask_playbook
from pages.components.access import access
from pages.components.shared import places, ui_state
from pages.components.shared.texts import note, quiet

POLL_S = 0.5
BUILT_IN = "built-in"
"""Origin of the problems that the playbook is made for: the start page does not ask it about them."""
_KEPT = 4096
_OTHERS = (
    "Others can: a model (proposer llm), any model by copy and paste (proposer person), or you, with Edit & run, from "
    "a skeleton with the right signature."
)


class _PlaybookAnswers:
    """What the playbook said about problems, by their keys; one thread asks, since a reference takes seconds."""

    def __init__(self) -> None:
        self._found: dict[str, Coverage | CutegenError] = {}
        self._asking = OneAfterAnother("who-proposes")
        self._asked: dict[str, Future[None]] = {}

    def of(self, problem: Problem) -> Coverage | CutegenError | None:
        """Return the answer, None before there is one."""
        return self._found.get(problem.key)

    def ask(self, problem: Problem) -> None:
        """Ask unless that is done or waits; a failure of the machine may pass, so it is asked again."""
        found = self.of(problem)
        if (found is None or isinstance(found, MachineError)) and not self._waits(problem):
            self._asked[problem.key] = self._asking.begin(self._ask, problem)

    def ask_about(self, problems: Sequence[Problem]) -> None:
        """Ask about all of them, one after the other."""
        fresh = [problem for problem in problems if self.of(problem) is None and not self._waits(problem)]
        begun = self._asking.begin(self._ask_about, fresh)
        self._asked |= {problem.key: begun for problem in fresh}

    def waits_for(self, problems: Sequence[Problem]) -> bool:
        return any(self._waits(problem) for problem in problems)

    def _waits(self, problem: Problem) -> bool:
        return problem.key in self._asked and not self._asked[problem.key].done()

    def _ask(self, problem: Problem) -> None:
        try:
            self._keep(problem, ask_playbook(problem))
        except CutegenError as error:
            self._keep(problem, error)

    def _ask_about(self, problems: Sequence[Problem]) -> None:
        try:
            for problem, found in zip(problems, ask_about_all(problems), strict=True):
                self._keep(problem, found)
        except CutegenError as error:
            for problem in problems:
                if self.of(problem) is None:
                    self._keep(problem, error)

    def _keep(self, problem: Problem, found: Coverage | CutegenError) -> None:
        while len(self._found) >= _KEPT:
            self._found.pop(next(iter(self._found)))
        self._found[problem.key] = found


@st.cache_resource(show_spinner=False)
def _answers() -> _PlaybookAnswers:
    return _PlaybookAnswers()


def render_who_proposes(problem: Problem, proposer: AnsweredBy) -> None:
    """Draw what the playbook offers for this problem, where the session is to ask it."""
    if proposer is AnsweredBy.PLAYBOOK and problem.origin != BUILT_IN and problem.workloads:
        render_known(problem)


def render_known(problem: Problem) -> None:
    """Draw what the playbook offers for this problem, or why nothing and who else can propose."""
    _answers().ask(problem)
    st.fragment(_answer, run_every=POLL_S if _answers().of(problem) is None else None)(problem)


def _answer(problem: Problem) -> None:
    found = _answers().of(problem)
    if found is None:
        quiet("● Asking the playbook whether it knows this problem …")
    elif isinstance(found, CutegenError):
        note("warning", f"The playbook cannot be asked: {found}")
    elif found.kernels:
        kernels, families = (", ".join(words) for words in (found.kernels, found.families))
        quiet(f"The playbook has {counted(len(found.kernels), 'kernel')} for it ({families}): {kernels}.")
    else:
        note("warning", f"The playbook does not know this problem: {found.missing}. {_OTHERS}")
        st.page_link(places.setup(), label="Set up a model")


# ---- a list of problems


def known_words(problem: Problem) -> str:
    """Say in a word or two which family of the playbook recognises a problem, "" where it was not asked."""
    found = _answers().of(problem)
    if not isinstance(found, Coverage):
        return ""
    return f"playbook: {', '.join(found.families)}" if found.kernels else f"not in the playbook: {found.missing}"


def render_ask_about(problems: Sequence[Problem]) -> None:
    """Draw the button that asks the playbook about every problem of a list, and how far that is."""
    st.fragment(_asking, run_every=POLL_S if _answers().waits_for(problems) else None)(problems, _answered(problems))
    if access.role() is access.AccessRole.OWNER and any(_answers().of(problem) is None for problem in problems):
        st.button(
            "Which of them the playbook knows", key="problems-ask", disabled=_answers().waits_for(problems),
            on_click=ui_state.noted(_answers().ask_about, problems),
            help="Traces every reference, about a second each the first time; kept for later.",
        )  # fmt: skip


def _answered(problems: Sequence[Problem]) -> list[Coverage | CutegenError]:
    return [found for problem in problems if (found := _answers().of(problem)) is not None]


def _asking(problems: Sequence[Problem], drawn: Sequence[Coverage | CutegenError]) -> None:
    found = _answered(problems)
    if len(found) > len(drawn) and not _answers().waits_for(problems):
        st.rerun()  # the list says it of each
    if len(found) > 1:  # of the one that is shown it stands there
        knows = sum(isinstance(one, Coverage) and bool(one.kernels) for one in found)
        quiet(f"The playbook knows {knows} of the {len(found)} it was asked about.")
