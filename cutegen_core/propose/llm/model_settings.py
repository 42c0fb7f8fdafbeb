"""Which language model answers which role: `models.toml` in the workspace.

1. `[models.NAME]` tables hold the address, the model and its limits; `[roles]` gives a role a name.
2. A role nobody chose for is answered by the first model of the file.
3. Keys are not settings: they live in the environment, the keyring or `secrets.toml` (`secret_keys`).
4. An error names its line (`setting_rules`); writing changes only what has changed (`models_toml`).
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import field, fields
from pathlib import Path
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, ModelWrapValidatorHandler, ValidationError, model_validator
from pydantic.dataclasses import dataclass

from cutegen_core.machine import workspace
from cutegen_core.propose.llm import models_toml
from cutegen_core.propose.llm.setting_rules import (
    Address,
    ExtraBody,
    Line,
    Price,
    Retries,
    Seconds,
    SettingsError,
    Temperature,
    Tokens,
    settings_error,
)
from cutegen_core.records.errors import UsageError
from cutegen_core.records.event import Role, SessionSettings

DEFAULT_BASE_URL = "https://api.openai.com/v1"
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")


@dataclass(frozen=True, config=ConfigDict(strict=True, extra="forbid"))
class ModelSettings:
    """One model on one server. What does not fit is a SettingsError.

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
        price_cached_per_million: of prompt tokens that the server had kept; None where they cost as much as others.
    """

    name: Line
    base_url: Address
    model: Line
    temperature: Temperature | None = None
    max_output_tokens: Tokens = 8192
    context_tokens: Tokens = 65536
    extra_body: ExtraBody = field(default_factory=dict)
    connect_timeout_s: Seconds = 10.0
    first_token_timeout_s: Seconds = 300.0
    silence_timeout_s: Seconds = 60.0
    total_timeout_s: Seconds = 1800.0
    retries: Retries = 3
    price_in_per_million: Price | None = None
    price_out_per_million: Price | None = None
    price_cached_per_million: Price | None = None

    @model_validator(mode="wrap")
    @classmethod
    def _explain_misfits(cls, values: Any, check: ModelWrapValidatorHandler[Self]) -> Self:  # noqa: ANN401
        try:
            return check(values)
        except ValidationError as error:
            raise settings_error(error, [f.name for f in fields(cls) if f.name != "name"]) from None

    @model_validator(mode="after")
    def _check_agreement(self) -> Self:
        if self.max_output_tokens >= self.context_tokens:
            raise SettingsError("max_output_tokens", "max_output_tokens must be smaller than context_tokens")
        if (self.price_in_per_million is None) != (self.price_out_per_million is None):
            raise SettingsError("price_in_per_million", "give both prices or none")
        if self.price_cached_per_million is not None and self.price_in_per_million is None:
            raise SettingsError("price_cached_per_million", "a price of cached tokens needs the other two")
        return self

    @property
    def has_prices(self) -> bool:
        """Whether the cost of a call is known."""
        return self.price_in_per_million is not None

    @property
    def prompt_tokens_max(self) -> int:
        """What is left of the context for the prompt."""
        return self.context_tokens - self.max_output_tokens


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
        """Return the settings of that name; UsageError lists the known names."""
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

    def asked(self, session: SessionSettings, roles: Iterable[Role]) -> tuple[ModelSettings, ...]:
        """Return the models that a session asks for these roles: those that it names, or each role's own."""
        several = session.effort.models or ((session.model,) if session.model else ())
        return tuple(map(self.named, several)) if several else tuple(map(self.of, roles))


def path() -> Path:
    return workspace.home() / "models.toml"


def read(file: Path | None = None) -> Models:
    """Return the models of the workspace, none when the file does not exist. UsageError naming file, line and key."""
    file = file or path()
    text = _text_of(file)
    try:
        document = tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # also a number of thousands of digits
        raise UsageError(f"{file}: {error}") from error
    return _Reader(file, text).models(document)


def write(models: Models, file: Path | None = None) -> None:
    """Write what has changed, keeping the rest of the text. A reader sees the old file or the new one.

    Raises:
        UsageError: the file is there and cannot be read, or an `extra_body` holds a null.
    """
    file = file or path()
    values = {settings.name: _written(settings) for settings in models.settings}
    roles = {role.value: name for role, name in models.roles.items()}
    try:
        text = models_toml.rewritten(_text_of(file), values, roles, _DEFAULTS)
    except ValueError as error:
        raise UsageError(f"{file}: {error}") from error
    workspace.replace_file(file, text)


def _written(settings: ModelSettings) -> Mapping[str, Any]:
    """Return the fields as the file has them; None for what it leaves out."""
    values = {spec.name: getattr(settings, spec.name) for spec in fields(settings) if spec.name != "name"}
    return {**values, "extra_body": settings.extra_body or None}


_DEFAULTS = {spec.name: spec.default for spec in fields(ModelSettings)}


def _text_of(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except FileNotFoundError:
        return ""
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{file} cannot be read: {error}") from error


# ---- reading


class _Document(BaseModel):
    """The file's tables; what a model's table holds is checked as `ModelSettings`."""

    model_config = ConfigDict(extra="forbid")

    models: dict[str, dict[str, Any]] = {}
    roles: dict[Role, str] = {}


class _Reader:
    """Turns the parsed document into records, and a wrong one into an error with its line."""

    def __init__(self, file: Path, text: str) -> None:
        self._file, self._lines = file, text.splitlines()

    def models(self, found: Mapping[str, Any]) -> Models:
        try:
            document = _Document.model_validate(found)
        except ValidationError as error:
            raise self._error(*_misplaced(error.errors()[0])) from None
        settings = tuple(self._settings(name, table) for name, table in document.models.items())
        for role, name in document.roles.items():
            if name not in document.models:
                raise self._error("roles", role, f"{role} names the model {name!r}, which the file does not hold")
        return Models(settings, document.roles)

    def _settings(self, name: str, table: Mapping[str, Any]) -> ModelSettings:
        try:
            return ModelSettings(name, **table)
        except SettingsError as error:
            where = f"models.{_key(name)}"
            raise self._error(where, error.key, f"[{where}] {error}") from None

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


def _misplaced(error: Mapping[str, object]) -> tuple[str, str, str]:
    """Yield each error in the file's tables: which table, which key, and the reason."""
    match error["loc"], error["type"]:
        case (str(key),), "extra_forbidden":
            return "", key, f"unknown table {key!r}; there is [models.NAME] and [roles]"
        case ("roles", str(key), "[key]"), _:
            return "roles", key, f"unknown role {key!r}; there is {', '.join(Role)}"
        case ("roles", str(key)), _:
            return "roles", key, f"{key} must be the name of a model, not {error['input']!r}"
        case ("models", str(name)), _:
            return "models", name, f"models.{_key(name)} must be a table: [models.{_key(name)}]"
        case ("models", *_), _:
            return "", "models", "models must be tables: [models.NAME]"
        case _:
            return "", "roles", "roles must be a table: [roles]"


def _key(name: str) -> str:
    """Return the name as a table header writes it."""
    return name if _BARE_KEY.fullmatch(name) else json.dumps(name, ensure_ascii=False)
