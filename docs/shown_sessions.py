"""Make the sessions to photograph. Each really runs, or was recorded where it ran.

1. The playbook refines a softmax; a person breaks it twice by hand.
2. A language model, played by a server with written replies, refines another; its first kernel does not compile.
3. The playbook tiles a matrix product, which has layouts to draw.
4. The session recorded on an H200 is opened.
5. Astra's roles work on an existing kernel, until a plan that was sent back once waits for review.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from cutegen_core.machine import workspace
from cutegen_core.problems import library
from cutegen_core.propose.llm import model_settings
from cutegen_core.propose.llm.model_settings import Models, ModelSettings
from cutegen_core.records.decision import Decision, DecisionKind, Gate
from cutegen_core.records.event import AnsweredBy
from cutegen_core.session import start
from cutegen_core.session.loop import Session
from cutegen_core.share.imports import import_path
from cutegen_core.trajectory.state import State
from cutegen_core.trajectory.store import Store
from cutegen_core.wiring import Tools
from tests.model_server import ModelServer, reply
from tests.pages.role_stories import TINY
from tests.pages.stories import KERNEL

RECORDING = Path(__file__).parent.parent / "assets" / "recordings" / "softmax-h200.jsonl.gz"
RIGHT, WRONG = "result(c) = expf(row(c) - largest) / sum;", "result(c) = expf(row(c) - largest);"
REPLIES = (
    "Idea: seed, one block a row\nEffect: correct, three reads of x\nRisk: none\n"
    f"```cpp\n{KERNEL.replace(RIGHT, WRONG)}```\n",
    "Cause: nothing is divided by the sum of the row\n"
    "Evidence: every element is wrong, and a row's values do not add up to 1\n"
    "Fix: divide by sum in the last loop; change nothing else",
    f"Idea: seed, one block a row\n<<<<<<< SEARCH\n{WRONG}\n=======\n{RIGHT}\n>>>>>>> REPLACE\n",
)


class Shown(NamedTuple):
    """Sessions by what they show; `repair` has a diagnosis and a repair, `prompt` has a prompt to review, `roles` has a
    role's answer to review."""

    playbook: str
    repair: str
    prompt: str
    product: str
    timed: str
    roles: str


class Desk:
    """A person at the workbench: decides, and the engine's own loop carries the decisions out."""

    def __init__(self, store: Store, tools: Tools, problem: str = "softmax", **options: object) -> None:
        self._store, self._tools = store, tools
        self.id = start.create(store, library.load(problem), **options)  # type: ignore[arg-type]
        self.state = self._go()

    def decide(self, kind: DecisionKind, **fields: object) -> State:
        self._store.submit(self.id, Decision(kind, self.state.meaning_seq, **fields))  # type: ignore[arg-type]
        self.state = self._go()
        return self.state

    def approve(self, times: int = 1) -> State:
        for _ in range(times):
            assert self.state.gate is not None
            self.decide(DecisionKind.APPROVE, gate=self.state.gate.gate, candidate=self.state.gate.candidate)
        return self.state

    def edit(self, old: str, new: str) -> State:
        """Try the best kernel with a change by hand."""
        source = self._store.text(self.state.best or "")
        before, found, after = source.rpartition(old)
        assert found, f"{old!r} is not in the kernel any more"
        return self.decide(DecisionKind.EDIT, source=before + new + after, candidate=self.state.best)

    def _go(self) -> State:
        return Session(self._store, self.id, self._tools.of_session(self.id)).run()


def make() -> Shown:
    """Make all of them in the workspace."""
    from pages.components.start.tour import seen_file  # late: it brings Streamlit

    store = Store()
    tools = Tools(store)
    workspace.make_private(seen_file()).touch()  # no tour over the pictures
    try:
        timed = import_path(store, RECORDING).session
        product = product_session(store, tools)
        repair, prompt = model_sessions(store, tools)
        roles = roles_session(store, tools)
        return Shown(playbook_session(store, tools), repair, prompt, product, timed, roles)
    finally:
        tools.close()
        store.close()


def playbook_session(store: Store, tools: Tools) -> str:
    """Make two kernels with the playbook, then edit: remove a barrier, and use a bound that fits short rows only."""
    desk = Desk(store, tools, answered_by=AnsweredBy.PLAYBOOK)
    desk.approve(4)
    desk.edit("partial[threadIdx.x / 32] = value;\n  __syncthreads();\n", "partial[threadIdx.x / 32] = value;\n")
    desk.approve()
    desk.edit("j < cols; j += BLOCK", "j < cols && j < 3 * BLOCK; j += BLOCK")
    return desk.id


def model_sessions(store: Store, tools: Tools) -> tuple[str, str]:
    """Make a session whose repair waits for review, and one whose first prompt does."""
    with ModelServer(*(reply(text, size=200) for text in REPLIES)) as model:
        settings = ModelSettings("local", model.base_url, "scripted", context_tokens=200_000)
        model_settings.write(Models((settings,)))
        repair = Desk(store, tools, answered_by=AnsweredBy.LLM, model="local", max_tokens=400_000)
        repair.approve(3)
        gates = (Gate.PROMPT, Gate.DIFF, Gate.PROMOTION)
        prompt = Desk(store, tools, answered_by=AnsweredBy.LLM, model="local", max_tokens=400_000, gates=gates)
    return repair.id, prompt.id


def product_session(store: Store, tools: Tools) -> str:
    """Make a session whose second kernel waits at the diff gate."""
    desk = Desk(store, tools, "matmul_square", answered_by=AnsweredBy.PLAYBOOK)
    desk.approve(2)
    return desk.id


def roles_session(store: Store, tools: Tools) -> str:
    """Make a session of four roles: the suite is checked and trusted, the first plan is sent back for another one."""
    desk = Desk(store, tools, str(TINY), answered_by=AnsweredBy.PLAYBOOK, strategy="astra")
    desk.approve(3)
    desk.decide(DecisionKind.REDIRECT, text="256 threads")
    return desk.id
