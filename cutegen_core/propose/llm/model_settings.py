"""Which language model answers which role: `models.toml` in the workspace.

1. `[models.NAME]` tables hold the address, the model and its limits; `[roles]` gives a role a name.
2. A role nobody chose for is answered by the first model of the file.
3. Keys are not settings: they live in the environment, the keyring or `secrets.toml` (`secret_keys`).
"""

from __future__ import annotations

import json
import os
import re
import tempfile
import tomllib
from collections.abc import Mapping
from dataclasses import MISSING, Field, dataclass, field, fields
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from cutegen_core.machine import workspace
from cutegen_core.records.errors import UsageError
from cutegen_core.records.event import Role

DEFAULT_BASE_URL = "https://api.openai.com/v1"
_OURS = ("messages", "model", "stream", "stream_options", "n")
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_SECRET_NAMES = ("api_key", "key", "token", "secret", "password", "headers")


@dataclass(frozen=True)
class ModelSettings:
    """One model on one server.

    Attributes:
        base_url: of the OpenAI-compatible API, with its version: "http://localhost:8000/v1".
        temperature: None leaves the server's own.
        max_output_tokens: asked for, and reserved in the budget, with every call.
        context_tokens: prompt and answer together, as the model is served.
        extra_body: fields the server wants and the API does not know, sent as they are.
        connect_timeout_s: for the name, the connection and TLS, each.
        first_token_timeout_s: from the request to the first text; long, since a local model may load first.
        silence_timeout_s: between two pieces of text.
        total_timeout_s: for one whole answer.
        retries: after the first attempt, only while nothing has been streamed.
        price_in_per_million, price_out_per_million: in the person's own currency; None where unknown.
    """

    name: str
    base_url: str
    model: str
    temperature: float | None = None
    max_output_tokens: int = 8192
    context_tokens: int = 65536
    extra_body: Mapping[str, Any] = field(default_factory=dict)
    connect_timeout_s: float = 10.0
    first_token_timeout_s: float = 300.0
    silence_timeout_s: float = 60.0
    total_timeout_s: float = 1800.0
    retries: int = 3
    price_in_per_million: float | None = None
    price_out_per_million: float | None = None

    def __post_init__(self) -> None:
        for check in fields(self):
            problem = _problem_of(check.name, getattr(self, check.name), str(check.type))
            if problem:
                raise SettingsError(check.name, f"{check.name} {problem}")
        if self.max_output_tokens >= self.context_tokens:
            raise SettingsError("max_output_tokens", "max_output_tokens must be smaller than context_tokens")
        if (self.price_in_per_million is None) != (self.price_out_per_million is None):
            raise SettingsError("price_in_per_million", "give both prices or none")

    @property
    def prompt_tokens_max(self) -> int:
        """What is left of the context for the prompt."""
        return self.context_tokens - self.max_output_tokens


class SettingsError(UsageError):
    """A field of the settings does not fit; `key` is its name."""

    def __init__(self, key: str, message: str) -> None:
        super().__init__(message)
        self.key = key


@dataclass(frozen=True)
class Models:
    """Everything `models.toml` says.

    Attributes:
        settings: in the order of the file; the first answers every role nobody chose for.
        roles: role to settings name.
    """

    settings: tuple[ModelSettings, ...] = ()
    roles: Mapping[Role, str] = field(default_factory=dict)

    def named(self, name: str) -> ModelSettings:
        """The settings of that name; UsageError listing the names there are."""
        for settings in self.settings:
            if settings.name == name:
                return settings
        there = ", ".join(s.name for s in self.settings) or "none yet"
        raise UsageError(f"no model is called {name!r}; there is {there}. Add it on the Setup page or in {path()}.")

    def of(self, role: Role) -> ModelSettings:
        """Who answers that role; UsageError while no model is set up."""
        if role in self.roles:
            return self.named(self.roles[role])
        if not self.settings:
            raise UsageError(f"no language model is set up. Add one on the Setup page or in {path()}.")
        return self.settings[0]


def path() -> Path:
    return workspace.home() / "models.toml"


def read(file: Path | None = None) -> Models:
    """The models of the workspace, none when the file does not exist. UsageError naming file, line and key."""
    file = file or path()
    try:
        text = file.read_text(encoding="utf-8")
    except FileNotFoundError:
        return Models()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{file} cannot be read: {error}") from error
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{file}: {error}") from error
    return _Reader(file, text).models(document)


def write(models: Models, file: Path | None = None) -> None:
    """Replaces the file whole, so that a reader sees the old or the new one."""
    file = file or path()
    descriptor, temporary = tempfile.mkstemp(dir=file.parent, prefix=file.name)
    with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
        stream.write(_toml(models))
    os.replace(temporary, file)


class _Reader:
    """Turns the parsed document into records, and a wrong one into an error with its line."""

    def __init__(self, file: Path, text: str) -> None:
        self._file, self._lines = file, text.splitlines()

    def models(self, document: Mapping[str, Any]) -> Models:
        for key in document:
            if key not in ("models", "roles"):
                raise self._error("", key, f"unknown table {key!r}; there is [models.NAME] and [roles]")
        tables = document.get("models", {})
        if not isinstance(tables, dict):
            raise self._error("", "models", "models must be tables: [models.NAME]")
        settings = tuple(self._settings(name, table) for name, table in tables.items())
        return Models(settings, self._roles(document.get("roles", {}), {s.name for s in settings}))

    def _settings(self, name: str, table: Any) -> ModelSettings:  # noqa: ANN401 - TOML value
        where = f"models.{_key(name)}"
        if not isinstance(table, dict):
            raise self._error("models", name, f"{where} must be a table: [{where}]")
        known = {f.name: f for f in fields(ModelSettings) if f.name != "name"}
        for key in table:
            if key in _SECRET_NAMES:
                hint = "keys are no settings: use CUTEGEN_API_KEY, the keyring or secrets.toml"
                raise self._error(where, key, f"{key} does not belong here; {hint}")
            if key not in known:
                raise self._error(where, key, f"unknown key {key!r}; there is {', '.join(known)}")
        for key, spec in known.items():
            if key not in table and not _has_default(spec):
                raise self._error(where, "", f"[{where}] lacks {key}")
        try:
            return ModelSettings(name, **table)
        except SettingsError as error:
            raise self._error(where, error.key, str(error)) from error

    def _roles(self, table: Any, names: set[str]) -> Mapping[Role, str]:  # noqa: ANN401 - TOML value
        if not isinstance(table, dict):
            raise self._error("", "roles", "roles must be a table: [roles]")
        for key, name in table.items():
            if key not in list(Role):
                raise self._error("roles", key, f"unknown role {key!r}; there is {', '.join(Role)}")
            if name not in names:
                raise self._error("roles", key, f"{key} names the model {name!r}, which the file does not hold")
        return {Role(key): name for key, name in table.items()}

    def _error(self, table: str, key: str, message: str) -> UsageError:
        line = self._line(table, key)
        return UsageError(f"{self._file}{f', line {line}' if line else ''}: {message}")

    def _line(self, table: str, key: str) -> int:
        """1-based line of the key in that table, of the table where the key has none, 0 where neither is found."""
        here, header = "", 0
        for number, line in enumerate(self._lines, 1):
            text = line.strip()
            if text.startswith("["):
                here = re.sub(r"\s*\.\s*", ".", text.lstrip("[").partition("]")[0]).strip()
                if here == table or (not table and here.partition(".")[0] == key):
                    header = header or number
                if key and here == f"{table}.{_key(key)}":
                    return number
            elif key and here == table and re.match(rf"[\"']?{re.escape(key)}[\"']?\s*[=.]", text):
                return number
        return header


def _has_default(spec: Field[Any]) -> bool:
    return spec.default is not MISSING or spec.default_factory is not MISSING


def _problem_of(name: str, value: object, kind: str) -> str:
    """What is wrong with a field's value, "" when nothing."""
    if value is None and "None" in kind:
        return ""
    if kind == "str":
        return _text_problem(name, value)
    if kind.startswith("Mapping"):
        return _extra_problem(value)
    number = isinstance(value, (int, float) if "float" in kind else int) and not isinstance(value, bool)
    if not number:
        return f"must be a {'number' if 'float' in kind else 'whole number'}, not {value!r}"
    low, high = (0, 10) if name == "retries" else (0, 2) if name == "temperature" else (0, 1e9)
    positive = name.endswith("_s") or name.endswith("_tokens")
    assert isinstance(value, int | float)
    if not low <= value <= high or (positive and value == 0):
        return f"must be {'above' if positive else 'at least'} {low} and at most {high:g}, not {value!r}"
    return ""


def _text_problem(name: str, value: object) -> str:
    if not isinstance(value, str) or not value.strip() or not value.isprintable():
        return f"must be one line of text, not {value!r}"
    return _url_problem(value) if name == "base_url" else ""


def _url_problem(url: str) -> str:
    try:
        parts = urlsplit(url)
        port_ok = parts.port is None or parts.port > 0
    except ValueError as error:
        return f"is no address: {error}"
    if parts.username is not None or parts.password is not None:
        return "must not hold a user name or password; keys belong into the keyring or secrets.toml"
    if parts.scheme not in ("http", "https") or not parts.hostname or not port_ok:
        return f"must begin with http:// or https:// and name a host, not {url!r}"
    return "must end with its path; drop what follows '?' or '#'" if parts.query or parts.fragment else ""


def _extra_problem(value: object) -> str:
    if not isinstance(value, Mapping):
        return f"must be a table, not {value!r}"
    taken = [key for key in value if key in _OURS]
    if taken:
        return f"must not hold {taken[0]!r}: the workbench sets it"
    try:
        json.dumps(dict(value), allow_nan=False)
    except (TypeError, ValueError) as error:
        return f"must be JSON: {error}"
    return ""


def _toml(models: Models) -> str:
    lines = []
    for settings in models.settings:
        lines.append(f"[models.{_key(settings.name)}]")
        for spec in fields(settings):
            value = getattr(settings, spec.name)
            if spec.name != "name" and value is not None and not (spec.name == "extra_body" and not value):
                lines.append(f"{spec.name} = {_value(value)}")
        lines.append("")
    if models.roles:
        lines += ["[roles]", *(f"{role.value} = {_value(name)}" for role, name in models.roles.items()), ""]
    return "\n".join(lines)


def _key(name: str) -> str:
    return name if _BARE_KEY.fullmatch(name) else _value(name)


def _value(value: object) -> str:
    """A TOML value; JSON strings are TOML basic strings but for DEL, which JSON leaves bare."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_key(str(k))} = {_value(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_value(v) for v in value) + "]"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if value is None:
        raise UsageError("extra_body holds a null, which TOML cannot write; leave the field out")
    return repr(value)
