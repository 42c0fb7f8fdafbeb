"""Make and check what gives access: tokens for links, signed cookies, and tickets that become a cookie once.

One key in the workspace signs everything, so cookies outlive a restart. Deleting `access.key` and restarting the
server invalidates all of them.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import secrets
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from cutegen_core.machine import workspace
from cutegen_core.records.errors import UsageError

COOKIE = "cutegen_access"
KEY_BYTES = 32
TOKEN_KEPT_S = 30 * 24 * 3600
PERSON_KEPT_S = 12 * 3600
"""After this a person must log in again."""
TICKET_KEPT_S = 60
_PERSON, _TICKET = "as-", "ticket-"


class AccessRole(StrEnum):
    OWNER = "owner"
    VIEWER = "viewer"


@dataclass(frozen=True)
class Bearer:
    """The holder of a valid cookie: a role from a token, or a person with the claims of their login.

    Attributes:
        role: None for a person, whose role is looked up at every request.
        claims: the values of the claim that decides, such as an address, or the groups.
    """

    role: AccessRole | None
    claims: tuple[str, ...] = ()


@dataclass(frozen=True)
class Access:
    """The tokens of one server and the key that signs its cookies.

    Attributes:
        tokens: by role.
        spent: tickets that were used, with the time they end.
    """

    tokens: Mapping[AccessRole, str]
    key: bytes
    spent: dict[str, float] = field(default_factory=dict, compare=False)

    def __post_init__(self) -> None:
        assert len(self.key) == KEY_BYTES, "a short key signs nothing"

    @classmethod
    def fresh(cls, folder: Path) -> Access:
        """Make new tokens, under the workspace's key."""
        return cls({one: secrets.token_urlsafe(24) for one in AccessRole}, signing_key(folder))

    def role_of_token(self, token: str) -> AccessRole | None:
        given = token.encode()
        return next((r for r, known in self.tokens.items() if hmac.compare_digest(known.encode(), given)), None)

    def cookie(self, bearer: Bearer) -> str:
        if bearer.role is not None:
            return self._signed_until(bearer.role, TOKEN_KEPT_S)
        return self._signed_until(_PERSON + _packed(bearer.claims), PERSON_KEPT_S)

    def bearer(self, cookie: str) -> Bearer | None:
        """Return whom a cookie was signed for; None for a forged or expired one."""
        who = self._who(cookie)
        if who.startswith(_PERSON):
            return Bearer(None, _unpacked(who.removeprefix(_PERSON)))
        return Bearer(AccessRole(who)) if who in tuple(AccessRole) else None

    def ticket(self, claims: Sequence[str]) -> str:
        """Sign a ticket, valid once and for a minute; a page puts it into the address and the middleware makes a cookie
        of it."""
        return self._signed_until(f"{_TICKET}{secrets.token_hex(8)}-{_packed(claims)}", TICKET_KEPT_S)

    def bearer_of_ticket(self, ticket: str) -> Bearer | None:
        """Return the person a ticket was made for; None when it was used before."""
        who, now = self._who(ticket), time.time()
        for old in [one for one, until in self.spent.items() if until < now]:
            del self.spent[old]
        if not who.startswith(_TICKET) or who in self.spent:
            return None
        self.spent[who] = now + TICKET_KEPT_S
        return Bearer(None, _unpacked(who.removeprefix(_TICKET).partition("-")[2]))

    def links(self, url: str) -> Mapping[AccessRole, str]:
        return {role: f"{url}/?token={token}" for role, token in self.tokens.items()}

    def _signed_until(self, who: str, kept_s: int) -> str:
        words = f"{who}.{int(time.time()) + kept_s}"
        return f"{words}.{self._signed(words)}"

    def _who(self, signed: str) -> str:
        """Return the signed text, or "" where the signature is not ours or has expired."""
        words, _, signature = signed.rpartition(".")
        who, _, until = words.partition(".")
        if not hmac.compare_digest(self._signed(words).encode(), signature.encode()) or int(until) < time.time():
            return ""
        return who

    def _signed(self, words: str) -> str:
        return hmac.new(self.key, words.encode(), hashlib.sha256).hexdigest()


def signing_key(folder: Path) -> bytes:
    """Return the workspace's key, which the first call makes; only its owner can read it.

    Raises:
        UsageError: others can read it, or it is not whole: with a short key anybody could sign a cookie.
    """
    path = folder / "access.key"
    try:
        key = workspace.read_private(path)
    except FileNotFoundError:
        workspace.create_file(path, secrets.token_bytes(KEY_BYTES))
        key = workspace.read_private(path)
    if len(key) != KEY_BYTES:
        raise UsageError(
            f"{path} holds {len(key)} bytes instead of {KEY_BYTES} and is not used. Delete it and restart the server: "
            f"a new one is made, and everybody opens their link or logs in again."
        )
    return key


def _packed(claims: Sequence[str]) -> str:
    return base64.urlsafe_b64encode(json.dumps(list(claims)).encode()).decode().rstrip("=")


def _unpacked(packed: str) -> tuple[str, ...]:
    found: list[str] = json.loads(base64.urlsafe_b64decode(packed + "=" * (-len(packed) % 4)))
    return tuple(found)
