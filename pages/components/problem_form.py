"""Workloads and tolerances of a problem as fields, beside its text. What is changed in one is changed in the other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import streamlit as st

from cutegen_core import problem_edits, problem_text
from cutegen_core.errors import ProblemError
from cutegen_core.judge.problem_source import SizeValue
from cutegen_core.problem import DEFAULT_TOLERANCE, Problem, Tolerance, Values, Workload, WorkloadRole
from pages.components import ui_state
from pages.components.problem_draft import Editing
from pages.components.texts import heading, plain_label, quiet

Write = Callable[[str], None]
"""Takes the changed text of the problem."""

_COLUMNS_AT_MOST = 5
_ALL_SIZES = "sizes"
_ROLES = {role: role.value for role in WorkloadRole}
_TOLERANCE_FIELDS = {"atol": "atol", "rtol": "rtol", "error_multiple": "times the reference's own error"}


def render_form(editing: Editing, problem: Problem, write: Write) -> None:
    """Every workload in a row of fields, then the tolerances."""
    change = partial(_change, editing, write)
    sizes = tuple(problem_text.sizes_of(problem))
    columns = sizes if len(sizes) <= _COLUMNS_AT_MOST else (_ALL_SIZES,)
    heading("Workloads")
    widths = [1.5, 1.6, 1.3, *([1] * len(columns) if columns != (_ALL_SIZES,) else [3]), 0.45]
    _titles(widths, ("name", "role", "values", *columns, ""))
    for number, workload in enumerate(problem.workloads):
        _workload(editing.key, problem, number, workload, columns, widths, change)
    st.button("Add a workload", key=f"{editing.key}-add", on_click=ui_state.noted(change, lambda: _added(problem)))
    quiet(
        "emulator: small, tested everywhere. correctness: larger, tested too. benchmark: timed, on a GPU. "
        "An empty size is the file's own, shown in grey; a shape is typed as (3, 64)."
    )
    _tolerances(editing.key, problem, change)


def _titles(widths: Sequence[float], titles: Sequence[str]) -> None:
    for column, title in zip(st.columns(widths, gap="xsmall"), titles, strict=True):
        with column:
            quiet(title)


Change = Callable[[Callable[[], Problem]], None]


def _workload(
    key: str, problem: Problem, number: int, workload: Workload, columns: Sequence[str], widths: Sequence[float],
    change: Change,
) -> None:  # fmt: skip
    fields = iter(st.columns(widths, gap="xsmall", vertical_alignment="center"))

    def changed(key: str, make: Callable[[str], Workload]) -> None:
        change(lambda: _with(problem, number, make(ui_state.text(key))))

    with next(fields):
        _field(f"{key}-{number}-name", f"Name of workload {workload.name}", workload.name, "",
               lambda k: changed(k, lambda typed: replace(workload, name=typed.strip())))  # fmt: skip
    for name, words, current in (("role", _ROLES, workload.role), ("values", _VALUES, workload.values)):
        with next(fields):
            _choice(f"{key}-{number}-{name}", f"{name} of workload {workload.name}", words, current,
                    lambda k, n=name: changed(k, lambda typed: replace(workload, **{n: _word(n, typed)})))  # fmt: skip
    slots = problem_text.sizes_of(problem)
    for name in columns:
        with next(fields):
            own = "" if name == _ALL_SIZES else _typed(slots[name].value)
            _field(f"{key}-{number}-size-{name}", f"{name} of workload {workload.name}", _cell(workload, name), own,
                   lambda k, n=name: changed(k, lambda typed: _sized(workload, n, typed)))  # fmt: skip
    with next(fields):
        st.button("✕", key=f"{key}-{number}-remove", help=plain_label(f"Remove workload {workload.name}"),
                  on_click=ui_state.noted(change, lambda: _with(problem, number, None)))  # fmt: skip


_VALUES = {values: values.value.replace("_", " ") for values in Values}


def _field(key: str, label: str, value: str, placeholder: str, changed: Callable[[str], None]) -> None:
    ui_state.put(key, value)
    st.text_input(
        plain_label(label),
        key=key,
        placeholder=placeholder,
        label_visibility="collapsed",
        on_change=ui_state.noted(changed, key),
    )


def _choice(key: str, label: str, words: dict[str, str], value: str, changed: Callable[[str], None]) -> None:
    ui_state.put(key, value)
    st.selectbox(
        plain_label(label), list(words), key=key, format_func=words.__getitem__, label_visibility="collapsed",
        on_change=ui_state.noted(changed, key),
    )  # fmt: skip


def _word(name: str, typed: str) -> WorkloadRole | Values:
    return WorkloadRole(typed) if name == "role" else Values(typed)


def _cell(workload: Workload, name: str) -> str:
    if name == _ALL_SIZES:
        return ", ".join(f"{size} = {_typed(value)}" for size, value in workload.sizes.items())
    return _typed(workload.sizes[name]) if name in workload.sizes else ""


def _typed(value: SizeValue) -> str:
    return str(value)


def _sized(workload: Workload, name: str, typed: str) -> Workload:
    """The workload with the size as typed; an empty field leaves it to the file."""
    if name == _ALL_SIZES:
        return replace(workload, sizes=problem_edits.sizes_from(typed))
    others = {size: value for size, value in workload.sizes.items() if size != name}
    return replace(workload, sizes={**others, name: problem_edits.size_from(name, typed)} if typed.strip() else others)


def _with(problem: Problem, number: int, workload: Workload | None) -> Problem:
    """The problem with this workload in that place, or without the one there."""
    before, after = problem.workloads[:number], problem.workloads[number + 1 :]
    return replace(problem, workloads=(*before, *((workload,) if workload else ()), *after))


def _added(problem: Problem) -> Problem:
    """One more, of the first one's sizes, under a name that is free."""
    names = {w.name for w in problem.workloads}
    name = next(f"test {n}" for n in range(1, 1000) if f"test {n}" not in names)
    first = problem.workloads[0] if problem.workloads else Workload(name, WorkloadRole.EMULATOR)
    timed = problem.with_role(WorkloadRole.BENCHMARK)
    others = tuple(w for w in problem.workloads if w not in timed)
    return replace(problem, workloads=(*others, Workload(name, WorkloadRole.EMULATOR, first.sizes), *timed))


def _tolerances(key: str, problem: Problem, change: Change) -> None:
    heading("Right means")
    dtypes = list(problem.tolerance) or ["float32"]
    widths = [1.2, 1, 1, 1.8]
    _titles(widths, ("outputs of", *_TOLERANCE_FIELDS.values()))
    for dtype in dtypes:
        _tolerance(key, problem, dtype, widths, change)
    others = [dtype for dtype in DEFAULT_TOLERANCE if dtype not in dtypes]
    with st.container(horizontal=True, gap="xsmall"):
        for dtype in others:
            st.button(f"Add {dtype}", key=f"{key}-tolerance-add-{dtype}", on_click=ui_state.noted(
                change, partial(_judged, problem, dtype, problem.tolerance_for(dtype))))  # fmt: skip


def _tolerance(key: str, problem: Problem, dtype: str, widths: Sequence[float], change: Change) -> None:
    now = problem.tolerance_for(dtype)

    def changed(key: str, field: str) -> None:
        def make() -> Problem:
            value = problem_edits.size_from(f"{dtype} {field}", ui_state.text(key))
            if isinstance(value, tuple):
                raise ProblemError(f"{dtype} {field} is one number.")
            return _judged(problem, dtype, replace(now, **{field: float(value)}))

        change(make)

    columns = st.columns(widths, gap="xsmall", vertical_alignment="center")
    with columns[0]:
        st.text(dtype)
    for column, field in zip(columns[1:], _TOLERANCE_FIELDS, strict=True):
        with column:
            usual = f"{getattr(DEFAULT_TOLERANCE[dtype], field):g}"
            _field(f"{key}-tolerance-{dtype}-{field}", f"{field} of {dtype}", f"{getattr(now, field):g}", usual,
                   lambda k, f=field: changed(k, f))  # fmt: skip


def _judged(problem: Problem, dtype: str, tolerance: Tolerance) -> Problem:
    return replace(problem, tolerance={**problem.tolerance, dtype: tolerance})


def _change(editing: Editing, write: Write, make: Callable[[], Problem]) -> None:
    """Callback of a field: writes what can be read back; a refusal is said, and the text stays."""
    try:
        made = make()
        text = editing.text
        if editing.problem is None or made.workloads != editing.problem.workloads:
            text = problem_edits.with_workloads(text, made.workloads)
        if editing.problem is None or made.tolerance != editing.problem.tolerance:
            text = problem_edits.with_tolerance(text, made.tolerance)
        problem_text.read(text, editing.name, f"{editing.name}.py")
    except ProblemError as error:
        ui_state.say(f"Not changed. {error}")
        return
    write(text)
