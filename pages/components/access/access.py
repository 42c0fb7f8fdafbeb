"""Decide who may reach the server and in which role, for every route: pages, websocket, uploads and media files.

1. On a loopback address the server asks nobody, unless CUTEGEN_TOKEN=1. On any other address it asks everybody.
2. As with Jupyter, the terminal prints links with a token that is valid until the server stops: one for the owner, one
   for viewers, who see everything and cannot run, change or upload anything.
3. With an `access.toml` in the workspace and [auth] in Streamlit's secrets people can also log in (`access_people`).
A viewer's pages get a store that cannot be written (`data.store`): a button may show, but its write fails.
"""

from __future__ import annotations

import ipaddress
import os

import streamlit as st
from starlette.middleware import Middleware

from cutegen_core.machine import workspace
from cutegen_core.records.errors import LOOKS_ON, AccessError, UsageError
from pages.components.access.access_keys import COOKIE, Access, AccessRole, signing_key
from pages.components.access.access_middleware import AccessMiddleware, role_of
from pages.components.access.access_people import FILE, people
from pages.components.shared.texts import note

__all__ = ["COOKIE", "Access", "AccessRole", "is_wanted", "looks_on", "middleware", "require_owner", "role"]

SWITCH = "CUTEGEN_TOKEN"
_SHORTEST_SECRET = 32


def is_wanted(address: str | None) -> bool:
    """Tell whether a server bound to this address checks access; None binds every address."""
    if os.environ.get(SWITCH, "") not in ("", "0") or people() is not None:
        return True
    if address == "localhost":
        return False
    try:
        return not ipaddress.ip_address(address or "0.0.0.0").is_loopback
    except ValueError:
        return True  # a name may be any address


def middleware(access: Access) -> Middleware:
    """Make the middleware that checks every request.

    Raises:
        UsageError: logins are on, and Streamlit is not set up for them.
    """
    if people() is not None:
        _check_login_settings()
    return Middleware(AccessMiddleware, access=access, people=people)


def _check_login_settings() -> None:
    """Raise UsageError unless Streamlit's secrets describe a login whose cookies cannot be forged."""
    auth = st.secrets.get("auth") if st.secrets.load_if_toml_exists() else None
    if auth is None:
        raise UsageError(
            f"{workspace.home() / FILE} turns on logins, but .streamlit/secrets.toml has no [auth] section; "
            f"docs/access.md describes it. Remove {FILE} to use tokens only."
        )
    if len(str(auth.get("cookie_secret", ""))) < _SHORTEST_SECRET:
        raise UsageError(
            f"cookie_secret in .streamlit/secrets.toml has fewer than {_SHORTEST_SECRET} characters, so that a login "
            f'could be forged. Make one: python -c "import secrets; print(secrets.token_urlsafe(32))"'
        )


def role() -> AccessRole | None:
    """Return the role of this page's browser; None before the login."""
    if not is_wanted(st.get_option("server.address")):
        return AccessRole.OWNER
    return role_of(keys().bearer(st.context.cookies.get(COOKIE, "")), people())


def keys() -> Access:
    """Return the key to sign tickets with; pages never hold the tokens."""
    return Access({}, signing_key(workspace.home()))


def require_owner() -> None:
    """Raise AccessError for a viewer; call it before anything that runs, reads or changes what is outside the store."""
    if role() is not AccessRole.OWNER:
        raise AccessError(LOOKS_ON)


def looks_on() -> bool:
    """Tell whether this is a viewer, and show a note in place of what only the owner gets."""
    if role() is AccessRole.OWNER:
        return False
    note("info", LOOKS_ON)
    return True
