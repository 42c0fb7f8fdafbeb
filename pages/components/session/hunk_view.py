"""Keep a part of a proposal: each hunk is kept or dropped, and the kept ones become a new candidate.

The URL names the dropped hunks (`?drop=1,3`), so a reload and a link keep the choice. Keeping some hunks is an edit:
the parent's text with those hunks, and a reason that names the dropped ones to the model.
"""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from cutegen_core.kernel import hunks
from cutegen_core.kernel.hunks import Hunk
from cutegen_core.records.decision import Decision, DecisionKind
from cutegen_core.records.event import SessionState
from cutegen_core.records.wording import counted
from cutegen_core.trajectory.store import Store
from cutegen_core.views import SessionView, StepView
from pages.components.session import ablation
from pages.components.shared import address, code_tables, ui_state
from pages.components.shared.texts import quiet

VIEW = "hunks"
DROP = "drop"
_DIGITS = 6
"""Ignore longer numbers in the address."""
KEYED = 9
"""So many hunks have a digit as shortcut."""


def possible(view: SessionView, shown: StepView) -> bool:
    """Tell whether the shown step changes a kernel and the session accepts a decision."""
    answerable = not view.working and view.state.status is not SessionState.ACCEPTED
    changed = bool(shown.base_source) and bool(shown.source) and shown.base_source != shown.source
    return changed and answerable and not view.state.settings.imported


def visible(view: SessionView, shown: StepView) -> bool:
    """Tell whether there are hunks to choose, or results of an ablation to show."""
    return possible(view, shown) or (bool(shown.base_source) and ablation.tried(view, shown))


def is_open() -> bool:
    return address.get("view") == VIEW


def open_view() -> None:
    """Open the hunks of the shown step."""
    address.go(view=VIEW)


def closed() -> dict[str, None]:
    """Return the changes of the address that leave the hunks: the default view, with all hunks kept."""
    return {DROP: None, "view": None} if is_open() else {DROP: None}


def render_hunks(store: Store, view: SessionView, shown: StepView) -> None:
    """Draw every hunk with its switch, and the effect of each."""
    found = hunks.split(shown.base_source, shown.source)
    out = dropped(found)
    quiet(
        f"{len(found) - len(out)} of {counted(len(found), 'hunk')} kept. Press a digit to keep or drop a hunk. "
        "Keep hunks (K) makes a new candidate of the kept ones and runs it through all stages; the "
        "proposer is told which were dropped."
    )
    ablation.render_ablation(store, view, shown, len(found))
    with st.container(key="code-pane"):
        for hunk in found:
            kept = hunk.number not in out
            with st.container(key=f"piece-{'kept' if kept else 'dropped'}-{hunk.number}", gap="xsmall"):
                _switch(hunk, kept=kept)
                st.html(code_tables.hunk(hunk, shown.base_source, shown.source))


def _switch(hunk: Hunk, *, kept: bool) -> None:
    st.button(
        f"{'✓ kept' if kept else '✗ dropped'} · hunk {hunk.number} · {hunk.title}", key=f"hunk-switch-{hunk.number}",
        shortcut=str(hunk.number) if hunk.number <= KEYED else None, on_click=ui_state.noted(_toggle, hunk.number),
        type="secondary" if kept else "tertiary",
    )  # fmt: skip


def _toggle(number: int) -> None:
    out = _named() ^ {number}
    address.go(**{DROP: ",".join(map(str, sorted(out))) or None})


def _named() -> set[int]:
    return {int(word) for word in address.get(DROP).split(",") if word.isdecimal() and len(word) < _DIGITS}


def dropped(found: Sequence[Hunk]) -> set[int]:
    """Return the numbers of the dropped hunks, without unknown ones in the URL."""
    return _named() & {hunk.number for hunk in found}


def some_kept(shown: StepView | None) -> tuple[int, int]:
    """Count the kept hunks, and all hunks."""
    if shown is None or not shown.base_source:
        return 0, 0
    found = hunks.split(shown.base_source, shown.source)
    return len(found) - len(dropped(found)), len(found)


def decision(shown: StepView, seen: int) -> Decision:
    """Make the edit: the parent's text with the kept hunks."""
    found = hunks.split(shown.base_source, shown.source)
    out = dropped(found)
    kept = {hunk.number for hunk in found} - out
    text = hunks.apply(shown.base_source, found, kept)
    return Decision(
        DecisionKind.EDIT, seen, source=text, candidate=shown.step.parent or shown.step.base, text=_said(found, out)
    )


def _said(found: Sequence[Hunk], out: set[int]) -> str:
    """Describe the dropped hunks with their first changed lines, for the timeline and the model."""
    named = "; ".join(f"{h.title}: {_first_line(h)}" for h in found if h.number in out)
    return f"kept {len(found) - len(out)} of {counted(len(found), 'hunk')}; dropped {named}"


def _first_line(hunk: Hunk) -> str:
    old = set(hunk.old)
    line = next((line for line in hunk.new if line not in old and line.strip()), next(iter(hunk.new or hunk.old), ""))
    return f"“{line.strip()[:60]}”"
