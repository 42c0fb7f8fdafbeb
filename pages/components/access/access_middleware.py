"""Check every HTTP request and websocket before Streamlit sees it.

1. A token or a ticket in the address becomes a signed cookie and leaves the address.
2. Requests without a valid cookie are refused: pages, websocket, uploads and media files.
3. A viewer's requests can only read.
4. Where people log in, Streamlit draws the login, so a stranger gets the empty page and its websocket, in which only
   the login runs (`login.gate`), but no uploads and no media files.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from urllib.parse import parse_qsl, urlencode

from starlette.datastructures import Headers
from starlette.requests import HTTPConnection
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from cutegen_core.records.errors import LOOKS_ON
from pages.components.access.access_keys import COOKIE, PERSON_KEPT_S, TOKEN_KEPT_S, Access, AccessRole, Bearer
from pages.components.access.access_people import People

LEAVE = "/access/leave"
GUESSES, GUESSES_IN_ALL, GUESSES_WITHIN_S = 10, 100, 60.0
_PORTS = {"http": ":80", "https": ":443"}
_OPEN_PATHS = ("/_stcore/health", "/_stcore/script-health-check")
_READING = ("GET", "HEAD", "OPTIONS")
_FILES = ("/media/", "/_stcore/upload_file")
_REFUSED = (
    "This workbench needs an access token. Open the link that the terminal printed when the server started "
    "(it ends in ?token=...), or ask the owner for a link.\n"
)
_LOG_IN = "Log in first: open the workbench's start page.\n"
_FOREIGN = "This request comes from another site's page and was refused.\n"
_TOO_MANY = f"Too many wrong tokens. Wait {GUESSES_WITHIN_S:.0f} seconds and open the link again.\n"


class Guesses:
    """Wrong tokens of the last minute, by address and in all: a proxy passes on whatever address a stranger claims.

    Nobody guesses 192 random bits; the limits keep attempts from loading the machine.
    """

    def __init__(self) -> None:
        self._at: deque[tuple[float, str]] = deque(maxlen=GUESSES_IN_ALL)

    def are_too_many(self, address: str) -> bool:
        since = time.monotonic() - GUESSES_WITHIN_S
        while self._at and self._at[0][0] < since:
            self._at.popleft()
        return len(self._at) >= GUESSES_IN_ALL or sum(one == address for _, one in self._at) >= GUESSES

    def note(self, address: str) -> None:
        self._at.append((time.monotonic(), address))


class OriginMiddleware:
    """Refuses what another site's page sends: websockets, and requests that change something.

    A browser sends its cookies along to another port of the same host, and names in `Origin` whose page it is.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        changes = scope["type"] == "websocket" or (scope["type"] == "http" and scope["method"] not in _READING)
        if not changes or _is_own_origin(Headers(scope=scope)):
            await self._app(scope, receive, send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008, "reason": "another origin"})
        else:
            await PlainTextResponse(_FOREIGN, 403)(scope, receive, send)


def _is_own_origin(headers: Headers) -> bool:
    """Tell whether every `Origin` is the host that was asked; a program that is no browser sends none."""
    asked = headers.get("host", "").lower()
    for origin in headers.getlist("origin"):
        scheme, _, host = origin.lower().partition("://")
        port = _PORTS.get(scheme)
        if port is None or host.removesuffix(port) != asked.removesuffix(port):
            return False
    return True


class AccessMiddleware:
    """Lets requests in by cookie; `people` returns the current rules of the login, None where logins are off."""

    def __init__(self, app: ASGIApp, access: Access, people: Callable[[], People | None] = lambda: None) -> None:
        self._app, self._access, self._people, self._guesses = app, access, people, Guesses()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket") or scope["path"] in _OPEN_PATHS:
            await self._app(scope, receive, send)
            return
        people = self._people()
        role = role_of(self._access.bearer(HTTPConnection(scope).cookies.get(COOKIE, "")), people)
        if scope["type"] == "http":
            answer = self._entered(scope, role) or _refused(scope, role, people)
            if answer is not None:
                await answer(scope, receive, send)
                return
        elif role is None and people is None:
            await send({"type": "websocket.close", "code": 1008, "reason": "token required"})
            return
        await self._app(scope, receive, send)

    def _entered(self, scope: Scope, role: AccessRole | None) -> Response | None:
        """Redirect a request that brings a valid token or ticket, or logs out; None for any other."""
        if scope["path"] == LEAVE:
            answer = RedirectResponse("/auth/logout" if self._people() else "/", 303)
            answer.delete_cookie(COOKIE)
            return answer
        words = dict(parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True))
        given = [words[name] for name in ("token", "ticket") if words.get(name)]
        if not given or scope["method"] not in _READING:
            return None
        address = scope["client"][0] if scope.get("client") else ""
        if role is None and self._guesses.are_too_many(address):
            return PlainTextResponse(_TOO_MANY, 429, {"Retry-After": f"{GUESSES_WITHIN_S:.0f}"})
        bearer = self._bearer(words)
        if bearer is None:
            self._guesses.note(address)
            return None
        return _let_in(scope, self._access.cookie(bearer), TOKEN_KEPT_S if bearer.role else PERSON_KEPT_S)

    def _bearer(self, words: dict[str, str]) -> Bearer | None:
        role = self._access.role_of_token(words.get("token", ""))
        return Bearer(role) if role else self._access.bearer_of_ticket(words.get("ticket", ""))


def role_of(bearer: Bearer | None, people: People | None) -> AccessRole | None:
    """Return the current role of a cookie's holder; a person's is read from `access.toml`."""
    if bearer is None:
        return None
    return bearer.role or (people.role(bearer.claims) if people else None)


def _let_in(scope: Scope, cookie: str, kept_s: int) -> Response:
    words = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
    rest = urlencode([(name, value) for name, value in words if name not in ("token", "ticket")])
    # One slash: two would make another host of the path.
    answer = RedirectResponse("/" + scope["path"].lstrip("/") + (f"?{rest}" if rest else ""), 303)
    secure = scope["scheme"] == "https"
    answer.set_cookie(COOKIE, cookie, max_age=kept_s, httponly=True, samesite="lax", secure=secure)
    answer.headers["Referrer-Policy"] = "no-referrer"
    answer.headers["Cache-Control"] = "no-store"
    return answer


def _refused(scope: Scope, role: AccessRole | None, people: People | None) -> Response | None:
    reads = scope["method"] in _READING
    if role is None:
        if people is None:
            return PlainTextResponse(_REFUSED, 401)
        return None if reads and not any(one in scope["path"] for one in _FILES) else PlainTextResponse(_LOG_IN, 401)
    return PlainTextResponse(LOOKS_ON, 403) if role is AccessRole.VIEWER and not reads else None
