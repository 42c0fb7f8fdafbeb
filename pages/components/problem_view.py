"""A list of problems, and one problem in detail: workloads, tolerance, reference."""

from __future__ import annotations

import streamlit as st

from cutegen_core.code_text import highlight
from cutegen_core.problem import DEFAULT_TOLERANCE, Problem
from cutegen_core.problems import Entry, FolderListing
from pages.components.texts import heading, plain_label, quiet, table, visible


def choose_entry(listing: FolderListing) -> Entry | None:
    """The list as buttons; the choice is in the URL."""
    wanted = st.query_params.get("name", "")
    chosen = next((e for e in listing.entries if e.name == wanted), None) or next(iter(listing.entries), None)
    with st.container(key="problem-list"):
        for number, entry in enumerate(listing.entries):
            shown = "shown-" if entry is chosen else ""
            st.button(
                plain_label(_line(entry)), key=f"step-row-{shown}problem-{number}", type="tertiary", width="stretch",
                on_click=_choose, args=(entry.name,),
            )  # fmt: skip
    return chosen


def _choose(name: str) -> None:
    st.query_params["name"] = name


def _line(entry: Entry) -> str:
    return f"✓ {entry.name} · {entry.problem.title}" if entry.problem else f"✗ {entry.name} · cannot be loaded"


def render_problem(problem: Problem) -> None:
    """What the problem is and how a kernel of it is judged."""
    heading(f"{problem.name} · {problem.origin}")
    st.text(visible(problem.title))
    rows: list[tuple[object, ...]] = [
        (
            w.name,
            w.role,
            ", ".join(f"{k} = {v}" for k, v in w.sizes.items()) or "as in the file",
            w.values.replace("_", " "),
        )
        for w in problem.workloads
    ]
    st.html(table(("workload", "for", "sizes", "values"), rows, numbers_from=9))
    st.html(table(("right means", "atol", "rtol", "times the reference's own error"), _tolerances(problem)))
    if problem.allow:
        quiet(f"A kernel may declare: {', '.join(problem.allow)}")
    heading("Reference")
    with st.container(key="reference-pane"):
        st.html(highlight.block(problem.source, "python"))


def _tolerances(problem: Problem) -> list[tuple[object, ...]]:
    dtypes = list(problem.tolerance) or list(DEFAULT_TOLERANCE)
    found = [(dtype, problem.tolerance_for(dtype)) for dtype in dtypes]
    return [(dtype, f"{t.atol:g}", f"{t.rtol:g}", f"{t.error_multiple:g}") for dtype, t in found]
