"""Take a set of problems through sessions, and read what came of it: the settings of a new bench, those before, and one
(`?bench=ID`) beside an earlier one (`&against=ID`). `?like=ID` takes its settings. Nothing starts without a click.
"""

from __future__ import annotations

import streamlit as st

from pages.components.bench import form, listing, run
from pages.components.shared import address, data
from pages.components.shared.texts import heading, note, show_hidden

store = data.store()
if bench := address.get("bench"):
    if run.is_known(store, bench):
        run.render_bench(store, bench)
        st.stop()
    note("error", f"There is no bench “{show_hidden(bench)}” in this workspace. These are the ones there are.")
settings, earlier = st.columns([3, 2], gap="medium")
with settings, st.container(border=True):
    heading("New bench")
    form.render_form(store)
with earlier, st.container(border=True):
    listing.render_benches(store)
