"""Frame every page: page settings, style, navigation, login, clicks, then the page itself."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import streamlit as st

from cutegen_core.records.errors import CutegenError, StoreGoneError
from pages.components import ASSETS
from pages.components.access import login
from pages.components.session import answers
from pages.components.shared import data, first_turn, places
from pages.components.shared.browser_side import render_browser_side
from pages.components.shared.texts import note

ICON = ASSETS / "icon.png"

st.set_page_config("CuTeGen Workbench", page_icon=ICON, layout="wide", initial_sidebar_state="collapsed")
st.html(Path(__file__).with_name("page.css"))
page = st.navigation(places.every(), position="top")
try:
    login.gate()
    render_browser_side()
    sent = answers.take_up(data.store)
    page.run()
    answers.drawn(sent)
except (CutegenError, OSError, sqlite3.Error) as error:
    if isinstance(error, StoreGoneError):
        data.forget_store()
    note("error", str(error))
    st.page_link(places.start(), label="Back to the start page")
finally:
    first_turn.over()
