"""Add and change language models: their settings, keys and connection tests, and the model of each role.

Everything goes into `models.toml`, which the engine reads at every call; a key goes into `secrets.toml`. A click
changes the file as it is then (`_change`), not as it was when the page was drawn.
"""

from __future__ import annotations

import json
import math
import re
import threading
from collections.abc import Callable, Mapping
from dataclasses import fields, replace

import streamlit as st

from cutegen_core.propose.llm import model_settings, secret_keys
from cutegen_core.propose.llm.model_settings import Models, ModelSettings
from cutegen_core.propose.llm.setting_rules import SettingsError
from cutegen_core.records.candidate import content_key
from cutegen_core.records.errors import CutegenError, UsageError
from cutegen_core.records.event import Role
from pages.components.setup import connection_test
from pages.components.shared import ui_state
from pages.components.shared.texts import heading, note, quiet, show_hidden, table

NEW = ""
ROLES = tuple(Role)
"""The roles that the strategies have calls for: proposer, diagnosis and repair, and Astra's four."""
_A_ROW = 4
_CHANGING = threading.Lock()
_DEFAULTS = ModelSettings("new", "http://localhost:8000/v1", "model")
_NUMBERS = {
    "max_output_tokens": "Max. output tokens",
    "context_tokens": "Context window, tokens",
    "connect_timeout_s": "Connect timeout, s",
    "first_token_timeout_s": "First token timeout, s",
    "silence_timeout_s": "Stream timeout, s",
    "total_timeout_s": "Total timeout, s",
    "retries": "Retries",
}
_MAYBE = {
    "temperature": "Temperature",
    "price_in_per_million": "Price per million input tokens",
    "price_cached_per_million": "Price per million cached input tokens",
    "price_out_per_million": "Price per million output tokens",
}
_LABELS = {
    "name": "Name", "base_url": "Base URL, with version", "model": "Model name on the server", **_NUMBERS, **_MAYBE,
    "extra_body": "Extra request fields, JSON",
}  # fmt: skip
_FIELD = re.compile("|".join(rf"\b{name}\b" if "_" in name else rf"\A{name}\b" for name in _LABELS))
"""Where a message names a field: anywhere, or at its beginning if the name is a word of English as well."""
_UNSAID = {"temperature": "server default", "price_cached_per_million": "as other input"}


def render_models() -> None:
    """Draw the whole section of the Setup page."""
    try:
        models = model_settings.read()
    except UsageError as error:
        note("error", str(error))
        quiet("Fix the file by hand; the workbench does not overwrite a file that it cannot read.")
        return
    if models.settings:
        rows = [(s.name, s.model, s.base_url, _roles_of(models, s.name), key_status(s)) for s in models.settings]
        st.html(table(("name", "model", "base URL", "roles", "key"), [*rows], numbers_from=9))
    else:
        quiet("No models yet. Any OpenAI-compatible server works: vLLM, llama.cpp, Ollama, LM Studio or a hosted one.")
    names = [s.name for s in models.settings]
    ui_state.keep_among("model-chosen", [NEW, *names], names[0] if names else NEW)
    chosen = st.selectbox(
        "Model", [*names, NEW], key="model-chosen", format_func=lambda n: show_hidden(n) or "Add a model …",
        label_visibility="collapsed",
    )  # fmt: skip
    _form(models.named(chosen) if chosen else None)
    if chosen:
        _key_and_test(models.named(chosen))
    if len(names) > 1:
        _roles(models)


def key_status(settings: ModelSettings) -> str:
    """Say where the key of this model's server was found, without the key."""
    try:
        key = secret_keys.find_key(settings.base_url, chosen=settings.base_url)
    except UsageError as error:
        return str(error)
    return f"from {key.source}" if key else "no key found"


# ---- one model


def _form(settings: ModelSettings | None) -> None:
    """Draw the fields of a model; None is a model to be added."""
    shown, prefix = settings or _DEFAULTS, f"model-{settings.name if settings else 'new'}"
    key = f"{prefix}-{_mark(shown)}"
    with st.form(f"{key}-form", border=True):
        first, second, third = st.columns([1, 1.6, 1.6])
        first.text_input(_LABELS["name"], "" if settings is None else shown.name, key=f"{key}-name")
        second.text_input(_LABELS["base_url"], shown.base_url, key=f"{key}-base_url")
        third.text_input(_LABELS["model"], "" if settings is None else shown.model, key=f"{key}-model")
        with st.expander("Limits, timeouts, prices, extra fields"):
            columns = st.columns(4)
            for number, (name, label) in enumerate(_NUMBERS.items()):
                columns[number % 4].text_input(label, _plain(getattr(shown, name)), key=f"{key}-{name}")
            for number, (name, label) in enumerate(_MAYBE.items()):
                value = getattr(shown, name)
                columns[(number + len(_NUMBERS)) % 4].text_input(
                    label,
                    "" if value is None else _plain(value),
                    key=f"{key}-{name}",
                    placeholder=_UNSAID.get(name, "unknown"),
                )
            st.text_area(_LABELS["extra_body"], json.dumps(dict(shown.extra_body)) if shown.extra_body
                         else "", key=f"{key}-extra_body", height=68)  # fmt: skip
        with st.container(horizontal=True):
            st.form_submit_button(
                "Save", key="model-save", type="primary", on_click=ui_state.noted(_save, settings, key)
            )
            if settings is not None:
                st.form_submit_button("Remove", key="model-remove", on_click=ui_state.noted(_remove, settings.name))


def _plain(value: float) -> str:
    return str(int(value)) if value == int(value) else str(value)


def _mark(settings: ModelSettings) -> str:
    """Return a key that changes with the settings, so that the form never shows earlier values."""
    return content_key(repr(settings))[:8]


def _change(change: Callable[[Models], Models]) -> Models:
    """Change the file as it is now; return what it held before."""
    with _CHANGING:
        models = model_settings.read()
        model_settings.write(change(models))
    return models


def _save(before: ModelSettings | None, key: str) -> None:
    """Write the file, or say which field is wrong; called by a click."""
    try:
        typed = _typed(key)
        models = _change(lambda now: _with(now, before, typed))
    except CutegenError as error:
        ui_state.say(f"Not saved: {error}")
        return
    if before and not {before.name, typed.name} & {s.name for s in models.settings}:
        ui_state.say(f"{before.name} was removed in the meantime; {typed.name} was added with the values entered here.")
    ui_state.put("model-chosen", typed.name)


def _with(models: Models, before: ModelSettings | None, typed: ModelSettings) -> Models:
    """Return the models with the changes from `before` to `typed`, or with `typed` added.

    Raises:
        UsageError: another model has that name.
    """
    there = {s.name: s for s in models.settings}
    now = there.get(before.name) if before else None
    if there.get(typed.name) == typed:  # an interrupted click is repeated
        return models
    if typed.name in there and there[typed.name] is not now:
        raise UsageError(f"a model named {typed.name!r} exists already; choose it in the list to change it")
    if before is None or now is None:
        return replace(models, settings=(*models.settings, typed))
    names = [f.name for f in fields(ModelSettings)]
    changed = {name: getattr(typed, name) for name in names if getattr(typed, name) != getattr(before, name)}
    settings = tuple(replace(now, **changed) if s is now else s for s in models.settings)
    return Models(settings, {r: typed.name if n == now.name else n for r, n in models.roles.items()})


def _typed(key: str) -> ModelSettings:
    """Read the form as settings.

    Raises:
        UsageError: names the field that is wrong.
    """
    values: dict[str, object] = {name: ui_state.text(f"{key}-{name}").strip() for name in ("name", "base_url", "model")}
    for name, label in (_NUMBERS | _MAYBE).items():
        text = ui_state.text(f"{key}-{name}").strip()
        if not text and name in _MAYBE:
            continue
        values[name] = _number(label, text, whole=name in ("max_output_tokens", "context_tokens", "retries"))
    values["extra_body"] = _extra(ui_state.text(f"{key}-extra_body").strip())
    known = {f.name for f in fields(ModelSettings)}
    try:
        return ModelSettings(**{name: value for name, value in values.items() if name in known})  # type: ignore[arg-type]
    except SettingsError as error:
        raise UsageError(_FIELD.sub(lambda named: f"“{_LABELS[named[0]]}”", str(error))) from None


def _number(label: str, text: str, *, whole: bool) -> float | int:
    try:
        value = float(text.replace(",", ""))
    except ValueError:
        raise UsageError(f"“{label}” must be a number, not {text!r}") from None
    if not math.isfinite(value):
        raise UsageError(f"“{label}” must be a finite number, not {show_hidden(text)!r:.40}")
    if whole and value != int(value):
        raise UsageError(f"“{label}” must be a whole number, not {text!r}")
    return int(value) if whole else value


def _extra(text: str) -> Mapping[str, object]:
    try:
        value = json.loads(text or "{}")
    except (ValueError, RecursionError) as error:
        raise UsageError(f"the extra fields are not JSON: {error}") from None
    if not isinstance(value, dict):
        raise UsageError('the extra fields must be a JSON object, {"name": value}')
    return value


def _remove(name: str) -> None:
    try:
        _change(lambda now: _without(now, name))
    except CutegenError as error:
        ui_state.say(f"Not removed: {error}")


def _without(models: Models, name: str) -> Models:
    settings = tuple(s for s in models.settings if s.name != name)
    return Models(settings, {role: n for role, n in models.roles.items() if n != name})


# ---- its key and its connection


def _key_and_test(settings: ModelSettings) -> None:
    field = f"model-key-{settings.name}"
    origin = secret_keys.origin_of(settings.base_url)
    with st.form("key", border=False), st.container(horizontal=True, vertical_alignment="bottom"):
        st.text_input(
            "API key for this server", key=field, type="password",
            placeholder="stored in secrets.toml, never shown again", autocomplete="off",
        )  # fmt: skip
        st.form_submit_button("Save key", key="key-save", on_click=ui_state.noted(_save_key, settings, field))
    searched = "Searched in this order: CUTEGEN_API_KEY, the OS keyring, secrets.toml."
    quiet(f"Key for {origin}: {key_status(settings)}. {searched}")
    connection_test.render_test(settings)


def _save_key(settings: ModelSettings, field: str) -> None:
    """Save the typed key and empty its field, whatever happens; called by a click."""
    typed = ui_state.take_text(field)
    try:
        secret_keys.save_key(settings.base_url, typed)
    except CutegenError as error:
        ui_state.say(f"Not saved: {error}")


# ---- the model of each role


def _roles(models: Models) -> None:
    heading("Model per role")
    names = [s.name for s in models.settings]
    columns = [column for _ in range(0, len(ROLES), _A_ROW) for column in st.columns(_A_ROW)]
    for role, column in zip(ROLES, columns, strict=False):
        name = models.of(role).name
        key = ui_state.showing(f"role-{role}", name)
        column.selectbox(str(role), names, names.index(name), key=key, on_change=ui_state.noted(_assign, role, key))


def _assign(role: Role, key: str) -> None:
    name = ui_state.text(key)
    try:
        _change(lambda now: replace(now, roles={**now.roles, role: now.named(name).name}))
    except CutegenError as error:
        ui_state.say(f"Not changed: {error}")


def _roles_of(models: Models, name: str) -> str:
    own = [str(role) for role in ROLES if models.of(role).name == name]
    return "all roles" if len(own) == len(ROLES) else ", ".join(own) or "only when a session selects it"
