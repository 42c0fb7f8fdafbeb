"""How the session page is driven: its state, its steps, and a decision by click or by key."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterator
from contextlib import contextmanager

from playwright.sync_api import Locator, Page, expect

from cutegen_core.records.event import Decided
from cutegen_core.trajectory.store import Store
from tests.patience import wait_until
from tests.serving import Server

LINE = "What should change next? Or why is this wrong?"


def state_of(page: Page) -> Locator:
    """Return the chip with the session's state."""
    return page.locator(".cg-header .cg-chip").first


def title_of(page: Page) -> Locator:
    """Return the shown step's title."""
    return page.locator(".cg-step-title").first


def stop_of(page: Page, name: str) -> Locator:
    """Return one stop of the stage rail."""
    return page.locator(".cg-stop", has_text=name)


def button_of(page: Page, label: str) -> Locator:
    return page.get_by_role("button", name=re.compile(f"^{re.escape(label)}"))


def leave_fields(page: Page) -> None:
    """Go where keys are shortcuts again."""
    page.evaluate("document.activeElement.blur()")


_FRAMES = "() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done))))"


def settled(page: Page) -> None:
    """Wait until the page is drawn, its script has ended, and nothing of the page before is left."""
    expect(page.locator("[data-testid=stMain] :is(h1, h2)").first).to_be_visible()
    # Of what is counted and not there yet, Playwright takes no picture of the whole page for its message.
    expect(page.locator("[data-testid=stApp][data-test-script-state=notRunning]")).to_have_count(1)
    expect(page.locator("[data-testid=stStatusWidget], [data-testid=stSkeleton]")).to_have_count(0)
    drawn(page)


def drawn(page: Page) -> None:
    """Wait until nothing of an earlier drawing is left, and a frame longer: then new buttons listen for their keys."""
    expect(page.locator("[data-stale=true]")).to_have_count(0)
    page.evaluate(_FRAMES)


def shortcut(page: Page, key: str) -> None:
    """Press the key outside all fields, once the page is drawn and listens for it."""
    settled(page)
    leave_fields(page)
    page.keyboard.press(key)


def press(page: Page, label: str, key: str = "", *, by: str = "click") -> None:
    """Make the decision with this label, once it can be made: by a "click" on it, or by its "key"."""
    expect(button_of(page, label)).to_be_enabled()
    if by == "click":
        button_of(page, label).click()
    else:
        shortcut(page, key)


def line_of(page: Page) -> Locator:
    """Return the line of the decide bar."""
    return hinted_of(page, LINE)


def widget_of(page: Page, role: str, name: str | re.Pattern[str] | None = None, *, exact: bool = False) -> Locator:
    """Return what has the role and the name: a "radio", "checkbox", "textbox", "combobox", "radiogroup", ..."""
    return _of_this_drawing(page.get_by_role(role, name=name, exact=exact))


def field_of(page: Page, label: str, *, exact: bool = False) -> Locator:
    """Return the field with the label."""
    return _of_this_drawing(page.get_by_label(label, exact=exact))


def hinted_of(page: Page, hint: str) -> Locator:
    """Return the field that shows the hint while it is empty."""
    return _of_this_drawing(page.get_by_placeholder(hint))


def _of_this_drawing(field: Locator) -> Locator:
    """Leave out fields of an earlier drawing, which Streamlit keeps with the new ones until the script has ended."""
    return field.and_(field.page.locator(":not([data-stale=true] *)"))


def say(page: Page, text: str) -> None:
    """Type into the line of the decide bar."""
    line_of(page).fill(text)


@contextmanager
def engine_held(server: Server) -> Iterator[None]:
    """Let a session run meanwhile without the engine taking it up."""
    pid = server.engine_pid()
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


@contextmanager
def standing_still(server: Server, *pages: Page) -> Iterator[None]:
    """Keep the server from everything meanwhile, from a moment on at which it has drawn the pages to the end.

    What it has begun to draw would stay stale, and no test finds what is stale.
    """
    assert server.process is not None
    pid = server.process.pid

    def stopped_between_drawings() -> bool:
        for page in pages:
            drawn(page)
        os.kill(pid, signal.SIGSTOP)
        for page in pages:
            page.evaluate(_FRAMES)
        if any(page.locator("[data-stale=true]").count() for page in pages):
            os.kill(pid, signal.SIGCONT)
            return False
        return True

    try:
        wait_until(stopped_between_drawings, "the pages were never drawn to the end")
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def decided(store: Store, session: str) -> list[str]:
    """Return the kinds of all decisions so far."""
    return [str(e.event.decision.kind) for e in store.events(session) if isinstance(e.event, Decided)]
