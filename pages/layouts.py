"""Draw the CuTe layouts and partitions of a kernel, as CuTe evaluates them. `?id=` the session, `?step=`, `?name=` of a
declaration with its line, or the name alone for the first one."""

from __future__ import annotations

from itertools import islice

import streamlit as st

from cutegen_core import views
from cutegen_core.kernel.kernel_file import parse
from cutegen_core.records.errors import KernelFileError, StoreError
from cutegen_core.trajectory.store import Store
from cutegen_core.views import StepView
from cutegen_core.views.layouts import Declared, find
from cutegen_core.views.wording import no_step
from pages.components.access import access
from pages.components.compare_present import layout_view
from pages.components.shared import address, data, places, ui_state
from pages.components.shared.texts import heading, note, plain_label, quiet

EXAMPLE = "composition(Swizzle<3, 3, 3>{}, make_layout(make_shape(_8{}, _64{}), LayoutRight{}))"
TYPED = "layout-typed"


def shown_step(store: Store) -> StepView | None:
    """Return the step in the URL; None where it names none.

    Raises:
        StoreError: the session has no such step.
    """
    session, step = st.query_params.get("id", ""), st.query_params.get("step", "")
    if not session:
        return None
    view = views.session_view(store, session)
    if step and not any(str(row.number) == step for row in view.steps):
        raise StoreError(no_step(session, step, len(view.steps)))
    number = int(step) if step else view.state.step.number if view.state.step else 0
    return views.step_view(store, session, number) if number else None


def declared(source: str) -> tuple[Declared, ...]:
    """List what can be drawn of a kernel.

    Raises:
        KernelFileError: its plan cannot be read.
    """
    return find(source, parse(source).defaults())


def choose(source: str) -> Declared | None:
    """Choose one of the kernel's declarations, kept in the URL; None where there is none or its plan cannot be read."""
    try:
        found = {f"{d.name}, line {d.line}": d for d in declared(source)}
    except KernelFileError as error:
        note("error", f"Cannot list this kernel's layouts: its launch plan cannot be read. {error}")
        return None
    if not found:
        quiet("This kernel declares no layout, tiled copy or tiled MMA. Type an expression below.")
        return None
    wanted, first = address.get("name"), next(iter(found))
    named = wanted.rpartition(", line ")[0]  # the line may be another step's
    name = wanted if wanted in found else next((n for n, d in found.items() if d.name in (wanted, named)), "")
    if wanted and not name:
        quiet(f"This kernel declares no “{wanted}”; showing the first declaration.")
    drawn = name or first
    key = ui_state.showing("layout-name", drawn)
    st.radio("Declared in this kernel", list(found), list(found).index(drawn), key=key, format_func=plain_label,
             label_visibility="collapsed", on_change=ui_state.noted(_chosen, key, drawn))  # fmt: skip
    return found[drawn]


def _chosen(key: str, drawn: str) -> None:
    address.follow(key, "name", drawn)
    if ui_state.text(key) != drawn:
        ui_state.put(TYPED, "")


def parents_version(store: Store, shown: StepView, chosen: Declared) -> Declared | None:
    """Return the parent's declaration of the same name and position, if it differs from the chosen one."""
    if not shown.base_source or shown.base_source == shown.source:
        return None
    try:
        others = declared(shown.base_source)
    except KernelFileError as error:
        quiet(f"Cannot list the parent's layouts: {error}")
        return None
    place = [d for d in declared(shown.source) if d.name == chosen.name].index(chosen)
    other = next(islice((d for d in others if d.name == chosen.name), place, None), None)
    changed = other is not None and (other.before, other.expression) != (chosen.before, chosen.expression)
    return other if changed else None


store = data.store()
if access.looks_on():  # an expression is compiled and run
    st.stop()
shown = shown_step(store)
left, right = st.columns([1, 2.4], gap="medium")
with left:
    heading(f"Layouts of step {shown.step.number}: {shown.step.idea}" if shown else "Custom layout")
    chosen = choose(shown.source) if shown else None
    if shown:
        st.page_link(places.session(), label="Back to the step",
                     query_params={"id": st.query_params["id"], "step": str(shown.step.number)})  # fmt: skip
    with st.form("layout-form", border=False):
        heading("Expression")
        first = "" if chosen else EXAMPLE
        st.text_area("CuTe expression", first, key=TYPED, height=110, label_visibility="collapsed", placeholder=EXAMPLE)
        st.form_submit_button("Evaluate", key="layout-evaluate", shortcut="Ctrl+Enter")
    quiet(
        "The expression is compiled for the emulator, and CuTe evaluates every coordinate. It can use the names that "
        "the kernel defines at compile time; write numbers for all others."
    )
    how = layout_view.choose_access(shown.source if shown else "")
with right:
    typed = ui_state.text(TYPED).strip()
    if typed:
        context = chosen.before if chosen else ()
        layout_view.render(typed, typed, context, how)
    elif chosen:
        layout_view.render(chosen.name, chosen.expression, chosen.before, how)
        if shown and (other := parents_version(store, shown, chosen)):
            layout_view.render(f"{chosen.name} (parent)", other.expression, other.before, how)
    else:
        note("info", "Type an expression, or open this page from a step of a session.")
