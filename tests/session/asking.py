"""Sessions that ask a played model: strategy, client, store and loop are real, trials are scripted."""

from __future__ import annotations

from cutegen_core.propose.registry import make_proposer
from cutegen_core.records.decision import Autonomy, Effort
from cutegen_core.records.event import AnsweredBy, Role
from cutegen_core.trajectory.state import State
from tests.later import Later
from tests.places import DATA
from tests.session.scripted import ScriptedSessions

answers = Later("cutegen_core.propose.llm.answers")
RELU = (DATA / "relu.cu").read_text().replace("{ default = 256, values = [128, 256, 512] }", "256")  # nothing to sweep
MODELS = ("small", "large")


def kernel(number: int, *says: str) -> str:
    return f"{RELU}// kernel {number}\n" + "".join(f"// {line}\n" for line in says)


def offer(idea: str, source: str) -> str:
    return f"Idea: {idea}\nEffect: faster\nRisk: none\n```cpp\n{source}```\n"


class Sessions(ScriptedSessions):
    """Trials are scripted; the proposer and the client of the model are what the session's settings make."""

    def proposer(self, state: State):  # type: ignore[no-untyped-def, override]
        return make_proposer(self.store, state.settings)

    def model(self, state: State, role: Role | None = None):  # type: ignore[no-untyped-def, override]
        if state.settings.answered_by is AnsweredBy.RECORDING:
            return make_proposer(self.store, state.settings)
        return answers.ChatAnswers((Role.PROPOSER, Role.DIAGNOSIS, Role.REPAIR))

    def begin(self, width: int = 3, **options: object) -> str:
        effort = Effort(width=width, **options.pop("effort", {}))  # type: ignore[arg-type]
        usual = {"answered_by": AnsweredBy.LLM, "autonomy": Autonomy.AUTO, "max_steps": 2, "effort": effort}
        return self.start(**{**usual, **options})
