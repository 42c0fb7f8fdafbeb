"""Start a session on a built-in, saved or loaded problem."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import streamlit as st

from cutegen_core import views
from cutegen_core.machine.default_executor import default_executor
from cutegen_core.machine.device import KNOWN, Device, choose_device
from cutegen_core.propose.astra.roles import ROLES
from cutegen_core.propose.llm import model_settings
from cutegen_core.propose.llm.model_settings import Models
from cutegen_core.propose.registry import ANSWERERS, STRATEGIES, answerers, strategies_for
from cutegen_core.records.decision import MOST_CANDIDATES, Autonomy, Effort, Gate, Ideas
from cutegen_core.records.errors import UsageError
from cutegen_core.records.event import AnsweredBy, Role
from cutegen_core.records.problem import Problem
from cutegen_core.records.trial import ExecutorKind
from cutegen_core.session import start
from cutegen_core.trajectory.store import Store
from cutegen_core.views.wording import SANDBOXED
from pages.components.problems.listing import agree_to, known
from pages.components.problems.who_proposes import render_who_proposes
from pages.components.shared import address, places, ui_state
from pages.components.shared.file_choice import NO_PATH
from pages.components.shared.texts import note, quiet, show_hidden

FIRST_PROBLEM = "softmax"
DEFAULT_TOKENS = 400_000
GATES = (Gate.PROMPT, Gate.ANSWER, Gate.PLAN, Gate.DIFF, Gate.PROMOTION)


def render_new_session(store: Store, chosen: Problem | None = None) -> None:
    """Draw the choices of a session; Start creates and opens it. `chosen` replaces the choice of the problem."""
    name = chosen.name if chosen else "any"
    _take_link(name)
    problem = chosen or _problem([e.problem for e in known().entries if e.problem])
    strategy = _strategy(name, problem)
    proposer, autonomy, steps = _who_and_how_far(name, strategy)
    with st.container():  # always there, so that everything below keeps its place
        answers = _roles(name, strategy, proposer)
    with st.container():
        render_who_proposes(problem, proposer)
    asked = [proposer] if not answers else list(answers.values())
    with st.container():
        llm = choose_model(name) if AnsweredBy.LLM in asked else Llm()
        if llm.ready and not llm.model and AnsweredBy.LLM in answers.values():
            _models_of([role for role, who in answers.items() if who is AnsweredBy.LLM])
    with st.container():
        effort = (
            choose_effort(name, strategy, llm, proposer)
            if {AnsweredBy.LLM, AnsweredBy.PERSON} & set(asked)
            else Effort()
        )
    with st.container(horizontal=True, vertical_alignment="bottom"):
        gates, arch, allow = _gates(name, strategy), _arch(name), _allow_regressions(name, strategy)
        pressed = st.button("Start", type="primary", key=f"new-start-{name}", disabled=not llm.ready)
    quiet(f"{autonomy}: {views.autonomy_words()[autonomy]}. {runs_on(choose_device(arch))}")
    if pressed:
        places.go_to_session(
            start.create(
                store,
                problem,
                answered_by=proposer,
                strategy=strategy,
                autonomy=autonomy,
                gates=gates,
                max_steps=steps,
                arch=arch,
                model=llm.model,
                max_tokens=llm.max_tokens,
                roles={role: who for role, who in answers.items() if who is not proposer},
                allow_regressions=allow,
                effort=effort,
            )
        )


def choose_effort(name: str, strategy: str, llm: Llm, proposer: AnsweredBy) -> Effort:
    """Draw how much a step may try, where the strategy's plan is not one of its roles, and what ends the session."""
    first, second = st.columns([1.6, 2])
    ideas = Ideas.ONE
    with first:
        if not STRATEGIES[strategy].roles:
            ideas = st.selectbox("Ideas a step", list(Ideas), format_func=str, key=f"new-ideas-{name}")
    with second:
        usual = round(100 * Effort().enough)
        enough = st.number_input(
            "Stop at this share of the bound, % (0: never)", 0, 100, usual, key=f"new-enough-{name}"
        )
    several = STRATEGIES[strategy].several and proposer is AnsweredBy.LLM
    with st.container():
        limits = _limits(name, llm, several=several) if llm.names else {}
    return Effort(ideas, int(enough) / 100, **limits)  # type: ignore[arg-type]


def _limits(name: str, llm: Llm, *, several: bool) -> dict[str, object]:
    """Draw what only a language model needs: several candidates a step, and further limits; 0 is no limit."""
    with st.expander("Candidates a step, budgets of time and money, the worth of a percent, conversation"):
        first, second = st.columns([1, 2.6])
        with first:
            width = st.number_input(
                "Candidates a step", 1, MOST_CANDIDATES, 1, key=f"new-width-{name}", disabled=not several,
                help="All are written, compiled and tested, and the best is kept. Each costs its tokens.",
            )  # fmt: skip
        with second:
            models = st.multiselect(
                "Models that write them in turn", llm.names, key=f"new-models-{name}", format_func=show_hidden,
                disabled=not several or len(llm.names) < 2, max_selections=MOST_CANDIDATES,
                placeholder="the session's model" if len(llm.names) > 1 else "needs a second model on the Setup page",
            )  # fmt: skip
        conversation = st.checkbox(
            "Go on with the conversation where that is cheaper", True, key=f"new-conversation-{name}",
            disabled=not several,
            help="A question stands behind the exchange before it, which servers keep, without the kernel once more.",
        )  # fmt: skip
        chosen = tuple(models) if several else ()
        unpriced = llm.unpriced(chosen)
        minutes, money, tokens, price = (
            column.number_input(
                label,
                0.0,
                1e12,
                0.0,
                key=f"new-{key}-{name}",
                format="%g",
                disabled=bool(unpriced) and key in _IN_MONEY,
            )
            for column, (key, label) in zip(st.columns(4), _LIMITS.items(), strict=True)
        )
        if unpriced:
            quiet(f"Money needs the prices of {', '.join(map(show_hidden, unpriced))}: set them on the Setup page.")
        quiet(_WORTH)
    given = {"max_minutes": minutes, "tokens_per_percent": tokens}
    given |= {} if unpriced else {"max_cost": money, "cost_per_percent": price}
    width = max(int(width), len(chosen)) if several else 1
    limits = {key: value for key, value in given.items() if value}
    return {"width": width, "models": chosen, "conversation": conversation, **limits}


def _strategy(name: str, problem: Problem) -> str:
    """Draw the choice of the strategies that can begin with the problem; a single one is no choice."""
    keys = strategies_for(problem)
    if len(keys) == 1:
        return _wanted("strategy", keys)
    key = f"new-strategy-{name}"
    ui_state.keep_among(key, keys, _wanted("strategy", keys))
    return st.selectbox("Strategy", keys, format_func=lambda key: STRATEGIES[key].title, key=key)


def _who_and_how_far(name: str, strategy: str) -> tuple[AnsweredBy, Autonomy, int]:
    """Draw who proposes, how far the session runs by itself, and its budget of steps."""
    choices = answerers(strategy)
    ui_state.keep_among(f"new-proposer-{name}", choices, _wanted("proposer", choices))
    first, second, third = st.columns([1.6, 1, 1])
    with first:
        proposer = st.selectbox("Proposer", choices, format_func=ANSWERERS.__getitem__, key=f"new-proposer-{name}")
    with second:
        autonomy = st.selectbox("Autonomy", list(Autonomy), format_func=str, key=f"new-autonomy-{name}")
    with third:
        steps = st.number_input("Max. steps", 1, 1000, 40, key=f"new-steps-{name}")
    return proposer, autonomy, int(steps)


def _gates(name: str, strategy: str) -> tuple[Gate, ...]:
    """Draw what to review, and return it in the order of a step; answers are reviewed where there are roles."""
    roles = "-roles" if STRATEGIES[strategy].roles else ""
    chosen = st.segmented_control(
        "Review before", [gate for gate in GATES if gate is not Gate.ANSWER or roles], selection_mode="multi",
        default=list(start.default_gates(strategy)), format_func=_gate_words.__getitem__,
        key=f"new-gates-{name}{roles}",
    )  # fmt: skip
    return tuple(gate for gate in GATES if gate in chosen)


def _arch(name: str) -> str:
    known = list(KNOWN)
    own = known.index(choose_device().arch)
    return st.selectbox("Compile for", known, index=own, key=f"new-arch-{name}", width=150)


def _take_link(name: str) -> None:
    """Let a link that is new choose again: forget what was chosen before it."""
    wishes = [address.get(key) for key in ("problem", "strategy", "proposer", *ROLES)]
    if not any(wishes) or not ui_state.first_time("new-link", repr(wishes)):
        return
    of_roles = [_role_key(role, who, name) for role in ROLES for who in ANSWERERS]
    for key in ("new-problem", f"new-strategy-{name}", f"new-proposer-{name}", *of_roles):
        ui_state.forget(key)


def _role_key(role: Role, proposer: AnsweredBy, name: str) -> str:
    return f"new-role-{role}-{proposer}-{name}"


def _wanted(name: str, options: Sequence[str], otherwise: str = "") -> str:
    """Return what the address asks for under this name (`?strategy=astra`); else the first option, or another, and say
    so."""
    wanted, otherwise = address.get(name), otherwise or options[0]
    if wanted and wanted not in options:
        asked = f"The address asks for the {name} '{show_hidden(wanted)}', which there is not"
        note("warning", f"{asked}; {otherwise} is chosen.")
    return next((option for option in options if option == wanted), otherwise)


def _roles(name: str, strategy: str, proposer: AnsweredBy) -> Mapping[Role, AnsweredBy]:
    """Draw a choice for each role of who answers it, at first the proposer; none for a strategy without roles."""
    roles = STRATEGIES[strategy].roles
    if not roles:
        return {}
    choices = answerers(strategy)
    chosen: dict[Role, AnsweredBy] = {}
    for role, column in zip(roles, st.columns(len(roles)), strict=True):
        key = _role_key(role, proposer, name)
        ui_state.keep_among(key, choices, _wanted(role, [proposer, *choices]))
        with column:
            chosen[role] = st.selectbox(
                f"{role.capitalize()} by", choices, format_func=lambda who: who.value, key=key, help=_ROLE_HELP[role]
            )
    return chosen


def _models_of(roles: Sequence[Role]) -> None:
    """Say which model answers each of these roles."""
    models = model_settings.read()
    said = ", ".join(f"{role}: {models.of(role).name}" for role in roles)
    quiet(f"Models by role: {said}. Setup changes them.")


def _allow_regressions(name: str, strategy: str) -> bool:
    """Draw the choice where the strategy has roles; elsewhere there is none."""
    return bool(STRATEGIES[strategy].roles) and st.checkbox(
        "Allow regressions", address.get("regressions") == "1", key=f"new-regressions-{name}",
        help="Off: a kernel that is slower at any benchmark workload is refused. On: only the geometric mean counts.",
    )  # fmt: skip


def runs_on(device: Device) -> str:
    """Say where a session for this device runs, and whether it measures time."""
    if default_executor(device) is ExecutorKind.GPU:
        return f"Runs on this machine's GPU ({device.name}): kernels are tested and timed."
    return "Runs on the CPU emulator: kernels are tested, not measured."


class Llm(NamedTuple):
    """The choices for a language model; `model` "" uses the model of each role, `names` are all that are set up."""

    ready: bool = True
    model: str = ""
    max_tokens: int | None = None
    names: tuple[str, ...] = ()

    def unpriced(self, chosen: Sequence[str]) -> list[str]:
        """Return the models without prices among those that a session asks; `chosen` write candidates in turn."""
        asked = chosen or ([self.model] if self.model else self.names)
        return [name for name in asked if not model_settings.read().named(name).has_prices]


def choose_model(name: str) -> Llm:
    """Draw the choice of the model and the token budget, or a link to Setup when there is no model."""
    try:
        models = model_settings.read()
    except UsageError as error:
        note("error", str(error))
        return Llm(ready=False)
    if not models.settings:
        note("info", "No language model is set up. Any OpenAI-compatible server works, including one on this machine.")
        st.page_link(places.setup(), label="Add a model on the Setup page")
        return Llm(ready=False)
    which, tokens = st.columns([1.6, 2])
    # One model for all roles comes first, unless roles have their own models.
    known = [s.name for s in models.settings]
    known = ["", *known] if models.roles else known
    with which:
        model = st.selectbox(
            "Model", known, key=f"new-model-{name}",
            format_func=lambda n: show_hidden(_model_words(models, n)) if n else "the model of each role",
        )  # fmt: skip
    with tokens:
        budget = st.number_input(
            "Token budget, prompts plus replies (0: no limit)", 0, 1_000_000_000, DEFAULT_TOKENS, 50_000,
            key=f"new-tokens-{name}",
        )  # fmt: skip
    return Llm(True, model, int(budget) or None, tuple(s.name for s in models.settings))


def fill_in_model(name: str, model: str, max_tokens: int | None, effort: Effort) -> None:
    """Set the fields of `choose_model` and `choose_effort` to these, before they are drawn."""
    known = [settings.name for settings in model_settings.read().settings]
    values: dict[str, object] = {
        "tokens": max_tokens or 0, "ideas": effort.ideas, "enough": round(100 * effort.enough), "width": effort.width,
        "models": [one for one in effort.models if one in known], "conversation": effort.conversation,
        **({"model": model} if model in known else {}),
        **{key: value or 0.0 for key, value in _limit_values(effort).items()},
    }  # fmt: skip
    for key, value in values.items():
        ui_state.put(f"new-{key}-{name}", value)


def _limit_values(effort: Effort) -> Mapping[str, float | None]:
    """Return the limits by the fields of `_LIMITS`."""
    values = (effort.max_minutes, effort.max_cost, effort.tokens_per_percent, effort.cost_per_percent)
    return dict(zip(_LIMITS, values, strict=True))


def _model_words(models: Models, name: str) -> str:
    settings = models.named(name)
    return f"{name}: {settings.model} at {settings.base_url}"


def render_path() -> None:
    """Draw the field for a path; Load opens the problems page, which loads it."""
    with st.form("path", border=False), st.container(horizontal=True, vertical_alignment="bottom"):
        path = st.text_input(
            "Path",
            key="start-path",
            placeholder="/path/to/KernelBench/level1, or a single file.py",
            label_visibility="collapsed",
        )
        asked = st.form_submit_button("Load", key="start-load")
    if asked and path.strip():
        agree_to(path.strip())
        st.switch_page(places.problems(), query_params={"path": path.strip()})
    if asked:
        note("error", NO_PATH)
    quiet(f"Each file runs in its own sandboxed process, {SANDBOXED}.")


_LIMITS = {
    "minutes": "Minutes (0: no limit)",
    "money": "Money (0: no limit)",
    "worth-tokens": "1 % less time is worth, tokens",
    "worth-money": "1 % less time is worth, money",
}
_IN_MONEY = ("money", "worth-money")
_WORTH = (
    "Minutes count while the session works. With a worth, it ends when the next step is expected to cost more than "
    "what it is expected to bring: the headroom to the bound times the share of it that the steps so far took."
)
_ROLE_HELP = {
    Role.TESTING: "Writes further test workloads, as data. They judge once the existing kernel passes them and its "
    "mutants fail.",
    Role.PROFILING: "Says what bounds the kernel at each benchmark workload.",
    Role.PLANNING: "Names one idea a step.",
    Role.CODING: "Writes the change.",
}
_gate_words = {
    Gate.PROMPT: "sending a prompt",
    Gate.ANSWER: "using a role's answer",
    Gate.PLAN: "using a plan",
    Gate.DIFF: "compiling a change",
    Gate.PROMOTION: "promoting a kernel",
}


def _problem(known: Sequence[Problem]) -> Problem:
    by_name = {problem.name: problem for problem in known}
    first = FIRST_PROBLEM if FIRST_PROBLEM in by_name else next(iter(by_name))
    ui_state.keep_among("new-problem", list(by_name), _wanted("problem", list(by_name), first))
    name = st.selectbox(
        "Problem",
        list(by_name),
        key="new-problem",
        format_func=lambda n: show_hidden(f"{n}: {by_name[n].title}"),
    )
    return by_name[name]
