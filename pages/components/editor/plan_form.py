"""Edit the draft's launch plan in a form above its text, and show what it means on every workload.

A change in one shows in the other. A value that cannot be written stays in its field, with the reason below it; a value
that can be written but not launched gets an error at its field.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import NamedTuple

import streamlit as st

from cutegen_core.kernel.kernel_file import KernelFile, parse
from cutegen_core.kernel.plan_records import LaunchSpec, Located, Parameter
from cutegen_core.records.errors import KernelFileError
from cutegen_core.records.trial import Trial
from cutegen_core.views import SessionView
from pages.components.editor import plan_numbers
from pages.components.shared import ui_state
from pages.components.shared.texts import escape_html, heading, plain_label

_HELP = {"smem": "Dynamic shared memory per block in bytes, as an expression"}

Edit = Callable[[str], str]
"""Makes a change in a kernel's text; raises KernelFileError where that is not possible."""
Write = Callable[[Edit], None]
"""Makes the change in the draft and saves it."""


class PlanField(NamedTuple):
    """One value of a launch as typed, and whether it is a list in the file."""

    name: str
    typed: str
    is_list: bool


class Refused(NamedTuple):
    """A typed value that could not be written; it stays in its field until the text changes."""

    typed: str
    why: str
    text: str


def render_plan_form(view: SessionView, text: str, write: Write, tested: Trial | None) -> None:
    """Draw the form; `tested` is the trial of the kernel that the draft was started from."""
    key = f"plan-form-{view.id}"  # its label changes with the plan; it stays open
    try:
        kernel = parse(text)
    except KernelFileError as error:
        with st.expander("▲ Launch plan · cannot be read", key=key):
            _error(f"The plan cannot be read: {error}")
        return
    found = plan_numbers.look(view, kernel, tested)
    with st.expander(plain_label(f"Launch plan · {_summary(kernel.launches[0])}{found.in_a_line}"), key=key):
        render_plan_fields(view.id, kernel, write, _by_field(kernel, found))
        plan_numbers.render_numbers(found, tested)


def render_plan_fields(
    owner: str, kernel: KernelFile, write: Write, said: Mapping[tuple[str, int, str], str] | None = None
) -> None:
    """Draw the parameters and launches of a plan as fields.

    Args:
        owner: of the draft; the fields' keys hold it.
        said: what the resolver refuses, by section, number and key.
    """
    if kernel.params:
        _parameters(owner, kernel, write, said or {})
    for index, launch in enumerate(kernel.launches):
        _launch(owner, kernel, index, launch, write, said or {})


def _summary(launch: LaunchSpec) -> str:
    shown = (f"{field.name} {field.typed}" for field in _fields(launch) if field.name in ("grid", "block"))
    return " · ".join((launch.kernel, *shown))


def _by_field(kernel: KernelFile, found: plan_numbers.DraftNumbers) -> Mapping[tuple[str, int, str], str]:
    """Map the resolver's refusals to the section, number and key of the lines they name."""
    places = {line: place for place, line in kernel.contents.lines.items()}
    return {places[line]: why for line, why in reversed(found.refusals) if line in places}


def _fields(launch: LaunchSpec) -> Iterator[PlanField]:
    """List grid, block and shared memory, and cluster and condition where the file has them."""
    lists: tuple[tuple[str, tuple[Located, ...]], ...] = (
        ("grid", launch.grid), ("block", launch.block), ("cluster", launch.cluster),
    )  # fmt: skip
    for name, located in lists:
        if located:
            yield PlanField(name, ", ".join(one.expression.text for one in located), True)
    yield PlanField("smem", launch.smem.expression.text if launch.smem else "0", False)
    if launch.when is not None:
        yield PlanField("when", launch.when.expression.text, False)


def _parameters(session: str, kernel: KernelFile, write: Write, said: Mapping[tuple[str, int, str], str]) -> None:
    heading("Parameters")
    for parameter, column in zip(kernel.params, st.columns(max(3, len(kernel.params))), strict=False):
        key = f"plan-param-{session}-{parameter.name}"
        change = partial(_set_parameter, kernel.text, parameter, key, write)
        with column:
            if parameter.tunable:
                ui_state.put(key, parameter.default)
                st.selectbox(parameter.name, parameter.values, key=key, on_change=change)
                refused = _refused(key, kernel.text)
                why = f"not applied: {refused.why}" if refused else ""
            else:
                why = _shown_as_typed(key, str(parameter.default), kernel.text)
                st.text_input(parameter.name, key=key, on_change=change)
            _error(why or said.get(("params", 0, parameter.name), ""))


def _launch(session: str, kernel: KernelFile, index: int, launch: LaunchSpec, write: Write,
            said: Mapping[tuple[str, int, str], str]) -> None:  # fmt: skip
    if len(kernel.launches) > 1:
        heading(f"Launch {index + 1}: {launch.kernel}")
    fields = tuple(_fields(launch))
    for field, column in zip(fields, st.columns(len(fields)), strict=True):
        key = f"plan-{session}-{index}-{field.name}"
        why = _shown_as_typed(key, field.typed, kernel.text)
        with column:
            st.text_input(
                field.name, key=key, on_change=_set_field, args=(kernel.text, index, field, key, write),
                help=_HELP.get(field.name, "Expressions, separated by commas" if field.is_list else "An expression"),
            )  # fmt: skip
            _error(why or said.get(("launch", index, field.name), ""))


def _shown_as_typed(key: str, in_file: str, text: str) -> str:
    """Fill the field with the file's value, or with a refused one; return why it was refused."""
    refused = _refused(key, text)
    ui_state.put(key, refused.typed if refused else in_file)
    return f"not applied: {refused.why}" if refused else ""


def _refused(key: str, text: str) -> Refused | None:
    refused = ui_state.held(f"refused-{key}", Refused)
    return refused if refused and refused.text == text else None


def _error(why: str) -> None:
    if why:
        st.html(f'<div class="cg-field-error" role="alert">✗ {escape_html(why)}</div>')


def _set_field(text: str, index: int, field: PlanField, key: str, write: Write) -> None:
    typed = ui_state.text(key)
    value = json.dumps(_items(typed) if field.is_list else typed, ensure_ascii=False)
    _change(key, field.typed, text, write, lambda now: parse(now).with_launch(index, field.name, value))


def _set_parameter(text: str, parameter: Parameter, key: str, write: Write) -> None:
    typed = ui_state.text(key)

    def changed(now: str) -> str:
        if parameter.tunable:
            return parse(now).with_param(parameter.name, next(v for v in parameter.values if str(v) == typed))
        try:
            number = type(parameter.default)(typed)
        except ValueError as error:
            raise KernelFileError(f"{parameter.name} must be a number, not {typed!r}") from error
        return parse(now).with_param(parameter.name, number)

    _change(key, str(parameter.default), text, write, changed)


def _change(key: str, in_file: str, text: str, write: Write, edit: Edit) -> None:
    """Write a value that can be read back; leave any other in its field."""
    ui_state.forget(f"refused-{key}")
    if ui_state.text(key) == in_file:  # a browser whose form was just closed may repeat the drawn value
        return
    try:
        parse(edit(text))
    except KernelFileError as error:
        ui_state.put(f"refused-{key}", Refused(ui_state.text(key), str(error), text))
        return
    write(edit)


def _items(typed: str) -> Sequence[str]:
    """Split a text at the commas outside brackets."""
    items, depth = [""], 0
    for letter in typed:
        depth += (letter in "([") - (letter in ")]")
        if letter == "," and depth == 0:
            items.append("")
        else:
            items[-1] += letter
    return [item.strip() for item in items if item.strip()]
