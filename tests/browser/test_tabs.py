"""Two tabs on one session: what one decides the other shows; a late answer is refused and loses no word."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, WebSocketRoute, expect

from cutegen_core.trajectory.store import Store
from tests.browser.conftest import NewPage
from tests.browser.driving import (
    button_of,
    decided,
    leave_fields,
    line_of,
    press,
    say,
    standing_still,
    state_of,
    title_of,
)
from tests.later import Later
from tests.pages.stories import softmax_story
from tests.serving import Server

protocol = Later("streamlit.proto.BackMsg_pb2")

pytestmark = [pytest.mark.browser, pytest.mark.timeout(240)]


def no_polls(route: WebSocketRoute) -> None:
    """Keep the tab from asking by itself, so that it still shows what has passed."""
    server = route.connect_to_server()

    def sent(frame: str | bytes) -> None:
        message = protocol.BackMsg()
        message.ParseFromString(frame if isinstance(frame, bytes) else frame.encode())
        if not message.rerun_script.is_auto_rerun:
            server.send(frame)

    route.on_message(sent)
    server.on_message(route.send)


@pytest.fixture
def session(store: Store) -> str:
    return softmax_story(store).session


def at_step_5(server: Server, session: str, *tabs: Page) -> None:
    for tab in tabs:
        tab.goto(f"{server.url}/session?id={session}")
        expect(title_of(tab)).to_contain_text("Step 5")
        expect(button_of(tab, "Continue without it")).to_be_enabled()


@pytest.mark.thorough
def test_a_key_pressed_twice_answers_once_and_a_late_answer_is_refused(
    server: Server, store: Store, session: str, page: Page
) -> None:
    known, late = len(decided(store, session)), page.context.new_page()
    late.route_web_socket("**/_stcore/stream", no_polls)
    at_step_5(server, session, page, late)
    say(late, "predicate the tail")
    leave_fields(page)
    with standing_still(server, page):  # pressed again before the server has handled the first: it answers once
        for _ in range(3):
            page.keyboard.press("a")
    expect(title_of(page)).to_contain_text("Step 6")
    expect(page.get_by_text("Review, then compile")).to_be_visible()
    assert not page.locator(".cg-note.cg-warning").count()

    # It still shows step 5 and answers that: refused, said, nothing typed is lost; then it shows what there is.
    expect(title_of(late)).to_contain_text("Step 5")
    press(late, "Redirect", "d", by="click")
    expect(late.get_by_text("The session has moved on since this was shown")).to_be_visible()
    expect(line_of(late)).to_have_value("predicate the tail")
    expect(title_of(late)).to_contain_text("Step 6")
    assert decided(store, session)[known:] == ["approve"]


@pytest.mark.thorough
def test_tabs_agree(server: Server, session: str, new_page: NewPage, page: Page) -> None:
    other = new_page()
    at_step_5(server, session, page, other)
    say(other, "half a sentence")
    press(page, "Continue without it", "a", by="key")
    for tab in (page, other):  # the other one asks by itself
        expect(title_of(tab)).to_contain_text("Step 6")
        expect(tab.get_by_text("Review, then compile")).to_be_visible()
    expect(line_of(other)).to_have_value("half a sentence")

    # Other tabs on other steps stay where they are, and still show how the session stands.
    press(other, "Older", "o", by="key")
    expect(title_of(other)).to_contain_text("Step 5")
    press(page, "Stop", "s", by="key")
    expect(state_of(other)).to_have_text("■ stopped")
    expect(title_of(other)).to_contain_text("Step 5")
    press(other, "Resume", "g", by="click")
    expect(state_of(page)).to_have_text("◆ awaiting review")
