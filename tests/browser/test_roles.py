"""Astra's four roles as a person meets them: stepped through on the emulator, answered by hand, sent back, approved."""

from __future__ import annotations

import pytest
from playwright.sync_api import Locator, Page, expect

from cutegen_core.problems import library
from cutegen_core.records.event import AnsweredBy, Role
from cutegen_core.session import start
from cutegen_core.trajectory.store import Store
from tests.browser.conftest import PATIENCE_MS
from tests.browser.driving import button_of, decided, field_of, press, say, settled, state_of
from tests.browser.test_accessibility import Checked
from tests.pages.role_stories import TINY, roles_story, tiny_story
from tests.serving import Server

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.timeout(900)]

FIRST_EVER_MS = 240_000
SUITE_MS = 400_000


def card_of(page: Page, role: Role) -> Locator:
    return page.locator(f".st-key-role-card-{role}")


def waits_for(page: Page, words: str, timeout: float = PATIENCE_MS) -> None:
    expect(page.get_by_text(words, exact=False).first).to_be_visible(timeout=timeout)


def answer_by_hand(page: Page, role: Role) -> Locator:
    press(page, "Edit the answer", "e", by="key")
    field = field_of(page, f"Your answer for {role}")
    expect(field).to_be_visible()
    return field


def mistyped_then_right(page: Page) -> None:
    """Write the suite by hand: a wrong literal is refused with its error and outlasts a reload; the right one goes."""
    field = answer_by_hand(page, Role.TESTING)
    right = field.input_value()
    field.fill(right.replace('"emulator"', '"emulatr"', 1))
    page.keyboard.press("Control+Enter")
    error = page.locator(".cg-field-error")
    expect(error).to_contain_text("emulatr")
    page.reload()
    field = field_of(page, "Your answer for testing")
    expect(field).to_have_value(right.replace('"emulator"', '"emulatr"', 1))
    field.fill(right)
    page.keyboard.press("Control+Enter")
    expect(field).to_have_count(0)


def plan_to_verdict(page: Page) -> None:
    """Send the plan back with words, approve the next; approve the code, which is judged."""
    waits_for(page, "Review the answer of planning")
    say(page, "256 threads")
    press(page, "Redirect")
    expect(card_of(page, Role.PLANNING)).to_contain_text("1 answer sent back or replaced")
    expect(card_of(page, Role.PLANNING)).to_contain_text("BLOCK = 256")
    press(page, "Approve the answer", "a", by="key")
    waits_for(page, "Review the answer of coding")
    expect(card_of(page, Role.CODING)).to_contain_text("its answer waits for you")
    press(page, "Approve the answer", "a", by="key")
    waits_for(page, "Review, then compile")
    press(page, "Approve the diff")
    waits_for(page, "Review the verdict", FIRST_EVER_MS)
    expect(page.get_by_text("runs correct on")).to_be_visible()


@pytest.mark.thorough
def test_a_suite_of_ones_own_is_checked_and_stopped(server: Server, store: Store, page: Page) -> None:
    session = tiny_story(store, at=Role.TESTING).session
    page.goto(f"{server.url}/session?id={session}")
    waits_for(page, "Review the answer of testing")
    mistyped_then_right(page)
    expect(card_of(page, Role.TESTING)).to_contain_text("working", timeout=FIRST_EVER_MS)
    press(page, "Stop", "s", by="key")
    expect(state_of(page)).to_contain_text("stopped", timeout=FIRST_EVER_MS)
    assert decided(store, session) == ["reply", "stop"]


@pytest.mark.thorough
def test_the_cards_are_stepped_through_from_profile_to_verdict(server: Server, store: Store, page: Page) -> None:
    session = tiny_story(store, at=Role.PROFILING).session
    page.goto(f"{server.url}/session?id={session}")
    waits_for(page, "Review the answer of profiling")
    expect(card_of(page, Role.TESTING)).to_contain_text("mutants caught 30 of 30")
    field = answer_by_hand(page, Role.PROFILING)
    expect(button_of(page, "Use this answer")).to_be_enabled()
    expect(button_of(page, "Approve the answer")).to_have_count(0)  # not on the screen
    field.fill("One float a thread is loaded: too little is in flight.")
    page.keyboard.press("Control+Enter")
    expect(card_of(page, Role.PROFILING)).to_contain_text("One float a thread")
    plan_to_verdict(page)
    assert decided(store, session) == ["reply", "redirect", "approve", "approve", "approve"]

    card_of(page, Role.PLANNING).get_by_role("button", name="Open").click()
    waits_for(page, "2 exchanges of planning")
    page.goto(f"{server.url}/session?id={session}&pane=shapes")
    waits_for(page, "No times")


@pytest.mark.thorough
def test_a_whole_session_with_a_real_suite(server: Server, store: Store, page: Page) -> None:
    roles = {Role.PROFILING: AnsweredBy.PERSON}
    session = start.create(
        store, library.load(str(TINY)), answered_by=AnsweredBy.PLAYBOOK, strategy="astra", roles=roles
    )
    page.goto(f"{server.url}/session?id={session}")
    waits_for(page, "Review the verdict", FIRST_EVER_MS)
    press(page, "Promote")
    waits_for(page, "Review the answer of testing")
    mistyped_then_right(page)
    waits_for(page, "Answer for profiling", SUITE_MS)
    expect(card_of(page, Role.TESTING)).to_contain_text("suite of step 2 trusted")
    field_of(page, "The model's reply").fill("Every shape is bound by memory.")
    page.keyboard.press("Control+Enter")
    plan_to_verdict(page)
    press(page, "Promote", "a", by="key")
    waits_for(page, "Answer for profiling", FIRST_EVER_MS)


@pytest.mark.thorough
def test_axe_finds_nothing_on_the_cards(server: Server, store: Store, page: Page) -> None:
    session, checked = roles_story(store).session, Checked(page)
    addresses = {
        "cards": f"session?id={session}",
        "start": "?problem=silu_and_mul&strategy=astra",
        "shapes": f"session?id={session}&step=3&pane=shapes",
        "chart": f"session?id={session}&step=3&pane=shapes&shapes=chart",
        "exchanges": f"session?id={session}&step=2&pane=prompt&role=planning",
        "compare": f"compare?a={session}.2&b={session}.3",
    }
    for theme in ("dark", "light"):
        page.emulate_media(color_scheme=theme)
        for state, address in addresses.items():
            page.goto(f"{server.url}/{address}")
            settled(page)
            checked.look(state, theme)
    page.goto(f"{server.url}/session?id={session}")
    settled(page)
    answer_by_hand(page, Role.PLANNING)
    checked.look("own answer", "dark")
    assert not checked.ours, "\n".join(checked.ours)
