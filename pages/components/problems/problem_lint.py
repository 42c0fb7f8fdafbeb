"""Lint a problem on its page: the checks that run nothing at once, all of them on request, in the background.

A lint runs the reference in a sandboxed process and takes a few seconds; only one runs at a time. The findings are kept
until the server stops, by the content of the problem.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field, replace

import streamlit as st

from cutegen_core.machine.background import OneAfterAnother
from cutegen_core.machine.device import Device, choose_device
from cutegen_core.problems import edit
from cutegen_core.problems.lint import linting
from cutegen_core.problems.lint.rules import NO_FINDINGS, LintFinding, Severity
from cutegen_core.records.errors import CutegenError
from cutegen_core.records.problem import Problem, Workload
from cutegen_core.records.wording import counted
from pages.components.access import access
from pages.components.shared import ui_state
from pages.components.shared.texts import chip, escape_html, heading, note, plain_label, quiet

POLL_S = 0.4
_KEPT = 200
_SHAPES = {
    Severity.ERROR: ("✗ error", "failed"),
    Severity.WARNING: ("▲ warning", "warning"),
    Severity.NOTE: ("→ note", "info"),
}
_UNSEEN = "Found without running the reference."

Mend = Callable[[tuple[Workload, ...]], None]
"""A button's callback that takes over the workloads that fix a finding."""


@dataclass
class BackgroundLint:
    """A waiting, running or finished lint."""

    begun: float = field(default_factory=time.monotonic)
    stage: str = "waiting for another lint to finish"
    future: Future[tuple[LintFinding, ...]] = field(default_factory=Future)


def render_lint(problem: Problem, mend: Mend) -> str:
    """Draw the findings and the button to lint; return the error of the reference, "" when there is none."""
    if not problem.workloads:
        return ""
    device = choose_device()
    run = _runs().get(_key(problem, device))
    if run and not run.future.done():
        heading("Lint")
        st.fragment(_waiting, run_every=POLL_S)(run)
        _findings(problem, linting.check_static(problem), mend)
        return ""
    if run is None:
        return _unlinted(problem, device, mend)
    return _linted(run, problem, device, mend)


def _unlinted(problem: Problem, device: Device, mend: Mend) -> str:
    heading("Lint")
    if access.role() is access.AccessRole.OWNER:
        with st.container(horizontal=True, vertical_alignment="center", gap="small"):
            st.button("Lint the problem", key="lint-run", shortcut="L", on_click=ui_state.noted(start, problem, device))
            quiet("Would wrong kernels pass? Runs the reference at a small size and inspects its graph; a few seconds.")
    found = linting.check_static(problem)
    if found:
        quiet(_UNSEEN)
    _findings(problem, found, mend)
    return ""


def _linted(run: BackgroundLint, problem: Problem, device: Device, mend: Mend) -> str:
    try:
        found = run.future.result()
    except CutegenError as error:
        heading("Lint: failed")
        note("error", str(error))
        if access.role() is access.AccessRole.OWNER:
            again = ui_state.noted(_runs().pop, _key(problem, device), None)
            st.button("Reset, to lint again", key="lint-again", on_click=again)
        return str(error)
    heading(f"Lint: {_counted(found)} · for {device.name}")
    if not found:
        quiet("✓ No trivial kernel passes. Shapes, values, tolerance, sizes and baseline look right.")
    _findings(problem, found, mend)
    return ""


def _counted(found: tuple[LintFinding, ...]) -> str:
    """Count the findings: "1 error, 2 notes"."""
    numbers = {severity: sum(f.severity is severity for f in found) for severity in Severity}
    return ", ".join(counted(n, word) for word, n in numbers.items() if n) or NO_FINDINGS


def start(problem: Problem, device: Device) -> None:
    """Start linting the problem, unless that was done; a callback."""
    access.require_owner()
    runs = _runs()
    key = _key(problem, device)
    if key not in runs:
        while len(runs) >= _KEPT:
            runs.pop(next(iter(runs)))
        runs[key] = run = BackgroundLint()
        _lints().begin(_work, run, problem, device)


def _work(run: BackgroundLint, problem: Problem, device: Device) -> None:
    """Lint in a background thread, which touches no page."""

    def progress(stage: str) -> None:
        run.stage = stage

    try:
        progress("starting a process for the reference")
        run.future.set_result(linting.lint(problem, device, progress, run_existing=True))
    except BaseException as error:  # noqa: BLE001 - the thread's boundary: the page raises it
        run.future.set_exception(error)


def _waiting(run: BackgroundLint) -> None:
    if run.future.done():
        st.rerun()
    quiet(f"● {run.stage} · {time.monotonic() - run.begun:.0f} s")


def _key(problem: Problem, device: Device) -> str:
    return f"{problem.key} {device.arch} {device.name}"


@st.cache_resource(show_spinner=False)
def _runs() -> dict[str, BackgroundLint]:
    return {}


@st.cache_resource(show_spinner=False)
def _lints() -> OneAfterAnother:
    return OneAfterAnother("lint")


def _findings(problem: Problem, found: tuple[LintFinding, ...], mend: Mend) -> None:
    for number, finding in enumerate(found):
        words, kind = _SHAPES[finding.severity]
        title = f"{chip(words, kind)} <b>{escape_html(finding.what)}</b>"
        why = f'<div class="cg-quiet">{escape_html(finding.why)} {escape_html(finding.do)}</div>'
        st.html(f'<div class="cg-finding">{title}{why}</div>')
        if finding.workloads and access.role() is access.AccessRole.OWNER:
            st.button(
                _offer(problem, finding), key=f"lint-mend-{number}",
                on_click=ui_state.noted(mend, finding.workloads),
            )  # fmt: skip


def _offer(problem: Problem, finding: LintFinding) -> str:
    """Describe what the button changes."""
    changes = edit.list_changes(problem, replace(problem, workloads=finding.workloads))
    return plain_label(f"→ Apply: {', '.join(changes)}")
