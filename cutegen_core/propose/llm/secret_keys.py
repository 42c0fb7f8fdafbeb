"""Find and store API keys, and keep them from leaking.

1. A key belongs to one origin (scheme, host and port) and is sent to no other.
2. Keys come from the environment, the OS keyring (if the package `keyring` is installed) and `secrets.toml`.
3. `Key` hides its secret in repr, str, pickles, copies and errors. Only `bearer` reveals it.
"""

from __future__ import annotations

import contextlib
import importlib
import ipaddress
import os
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import NoReturn
from urllib.parse import urlsplit

import tomlkit

from cutegen_core.machine import workspace
from cutegen_core.propose.llm.model_settings import DEFAULT_BASE_URL
from cutegen_core.records.errors import UsageError

MASK = "[key]"
KEYRING_SERVICE = "cutegen"
_PORTS = {"http": 80, "https": 443}
_LOCAL_SUFFIXES = (".local", ".lan", ".internal", ".home.arpa", ".localhost")
_PIECE = 8


class Key:
    """A secret bound to its origin.

    Attributes:
        origin: "https://api.openai.com".
        source: the place where it was found, for the user.
    """

    __slots__ = ("__secret", "origin", "source")

    def __init__(self, secret: str, origin: str, source: str) -> None:
        if not secret or not secret.isascii() or not secret.isprintable() or " " in secret:
            raise UsageError(
                f"the key from {source} is empty or holds spaces, line ends or non-ASCII characters; copy it again"
            )
        self.__secret, self.origin, self.source = secret, origin, source

    def bearer(self, url: str) -> str:
        """Return the Authorization header for a request to `url`.

        Raises:
            UsageError: the URL has another origin than the key.
        """
        if origin_of(url) != self.origin:
            raise UsageError(f"the key from {self.source} is meant for {self.origin}, not for {origin_of(url)}")
        return f"Bearer {self.__secret}"

    def scrub(self, text: str) -> str:
        """Return the text without the key and without any piece of it of eight characters or more."""
        text = text.replace(self.__secret, MASK)
        pieces = {self.__secret[i : i + _PIECE] for i in range(len(self.__secret) - _PIECE + 1)}
        hidden = [False] * len(text)
        for start in range(len(text) - _PIECE + 1):
            if text[start : start + _PIECE] in pieces:
                hidden[start : start + _PIECE] = [True] * _PIECE
        shown = "".join("\0" if hide else letter for letter, hide in zip(text, hidden, strict=True))
        return re.sub("\0+", MASK, shown)

    def cut_from_stream(self, text: str) -> tuple[str, str]:
        """Return the text without the key, and separately its end if that may be the beginning of the key."""
        text = text.replace(self.__secret, MASK)
        for length in range(min(len(text), len(self.__secret) - 1), 0, -1):
            if self.__secret.startswith(text[-length:]):
                return text[:-length], text[-length:]
        return text, ""

    def __repr__(self) -> str:
        return f"Key(for {self.origin}, from {self.source})"

    __str__ = __repr__

    def __reduce__(self) -> NoReturn:
        raise TypeError("a key is not pickled or copied")


def origin_of(url: str) -> str:
    """Return scheme, host and, if it is not the default, port; in lower case."""
    parts = urlsplit(url)
    host = (parts.hostname or "").rstrip(".")
    host = f"[{host}]" if ":" in host else host
    port = "" if parts.port in (None, _PORTS.get(parts.scheme)) else f":{parts.port}"
    return f"{parts.scheme}://{host}{port}"


def find_key(base_url: str, *, chosen: str = "", file: Path | None = None) -> Key | None:
    """Return the key for that server, or None if there is none: local servers often need none.

    `chosen` is the server's address chosen together with the environment (on the command line, else that of the first
    model): CUTEGEN_API_KEY belongs to it unless CUTEGEN_API_HOST names another server. OPENAI_API_KEY belongs to
    CUTEGEN_API_HOST, else OPENAI_BASE_URL, else api.openai.com.

    Raises:
        UsageError: `secrets.toml` is open to others or broken, the keyring is locked, or the key would travel
            unencrypted.
    """
    origin = origin_of(base_url)
    key = _from_environment(origin, chosen) or _from_keyring(origin)
    written = _from_file(origin, _path(file)) if key is None or not _safe_transport(origin) else None
    if key is not None and written is None and not _safe_transport(origin):
        raise UsageError(
            f"{origin} is not encrypted and not local: the key from {key.source} would be readable on the way. "
            f'Use https://, or confirm by writing the key under ["{origin}"] in {_path(file)}.'
        )
    return written or key


def save_key(base_url: str, secret: str, *, file: Path | None = None) -> Key:
    """Write the key into `secrets.toml`, readable only by its owner; what else stands there stays as it is."""
    file = _path(file)
    origin = origin_of(base_url)
    key = Key(secret.strip(), origin, str(file))
    text = _private_text(file) if file.exists() else ""
    _secrets_in(text, file)
    document = tomlkit.parse(text)
    same = [where for where in document if origin_of(where) == origin]
    for where in same or [origin]:
        document.setdefault(where, tomlkit.table())["api_key"] = secret.strip()
    workspace.replace_file(file, tomlkit.dumps(document))
    return key


def _path(file: Path | None) -> Path:
    return file or workspace.home() / "secrets.toml"


def _from_environment(origin: str, chosen: str) -> Key | None:
    host = os.environ.get("CUTEGEN_API_HOST", "")
    named = host if "://" in host else f"https://{host}" if host else ""
    for variable, meant_for in (
        ("CUTEGEN_API_KEY", named or chosen),
        ("OPENAI_API_KEY", named or os.environ.get("OPENAI_BASE_URL") or DEFAULT_BASE_URL),
    ):
        secret = os.environ.get(variable, "").strip()
        if secret and meant_for and origin_of(meant_for) == origin:
            return Key(secret, origin, variable)
    return None


def _from_keyring(origin: str) -> Key | None:
    try:
        keyring = importlib.import_module("keyring")
        errors = importlib.import_module("keyring.errors")
    except ImportError:
        return None
    try:
        secret = keyring.get_password(KEYRING_SERVICE, origin)
    except errors.NoKeyringError:
        return None
    except errors.KeyringError:
        raise UsageError(
            "the OS keyring did not answer. Unlock it, or set PYTHON_KEYRING_BACKEND=keyring.backends.null.Keyring"
        ) from None
    return Key(secret, origin, "the OS keyring") if secret else None


def _from_file(origin: str, file: Path) -> Key | None:
    with contextlib.suppress(FileNotFoundError):
        secret = _secrets_in(_private_text(file), file).get(origin)
        return Key(secret, origin, str(file)) if secret else None
    return None


def _private_text(file: Path) -> str:
    try:
        return workspace.read_private(file).decode()
    except UnicodeDecodeError:
        raise _not_valid(file) from None


def _secrets_in(text: str, file: Path) -> Mapping[str, str]:
    """Return origin -> key."""
    try:
        document = tomllib.loads(text)
    except (ValueError, RecursionError):  # also a number of thousands of digits
        raise _not_valid(file) from None
    secrets = {}
    for where, table in document.items():
        if not isinstance(table, dict) or set(table) != {"api_key"} or not isinstance(table["api_key"], str):
            raise UsageError(f'{file}: every table names a server, ["https://host"], and holds api_key = "..." only')
        secrets[origin_of(where)] = table["api_key"]
    return secrets


def _not_valid(file: Path) -> UsageError:
    """Return the error without the parser's message: that quotes the text around the error, which may be a key."""
    return UsageError(f'{file} is not valid TOML. It holds, per server: ["https://host"] and api_key')


def _safe_transport(origin: str) -> bool:
    """Return whether a key may go there without confirmation: encrypted, or to this machine or network."""
    parts = urlsplit(origin)
    host = parts.hostname or ""
    if parts.scheme == "https" or ("." not in host and ":" not in host) or host.endswith(_LOCAL_SUFFIXES):
        return True
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    return address.is_loopback or address.is_private
