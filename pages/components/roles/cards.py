"""Draw the cards of a step's roles as one row: who answers, how far it is, what was said, what it cost."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import streamlit as st

from cutegen_core import views
from cutegen_core.records.event import AnsweredBy, Role
from cutegen_core.records.wording import counted, factor_words, micros
from cutegen_core.trajectory.store import Store
from cutegen_core.views import CallView, CardState, RoleCard, Said, SessionView, ShapeCell, StepView, SuiteFact
from pages.components.shared import address, ui_state
from pages.components.shared.texts import escape_html, tooltip

POLL_S = 0.5
LIVE_CHARACTERS, LIVE_LINES = 220, 3
"""The end of the text, as much as a card has room for; the middle of the page has all of it."""
_LOOKS = {
    CardState.NOT_ASKED: ("–", "quietly"), CardState.WAITING: ("○", "quietly"), CardState.PROMPT: ("◆", "warning"),
    CardState.REPLY: ("◆", "warning"), CardState.WORKING: ("●", "running"), CardState.REVIEW: ("◆", "warning"),
    CardState.ANSWERED: ("✓", "passed"), CardState.FAILED: ("✗", "failed"),
}  # fmt: skip
_PURPOSE = {
    Role.TESTING: "Writes further test workloads, as data. They are trusted when the existing kernel passes them and "
    "its mutants fail.",
    Role.PROFILING: "Says what bounds the kernel at each shape, from measured numbers.",
    Role.PLANNING: "Names one idea, the shapes it is for, its effect and its risk.",
    Role.CODING: "Writes the change that the plan describes.",
}
_BY = {AnsweredBy.LLM: "model", AnsweredBy.PERSON: "you"}


def render_cards(store: Store, view: SessionView, shown: StepView) -> None:
    """Draw the row; nothing where the session's strategy has no roles."""
    cards = views.role_cards(store, view, shown)
    if not cards:
        return
    with st.container(key="role-cards"):
        for card in cards:
            with st.container(key=f"role-card-{card.role}", border=True):
                _render(store, view, card)


def _render(store: Store, view: SessionView, card: RoleCard) -> None:
    with st.container(horizontal=True, gap="xsmall", vertical_alignment="center"):
        st.html(_head(card))
        st.button(
            "Open", key=f"role-open-{card.role}", type="tertiary", disabled=not card.calls,
            help=f"Shows all prompts and replies of {card.role} in this step",
            on_click=ui_state.noted(address.go, pane="prompt", role=str(card.role)),
        )  # fmt: skip
    if card.state is CardState.WORKING:
        st.fragment(_live, run_every=POLL_S)(store, view.id, card.role)
    else:
        st.html(_body(card.role, "".join(_lines(card))))
    st.html(f'<div class="cg-role-foot">{escape_html(_spent(card))}</div>')


def _live(store: Store, session: str, role: Role) -> None:
    """Draw the text of a role while it works, in a fragment that redraws itself."""
    lines = [line.strip() for line in store.live(session).splitlines()[-LIVE_LINES:]]
    text = "\n".join(lines)[-LIVE_CHARACTERS:].strip()
    st.html(_body(role, f'<div class="cg-role-live">{escape_html(text or "waiting for the first words")}</div>'))


def _body(role: Role, inner: str) -> str:
    return f'<div class="cg-role-body" tabindex="0" role="group" aria-label="{role}: what it said">{inner}</div>'


def _head(card: RoleCard) -> str:
    shape, kind = _LOOKS[card.state]
    by = f"{_BY.get(card.by, card.by)}{f': {card.model}' if card.model else ''}"
    state = f'<span class="cg-{kind}">{shape} {escape_html(card.state)}</span>'
    title = tooltip(f"{card.role}, answered by {by}: {card.state}")
    return (
        f'<div class="cg-role-head" title="{title}"><h2>{card.role}</h2> <i>{escape_html(by)}</i> {state}</div>'
    )  # fmt: skip


def _lines(card: RoleCard) -> Iterator[str]:
    if card.suite:
        yield _suite(card.suite)
    if card.shapes:
        yield _shapes(card.shapes)
    for said in card.said:
        yield _line(said)
    if not card.said and not card.suite:
        yield f"<i>{escape_html(_PURPOSE.get(card.role, ''))}</i>"
    if card.dropped:
        folded = "".join(map(_dropped, card.dropped))
        count = counted(len(card.dropped), "answer")
        yield f"<details><summary>{count} sent back or replaced</summary>{folded}</details>"


def _dropped(call: CallView) -> str:
    return f"<div>{escape_html((call.reply or '').strip())}</div><div><i>{escape_html(call.dropped)}</i></div>"


def _line(said: Said) -> str:
    label = f"<i>{escape_html(said.label)}</i> " if said.label else ""
    return f"<div>{label}{escape_html(said.text)}</div>"


def _suite(suite: SuiteFact) -> str:
    """Write the verdict on a suite: the existing kernel, the mutants caught, and those that pass."""
    shape, kind, word = ("✓", "passed", "trusted") if suite.trusted else ("✗", "failed", "not trusted")
    parts = [f'<b class="cg-{kind}">{shape} suite of step {suite.step} {word}</b>']
    if suite.passes is not None:
        parts.append(f"existing kernel {'passes' if suite.passes else 'fails'}")
    if suite.passes and suite.different is not None:
        parts.append(f"mutants caught {suite.caught} of {suite.different}")
    survived = "".join(f"<div>survives: {escape_html(words)}</div>" for words in suite.survivors)
    reason = "" if suite.trusted or survived else f"<div>{escape_html(suite.message)}</div>"
    return f"<div>{' · '.join(parts)}</div>{survived}{reason}"


def _shapes(shapes: Mapping[str, ShapeCell]) -> str:
    """Write a small table: every shape's time, share of the floor, what bounds it, and the existing kernel beside."""
    rows = "".join(
        f"<tr><td>{escape_html(name)}</td><td>{micros(cell.us)}</td><td>{_floor(cell)}</td>"
        f"<td>{f'{factor_words(cell.over_existing)} vs existing' if cell.over_existing else ''}</td></tr>"
        for name, cell in shapes.items()
    )
    return f'<table class="cg-role-shapes">{rows}</table>'


def _floor(cell: ShapeCell) -> str:
    return f"{100 * cell.share:.0f} % of the floor, {escape_html(cell.bound_by)}" if cell.share else ""


def _spent(card: RoleCard) -> str:
    if not card.calls:
        return ""
    tokens = f"{card.tokens:,} tokens" if card.counted else "no tokens"
    several = f" · {counted(len(card.calls), 'exchange')}" if len(card.calls) > 1 else ""
    dropped = f", {len(card.dropped)} of them not used" if card.dropped else ""
    return f"{tokens} · {card.seconds:.1f} s{several}{dropped}"
