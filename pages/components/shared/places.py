"""Name the pages and link to them. A link carries everything the page needs in its URL."""

from __future__ import annotations

from typing import NoReturn

import streamlit as st

from pages.components import PAGES

Page = type(st.Page(PAGES / "start.py"))


def every() -> list[Page]:
    return [start(), session(), compare(), present(), layouts(), problems(), bench(), gnn(), setup()]


def start() -> Page:
    return st.Page(PAGES / "start.py", title="Start", default=True)


def session() -> Page:
    return st.Page(PAGES / "session.py", title="Session", url_path="session")


def compare() -> Page:
    return st.Page(PAGES / "compare.py", title="Compare", url_path="compare")


def present() -> Page:
    return st.Page(PAGES / "present.py", title="Present", url_path="present")


def layouts() -> Page:
    return st.Page(PAGES / "layouts.py", title="Layouts", url_path="layouts")


def problems() -> Page:
    return st.Page(PAGES / "problems.py", title="Problems", url_path="problems")


def bench() -> Page:
    return st.Page(PAGES / "bench.py", title="Bench", url_path="bench")


def gnn() -> Page:
    return st.Page(PAGES / "gnn.py", title="GNN training", url_path="gnn")


def setup() -> Page:
    return st.Page(PAGES / "setup.py", title="Setup", url_path="setup")


def go_to_session(session_id: str) -> NoReturn:
    st.switch_page(session(), query_params={"id": session_id})
