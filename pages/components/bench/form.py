"""Draw the settings of a new bench: which problems, who proposes, and how far each session goes."""

from __future__ import annotations

from pathlib import Path

import streamlit as st

from cutegen_core import views
from cutegen_core.machine.device import KNOWN, choose_device
from cutegen_core.problems import sets
from cutegen_core.propose.registry import ANSWERERS, STRATEGIES, answerers
from cutegen_core.records.bench import BenchSettings
from cutegen_core.records.decision import Effort
from cutegen_core.records.errors import StoreError, UsageError
from cutegen_core.records.event import AnsweredBy
from cutegen_core.records.trial import ExecutorKind
from cutegen_core.records.wording import counted
from cutegen_core.session import start
from cutegen_core.trajectory.store import Store
from cutegen_core.views.wording import SANDBOXED
from pages.components.access import access
from pages.components.problems.new_session import Llm, choose_effort, choose_model, fill_in_model, runs_on
from pages.components.shared import address, places, ui_state
from pages.components.shared.texts import note, quiet, show_hidden

FOLDER = "folder"
"""A choice beside the named sets."""
AT_ONCE_MOST = 8
MOST_STEPS = 10_000
_NAME = "bench"
"""Of this form's fields for a model."""
_BY_THEMSELVES = (AnsweredBy.PLAYBOOK, AnsweredBy.LLM)
"""Who answers without a person."""


def render_form(store: Store) -> None:
    """Draw the fields, and the button that creates the bench and opens it."""
    if opening := ui_state.take_opening():  # before the button is drawn again, so that a second press starts no other
        st.switch_page(places.bench(), query_params={"bench": opening})
    earlier = _take_link(store)
    problems, wrong = _problems()
    first, second, third = st.columns([2, 1.7, 1])
    with first:
        strategy = st.selectbox(
            "Strategy", list(STRATEGIES), format_func=lambda key: STRATEGIES[key].title, key="bench-strategy"
        )
    able = [who for who in answerers(strategy) if who in _BY_THEMSELVES]
    ui_state.keep_among("bench-proposer", able, able[0])
    with second:
        proposer = st.selectbox("Proposer", able, format_func=ANSWERERS.__getitem__, key="bench-proposer")
    with third:
        steps = st.number_input("Max. steps of a session", 1, MOST_STEPS, 40, key="bench-steps")
    with st.container():  # always there, so that everything below keeps its place
        llm, effort = Llm(), earlier.effort
        if proposer is AnsweredBy.LLM:
            llm = choose_model(_NAME)
            effort = choose_effort(_NAME, strategy, llm, proposer)
    first, second, third = st.columns([2, 1.7, 1], vertical_alignment="bottom")
    with first:
        arch = st.selectbox("Compile for", list(KNOWN), index=list(KNOWN).index(choose_device().arch), key="bench-arch")
    with second:
        at_once = st.number_input("Sessions at a time", 1, AT_ONCE_MOST, 1, key="bench-at-once",
                                  help="With one, the seconds of the problems can be compared.")  # fmt: skip
    with third:
        tune = st.checkbox("Tune", key="bench-tune",
                           help="Sweeps the parameters of each best kernel before its session ends.")  # fmt: skip
    quiet(f"{runs_on(choose_device(arch))} Each problem has a session without decisions, which you can open.")
    if kept := _kept_words(earlier, proposer):
        quiet(f"Kept from the earlier bench: {kept}.")
    settings = BenchSettings(
        ui_state.text("bench-folder").strip() if _set() == FOLDER else _set(), problems, proposer, strategy,
        _executor(earlier), arch, int(steps), llm.model, llm.max_tokens, int(at_once), tune, effort=effort,
    )  # fmt: skip
    if wrong:
        note("info", wrong)
    may = access.role() is access.AccessRole.OWNER
    st.button(
        f"Start with {counted(len(problems), 'problem')}" if problems else "Start", key="bench-start", type="primary",
        shortcut="G", disabled=bool(wrong) or not llm.ready or not may,
        on_click=ui_state.noted(_start, store, settings),
    )  # fmt: skip
    if not may:
        access.looks_on()


def _start(store: Store, settings: BenchSettings) -> None:
    """Create the bench that was shown; called by a click."""
    access.require_owner()
    ui_state.open_next(start.create_bench(store, settings))


def _set() -> str:
    return ui_state.text("bench-set")


def _problems() -> tuple[tuple[str, ...], str]:
    """Draw the choice of problems; return them, or what is missing."""
    st.selectbox(
        "Problems", [*sets.SETS, FOLDER], key="bench-set",
        format_func=lambda name: f"{name}: {sets.SETS[name].title}" if name in sets.SETS else "a folder of files",
    )  # fmt: skip
    chosen, place = _set(), ""
    if chosen == FOLDER:
        place = st.text_input("Folder", key="bench-folder", placeholder="/path/to/problems").strip()
    elif sets.SETS[chosen].level:
        place = st.text_input(
            "KernelBench checkout", key="bench-checkout", placeholder="/path/to/KernelBench",
            help="Its folder, with level1, level2 … in it; the workbench ships none of its files.",
        ).strip()  # fmt: skip
    if chosen not in sets.SETS or sets.SETS[chosen].level:
        quiet(f"Each file runs in its own sandboxed process, {SANDBOXED}.")
        if not place:
            return (), "Name the folder that holds the problems."
        if access.role() is not access.AccessRole.OWNER:
            return (), "Only the owner reads folders of this machine."
    try:
        return sets.resolve(place, None) if chosen == FOLDER else sets.resolve(chosen, Path(place).expanduser()), ""
    except (UsageError, OSError, RuntimeError, ValueError) as error:
        return (), show_hidden(str(error))


def _take_link(store: Store) -> BenchSettings:
    """Take the settings of the bench that a link names; return them, or the usual ones."""
    like, usual = address.get("like"), BenchSettings("", ())
    if not like:
        return usual
    try:
        found = views.bench_view(store, like).settings
    except (UsageError, StoreError):
        note("error", f"There is no bench “{show_hidden(like)}” to take settings from.")
        return usual
    if ui_state.first_time("bench-link", like):
        _fill_in(found)
    return found


def _fill_in(found: BenchSettings) -> None:
    """Set the fields as they were for an earlier bench."""
    named = found.set_name if found.set_name in sets.SETS else FOLDER
    ui_state.put("bench-set", named)
    if named == FOLDER:
        ui_state.put("bench-folder", found.set_name)
    elif sets.SETS[named].level:
        ui_state.put("bench-checkout", str(Path(found.problems[0]).parent.parent))
    for key, value in (
        ("strategy", found.strategy), ("proposer", found.answered_by), ("steps", found.max_steps),
        ("at-once", found.at_once), ("tune", found.tune), ("arch", found.arch or choose_device().arch),
    ):  # fmt: skip
        ui_state.put(f"bench-{key}", value)
    if found.answered_by is AnsweredBy.LLM:
        fill_in_model(_NAME, found.model, found.max_tokens, found.effort)


def _executor(earlier: BenchSettings) -> ExecutorKind | None:
    """Return the emulator where an earlier bench asked for it; else this machine chooses."""
    return ExecutorKind.CPU if earlier.executor is ExecutorKind.CPU else None


def _kept_words(earlier: BenchSettings, proposer: AnsweredBy) -> str:
    """Say what of an earlier bench has no field here."""
    effort = earlier.effort if proposer is not AnsweredBy.LLM else Effort()
    words = (
        f"at most {effort.max_minutes:g} minutes a session" if effort.max_minutes else "",
        f"enough at {100 * effort.enough:.0f} % of the bound" if effort.enough != Effort().enough else "",
        "runs on the emulator" if _executor(earlier) else "",
    )
    return ", ".join(filter(None, words))
