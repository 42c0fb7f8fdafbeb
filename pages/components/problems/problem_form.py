"""Edit a problem's workloads and tolerances in fields beside its text. A change in one shows in the other.

A field changes the problem as it is when the page takes the change, not as it was drawn, so two quick edits both count.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import streamlit as st

from cutegen_core.problems import edit, read
from cutegen_core.records.errors import ProblemError
from cutegen_core.records.problem import DEFAULT_TOLERANCE, Problem, Values, Workload, WorkloadRole
from cutegen_core.views.wording import ERROR_MULTIPLE
from pages.components.shared import ui_state
from pages.components.shared.texts import heading, plain_label, quiet, show_hidden

Change = Callable[[Problem], Problem]
Take = Callable[[Change], None]
"""Applies a change to the problem as it is, and shows a ProblemError that the change raises."""

_COLUMNS_AT_MOST = 5
_ALL_SIZES = "sizes"
_ROLES = {role: role.value for role in WorkloadRole}
_VALUES = {values: values.value.replace("_", " ") for values in Values}
_TOLERANCE_FIELDS = {"atol": "atol", "rtol": "rtol", "error_multiple": ERROR_MULTIPLE}


def render_form(key: str, problem: Problem, take: Take) -> None:
    """Draw every workload as a row of fields, then the tolerances.

    Args:
        key: of the problem's draft; the fields' keys begin with it.
    """
    own = {name: str(slot.value) for name, slot in read.sizes_of(problem).items()}
    columns = own if len(own) <= _COLUMNS_AT_MOST else {_ALL_SIZES: ""}
    widths = [1.5, 1.6, 1.3, *([1] * len(columns) if columns is own else [3]), 0.45]
    heading("Workloads")
    _titles(widths, ("name", "role", "values", *columns, ""))
    for number, workload in enumerate(problem.workloads):
        for column, draw in zip(
            st.columns(widths, gap="xsmall", vertical_alignment="center"),
            _cells(f"{key}-{number}", workload, columns, take), strict=True,
        ):  # fmt: skip
            with column:
                draw()
    st.button("Add a workload", key=f"{key}-add", on_click=ui_state.noted(take, edit.add_test_workload))
    quiet(
        "emulator: small, tested on every machine. correctness: larger, also tested. benchmark: timed on a GPU. "
        "An empty size uses the file's own, shown in grey. Write a shape as (3, 64)."
    )
    _tolerances(key, problem, take)


def _titles(widths: Sequence[float], titles: Sequence[str]) -> None:
    for column, title in zip(st.columns(widths, gap="xsmall"), titles, strict=True):
        with column:
            quiet(title)


# -- workloads ---------------------------------------------------------------------------------------------------------


def _cells(key: str, workload: Workload, columns: Mapping[str, str], take: Take) -> tuple[Callable[[], None], ...]:
    """Return a function per field of a row that draws it; `columns` maps sizes to the file's own values."""

    def act(change: Callable[[Workload, str], Workload]) -> Callable[[str], None]:
        return lambda typed: take(lambda now: edit.change_workload(now, workload.name, lambda w: change(w, typed)))

    label = f"of workload {workload.name}"
    return (
        partial(_field, f"{key}-name", f"Name {label}", workload.name, "", act(_renamed)),
        partial(_choice, f"{key}-role", f"Role {label}", _ROLES, workload.role, act(_for_role)),
        partial(_choice, f"{key}-values", f"Values {label}", _VALUES, workload.values, act(_drawing)),
        *(
            partial(
                _field, f"{key}-size-{name}", f"{name} {label}", _cell(workload, name), own,
                act(partial(_sized, name)),
            )
            for name, own in columns.items()
        ),
        partial(_remove, f"{key}-remove", workload.name, take),
    )  # fmt: skip


def _renamed(workload: Workload, typed: str) -> Workload:
    return replace(workload, name=typed.strip())


def _for_role(workload: Workload, typed: str) -> Workload:
    return replace(workload, role=WorkloadRole(typed))


def _drawing(workload: Workload, typed: str) -> Workload:
    return replace(workload, values=Values(typed))


def _sized(name: str, workload: Workload, typed: str) -> Workload:
    """Set a size of a workload as typed; an empty field uses the file's own."""
    if name == _ALL_SIZES:
        return replace(workload, sizes=edit.parse_sizes(typed))
    others = {size: value for size, value in workload.sizes.items() if size != name}
    return replace(workload, sizes={**others, name: edit.parse_size(name, typed)} if typed.strip() else others)


def _cell(workload: Workload, name: str) -> str:
    if name == _ALL_SIZES:
        return ", ".join(f"{size} = {value}" for size, value in workload.sizes.items())
    return str(workload.sizes.get(name, ""))


# Hidden labels are read by screen readers only, unchanged: no Markdown, nothing to escape.


def _field(name: str, label: str, value: str, placeholder: str, act: Callable[[str], None]) -> None:
    key = ui_state.showing(name, value)
    st.text_input(
        show_hidden(label), value, key=key, placeholder=placeholder, label_visibility="collapsed",
        on_change=ui_state.noted(_taken_up, key, act),
    )  # fmt: skip


def _choice(name: str, label: str, words: Mapping[Any, str], value: str, act: Callable[[str], None]) -> None:
    key = ui_state.showing(name, value)
    st.selectbox(
        show_hidden(label), list(words), list(words).index(value), key=key, format_func=words.__getitem__,
        label_visibility="collapsed", on_change=ui_state.noted(_taken_up, key, act),
    )  # fmt: skip


def _taken_up(key: str, act: Callable[[str], None]) -> None:
    act(ui_state.text(key))


def _remove(key: str, name: str, take: Take) -> None:
    st.button(
        "✕", key=key, help=plain_label(f"Remove workload {name}"),
        on_click=ui_state.noted(take, lambda now: edit.change_workload(now, name, lambda _: None)),
    )  # fmt: skip


# -- tolerances --------------------------------------------------------------------------------------------------------


def _tolerances(key: str, problem: Problem, take: Take) -> None:
    heading("Tolerance")
    keys = list(problem.tolerance) or ["float32"]
    widths = [1.2, 1, 1, 1.8]
    _titles(widths, ("output or its dtype", *_TOLERANCE_FIELDS.values()))
    for dtype in keys:
        first, *columns = st.columns(widths, gap="xsmall", vertical_alignment="center")
        with first:
            st.text(dtype)
        for column, field in zip(columns, _TOLERANCE_FIELDS, strict=True):
            with column:
                _tolerance(f"{key}-tolerance-{dtype}-{field}", problem, dtype, field, take)
    with st.container(horizontal=True, gap="xsmall"):
        for dtype in DEFAULT_TOLERANCE:
            if dtype not in keys:
                add = ui_state.noted(take, partial(_judged, dtype, "", ""))
                st.button(f"Add {dtype}", key=f"{key}-tolerance-add-{dtype}", on_click=add)
    with st.container(width=260):
        _field(
            f"{key}-tolerance-output", "An output with a tolerance of its own", "", "an output, such as out1",
            lambda typed: take(partial(_with_output, typed.strip())),
        )  # fmt: skip
    if any(workload.tolerance for workload in problem.workloads):
        quiet("Workloads with a tolerance of their own say it in the text.")


def _tolerance(key: str, problem: Problem, dtype: str, field: str, take: Take) -> None:
    default = DEFAULT_TOLERANCE.get(dtype, problem.tolerance_for(dtype))
    now, usual = (f"{getattr(one, field):g}" for one in (problem.tolerance_for(dtype), default))
    _field(key, f"{field} of {dtype}", now, usual, lambda typed: take(partial(_judged, dtype, field, typed or usual)))


def _judged(dtype: str, field: str, typed: str, problem: Problem) -> Problem:
    """Change one number of a problem's tolerance; without a field, write out the present tolerance."""
    tolerance = problem.tolerance_for(dtype)
    if field:
        value = edit.parse_size(f"{dtype} {field}", typed)
        if isinstance(value, tuple):
            raise ProblemError(f"{dtype} {field} must be one number.")
        tolerance = replace(tolerance, **{field: _finite(f"{dtype} {field}", value)})
    return replace(problem, tolerance={**problem.tolerance, dtype: tolerance})


def _with_output(output: str, problem: Problem) -> Problem:
    """Give an output a tolerance of its own, which begins as that of float32; without a name change nothing."""
    if not output or output in problem.tolerance:
        return problem
    return replace(problem, tolerance={**problem.tolerance, output: DEFAULT_TOLERANCE["float32"]})


def _finite(name: str, value: float) -> float:
    """Convert a number to floating point.

    Raises:
        ProblemError: a whole number is too large.
    """
    try:
        return float(value)
    except OverflowError as error:
        raise ProblemError(f"{name} is too large for a floating-point number.") from error
