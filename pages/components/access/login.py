"""The login of people, by OpenID Connect through Streamlit: the gate before every page, and the way out.

1. A stranger's page is this gate and nothing else; the button leads to the provider (`st.login`).
2. Who comes back has Streamlit's own signed cookie, which says who they are; `access.toml` says what they may do.
3. The page makes a ticket of that, good once and for a minute, and sends the browser with it to the middleware, which
   makes the workbench's own cookie of it. From then on the middleware knows the person, for uploads and files as well.
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

# Streamlit brings everybody back to the start page: the address that was wanted is kept in the tab meanwhile.
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
    """At the beginning of every page: whoever has no role gets no further."""
    rules = people()
    if rules is None or access.role() is not None:
        return
    st.html("<h1 class='cg-title'>CuTeGen Workbench</h1>")
    if not st.user.is_logged_in:
        note("info", "This workbench asks who you are.")
        _script("cutegen-wanted", _KEEP)(key="wanted")
        st.button("Log in", key="login", type="primary", on_click=st.login, args=(rules.provider or None,))
        st.stop()
    claims = rules.claims(st.user.to_dict())
    if rules.role(claims) is None:
        _stranger(rules, claims)
        st.stop()
    quiet("● Letting you in …")
    _script("cutegen-enter", _ENTER)(key="enter", data={"ticket": access.keys().ticket(claims)})
    st.stop()


def _stranger(rules: People, claims: tuple[str, ...]) -> None:
    who = ", ".join(claims) or f"a login without a (verified) {rules.claim}"
    note("error", f"{who} may not enter. Ask whoever runs this workbench to name you in access.toml.")
    st.button("Log in as somebody else", key="logout", on_click=st.logout)


def render_way_out() -> None:
    """Where people log in: a link that forgets who this browser was."""
    if people() is not None:
        st.html(f'<a class="cg-to-line" href="{LEAVE}" target="_self">Log out</a>')
