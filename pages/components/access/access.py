"""Who may reach the server, and as what: every route is asked for, the websocket, uploads and media files too.

1. Served on this machine's own address, nobody is asked, unless CUTEGEN_TOKEN=1. Served on another, everybody is.
2. As with Jupyter, the terminal prints links with a token, good for as long as the server runs: one for the owner, one
   for viewers, who may look at everything and run, change and upload nothing.
3. With an `access.toml` in the workspace and [auth] in Streamlit's secrets people can log in, too (`access_people`).
A viewer's pages get a store that refuses to be written (`data.store`); buttons may show, their writes fail.
"""

from __future__ import annotations

import ipaddress
import os

import streamlit as st
from starlette.middleware import Middleware

from cutegen_core.machine import workspace
from cutegen_core.records.errors import LOOKS_ON, AccessError, UsageError
from pages.components.access.access_keys import COOKIE, Access, Role, signing_key
from pages.components.access.access_middleware import AccessMiddleware, role_of
from pages.components.access.access_people import FILE, people
from pages.components.shared.texts import note

__all__ = ["COOKIE", "Access", "Role", "is_wanted", "looks_on", "middleware", "require_owner", "role"]

SWITCH = "CUTEGEN_TOKEN"


def is_wanted(address: str | None) -> bool:
    """Whether a server bound to this address asks who comes; None binds every one."""
    if os.environ.get(SWITCH, "") not in ("", "0") or people() is not None:
        return True
    if address == "localhost":
        return False
    try:
        return not ipaddress.ip_address(address or "0.0.0.0").is_loopback
    except ValueError:
        return True  # a name may be any address


def middleware(access: Access) -> Middleware:
    """What asks every request.

    Raises:
        UsageError: logins are wanted, and Streamlit is not set up for them.
    """
    if people() is not None and "auth" not in _secrets():
        raise UsageError(
            f"{workspace.home() / FILE} turns logins on, and .streamlit/secrets.toml has no [auth]: "
            "docs/access.md says what belongs there. Without the file only tokens let in."
        )
    return Middleware(AccessMiddleware, access=access, people=people)


def _secrets() -> tuple[str, ...]:
    return tuple(st.secrets) if st.secrets.load_if_toml_exists() else ()


def role() -> Role | None:
    """What the person in front of this page may do; None for somebody who has yet to log in."""
    if not is_wanted(st.get_option("server.address")):
        return Role.OWNER
    return role_of(keys().bearer(st.context.cookies.get(COOKIE, "")), people())


def keys() -> Access:
    """What pages need of the server's: they sign tickets and know no tokens."""
    return Access({}, signing_key(workspace.home()))


def require_owner() -> None:
    """Before anything that runs, reads or changes what is not in the store; AccessError for a viewer."""
    if role() is not Role.OWNER:
        raise AccessError(LOOKS_ON)


def looks_on() -> bool:
    """For a viewer: says so in place of what only the owner gets, and is true."""
    if role() is Role.OWNER:
        return False
    note("info", LOOKS_ON)
    return True
