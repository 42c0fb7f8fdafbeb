"""Showing a session in a real browser: by the keys, by itself, and from a file without any network."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, Route, expect

from cutegen_core.records.decision import Gate
from cutegen_core.records.event import SessionState, StateChanged
from cutegen_core.share.exports import export
from cutegen_core.share.imports import import_path
from cutegen_core.trajectory.store import Store
from tests.browser.conftest import LOOKS
from tests.browser.driving import shortcut, widget_of
from tests.pages.gpu_stories import gpu_story
from tests.pages.stories import HOSTILE, KERNEL, VECTORS, Story, not_compiled, passed, softmax_story
from tests.serving import ROOT, Server

pytestmark = [pytest.mark.browser, pytest.mark.timeout(240)]

RECORDING = ROOT / "assets" / "recordings" / "softmax-h200.jsonl.gz"
SCRIPT = "</style></script><script>document.title='owned'</script>"


def head(page: Page) -> str:
    return page.locator(".pr-slide .pr-head h2").inner_text()


def go_on(store: Store, story: Story, idea: str) -> None:
    """Append, at once, a tested step that waits for its promotion: a live engine must not take it for its own work."""
    story.held, before = [], store.last_seq(story.session)
    key = story.propose(VECTORS + f"// {idea}\n", idea)
    story.test(passed(store, key)).gate(Gate.PROMOTION, key)
    store.append(story.session, [recorded.event for recorded in story.held], after=before)
    story.held = None


@pytest.mark.thorough
def test_a_recording_is_walked_by_keys_and_plays_by_itself(server: Server, page: Page) -> None:
    session = import_path(Store(server.home / "store.db"), RECORDING).session
    page.goto(f"{server.url}/present?id={session}&every=3")
    title = page.locator(".pr-slide .pr-head h2")

    expect(title).to_contain_text("Softmax, recorded on NVIDIA H200")
    expect(page.get_by_role("button", name="Next")).to_be_visible()
    for number in (1, 2, 3, 5, 7):  # steps 4 and 6 left nothing to show
        shortcut(page, "ArrowRight")
        expect(title).to_contain_text(f"Step {number}")
    expect(page).to_have_url(re.compile("step=7"))
    expect(page.locator(".pr-said").first).to_contain_text("try 128 threads a block")
    shortcut(page, "ArrowLeft")
    expect(title).to_contain_text("Step 5")
    expect(page.locator("tr.pr-add .cg-w").first).to_be_visible()
    expect(page.locator(".pr-chart img")).to_have_attribute(
        "alt", re.compile(r"latency to step 5; best kernel so far: 1\d\d")
    )
    page.wait_for_function("() => document.querySelector('.pr-chart img')?.naturalWidth > 0")
    page.reload()
    expect(title).to_contain_text("Step 5")
    shortcut(page, "2")
    expect(page.locator(".pr-kernel")).to_contain_text("The whole kernel")
    shortcut(page, "1")
    expect(page.locator(".pr-change")).to_contain_text("Changed since step 3")
    shortcut(page, "PageDown")  # as a presenter's remote control
    expect(title).to_contain_text("Step 7")
    shortcut(page, "End")
    expect(title).to_contain_text("Result")
    expect(page.locator(".pr-proof")).to_contain_text("Accepted: all tests again, with fresh inputs")
    shortcut(page, "Home")
    expect(title).to_contain_text("Softmax, recorded")
    shortcut(page, "Space")
    expect(page.get_by_role("button", name="Pause")).to_be_visible()
    expect(title).to_contain_text(re.compile(r"Step \d"))  # nobody pressed a key for it
    shortcut(page, "Space")
    expect(page.get_by_role("button", name="Play")).to_be_visible()


@pytest.mark.thorough
def test_a_session_that_goes_on_is_followed_unless_one_stepped_back(server: Server, page: Page) -> None:
    store = Store(server.home / "store.db")
    story = softmax_story(store)
    page.goto(f"{server.url}/present?id={story.session}")
    title = page.locator(".pr-slide .pr-head h2")
    expect(title).to_contain_text("Step 5")
    go_on(store, story, "the tail predicated")
    expect(title).to_contain_text("Step 6 the tail predicated")
    expect(page.get_by_role("button", name="Back")).to_be_visible()
    shortcut(page, "ArrowLeft")
    expect(title).to_contain_text("Step 5")
    go_on(store, story, "another tail")
    expect(widget_of(page, "radio", re.compile("7"))).to_be_visible()  # it is there, and nobody is pulled to it
    assert head(page).startswith("Step 5")
    shortcut(page, "ArrowRight")
    expect(title).to_contain_text("Step 6")
    shortcut(page, "ArrowRight")
    expect(title).to_contain_text("Step 7")
    store.append(story.session, [StateChanged(SessionState.ACCEPTED, "")], after=store.last_seq(story.session))
    expect(title).to_contain_text("Result")


# ---- the file


@pytest.fixture
def offline(browser: Browser) -> Iterator[BrowserContext]:
    """A browser without a network, which notes whatever reaches for anything but a file."""
    context = browser.new_context(**LOOKS, offline=True)
    reached: list[str] = []

    def watch(route: Route) -> None:
        if not route.request.url.startswith("file://"):
            reached.append(route.request.url)
        route.continue_()

    context.route("**/*", watch)
    yield context
    context.close()
    assert reached == []


def opened(context: BrowserContext, file: Path, anchor: str = "") -> tuple[Page, list[str]]:
    """Return the file from the disk, and all that the browser complains about: what the policy blocks, too."""
    page = context.new_page()
    said: list[str] = []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.goto(f"{file.as_uri()}{anchor}")
    return page, said


def pages_on_paper(page: Page) -> int:
    return page.pdf(prefer_css_page_size=True).count(b"/Type /Page\n")


def test_the_exported_file_is_walked_without_a_network(offline: BrowserContext, tmp_path: Path) -> None:
    store = Store(tmp_path / "store.db")
    export(store, gpu_story(store).session, "html", tmp_path / "shown.html")
    page, said = opened(offline, tmp_path / "shown.html", "#step-5")
    title = page.locator(".ex-shown .pr-head h2")
    expect(title).to_have_text("Step 5 one pass, 128-bit loads")
    expect(page.locator(".ex-shown .pr-against").first).to_contain_text("1.12x faster than eager")
    expect(page.locator(".ex-shown .pr-chart svg circle")).to_have_count(3)
    page.wait_for_function("() => document.querySelector('.ex-shown .pr-head').getBoundingClientRect().y < 40")
    page.keyboard.press("ArrowRight")
    expect(title).to_contain_text("Step 6")
    expect(page.locator(".ex-shown .pr-doubt")).to_contain_text("no result")
    page.keyboard.press("PageUp")
    page.keyboard.press("Home")
    expect(title).to_contain_text("Softmax")
    page.keyboard.press("End")
    expect(title).to_contain_text("Result")
    expect(page).to_have_url(re.compile("#result$"))
    for pane, picture in (("2", "kernel"), ("3", "speed"), ("1", "change")):
        page.keyboard.press(pane)
        expect(page.locator("body")).to_have_attribute("data-pane", picture)
    paper = page.locator("body").evaluate("body => getComputedStyle(body).backgroundColor")
    page.keyboard.press("t")
    expect(page.locator("body")).not_to_have_css("background-color", paper)
    expect(page.locator("section:visible")).to_have_count(1)
    page.keyboard.press("o")
    expect(page.locator("section:visible")).to_have_count(10)  # the problem, eight steps, the result
    assert said == []
    everything = pages_on_paper(page)
    page.keyboard.press("o")
    assert 10 <= pages_on_paper(page) <= 12 < everything


def test_the_file_plays_and_pauses_by_space(offline: BrowserContext, tmp_path: Path) -> None:
    store = Store(tmp_path / "store.db")
    export(store, gpu_story(store).session, "html", tmp_path / "shown.html")
    page = offline.new_page()
    page.clock.install()
    page.goto((tmp_path / "shown.html").as_uri())
    title = page.locator(".ex-shown .pr-head h2")
    page.get_by_role("button", name="Next").click()
    page.keyboard.press("Space")  # plays, and does not press the button again that was clicked
    expect(title).to_contain_text("Step 1")
    page.clock.run_for(8100)
    expect(title).to_contain_text("Step 2")
    page.keyboard.press("Space")
    page.clock.run_for(30_000)
    expect(title).to_contain_text("Step 2")


def test_what_is_hostile_stays_text_in_the_file(offline: BrowserContext, tmp_path: Path) -> None:
    store = Store(tmp_path / "store.db")
    story = Story(store).begin(held=True)
    bad = SCRIPT + HOSTILE
    key = story.propose(KERNEL + f"// {bad}\n", bad, plan=bad)
    story.test(not_compiled(key, bad)).publish()
    export(store, story.session, "html", tmp_path / "shown.html")
    page, said = opened(offline, tmp_path / "shown.html", "#step-1")
    expect(page.locator(".ex-shown .pr-head h2")).to_contain_text(bad)
    page.keyboard.press("2")
    expect(page.locator(".ex-shown details.pr-kernel")).to_contain_text(bad)
    expect(page.locator(".ex-shown .ex-details")).to_contain_text(f"candidate.cu(40): error: {bad}")
    assert page.title() != "owned"
    assert page.locator("img").count() == 0
    expect(page.locator("script")).to_have_count(1)
    assert said == []


def test_the_file_is_a_report_without_scripts_and_pages_on_paper(browser: Browser, tmp_path: Path) -> None:
    store = Store(tmp_path / "store.db")
    export(store, gpu_story(store).session, "html", tmp_path / "shown.html")
    context = browser.new_context(java_script_enabled=False, offline=True)
    page, said = opened(context, tmp_path / "shown.html")
    expect(page.locator("section:visible")).to_have_count(10)
    expect(page.locator("#step-5 .ex-details")).to_contain_text("1.118 to 1.127")
    expect(page.locator(".ex-keys")).to_be_hidden()
    page.get_by_role("link", name="6 suspect").click()
    expect(page).to_have_url(re.compile("#step-6$"))
    assert pages_on_paper(page) > 12
    assert said == []
    context.close()
