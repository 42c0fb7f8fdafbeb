"""Read `access.toml` of the workspace: who has which role after a login. Its presence turns logins on.

    claim = "email"                    # the claim that decides; "groups" and the like may be lists
    owners = ["ann@example.org"]
    viewers = ["bob@example.org", "*@example.org"]
    provider = ""                      # of several in [auth], the one to use

It is read again when it changes, so that removing a line shuts a person out at their next request.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from cutegen_core.machine import workspace
from cutegen_core.records.errors import UsageError
from pages.components.access.access_keys import AccessRole

FILE = "access.toml"
_KEYS = ("claim", "owners", "viewers", "provider")


@dataclass(frozen=True)
class People:
    """The rules of `access.toml`.

    Attributes:
        claim: the part of the login that decides.
        owners, viewers: its values, or "*@domain" for every address there. An owner who is also a viewer is an owner.
        provider: "" for the one in [auth] itself.
    """

    claim: str = "email"
    owners: tuple[str, ...] = ()
    viewers: tuple[str, ...] = ()
    provider: str = ""

    def role(self, claims: Sequence[str]) -> AccessRole | None:
        """Return the highest role that any of these values has."""
        for role, rules in ((AccessRole.OWNER, self.owners), (AccessRole.VIEWER, self.viewers)):
            if any(_fits(rule, value) for rule in rules for value in claims):
                return role
        return None

    def claims(self, user: Mapping[str, Any]) -> tuple[str, ...]:
        """Return the login's values of the claim; none for an address that the provider calls unverified."""
        found = user.get(self.claim)
        if self.claim == "email" and user.get("email_verified") in (False, "false"):
            return ()
        values = found if isinstance(found, list | tuple) else [found]
        return tuple(value for value in values if isinstance(value, str) and value)


def _fits(rule: str, value: str) -> bool:
    if rule.startswith("*@"):
        name, at, domain = value.rpartition("@")
        return bool(name and at) and domain.lower() == rule[2:].lower()
    return rule.lower() == value.lower()


def people() -> People | None:
    """Read the rules; None where the file does not exist and logins are off.

    Raises:
        UsageError: the file is not valid; a guess at its meaning could let a stranger in.
    """
    path = workspace.home() / FILE
    try:
        return _read(path, path.stat().st_mtime_ns)
    except FileNotFoundError:
        return None


@lru_cache(maxsize=4)
def _read(path: Path, _changed_ns: int) -> People:
    try:
        found = tomllib.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:  # also not UTF-8, or a number of thousands of digits
        raise UsageError(f"{path} is not valid TOML: {error}") from error
    unknown = [name for name in found if name not in _KEYS]
    if unknown:
        raise UsageError(f"{path}: unknown setting {unknown[0]!r}; known settings: {', '.join(_KEYS)}")
    for name, value in found.items():
        wanted = isinstance(value, list) and all(isinstance(one, str) for one in value)
        if not (wanted if name in ("owners", "viewers") else isinstance(value, str)):
            raise UsageError(
                f"{path}: {name} must be {'a list of strings' if name in ('owners', 'viewers') else 'a string'}"
            )
    lists = {name: tuple(found.get(name, ())) for name in ("owners", "viewers")}
    return People(found.get("claim", "email"), lists["owners"], lists["viewers"], found.get("provider", ""))
