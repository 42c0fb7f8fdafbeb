"""Show the list of problems, and one problem: workloads, tolerance, reference."""

from __future__ import annotations

from collections.abc import Callable

import streamlit as st

from cutegen_core.problems import read
from cutegen_core.problems.library import FolderListing, ProblemEntry
from cutegen_core.records.problem import DEFAULT_TOLERANCE, Problem, list_sizes
from cutegen_core.records.wording import counted
from cutegen_core.views.wording import ERROR_MULTIPLE
from pages.components.problems import who_proposes
from pages.components.shared import address, code_tables, places, ui_state
from pages.components.shared.code_tables import Notes
from pages.components.shared.texts import heading, note, plain_label, quiet, show_hidden, table


def choose_entry(listing: FolderListing, own: int, edited: Callable[[Problem], bool]) -> ProblemEntry | None:
    """Draw the list as buttons and return the chosen entry; the choice is in the URL, and None for an unknown name.

    Args:
        own: how many of the first entries are saved in the workspace.
    """
    wanted = address.get("name")
    chosen = next((e for e in listing.entries if not wanted or show_hidden(e.name) == wanted), None)
    with st.container(key="problem-list"):
        for number, entry in enumerate(listing.entries):
            if own and number in (0, own):
                quiet("Saved" if number == 0 else "Built-in")
            shown = "shown-" if entry is chosen and not address.get("new") else ""
            is_edited = entry.problem is not None and edited(entry.problem)
            st.button(
                plain_label(_line(entry, is_edited)), key=f"step-row-{shown}problem-{number}", type="tertiary",
                width="stretch",
                on_click=ui_state.noted(address.go, name=show_hidden(entry.name), edit=None, new=None),
            )  # fmt: skip
    return chosen


def render_nothing(listing: FolderListing) -> None:
    """Say why no problem is shown."""
    if not listing.entries:
        note("info", "No Python files found.")
    else:
        note("error", f"There is no problem “{address.get('name')}” here. Choose one from the list.")


def _line(entry: ProblemEntry, is_edited: bool) -> str:
    if entry.problem is None:
        return f"✗ {entry.name} · cannot be loaded"
    mark = "≠" if is_edited else "✓"
    said = (f"{mark} {entry.name}", who_proposes.known_words(entry.problem), entry.problem.title)
    return " · ".join(filter(None, said))


def render_problem(problem: Problem) -> None:
    """Draw how kernels of the problem are judged."""
    stated = list_sizes({name: slot.value for name, slot in read.sizes_of(problem).items()})
    own = f": {stated}" if stated else ""
    rows: list[tuple[object, ...]] = [
        (
            w.name,
            w.role,
            list_sizes(w.sizes) or f"as in the file{own}",
            w.values.replace("_", " "),
        )
        for w in problem.workloads
    ]
    st.html(table(("workload", "role", "sizes", "values"), rows, numbers_from=9))
    st.html(table(("tolerance", "atol", "rtol", ERROR_MULTIPLE), _tolerances(problem)))
    if problem.allow:
        quiet(f"Kernels may use: {', '.join(problem.allow)}")
    if problem.existing:
        with st.expander(f"Existing kernel · {counted(len(problem.existing.splitlines()), 'line')}"):
            st.html(code_tables.plain(problem.existing, Notes({})))


def render_faster(problem: Problem, *, edited: bool) -> None:
    """Draw the link that starts a session which makes the existing kernel faster; nothing where there is none.

    Args:
        edited: the problem has unsaved edits, which the start page does not know.
    """
    if not problem.existing:
        return
    lines = len(problem.existing.splitlines())
    quiet(f"The existing kernel has {lines} lines; Astra's four roles make it faster.")
    if not edited and not address.get("path"):
        st.page_link(places.start(), label="Make it faster",
                     query_params={"problem": problem.name, "strategy": "astra"})  # fmt: skip


def render_reference(source: str, error: str = "", line: int = 0, title: str = "Reference") -> None:
    """Draw the text, with an error at its line."""
    heading(title)
    with st.container(key="reference-pane"):
        st.html(code_tables.plain(source, Notes({line: (error,)} if line else {}), "python"))


def _tolerances(problem: Problem) -> list[tuple[object, ...]]:
    keys = list(problem.tolerance) or list(DEFAULT_TOLERANCE)
    found = [(key, problem.tolerance_for(key)) for key in keys]
    found += [(f"{key} on {w.name}", tolerance) for w in problem.workloads for key, tolerance in w.tolerance.items()]
    return [(key, f"{t.atol:g}", f"{t.rtol:g}", f"{t.error_multiple:g}") for key, t in found]
