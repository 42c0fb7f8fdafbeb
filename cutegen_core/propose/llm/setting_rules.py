"""What fits a field of the settings, as types that pydantic checks, and its findings in our words."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Annotated, Any
from urllib.parse import urlsplit

from pydantic import AfterValidator, ValidationError

from cutegen_core.records.errors import UsageError

_SET_BY_US = ("messages", "model", "stream", "stream_options", "n")
_SECRETS = ("api_key", "key", "token", "secret", "password", "headers")
_UNKNOWN = ("unexpected_keyword_argument", "multiple_argument_values")
_TYPES = {"int_type": "a whole number", "float_type": "a number", "string_type": "one line of text"}
_MOST = 1e9


class SettingsError(UsageError):
    """A field of the settings does not fit; `key` is its name."""

    def __init__(self, key: str, message: str) -> None:
        super().__init__(message)
        self.key = key


def _between(low: float, high: float, *, above: bool = False) -> AfterValidator:
    """Check the range of a number; `above`: `low` itself is outside."""

    def check(value: float) -> float:
        if not low <= value <= high or (above and value == low):
            raise ValueError(f"must be {'above' if above else 'at least'} {low} and at most {high:g}, not {value!r}")
        return value

    return AfterValidator(check)


def _one_line(value: str) -> str:
    if not value.strip() or not value.isprintable():
        raise ValueError(f"must be one line of text, not {value!r}")
    return value


def _is_address(url: str) -> str:
    try:
        parts = urlsplit(url)
        port_ok = parts.port is None or parts.port > 0
    except ValueError as error:
        raise ValueError(f"is no address: {error}") from None
    if parts.username is not None or parts.password is not None:
        raise ValueError("must not hold a user name or password; keys belong into the keyring or secrets.toml")
    if parts.scheme not in ("http", "https") or not parts.hostname or not port_ok:
        raise ValueError(f"must begin with http:// or https:// and name a host, not {url!r}")
    if parts.query or parts.fragment:
        raise ValueError("must end with its path; drop what follows '?' or '#'")
    return url


def _is_extra(value: Mapping[str, Any]) -> Mapping[str, Any]:
    taken = [key for key in value if key in _SET_BY_US]
    if taken:
        raise ValueError(f"must not hold {taken[0]!r}: the workbench sets it")
    try:
        json.dumps(dict(value), allow_nan=False)
    except (TypeError, ValueError) as error:
        raise ValueError(f"must be JSON: {error}") from None
    return value


Line = Annotated[str, AfterValidator(_one_line)]
Address = Annotated[Line, AfterValidator(_is_address)]
Tokens = Annotated[int, _between(0, _MOST, above=True)]
Seconds = Annotated[float, _between(0, _MOST, above=True)]
Price = Annotated[float, _between(0, _MOST)]
Temperature = Annotated[float, _between(0, 2)]
Retries = Annotated[int, _between(0, 10)]
ExtraBody = Annotated[Mapping[str, Any], AfterValidator(_is_extra)]


def settings_error(found: ValidationError, known: Sequence[str]) -> SettingsError:
    """Return the first finding in our words, without the value of a secret; `known` are the keys there are.

    An unknown key comes first: it often is the misspelt name of one that is missing.
    """
    error = min(found.errors(), key=lambda each: each["type"] not in _UNKNOWN)
    key = str(error["loc"][0]) if error["loc"] else ""
    if key in _SECRETS:
        hint = "keys are no settings: use CUTEGEN_API_KEY, the keyring or secrets.toml"
        return SettingsError(key, f"{key} does not belong here; {hint}")
    if error["type"] in _UNKNOWN:
        return SettingsError(key, f"unknown key {key!r}; there is {', '.join(known)}")
    if error["type"] == "missing":
        return SettingsError(key, f"lacks {key}")
    if error["type"] == "value_error":
        return SettingsError(key, f"{key} {error['ctx']['error']}")
    return SettingsError(key, f"{key} must be {_TYPES.get(error['type'], 'a table')}, not {error['input']!r}")
