"""Who may reach the server, and as what: every route is asked for, the websocket, uploads and media files too.

1. Served on this machine's own address, nobody is asked, unless CUTEGEN_TOKEN=1. Served on another, everybody is.
2. As with Jupyter, the terminal prints links with a token, good for as long as the server runs: one for the owner, one
   for viewers, who may look at everything and run, change and upload nothing.
3. A token in the address becomes a signed cookie and leaves the address; requests without a valid cookie are refused.
A viewer's pages get a store that refuses to be written (`data.store`); buttons may show, their writes fail.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import os
import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from urllib.parse import parse_qsl, urlencode

import streamlit as st
from starlette.requests import HTTPConnection
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from cutegen_core import workspace
from cutegen_core.errors import LOOKS_ON, AccessError
from pages.components.texts import note

COOKIE = "cutegen_access"
SWITCH = "CUTEGEN_TOKEN"
KEPT_S = 30 * 24 * 3600
_OPEN_PATHS = ("/_stcore/health", "/_stcore/script-health-check")
_READING = ("GET", "HEAD", "OPTIONS")
_REFUSED = (
    "This workbench asks for a token. Open the link that the terminal printed when the server started "
    "(it ends in ?token=...), or ask whoever runs it for one.\n"
)


class Role(StrEnum):
    OWNER = "owner"
    VIEWER = "viewer"


def is_wanted(address: str | None) -> bool:
    """Whether tokens are asked for on a server bound to this address; None binds every one."""
    if os.environ.get(SWITCH, "") not in ("", "0"):
        return True
    if address == "localhost":
        return False
    try:
        return not ipaddress.ip_address(address or "0.0.0.0").is_loopback
    except ValueError:
        return True  # a name may be any address


@dataclass(frozen=True)
class Access:
    """The tokens of one server and the key that signs its cookies.

    Attributes:
        tokens: by role.
    """

    tokens: Mapping[Role, str]
    key: bytes

    @classmethod
    def fresh(cls, folder: Path) -> Access:
        """New tokens; the key is kept in the workspace, so that a restart asks nobody again who was let in."""
        return cls({one: secrets.token_urlsafe(24) for one in Role}, _key(folder / "access.key"))

    def role_of_token(self, token: str) -> Role | None:
        given = token.encode()
        return next((r for r, known in self.tokens.items() if hmac.compare_digest(known.encode(), given)), None)

    def cookie(self, role: Role) -> str:
        words = f"{role}.{int(time.time()) + KEPT_S}"
        return f"{words}.{self._signed(words)}"

    def role_of_cookie(self, cookie: str) -> Role | None:
        """The role a cookie was signed for; None for a forged or an old one."""
        words, _, signature = cookie.rpartition(".")
        role, _, until = words.partition(".")
        if not hmac.compare_digest(self._signed(words).encode(), signature.encode()) or int(until) < time.time():
            return None
        return Role(role)

    def links(self, url: str) -> Mapping[Role, str]:
        return {role: f"{url}/?token={token}" for role, token in self.tokens.items()}

    def _signed(self, words: str) -> str:
        return hmac.new(self.key, words.encode(), hashlib.sha256).hexdigest()


class AccessMiddleware:
    """Asks every HTTP request and websocket who it is, before Streamlit sees it."""

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self._app, self._access = app, access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket") or scope["path"] in _OPEN_PATHS:
            await self._app(scope, receive, send)
            return
        role = self._role(scope)
        if scope["type"] == "http":
            answer = self._entered(scope) or self._refused(scope, role)
            if answer is not None:
                await answer(scope, receive, send)
                return
        elif role is None:
            await send({"type": "websocket.close", "code": 1008, "reason": "a token is needed"})
            return
        await self._app(scope, receive, send)

    def _entered(self, scope: Scope) -> Response | None:
        """The redirect of a request that brings a token: the cookie is set, the token leaves the address."""
        words = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        token = next((value for name, value in words if name == "token"), None)
        role = self._access.role_of_token(token) if token else None
        if role is None or scope["method"] not in _READING:
            return None
        rest = urlencode([(name, value) for name, value in words if name != "token"])
        answer = RedirectResponse(scope["path"] + (f"?{rest}" if rest else ""), 303)
        answer.set_cookie(COOKIE, self._access.cookie(role), max_age=KEPT_S, httponly=True, samesite="lax")
        return answer

    def _refused(self, scope: Scope, role: Role | None) -> Response | None:
        if role is None:
            return PlainTextResponse(_REFUSED, 401)
        if role is Role.VIEWER and scope["method"] not in _READING:
            return PlainTextResponse(LOOKS_ON, 403)
        return None

    def _role(self, scope: Scope) -> Role | None:
        return self._access.role_of_cookie(HTTPConnection(scope).cookies.get(COOKIE, ""))


def role() -> Role:
    """What the person in front of this page may do."""
    if not is_wanted(st.get_option("server.address")):
        return Role.OWNER
    signed = Access({}, _key(workspace.home() / "access.key"))
    return signed.role_of_cookie(st.context.cookies.get(COOKIE, "")) or Role.VIEWER


def require_owner() -> None:
    """Before anything that runs, reads or changes what is not in the store; AccessError for a viewer."""
    if role() is Role.VIEWER:
        raise AccessError(LOOKS_ON)


def looks_on() -> bool:
    """For a viewer: says so in place of what only the owner gets, and is true."""
    if role() is Role.OWNER:
        return False
    note("info", LOOKS_ON)
    return True


def _key(path: Path) -> bytes:
    try:
        with open(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "wb") as file:
            file.write(secrets.token_bytes(32))
    except FileExistsError:
        pass
    return path.read_bytes()
