"""Edit the draft's launch plan in a form above its text, and show what it means on every workload.

A change in one shows in the other. A value that cannot be written stays in its field, with the reason below it; a value
that can be written but not launched gets an error at its field.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import streamlit as st

from cutegen_core.kernel.kernel_file import KernelFile, parse
from cutegen_core.kernel.plan_records import LaunchSpec, Located, Parameter
from cutegen_core.kernel.plan_words import say_launches
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


class Typed(NamedTuple):
    """What is in a field: its name, its key, and the kernel's text with which it was drawn."""

    name: str
    key: str
    text: str

    @property
    def value(self) -> str:
        return ui_state.text(self.key)


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
    with st.expander(plain_label(f"Launch plan · {_summary(kernel)}{found.in_a_line}"), key=key):
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


def _summary(kernel: KernelFile) -> str:
    if len(kernel.launches) > 1:
        return say_launches(kernel)
    launch = kernel.launches[0]
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
        name = f"plan-param-{session}-{parameter.name}"
        refused = _refused(name, kernel.text)
        with column:
            if parameter.tunable:
                key = ui_state.showing(name, parameter.default)
                at = parameter.values.index(parameter.default)
                st.selectbox(
                    parameter.name, parameter.values, at, key=key, on_change=_set_parameter,
                    args=(parameter, Typed(name, key, kernel.text), write),
                )  # fmt: skip
            else:
                value = refused.typed if refused else str(parameter.default)
                key = ui_state.showing(name, value)
                st.text_input(
                    parameter.name, value, key=key, on_change=_set_parameter,
                    args=(parameter, Typed(name, key, kernel.text), write),
                )  # fmt: skip
            _error(_why(refused) or said.get(("params", 0, parameter.name), ""))


def _launch(session: str, kernel: KernelFile, index: int, launch: LaunchSpec, write: Write,
            said: Mapping[tuple[str, int, str], str]) -> None:  # fmt: skip
    if len(kernel.launches) > 1:
        heading(f"Launch {index + 1}: {launch.kernel}")
    fields = tuple(_fields(launch))
    for field, column in zip(fields, st.columns(len(fields)), strict=True):
        name = f"plan-{session}-{index}-{field.name}"
        refused = _refused(name, kernel.text)
        value = refused.typed if refused else _as_typed(name, field)
        key = ui_state.showing(name, value)
        with column:
            st.text_input(
                field.name, value, key=key, on_change=_set_field,
                args=(index, field, Typed(name, key, kernel.text), write),
                help=_HELP.get(field.name, "Expressions, separated by commas" if field.is_list else "An expression"),
            )  # fmt: skip
            _error(_why(refused) or said.get(("launch", index, field.name), ""))


def _as_typed(name: str, field: PlanField) -> str:
    """Return the value in the file, as it was typed if that says the same."""
    typed = ui_state.text(ui_state.field_key(name))
    return typed if field.is_list and _items(typed) == _items(field.typed) else field.typed


def _refused(name: str, text: str) -> Refused | None:
    refused = ui_state.held(f"refused-{name}", Refused)
    return refused if refused and refused.text == text else None


def _why(refused: Refused | None) -> str:
    return f"not applied: {refused.why}" if refused else ""


def _error(why: str) -> None:
    if why:
        st.html(f'<div class="cg-field-error" role="alert">✗ {escape_html(why)}</div>')


def _set_field(index: int, field: PlanField, typed: Typed, write: Write) -> None:
    value = json.dumps(_items(typed.value) if field.is_list else typed.value, ensure_ascii=False)
    _change(typed, write, lambda now: parse(now).with_launch(index, field.name, value))


def _set_parameter(parameter: Parameter, typed: Typed, write: Write) -> None:
    def changed(now: str) -> str:
        if parameter.tunable:
            return parse(now).with_param(parameter.name, next(v for v in parameter.values if str(v) == typed.value))
        try:
            number = type(parameter.default)(typed.value)
        except ValueError as error:
            raise KernelFileError(f"{parameter.name} must be a number, not {typed.value!r}") from error
        return parse(now).with_param(parameter.name, number)

    _change(typed, write, changed)


def _change(typed: Typed, write: Write, edit: Edit) -> None:
    """Write a value that can be read back; leave any other in its field."""
    ui_state.forget(f"refused-{typed.name}")
    try:
        parse(edit(typed.text))
    except KernelFileError as error:
        ui_state.put(f"refused-{typed.name}", Refused(typed.value, str(error), typed.text))
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
