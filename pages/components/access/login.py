"""Log people in by OpenID Connect through Streamlit, before every page, and out again.

1. A stranger sees only the login; the button leads to the provider (`st.login`).
2. Afterwards Streamlit's own signed cookie says who the person is, and `access.toml` which role they have.
3. The page makes a ticket of that, valid once and for a minute, and sends the browser with it to the middleware, which
   sets the workbench's own cookie. From then on the middleware knows the person, for uploads and files as well.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import streamlit as st

from pages.components.access import access
from pages.components.access.access_middleware import LEAVE
from pages.components.access.access_people import People, people
from pages.components.shared.texts import note, quiet

# After a login Streamlit opens the start page, so the tab keeps the wanted address meanwhile.
_KEEP = """export default function () {
  const here = location.pathname + location.search;
  if (here !== "/" || !sessionStorage.getItem("cutegen-wanted")) sessionStorage.setItem("cutegen-wanted", here);
}"""
_ENTER = """export default function ({ data }) {
  const wanted = sessionStorage.getItem("cutegen-wanted") ?? location.pathname + location.search;
  sessionStorage.removeItem("cutegen-wanted");
  const to = new URL(wanted, location.origin);
  to.searchParams.set("ticket", data.ticket);
  if (to.origin === location.origin) location.replace(to);
}"""


@lru_cache(maxsize=2)
def _script(name: str, js: str) -> Callable[..., Any]:
    return st.components.v2.component(name, js=js)


def gate() -> None:
    """End the script for a browser without a role; every page begins with it."""
    rules = people()
    if rules is None or access.role() is not None:
        return
    st.html("<h1 class='cg-title'>CuTeGen Workbench</h1>")
    if not st.user.is_logged_in:
        note("info", "Log in to use this workbench.")
        _script("cutegen-wanted", _KEEP)(key="wanted")
        st.button("Log in", key="login", type="primary", on_click=st.login, args=(rules.provider or None,))
        st.stop()
    claims = rules.claims(st.user.to_dict())
    if rules.role(claims) is None:
        _stranger(rules, claims)
        st.stop()
    quiet("● Logging in …")
    _script("cutegen-enter", _ENTER)(key="enter", data={"ticket": access.keys().ticket(claims)})
    st.stop()


def _stranger(rules: People, claims: tuple[str, ...]) -> None:
    who = ", ".join(claims) or f"a login without a (verified) {rules.claim}"
    note("error", f"{who} has no access. Ask the owner of this workbench to add you to access.toml.")
    st.button("Log in with another account", key="logout", on_click=st.logout)


def render_way_out() -> None:
    """Draw the logout link where people log in."""
    if people() is not None:
        st.html(f'<a class="cg-to-line" href="{LEAVE}" target="_self">Log out</a>')
