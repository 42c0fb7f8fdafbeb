"""Keeping a part of a proposal: its hunks, each kept or dropped; the rest becomes a candidate of its own.

What is dropped stands in the URL (`?drop=1,3`), so a reload and a link keep it. Keeping some hunks is an edit: the
parent's text with those hunks, and a reason that names the dropped ones to the model.
"""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from cutegen_core.kernel import hunks
from cutegen_core.kernel.hunks import Hunk
from cutegen_core.records.decision import Decision, DecisionKind
from cutegen_core.records.event import SessionState
from cutegen_core.trajectory.store import Store
from cutegen_core.views import SessionView, StepView
from cutegen_core.views.wording import counted
from pages.components.session import ablation
from pages.components.shared import address, code_tables, ui_state
from pages.components.shared.texts import quiet

VIEW = "hunks"
DROP = "drop"
_DIGITS = 6
"""A longer number in the address is no hunk's."""
KEYED = 9
"""The first hunks are switched by a digit."""


def possible(view: SessionView, shown: StepView) -> bool:
    """The shown step changes a kernel, and the session takes an answer."""
    answerable = not view.working and view.state.status is not SessionState.ACCEPTED
    changed = bool(shown.base_source) and bool(shown.source) and shown.base_source != shown.source
    return changed and answerable and not view.state.settings.imported


def visible(view: SessionView, shown: StepView) -> bool:
    """There is something to choose, or something that was found out."""
    return possible(view, shown) or (bool(shown.base_source) and ablation.tried(view, shown))


def is_open() -> bool:
    return address.get("view") == VIEW


def open_view() -> None:
    """The hunks of the shown step."""
    address.go(view=VIEW)


def closed() -> dict[str, None]:
    """What the address loses where the hunks are left: back to the usual picture, all hunks kept."""
    return {DROP: None, "view": None} if is_open() else {DROP: None}


def render_hunks(store: Store, view: SessionView, shown: StepView) -> None:
    """Every hunk with its switch, and what each is worth."""
    found = hunks.split(shown.base_source, shown.source)
    out = dropped(found)
    quiet(
        f"{len(found) - len(out)} of {counted(len(found), 'hunk')} kept. A digit switches a hunk. "
        "Keep hunks (K) makes the kept ones a candidate of its own, which walks all stages; the model is "
        "told which were dropped."
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
    """Numbers of the dropped hunks; what the URL says of others is ignored."""
    return _named() & {hunk.number for hunk in found}


def some_kept(shown: StepView | None) -> tuple[int, int]:
    """How many hunks are kept, of how many."""
    if shown is None or not shown.base_source:
        return 0, 0
    found = hunks.split(shown.base_source, shown.source)
    return len(found) - len(dropped(found)), len(found)


def decision(shown: StepView, seen: int) -> Decision:
    """The edit: the parent's text with the kept hunks."""
    found = hunks.split(shown.base_source, shown.source)
    out = dropped(found)
    kept = {hunk.number for hunk in found} - out
    text = hunks.apply(shown.base_source, found, kept)
    return Decision(
        DecisionKind.EDIT, seen, source=text, candidate=shown.step.parent or shown.step.base, text=_said(found, out)
    )


def _said(found: Sequence[Hunk], out: set[int]) -> str:
    """For the timeline and the model: what was dropped, with its first changed line."""
    named = "; ".join(f"{h.title}: {_first_line(h)}" for h in found if h.number in out)
    return f"kept {len(found) - len(out)} of {counted(len(found), 'hunk')}; dropped {named}"


def _first_line(hunk: Hunk) -> str:
    old = set(hunk.old)
    line = next((line for line in hunk.new if line not in old and line.strip()), next(iter(hunk.new or hunk.old), ""))
    return f"“{line.strip()[:60]}”"
