"""A whole session without a mouse: from the start page to accepted, and the way Tab takes through the session page."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from cutegen_core.trajectory.store import Store
from tests.browser.driving import button_of, decided, drawn, settled, state_of, stop_of, title_of
from tests.browser.editing import editor_of
from tests.pages.stories import softmax_story
from tests.patience import wait_until
from tests.serving import Server

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.timeout(600)]

FIRST_EVER_MS = 240_000
"""The very first trial on a machine builds the emulator's headers."""
MOST_TABS = 120
FIELD = "Instruction or reason"
_WATCH = """
window.mouse = [];
for (const kind of ["mousedown", "pointerdown", "wheel", "touchstart"])
  addEventListener(kind, (event) => window.mouse.push(event.type), true);

const lines = (at) => {
  const drawn = [];
  for (let box = at, up = 0; box && up < 6; box = box.parentElement, up += 1) {
    const style = getComputedStyle(box);
    drawn.push(style.outline, style.boxShadow, style.borderColor, style.backgroundColor);
  }
  return drawn.join("; ");
};

window.focused = () => {
  const at = document.activeElement;
  if (!at || at === document.body) return { label: "", button: false };
  const label = at.getAttribute("aria-label") || at.placeholder || at.innerText || "";
  return { label: label.trim().split("\\n")[0], button: at.localName === "button" };
};

// What has the focus looks otherwise than without it, once what fades has faded.
window.showsFocus = async () => {
  const at = document.activeElement;
  const faded = () => new Promise((done) => setTimeout(done, 300));
  await faded();
  const kept = lines(at);
  at.blur();
  await faded();
  const without = lines(at);
  at.focus({ focusVisible: true });
  return kept !== without;
};
"""


def tab_to(page: Page, label: str) -> None:
    """Tab until the button or field with this label has the focus, and shows it."""
    for _ in range(MOST_TABS):
        page.keyboard.press("Tab")
        focused = page.evaluate("window.focused()")
        if focused["label"].startswith(label) and (focused["button"] or label == FIELD):
            assert page.evaluate("window.showsFocus()"), f"{label} does not show that it has the focus"
            return
    raise AssertionError(f"{label} was not reached in {MOST_TABS} presses of Tab")


@pytest.mark.thorough
def test_a_whole_session_without_a_mouse(server: Server, own_tab: Page) -> None:
    page = own_tab
    page.add_init_script(_WATCH)
    page.goto(server.url)
    expect(page.get_by_role("button", name="Start", exact=True)).to_be_enabled()
    tab_to(page, "Start")
    page.keyboard.press("Enter")
    expect(page.get_by_text("Review, then compile")).to_be_visible(timeout=FIRST_EVER_MS)

    # The key of the button it stands on.
    page.keyboard.press("a")
    expect(page.get_by_text("Review the verdict")).to_be_visible(timeout=FIRST_EVER_MS)
    expect(stop_of(page, "TEST")).to_contain_text("passed")

    # A wish, typed; Enter sends it.
    tab_to(page, FIELD)
    page.keyboard.type("512 threads")
    page.keyboard.press("Enter")
    expect(title_of(page)).to_contain_text("instruction: “512 threads”")
    expect(page.get_by_text("Review, then compile")).to_be_visible()

    # By hand: in, a change, out with the draft kept, in again, run.
    tab_to(page, "Edit & run")
    page.keyboard.press("Enter")
    expect(editor_of(page)).to_be_focused()
    page.keyboard.press("Control+Home")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Control+Enter")
    expect(editor_of(page)).to_have_count(0)
    expect(title_of(page)).to_contain_text("same text again")
    expect(page.get_by_text("Review the verdict")).to_be_visible(timeout=FIRST_EVER_MS)

    tab_to(page, "Accept")
    page.keyboard.press("Enter")
    expect(state_of(page)).to_have_text("✓ accepted", timeout=FIRST_EVER_MS)
    assert page.evaluate("window.mouse") == []


ORDER = (
    "Autonomy", "Keys", "Export", "Older", "Continue without it", "Edit & run", "Keep hunks", FIELD, "Redirect",
    "Reject", "Rewind", "Branch", "Accept", "Stop",
)  # fmt: skip


@pytest.mark.thorough
def test_tab_walks_through_the_page_in_the_order_it_is_read(server: Server, own_tab: Page) -> None:
    page = own_tab
    session = softmax_story(Store(server.home / "store.db")).session
    page.add_init_script(_WATCH)
    page.goto(f"{server.url}/session?id={session}")
    expect(button_of(page, "Stop")).to_be_enabled()
    settled(page)
    walked: list[str] = []
    while len(walked) < MOST_TABS and not (walked and walked[-1].startswith("Stop")):
        page.keyboard.press("Tab")
        walked.append(page.evaluate("window.focused()")["label"])
    found = [next((i for i, label in enumerate(walked) if label.startswith(name)), -1) for name in ORDER]
    assert -1 not in found, list(zip(ORDER, found, strict=True))
    assert found == sorted(found)


@pytest.mark.thorough
def test_a_popup_has_its_keys_for_itself(server: Server, store: Store, page: Page) -> None:
    """A letter in the menu, in the dialog and in a list of choices answers nothing; afterwards it does."""
    session = softmax_story(store).session
    page.goto(f"{server.url}/session?id={session}")
    settled(page)
    known = len(decided(store, session))
    for name in ("Export", "Keys"):
        page.get_by_role("button", name=name).click()
        expect(page.get_by_role("dialog")).to_be_visible()
        drawn(page)
        for key in "asx":
            page.keyboard.press(key)
        expect(page.get_by_role("dialog")).to_be_visible()
        page.keyboard.press("Escape")
        expect(page.get_by_role("dialog")).to_have_count(0)
    page.locator("[data-testid=stSelectbox]").first.click()
    page.get_by_role("option", name="until failure").click()
    wait_until(lambda: decided(store, session)[known:] == ["autonomy"], "the choice was not taken")
    drawn(page)
    page.keyboard.press("o")  # where the last choice left the keyboard
    expect(title_of(page)).to_contain_text("Step 4")
    assert decided(store, session)[known:] == ["autonomy"]
