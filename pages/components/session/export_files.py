"""Show the files that were asked for: what is on its way, what can be downloaded, what failed and why."""

from __future__ import annotations

import time
from pathlib import Path
from typing import NamedTuple

import streamlit as st

from cutegen_core.records import as_json
from cutegen_core.records.export import KEPT_DAYS, ExportProgress, ExportResult, ExportSettings
from cutegen_core.records.job import Job, JobKind, JobState
from cutegen_core.trajectory import jobs
from cutegen_core.trajectory.store import Store
from cutegen_core.views import SessionView
from pages.components.access import access
from pages.components.shared import data, ui_state
from pages.components.shared.texts import note, plain_label, quiet

POLL_S = 0.7
SHOWN = 6
_AWAITED = "exports-awaited"


class FileView(NamedTuple):
    """A file that was asked for; `path` and `result` where it is there."""

    job: Job
    settings: ExportSettings
    result: ExportResult | None
    path: Path

    @property
    def is_good(self) -> bool:
        """Whether it is on its way, or can be downloaded."""
        return not self.job.is_over or (self.result is not None and self.path.is_file())


def files_of(store: Store, session: str) -> list[FileView]:
    """Return what was asked for of a session: the last of each format, newest first."""
    found: dict[str, FileView] = {}
    for job in jobs.every(store, JobKind.EXPORT):
        settings = as_json.load(ExportSettings, job.settings)
        if settings.session == session and settings.format not in found:
            result = store.record(ExportResult, job.result) if job.result else None
            found[settings.format] = FileView(job, settings, result, jobs.place(job.id) / settings.name)
    return list(found.values())[:SHOWN]


def render_files(store: Store, view: SessionView) -> None:
    """Draw them, in a fragment that redraws itself while one is on its way."""
    waits = any(not file.job.is_over for file in files_of(store, view.id))
    st.fragment(_draw, run_every=POLL_S if waits else None)(store, view.id, view.state.seq, waits)


def _draw(store: Store, session: str, seq: int, waits: bool) -> None:
    files = files_of(store, session)
    if waits and all(file.job.is_over for file in files):
        st.rerun()  # the page without this fragment's timer, and with the downloads
    awaited = ui_state.kept(_AWAITED, set[str])
    for file in files:
        if not file.job.is_over:
            awaited.add(file.job.id)
            _on_its_way(file)
        elif file.result and file.path.is_file():
            _download(file, earlier=file.settings.seq != seq)
        else:
            _failed(file)
        if file.job.is_over and file.job.id in awaited:
            awaited.discard(file.job.id)
            st.toast(f"{plain_label(file.settings.name)}: {_OUTCOMES.get(file.job.state, 'not written')}, see Export")


def _on_its_way(file: FileView) -> None:
    job = file.job
    doing = as_json.load(ExportProgress, job.progress).doing if job.progress else "starting"
    said = f"{doing} · {time.time() - job.started_at:.0f} s" if job.started_at else "waits for two other files"
    left, right = st.columns([4, 1], vertical_alignment="center")
    with left:
        quiet(f"● {file.settings.format}: {said}")
    if access.role() is access.AccessRole.OWNER:
        right.button("Cancel", key=f"export-cancel-{job.id}", on_click=ui_state.noted(_cancel, job.id))


def _cancel(job: str) -> None:
    jobs.request_stop(data.requests_store(), job)


def _download(file: FileView, *, earlier: bool) -> None:
    assert file.result is not None
    checked = {"compiled": f"Compiled. {file.result.note}", "n/a": file.result.note}
    said = checked.get(file.result.checked, file.result.note or file.result.checked)
    note("info" if file.result.checked == "not compiled here" else "ok",
         f"{file.settings.format}: {said}{' Of an earlier state of the session.' if earlier else ''}")  # fmt: skip
    st.download_button(
        plain_label(f"Download {file.settings.name} · {_size(file.result.nbytes)}"), file.path.read_bytes,
        file.settings.name, key=f"export-download-{file.job.id}", type="primary", on_click="ignore",
    )  # fmt: skip


def _failed(file: FileView) -> None:
    if file.job.state is JobState.STOPPED:
        quiet(f"{file.settings.format}: cancelled")
        return
    if file.job.state is JobState.DONE:
        quiet(f"{file.settings.format}: its file is no longer in the workspace, which keeps files {KEPT_DAYS} days. "
              "Create it again.")  # fmt: skip
        return
    why = file.job.error or "it was not written. Create it again."
    note("error", f"{file.settings.format}: {why}")


def _size(nbytes: int) -> str:
    return f"{nbytes / 1e6:.1f} MB" if nbytes >= 1e5 else f"{nbytes / 1e3:.1f} kB"


_OUTCOMES = {
    JobState.DONE: "ready", JobState.FAILED: "failed", JobState.STOPPED: "cancelled", JobState.INTERRUPTED: "cut short",
}  # fmt: skip
