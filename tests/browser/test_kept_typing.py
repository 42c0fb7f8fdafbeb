"""What is typed into a field is there after a reload, also when the field was not left; what was sent is not."""

from __future__ import annotations

import pytest
from playwright.sync_api import Locator, Page, expect

from cutegen_core.propose.llm import model_settings
from cutegen_core.propose.llm.model_settings import Models, ModelSettings
from cutegen_core.records.decision import Gate
from cutegen_core.records.event import AnsweredBy, GateOpened, Role, StepStarted
from cutegen_core.trajectory.store import Store
from tests.browser.driving import (
    decided,
    engine_held,
    field_of,
    hinted_of,
    line_of,
    press,
    settled,
    title_of,
    widget_of,
)
from tests.pages.stories import Story, softmax_story
from tests.places import ROOT
from tests.serving import Server

pytestmark = [pytest.mark.browser, pytest.mark.timeout(240)]

KEPT_TYPING = (ROOT / "pages/components/shared/kept_typing.js").read_text(encoding="utf-8")
PROMPT = "Write a softmax.\nOne warp a row.\n"
_KEPT = "() => JSON.stringify(sessionStorage)"
_FIELD = '<div class="st-key-note"><div data-testid="stTextArea"><textarea></textarea></div></div>'
_DRAW_WITH_A_PAUSE = """async ([html, own]) => {
  let frames = 3;
  document.body.innerHTML = html;
  const next = () => requestAnimationFrame(() => --frames && next());
  next();
  while (frames) await scheduler.postTask(() => {});
  document.querySelector("textarea").value = own;
  document.querySelector("textarea").dataset.drawn = "";
}"""
"""Show a field, let frames pass while tasks wait, and set the field's own text in a late task."""


def type_and_reload(page: Page, field: Locator, text: str) -> None:
    """Type as a person does: the field is not left."""
    field.click()
    field.press("Control+End")
    page.keyboard.type(text)
    page.reload()
    settled(page)


@pytest.mark.thorough
@pytest.mark.parametrize("slower", [1, pytest.param(8, marks=pytest.mark.thorough)])
def test_an_instruction_and_a_standing_one_outlast_a_reload(
    server: Server, store: Store, page: Page, slower: int
) -> None:
    """A slow browser goes on sending the text it shows for a while after the server has replaced it."""
    page.context.new_cdp_session(page).send("Emulation.setCPUThrottlingRate", {"rate": slower})
    session = softmax_story(store).session
    page.goto(f"{server.url}/session?id={session}&pane=memory")
    settled(page)
    line, standing = line_of(page), hinted_of(page, "Never change the tile shape")
    line.click()
    page.keyboard.type("predicate the tail")
    type_and_reload(page, standing, "never use atomics")
    expect(standing).to_have_value("never use atomics")
    expect(line).to_have_value("predicate the tail")
    # It is as good as typed: its key sends it, once, and what was sent does not come back.
    known = len(decided(store, session))
    press(page, "Redirect", "d", by="key")
    expect(title_of(page)).to_contain_text("Step 6")
    expect(line).to_have_value("")
    assert decided(store, session)[known:] == ["redirect"]
    page.reload()
    settled(page)
    expect(standing).to_have_value("never use atomics")
    expect(line).to_have_value("")


def test_typing_is_put_back_once_the_field_is_drawn_to_the_end(server: Server, page: Page) -> None:
    """Streamlit's drawing is played: frames come between its tasks only on a busy machine."""
    field, offered = page.locator("textarea"), page.get_by_role("alert")

    def load(own: str) -> None:
        page.goto(f"{server.url}/_stcore/health")
        page.add_script_tag(content=f"{KEPT_TYPING}\nkeepTyping();")
        page.evaluate(_DRAW_WITH_A_PAUSE, [_FIELD, own])

    load("")
    field.press_sequentially("no atomics")
    for _ in range(2):  # the second time, it is kept still
        load("")
        expect(field).to_have_value("no atomics")
    load("no spills")
    expect(offered).to_contain_text("no atomics")
    expect(field).to_have_value("no spills")


@pytest.mark.parametrize("handed_over", [False, True])
def test_typing_in_a_field_that_gets_another_value_is_offered(server: Server, page: Page, handed_over: bool) -> None:
    field, offered = page.locator("textarea"), page.get_by_role("alert")
    page.goto(f"{server.url}/_stcore/health")
    page.add_script_tag(content=f"{KEPT_TYPING}\nkeepTyping();")
    page.evaluate(_DRAW_WITH_A_PAUSE, [_FIELD, "one"])
    field.press_sequentially("half")
    if handed_over:
        field.press("Control+Enter")
    page.evaluate(_DRAW_WITH_A_PAUSE, [_FIELD.replace("note", "note-turn-1"), "two"])
    expect(field).to_have_value("two")
    if handed_over:
        page.wait_for_function("!Object.keys(sessionStorage).some((key) => key.startsWith('cutegen-typed'))")
        expect(offered).to_be_hidden()
    else:
        offered.get_by_role("button", name="Put it back").click()
        expect(field).to_have_value("onehalf")


@pytest.mark.thorough
def test_a_prompt_and_a_reply_outlast_a_reload(server: Server, store: Store, page: Page) -> None:
    with engine_held(server):
        story = softmax_story(store)
        story.add(GateOpened(5, Gate.PROMPT, prompt=store.put(PROMPT), role=Role.PROPOSER))
        page.goto(f"{server.url}/session?id={story.session}")
        settled(page)
        prompt = field_of(page, "Prompt", exact=True)
        type_and_reload(page, prompt, "No atomics.")
        expect(prompt).to_have_value(f"{PROMPT}No atomics.")
        expect(page.get_by_text("edited by you")).to_be_visible()
        type_and_reload(page, prompt, " No spills.")
        expect(prompt).to_have_value(f"{PROMPT}No atomics. No spills.")
        press(page, "Restore")
        expect(prompt).to_have_value(PROMPT)
        page.reload()
        settled(page)
        expect(prompt).to_have_value(PROMPT)

        other = Story(store, answered_by=AnsweredBy.PERSON).begin()
        other.add(StepStarted(1, None), GateOpened(1, Gate.REPLY, note="", prompt=store.put(PROMPT)))
        page.goto(f"{server.url}/session?id={other.session}")
        settled(page)
        reply = field_of(page, "The model's reply")
        type_and_reload(page, reply, "```cpp\n// half")
        expect(reply).to_have_value("```cpp\n// half")


@pytest.mark.thorough
def test_a_secret_is_not_kept(server: Server, page: Page, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUTEGEN_HOME", str(server.home))
    model_settings.write(Models((ModelSettings("served", "http://127.0.0.1:9/v1", "test-model"),)))
    page.goto(f"{server.url}/setup")
    settled(page)
    widget_of(page, "textbox", "Base URL").press_sequentially("2")
    key = widget_of(page, "textbox", "API key for this server")
    key.press_sequentially("sk-half")
    kept = page.evaluate(_KEPT)
    assert "2http://127.0.0.1:9/v1" in kept
    assert "sk-half" not in kept
