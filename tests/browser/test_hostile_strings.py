"""No text of a model, a log, a kernel, a person or a file is ever more than text, wherever a page shows it."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

import pytest
from playwright.sync_api import Page, Request, expect

from cutegen_core.machine.visible_text import show_hidden
from cutegen_core.propose.llm import model_settings
from cutegen_core.propose.llm.model_settings import Models, ModelSettings
from cutegen_core.records.event import SessionState as State
from cutegen_core.records.event import StateChanged
from cutegen_core.trajectory.store import Draft, Store, edit_name
from cutegen_core.trajectory.transitions import fold
from tests.browser.driving import widget_of
from tests.browser.editing import editor_of, text_of
from tests.hostile_strings import HOST, STRINGS, placed
from tests.pages import hostile_stories as stories
from tests.patience import wait_until
from tests.serving import Server, no_engine, served

pytestmark = [pytest.mark.browser, pytest.mark.timeout(600)]

FIELDS = ("standing",)
SOURCES = ("comment", "second", "third")
# Everything a person can read on the page: texts, fields, tooltips; the shadow trees of components included.
_TEXTS = """() => {
  const found = [];
  const walk = (node) => {
    if (node.nodeType === Node.TEXT_NODE) found.push(node.data);
    if (node.nodeType === Node.ELEMENT_NODE) {
      if (/^(script|style|noscript)$/i.test(node.localName)) return;
      for (const name of ["title", "aria-label"]) found.push(" ", node.getAttribute(name) ?? "", " ");
      if (/^(input|textarea)$/.test(node.localName)) found.push(" ", node.value, " ");
      if (node.shadowRoot) walk(node.shadowRoot);
    }
    node.childNodes.forEach(walk);
  };
  walk(document.body);
  return found.join("");
}"""
# What only markup of the strings could have made: handlers, words of theirs in attributes that are no text, addresses
# that run something, foreign elements.
_MADE = """() => {
  const texts = ["title", "aria-label", "value", "placeholder", "alt", "data-unformatted", "class", "id"];
  const means = /^\\s*(javascript|vbscript):|owned|evil\\.example/i;
  const acts = ({ name, value }) => /^on/i.test(name) || (means.test(value) && !texts.includes(name));
  const foreign = /^(iframe|object|embed|base|marquee|math|audio|video)$/i;
  const found = [];
  const walk = (node) => {
    const said = /^(script|style|title)$/i.test(node.localName ?? "") && node.textContent;
    const speaks = /owned|evil\\.example/.test(said || "");
    if (speaks || foreign.test(node.localName ?? "") || [...(node.attributes ?? [])].some(acts)) {
      found.push(node.outerHTML.slice(0, 300));
    }
    if (node.shadowRoot) walk(node.shadowRoot);
    [...node.children].forEach(walk);
  };
  walk(document.documentElement);
  return found;
}"""


@dataclass
class Watched:
    """A page on which nothing may happen, with what did."""

    page: Page
    home: str
    happened: list[str] = field(default_factory=list)

    def begin(self) -> None:
        self.page.add_init_script("window.canary = []; window.owned = (n) => window.canary.push(n);")
        self.page.on("dialog", lambda dialog: (self.happened.append(f"dialog {dialog.message}"), dialog.dismiss()))
        self.page.on("request", self._asked)
        self.page.on("popup", lambda popup: self.happened.append(f"popup {popup.url}"))

    def _asked(self, request: Request) -> None:
        if not request.url.startswith((self.home, "data:", "blob:")) or HOST in request.url.partition("?")[0]:
            self.happened.append(f"request {request.url[:200]}")

    def shows(self, *places: str, strings: Sequence[int] = stories.ALL) -> None:
        """Expect every string at each place as it is, and nothing made of any."""
        expected = {(place, i): _bare(_as_told(i, place)) for place in places for i in strings}
        wait_until(lambda: not self._missing(expected), lambda: f"shown: {self._missing(expected)[:3]}")
        self.is_clean()

    def tells(self, texts: Sequence[str]) -> None:
        """Expect every text, anywhere."""
        expected = {(text, 0): _bare(text) for text in texts}
        wait_until(lambda: not self._missing(expected), lambda: f"shown: {self._missing(expected)[:3]}")

    def is_clean(self) -> None:
        assert self.page.evaluate(_MADE) == []
        assert self.page.evaluate("window.canary") == []
        assert self.happened == []
        assert self.page.locator("[data-testid=stException]").count() == 0

    def _missing(self, expected: dict[tuple[str, int], str]) -> list[tuple[tuple[str, int], str]]:
        text = _bare(str(self.page.evaluate(_TEXTS)))
        return [(where, string[:80]) for where, string in expected.items() if string not in text]


def _as_told(number: int, place: str) -> str:
    """Return what is to be read there. A field holds what it will send, so nothing in it is replaced."""
    text = placed(number, place)
    if place in FIELDS:
        return text
    if place in ("sass", "header"):  # lines of a disassembly end at every separator
        text = " ".join(text.replace('"', "" if place == "header" else '"').splitlines())
    return show_hidden(text.replace("\r", "") if place in SOURCES else text)


def _bare(text: str) -> str:
    """Return the text without spaces, and without the breaks that `plain_label` puts into labels."""
    return re.sub(r"[\s\u200b]+", "", text)


@pytest.fixture(scope="module")
def server(home: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One of its own: these sessions would be the newest of every other test's store."""
    folder = tmp_path_factory.mktemp("hostile")
    (folder / "cache").symlink_to((home / "cache").resolve())
    with no_engine(folder), served(folder) as server:
        yield server


@pytest.fixture
def watched(server: Server, own_tab: Page) -> Watched:
    watched = Watched(own_tab, server.url)
    watched.begin()
    return watched


def choose(page: Page, group: str, name: str) -> None:
    widget_of(page, "radiogroup", group).get_by_role("radio", name=name, exact=True).click()


def hover(page: Page) -> set[str]:
    """Return what the chart of the steps says when the mouse goes over every other of its points."""
    points = page.locator(".st-key-chart-registers .scatterlayer .point")
    expect(points.first).to_be_visible()
    return set(
        points.evaluate_all("""async (points) => {
      const chart = points[0].closest(".js-plotly-plot");
      const [drag, told] = [chart.querySelector(".nsewdrag"), []];
      for (const point of points.filter((_, i) => i % 2)) {
        const at = point.getBoundingClientRect();
        const where = { bubbles: true, clientX: at.x + at.width / 2, clientY: at.y + at.height / 2 };
        drag.dispatchEvent(new MouseEvent("mousemove", where));
        await new Promise((resolve) => setTimeout(resolve, 60));
        told.push(chart.querySelector(".hoverlayer").textContent);
      }
      return told;
    }""")
    )


def _draft(store: Store, session: str) -> str:
    return next((draft.text for draft in store.edits(session)), "")


VIEWS = ("inline", "split", "hunks")


@pytest.mark.parametrize("all_views", [False, pytest.param(True, marks=pytest.mark.thorough)])
def test_texts_stay_texts_on_a_step_that_does_not_compile(
    server: Server, store: Store, watched: Watched, all_views: bool
) -> None:
    story, page = stories.hostile_session(store), watched.page
    address = f"{server.url}/session?id={story.session}"
    page.goto(f"{address}&step={stories.BROKEN}&view=source&pane=log")
    watched.shows("idea", "name", "wholeidea", "plan", "comment", "message", "gate", "stage")
    watched.shows("diagnostic", "tool", "context")
    page.locator(".st-key-raw-log label").click()
    watched.shows("log")
    for view in VIEWS if all_views else ():
        choose(page, "View", view)
        watched.shows("comment")
    choose(page, "Evidence", "memory")
    watched.shows("standing", "reason", "told", "unanswered")


@pytest.mark.thorough
def test_texts_stay_texts_in_every_pane_of_evidence(server: Server, store: Store, watched: Watched) -> None:
    story, page = stories.hostile_session(store), watched.page
    address = f"{server.url}/session?id={story.session}"
    page.goto(f"{address}&step={stories.WRONG}&pane=correctness")
    watched.shows("second", "verdict", "kind", "variable", strings=range(20))
    watched.shows("second", "output", "pattern", "finding", "run", "mode")
    choose(page, "Evidence", "resources")
    watched.shows("occupancy", "limiter", "arch")
    watched.shows("class", strings=range(12))
    choose(page, "Evidence", "SASS")
    watched.shows("sass", "header")
    page.goto(f"{address}&step={stories.ASKED}&pane=prompt")
    watched.shows("redirect", "asked", "finish", "reply", "refused")
    page.locator("[data-testid=stExpander] summary").first.click()
    watched.shows("prompt")
    choose(page, "Evidence", "log")
    page.goto(f"{address}&step={stories.TIMED}&pane=timing")
    watched.shows("third", "timedload", "contender", "why", "gpu", "driver", "throttle")
    choose(page, "Evidence", "roofline")
    watched.shows("bound", "pipe")
    choose(page, "Evidence", "profile")
    watched.shows("profiled", "advice", "metric", "unit", "profiler", "profileload")
    choose(page, "Evidence", "sweep")
    watched.shows("combination", "decided", "pruned")
    choose(page, "Chart", "registers")
    hovered = hover(page)
    numbered = {int(re.findall(r"\d+", text)[0]): _bare(text) for text in hovered}
    ideas = {i + 1: _bare(show_hidden(placed(i, "idea")[:60])) for i in stories.ALL}
    wrong = {number: text for number, text in numbered.items() if ideas.get(number, "") not in text}
    assert not wrong
    assert len(numbered) > len(STRINGS) // 3
    watched.is_clean()


@pytest.mark.thorough
def test_texts_stay_texts_in_the_editor(server: Server, store: Store, watched: Watched) -> None:
    story, page = stories.hostile_session(store), watched.page
    address = f"{server.url}/session?id={story.session}"
    base = fold(store.events(story.session)).steps[stories.BROKEN - 1].candidate or ""
    store.save_draft(edit_name(story.session, base), Draft(base, stories.source("draft")))
    page.goto(f"{address}&step={stories.BROKEN}&pane=memory")
    expect(editor_of(page)).to_be_visible()
    assert text_of(page) == stories.source("draft")
    editor_of(page).evaluate(
        "(content) => content.cmTile.root.view.dispatch({changes: {from: 0, insert: '// half \\ud83d\\n'}})"
    )
    wait_until(
        lambda: _draft(store, story.session).startswith("// half \ufffd\n"), "half of a surrogate pair was not saved"
    )
    watched.is_clean()


@pytest.mark.thorough
def test_texts_stay_texts_on_the_other_pages(server: Server, store: Store, watched: Watched) -> None:
    story, page = stories.hostile_session(store), watched.page
    read_only = stories.hostile_import(store)
    page.goto(server.url)
    watched.shows("name", "file")
    page.goto(f"{server.url}/session?id={read_only.session}")
    watched.shows("name", "device", "file")
    page.goto(f"{server.url}/compare?a={story.session}.{stories.BROKEN}&b={story.session}.{stories.TIMED}")
    watched.shows("comment", "third", "wholeidea", "message")
    page.goto(f"{server.url}/layouts?id={story.session}&step={stories.BROKEN}")
    watched.shows("wholeidea")
    for step, words in ((stories.BROKEN, "wholeidea"), (stories.TIMED, "third")):
        page.goto(f"{server.url}/present?id={story.session}&step={step}")
        watched.shows(words, strings=range(1))
    called = stories.hostile_call(store)
    store.set_live(called.session, stories.lines("live"))
    page.goto(f"{server.url}/session?id={called.session}")
    watched.shows("live", "caller")
    store.append(called.session, [StateChanged(State.STOPPED, stories.one_line("stopped"))], after=called.seq)
    watched.shows("stopped")


@pytest.mark.thorough
def test_addresses_stay_texts(server: Server, store: Store, watched: Watched) -> None:
    page = watched.page
    session = stories.hostile_import(store).session
    short = [text for text in STRINGS if len(text) < 1000]
    strange = quote("".join(short))
    many = "9" * 5000
    addresses = (
        f"session?id={session}&step=1&view={strange}&pane={strange}&against={strange}&drop={many},{strange}",
        f"compare?a={strange}&b={session}.{many}",
        f"problems?path={strange}&name={strange}",
        f"session?id={strange}",
        f"session?id={session}&step={many}&pane={strange}",
        f"layouts?id={session}&step={many}&name={strange}",
        f"problems?path=~{quote('nobody<b>')}/x",
        f"problems?path={'W' * 5000}",
        f"present?id={strange}&at={many}",
    )
    for address in addresses:
        page.goto(f"{server.url}/{address}")
        expect(page.locator(".cg-note, .cg-step-title").first).to_be_visible()
        watched.is_clean()


@pytest.mark.thorough
def test_files_and_settings_stay_texts(server: Server, watched: Watched, tmp_path: Path) -> None:
    page = watched.page
    names = [text for text in STRINGS if len(text.encode()) < 200 and not set(text) & set("/\0")]
    for name in names:
        (tmp_path / f"{name}.py").write_text("pass\n")
    Path(os.fsdecode(bytes(tmp_path) + b"/half \xff.py")).write_text("pass\n")
    page.goto(f"{server.url}/problems?path={quote(str(tmp_path))}")
    page.get_by_role("button", name="Load", exact=True).click()
    expect(page.get_by_role("button", name="half")).to_be_visible()
    watched.tells([show_hidden(name) for name in [*names, "half \udcff"]])
    page.get_by_role("button", name="half").click()
    expect(page.locator(".cg-note")).to_contain_text("its name is not UTF-8 text; rename it")
    watched.is_clean()
    file = server.home / "models.toml"
    plain = [i for i in stories.ALL if show_hidden(STRINGS[i]) == STRINGS[i] and "\n" not in STRINGS[i]]
    settings = [ModelSettings(placed(i, "called"), "http://127.0.0.1:9/v1", placed(i, "model")) for i in plain]
    model_settings.write(Models(tuple(settings)), file)
    try:
        page.goto(f"{server.url}/setup")
        watched.shows("called", "model", strings=plain)
    finally:
        file.unlink()
