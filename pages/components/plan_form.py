"""The launch plan of the draft as a form above its text. What is changed in one is changed in the other."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

import streamlit as st

from cutegen_core.errors import KernelFileError
from cutegen_core.kernel_file import KernelFile, parse
from cutegen_core.plan_text import LaunchSpec, Located, Parameter
from cutegen_core.trial import Occupancy, Trial
from pages.components import ui_state
from pages.components.resources import occupancy_table
from pages.components.texts import heading, plain_label, quiet

Write = Callable[[str], None]
"""Takes the changed text of the draft."""


class Field(NamedTuple):
    """One value of one launch: as typed, and whether it is a list in the file."""

    name: str
    typed: str
    is_list: bool


def render_plan_form(session: str, text: str, write: Write, tested: Trial | None) -> None:
    """`tested` is the trial of the kernel the draft was started from."""
    key = f"plan-form-{session}"  # its label changes with the plan; it stays open
    try:
        kernel = parse(text)
    except KernelFileError as error:
        with st.expander("Launch plan", key=key):
            quiet(f"The plan cannot be read: line {error.line}: {error}")
        return
    first = kernel.launches[0]
    with st.expander(plain_label(f"Launch plan · {first.kernel} · {_summary(first)}"), key=key):
        if kernel.params:
            _parameters(session, kernel, write)
        for index, launch in enumerate(kernel.launches):
            _launch(session, kernel, index, launch, write)
        rows = tested.resources.occupancy if tested and tested.resources else ()
        if rows:
            _tested(rows)


def _summary(launch: LaunchSpec) -> str:
    return " · ".join(f"{field.name} {field.typed}" for field in _fields(launch) if field.name in ("grid", "block"))


def _fields(launch: LaunchSpec) -> Iterator[Field]:
    """Those the file has; others are added in the text."""
    lists: tuple[tuple[str, tuple[Located, ...]], ...] = (
        ("grid", launch.grid), ("block", launch.block), ("cluster", launch.cluster),
    )  # fmt: skip
    for name, located in lists:
        if located:
            yield Field(name, ", ".join(one.expression.text for one in located), True)
    for name, single in (("smem", launch.smem), ("when", launch.when)):
        if single is not None:
            yield Field(name, single.expression.text, False)


def _parameters(session: str, kernel: KernelFile, write: Write) -> None:
    heading("Parameters")
    for parameter, column in zip(kernel.params, st.columns(max(3, len(kernel.params))), strict=False):
        key = f"plan-param-{session}-{parameter.name}"
        change = partial(_set_parameter, kernel.text, parameter, key, write)
        with column:
            if parameter.tunable:
                ui_state.put(key, parameter.default)
                st.selectbox(plain_label(parameter.name), parameter.values, key=key, on_change=change)
            else:
                ui_state.put(key, str(parameter.default))
                st.text_input(plain_label(parameter.name), key=key, on_change=change)


def _launch(session: str, kernel: KernelFile, index: int, launch: LaunchSpec, write: Write) -> None:
    heading(f"Launch {index + 1}: {launch.kernel}" if len(kernel.launches) > 1 else launch.kernel)
    fields = tuple(_fields(launch))
    for field, column in zip(fields, st.columns(len(fields)), strict=True):
        key = f"plan-{session}-{index}-{field.name}"
        ui_state.put(key, field.typed)
        with column:
            st.text_input(
                field.name, key=key, on_change=_set_field, args=(kernel.text, index, field, key, write),
                help="Expressions, separated by commas" if field.is_list else "An expression",
            )  # fmt: skip


def _set_field(text: str, index: int, field: Field, key: str, write: Write) -> None:
    typed = ui_state.text(key)
    value = json.dumps(_items(typed) if field.is_list else typed, ensure_ascii=False)
    _change(write, lambda: parse(text).with_launch(index, field.name, value))


def _set_parameter(text: str, parameter: Parameter, key: str, write: Write) -> None:
    typed = ui_state.text(key)

    def changed() -> str:
        number = type(parameter.default)(typed)
        return parse(text).with_param(parameter.name, number)

    _change(write, changed)


def _change(write: Write, changed: Callable[[], str]) -> None:
    """Writes what can be read back; a refusal is said and the text stays."""
    try:
        text = changed()
        parse(text)
    except (KernelFileError, ValueError) as error:
        ui_state.say(f"The launch plan was not changed: {error}")
        return
    write(text)


def _items(typed: str) -> list[str]:
    """Split at the commas outside brackets."""
    items, depth = [""], 0
    for letter in typed:
        depth += (letter in "([") - (letter in ")]")
        if letter == "," and depth == 0:
            items.append("")
        else:
            items[-1] += letter
    return [item.strip() for item in items if item.strip()]


def _tested(rows: tuple[Occupancy, ...]) -> None:
    heading("As it was tested before this edit")
    st.html(occupancy_table(rows))
