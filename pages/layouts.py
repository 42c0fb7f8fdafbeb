"""The CuTe layouts and partitions of a kernel, drawn as they really are. `?id=` the session, `?step=`, `?name=` of a
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
from pages.components.access import access
from pages.components.compare_present import layout_view
from pages.components.shared import address, data, places, ui_state
from pages.components.shared.texts import heading, note, plain_label, quiet

EXAMPLE = "composition(Swizzle<3, 3, 3>{}, make_layout(make_shape(_8{}, _64{}), LayoutRight{}))"
TYPED = "layout-typed"


def shown_step(store: Store) -> StepView | None:
    """The step in the URL; None where none is named."""
    session, step = st.query_params.get("id", ""), st.query_params.get("step", "")
    if not session:
        return None
    view = views.session_view(store, session)
    if step and not any(str(row.number) == step for row in view.steps):
        raise StoreError(f"session {session} has no step {step}; it has {len(view.steps)}")
    number = int(step) if step else view.state.step.number if view.state.step else 0
    return views.step_view(store, session, number) if number else None


def declared(source: str) -> tuple[Declared, ...]:
    """What can be drawn of a kernel; KernelFileError where its plan cannot be read."""
    return find(source, parse(source).defaults())


def choose(source: str) -> Declared | None:
    """One of the kernel's, in the URL; None where there is none, or none that can be found."""
    try:
        found = {f"{d.name}, line {d.line}": d for d in declared(source)}
    except KernelFileError as error:
        note("error", f"What this kernel declares cannot be told, since its plan cannot be read. {error}")
        return None
    if not found:
        quiet("This kernel declares no layout, tiled copy or tiled MMA of its own. Type an expression below.")
        return None
    wanted, first = address.get("name"), next(iter(found))
    named = wanted.rpartition(", line ")[0]  # the line may be another step's
    name = wanted if wanted in found else next((n for n, d in found.items() if d.name in (wanted, named)), "")
    if wanted and not name:
        quiet(f"This kernel declares no “{wanted}”; the first one is drawn.")
    key = "layout-name"
    ui_state.put(key, name or first)
    st.radio("In this kernel", list(found), key=key, on_change=ui_state.noted(_chosen, key, name or first),
             format_func=plain_label, label_visibility="collapsed")  # fmt: skip
    return found[name or first]


def _chosen(key: str, drawn: str) -> None:
    address.follow(key, "name", drawn)
    if ui_state.text(key) != drawn:
        ui_state.put(TYPED, "")


def same_of_the_parent(store: Store, shown: StepView, chosen: Declared) -> tuple[str, Declared] | None:
    """The parent's declaration of that name, the first or the second as here, where it is another one; its title."""
    if not shown.base_source or shown.base_source == shown.source:
        return None
    try:
        others = declared(shown.base_source)
    except KernelFileError as error:
        quiet(f"The parent's layouts cannot be told: {error}")
        return None
    place = [d for d in declared(shown.source) if d.name == chosen.name].index(chosen)
    other = next(islice((d for d in others if d.name == chosen.name), place, None), None)
    changed = other is not None and (other.before, other.expression) != (chosen.before, chosen.expression)
    return ("the parent's", other) if other is not None and changed else None


store = data.store()
if access.looks_on():  # an expression is compiled and run
    st.stop()
shown = shown_step(store)
left, right = st.columns([1, 2.4], gap="medium")
with left:
    heading(f"Layouts of step {shown.step.number}: {shown.step.idea}" if shown else "A layout of your own")
    chosen = choose(shown.source) if shown else None
    if shown:
        st.page_link(places.session(), label="Back to the step",
                     query_params={"id": st.query_params["id"], "step": str(shown.step.number)})  # fmt: skip
    with st.form("layout-form", border=False):
        heading("An expression")
        ui_state.put_once(TYPED, "" if chosen else EXAMPLE)
        st.text_area("CuTe expression", key=TYPED, height=110, label_visibility="collapsed", placeholder=EXAMPLE)
        st.form_submit_button("Evaluate", key="layout-evaluate", shortcut="Ctrl+Enter")
    quiet(
        "Evaluated by compiling it for the emulator and asking CuTe for every coordinate. It may use the names of the "
        "kernel that are known at compile time; write numbers for the others."
    )
    how = layout_view.choose_access(shown.source if shown else "")
with right:
    typed = ui_state.text(TYPED).strip()
    if typed:
        context = chosen.before if chosen else ()
        layout_view.render(typed, typed, context, how)
    elif chosen:
        layout_view.render(chosen.name, chosen.expression, chosen.before, how)
        if shown and (other := same_of_the_parent(store, shown, chosen)):
            layout_view.render(f"{other[0]} {chosen.name}", other[1].expression, other[1].before, how)
    else:
        note("info", "Type an expression, or open this page from a step of a session.")
