"""Draw the settings of a new run, each with its help and, where it is wrong, what is wrong beside it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import streamlit as st

from cutegen_core.records import as_json
from cutegen_core.records.errors import CutegenError
from cutegen_core.records.gnn import KERNEL_PREFIX, TORCH_AGGREGATES, RunSettings
from cutegen_core.records.gnn_fields import BY_NAME, FIELDS, GENERATED, SettingField, read_settings
from cutegen_core.records.job import JobKind
from cutegen_core.trajectory import jobs
from cutegen_core.trajectory.store import Store
from cutegen_core.views import gnn
from pages.components.access import access
from pages.components.shared import address, places, ui_state
from pages.components.shared.texts import Html, escape_html, heading, note, plain_label, quiet, show_hidden

_GENERATED_ONLY = ("graph.nodes", "graph.degree", "graph.classes", "graph.width", "graph.seed")
_GROUPS: Mapping[str, Sequence[str]] = {
    "Graph": ("graph.source", *_GENERATED_ONLY),
    "Model and training": ("task", "model", "hidden", "fanouts", "batch_size", "epochs"),
    "Where the time goes": ("device", "features", "mode", "precision", "aggregate", "threads"),
}
LAPTOP = replace(
    RunSettings(), hidden=64, fanouts=(10, 5), inference_fanouts=(10, 5), batch_size=512, epochs=5
)  # fmt: skip
"""What the form begins with: for a laptop without a GPU."""
_PAPER = {"hidden": "256", "fanouts": "15,10,5", "inference_fanouts": "20,20,20", "batch_size": "1024", "epochs": "10"}
_MORE = tuple(field.name for field in FIELDS if all(field.name not in names for names in _GROUPS.values()))
_COLUMNS = 3
_OFFERED = {"graph.source": GENERATED, "device": ("cpu", "cuda", "sleep:20")}
"""Suggestions of fields that also take another text."""


def render_form(store: Store) -> None:
    """Draw all fields and the button that creates the job and opens it."""
    if opening := ui_state.take_opening():  # before the button is drawn again, so that a second press starts no other
        st.switch_page(places.gnn(), query_params={"job": opening})
    _take_link(store)
    typed = {name: ui_state.text(_key(name)) for name in BY_NAME if _is_shown(name)}
    settings, wrong = read_settings(typed)
    wrong |= _elsewhere(store, settings, wrong)
    for title, names in _GROUPS.items():
        heading(title)
        _fields(store, [name for name in names if _is_shown(name)], wrong)
    with st.expander("More settings", expanded=any(name in wrong for name in _MORE)):
        _fields(store, _MORE, wrong)
    may = access.role() is access.AccessRole.OWNER
    quiet(_what_it_does(settings) if not wrong else "Correct what is marked, then start.")
    st.button(
        "Start the run", key="gnn-start", type="primary", shortcut="G", disabled=bool(wrong) or not may,
        on_click=ui_state.noted(_start, store),
    )  # fmt: skip
    with st.container(horizontal=True, vertical_alignment="center"):
        st.page_link(places.gnn(), label="Take the settings of SALIENT's paper", query_params=_PAPER)
        quiet("The form begins with some for a laptop.")
    if not may:
        access.looks_on()


def _start(store: Store) -> None:
    """Create the job from what the fields hold now; called by a click."""
    access.require_owner()
    settings, wrong = read_settings({name: ui_state.text(_key(name)) for name in BY_NAME if _is_shown(name)})
    wrong |= _elsewhere(store, settings, wrong)
    if wrong:
        ui_state.say("The run was not started: " + " ".join(f"{BY_NAME[n].title}: {why}" for n, why in wrong.items()))
        return
    ui_state.open_next(jobs.create(store, JobKind.GNN, gnn.run_title(settings), as_json.dump(settings)))


def _elsewhere(store: Store, settings: RunSettings, wrong: Mapping[str, str]) -> dict[str, str]:
    """Return what is wrong with settings that name a thing outside them: a path, a kernel."""
    found = {}
    source = settings.graph.source
    if "graph.source" not in wrong and source not in GENERATED and access.role() is access.AccessRole.OWNER:
        try:
            if not Path(source).expanduser().exists():
                found["graph.source"] = f"{show_hidden(source)} does not exist on this machine."
        except (OSError, RuntimeError) as error:
            found["graph.source"] = f"{show_hidden(source)} cannot be looked at: {error}."
    if "aggregate" not in wrong and (why := gnn.kernel_problem(store, settings.aggregate)):
        found["aggregate"] = why
    return found


def _what_it_does(settings: RunSettings) -> str:
    if settings.device.startswith("sleep:"):
        return "A declared sleep stands for the GPU: times and overlap are real, nothing is learnt."
    kernel = settings.aggregate.startswith(KERNEL_PREFIX)
    if settings.device == "cpu" and kernel:
        return "Without a GPU the kernel runs on the emulator, thousands of times slower: take a very small graph."
    return "It runs in the engine and goes on when this page is closed. One run at a time; others wait."


# ---- fields


def _key(name: str) -> str:
    return f"gnn-{name.replace('.', '-')}"


def _is_shown(name: str) -> bool:
    return name not in _GENERATED_ONLY or ui_state.text(_key("graph.source")) in ("", *GENERATED)


def _fields(store: Store, names: Sequence[str], wrong: Mapping[str, str]) -> None:
    with st.container(key=f"gnn-fields-{names[0].replace('.', '-')}"):
        for first in range(0, len(names), _COLUMNS):
            row = names[first : first + _COLUMNS]
            for column, name in zip(st.columns(_COLUMNS, gap="small"), row, strict=False):
                with column:
                    _field(store, BY_NAME[name])
                    if name in wrong:
                        st.html(Html(f'<div class="cg-field-error" role="status">✗ {escape_html(wrong[name])}</div>'))


def _field(store: Store, field: SettingField) -> None:
    key, kernels = _key(field.name), field.name == "aggregate"
    if field.choices:
        st.selectbox(field.title, field.choices, key=key, help=plain_label(field.help))
    elif kernels or field.name in _OFFERED:
        words = {choice.aggregate: choice.words for choice in gnn.kernel_choices(store)} if kernels else {}
        offered = [*(TORCH_AGGREGATES if kernels else _OFFERED[field.name]), *words]
        now = ui_state.text(key)
        st.selectbox(
            field.title, offered if now in offered or not now else [*offered, now], key=key, accept_new_options=True,
            help=plain_label(field.help), format_func=lambda value: show_hidden(words.get(value, value)),
        )  # fmt: skip
    else:
        st.text_input(field.title, key=key, help=plain_label(field.help))


# ---- presets


def _take_link(store: Store) -> None:
    """Fill the fields once: with the defaults, the run that the address names, or the settings that it names."""
    named = {name: address.get(name) for name in ("like", *BY_NAME) if address.get(name)}
    is_new = ui_state.first_time("gnn-link", repr(sorted(named.items())))
    fresh = bool(named) and (is_new or not ui_state.text(_key("task")))  # the fields of a page that was left are gone
    start = LAPTOP
    if "like" in named:  # a link that cannot be followed is said as long as it stands in the address
        try:
            start = gnn.run_view(store, named["like"]).settings
        except CutegenError as error:
            note("error", f"The settings of another run were not taken: {error}.")
    for field in FIELDS:
        if fresh:
            ui_state.put(_key(field.name), named.get(field.name, field.text(start)))
        else:
            ui_state.put_once(_key(field.name), field.text(start))
        if field.choices and ui_state.text(_key(field.name)) not in field.choices:
            ui_state.put(_key(field.name), field.text(start))
