"""Train graph neural networks with sampled batches, and plug kernels in: settings, runs, and one run (`?job=`).

A link may preset the form: `?like=JOB` takes a run's settings, `?aggregate=kernel:SESSION.STEP` a kernel, and any other
setting goes by its name (`?epochs=3`). Nothing starts without a click.
"""

from __future__ import annotations

import streamlit as st

from pages.components.gnn import form, listing, run, teach
from pages.components.shared import address, data
from pages.components.shared.texts import heading

store = data.store()
if job := address.get("job"):
    run.render_run(store, job)
    st.stop()
settings, runs = st.columns([3, 2], gap="medium")
with settings, st.container(border=True):
    heading("New run")
    form.render_form(store)
with runs:
    with st.container(border=True):
        listing.render_runs(store)
    with st.container(border=True):
        listing.render_import(store)
    with st.container(border=True):
        teach.render_words()
