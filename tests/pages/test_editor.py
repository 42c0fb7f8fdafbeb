"""The editor's server side: what is kept of what a browser sends, marks in edited texts, built file, setting."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from cutegen_core.records.candidate import content_key
from cutegen_core.trajectory.store import Draft, Store, edit_name
from pages.components.editor.draft_exchange import DraftMessage, Visit, read_message, take
from pages.components.session.line_marks import LineMark, marks_of, moved
from tests.later import Later
from tests.pages.conftest import OpenPage, draft_of, framed, shown
from tests.pages.stories import KERNEL, ONE_PASS, TYPO, not_compiled, race, softmax_story

code_editor = Later("pages.components.editor.code_editor")

EDITOR = Path(__file__).parents[2] / "assets" / "editor"


class Tab:
    """Sends texts as the browser does."""

    def __init__(self, store: Store, session: str, base: str) -> None:
        self.store, self.name, self.base = store, edit_name(session, base), base
        self.visit = Visit()
        self.seq = 0

    def send(self, text: str, *upon: str) -> bool:
        """Return true when the server has kept it."""
        self.seq += 1
        message = DraftMessage(self.visit.opening, self.seq, tuple(map(content_key, upon)), text)
        assert take(self.store, self.name, self.base, self.visit, message)
        return self.visit.kept == self.visit.ack

    @property
    def text(self) -> str:
        draft = self.store.draft(self.name)
        return draft.text if draft else ""


@pytest.fixture
def tabs(store: Store) -> tuple[Tab, Tab]:
    session, base = softmax_story(store).session, store.put(KERNEL)
    store.save_draft(edit_name(session, base), Draft(base, KERNEL))
    return Tab(store, session, base), Tab(store, session, base)


def test_texts_typed_faster_than_the_server_answers_are_all_kept(tabs: tuple[Tab, Tab]) -> None:
    tab, _ = tabs
    assert [tab.send("a", KERNEL), tab.send("ab", KERNEL, "a"), tab.send("abc", KERNEL, "a", "ab")] == [
        True,
        True,
        True,
    ]
    assert tab.text == "abc"


def test_a_text_typed_upon_an_older_draft_is_refused_and_one_upon_the_newer_is_kept(tabs: tuple[Tab, Tab]) -> None:
    one, other = tabs
    assert one.send("from one", KERNEL)
    assert not other.send("from the other", KERNEL)
    assert one.text == "from one"
    assert other.send("both", "from one")
    assert not one.send("one again", "from one")
    assert one.text == "both"
    assert (one.visit.kept, one.visit.ack) == (1, 2)  # both texts have grown from the first


def test_a_message_counts_once_and_only_in_its_visit(tabs: tuple[Tab, Tab]) -> None:
    tab, _ = tabs
    message = DraftMessage(tab.visit.opening, 1, (content_key(KERNEL),), "typed")
    assert take(tab.store, tab.name, tab.base, tab.visit, message)
    assert not take(tab.store, tab.name, tab.base, tab.visit, message)
    assert not take(tab.store, tab.name, tab.base, Visit(), message)


def test_typing_that_goes_on_after_a_run_is_kept_and_a_repetition_of_the_run_is_not(tabs: tuple[Tab, Tab]) -> None:
    tab, _ = tabs
    tab.send("run this", KERNEL)
    tab.visit.ran = content_key("run this")
    tab.store.save_draft(tab.name, None)
    tab.send("run this", KERNEL)
    assert tab.store.draft(tab.name) is None
    tab.send("run this, and more", KERNEL)
    assert tab.text == "run this, and more"


def test_a_draft_of_another_kernel_is_not_overwritten(tabs: tuple[Tab, Tab]) -> None:
    tab, _ = tabs
    other = Draft(tab.store.put(ONE_PASS), KERNEL)
    name = edit_name(tab.name.partition(":")[0], other.base)
    tab.store.save_draft(name, other)
    assert tab.send("typed", KERNEL)
    assert (tab.text, tab.store.draft(name)) == ("typed", other)


@pytest.mark.parametrize(
    "sent", [None, "text", {}, {"opening": "x", "seq": "1", "upon": [], "text": ""}, {"opening": "x", "text": None}]
)
def test_what_is_no_message_is_none(sent: object) -> None:
    assert read_message(sent) is None


def test_a_lone_surrogate_can_be_stored(tabs: tuple[Tab, Tab]) -> None:
    message = read_message({"opening": "x", "seq": 1, "upon": [], "text": "a\ud800b"})
    assert message is not None
    assert message.text == "a?b"


def test_marks_are_those_of_compiler_and_checker(store: Store) -> None:
    assert marks_of(None) == ()
    assert marks_of(not_compiled("k")) == (LineMark(40, "error", "nvrtc", 'identifier "higher" is undefined'),)
    (mark,) = marks_of(race(store, "k"))
    assert (mark.line, mark.severity, mark.tool) == (26, "error", "checker")
    assert mark.text.startswith("race: read of `partial`")


def test_marks_go_with_their_lines() -> None:
    mark = LineMark(40, "error", "nvrtc", "bad")
    lines = TYPO.split("\n")
    assert moved((mark,), TYPO, TYPO) == (mark,)
    assert moved((mark,), TYPO, "// two\n// lines\n" + TYPO) == (mark._replace(line=42),)
    changed = "\n".join([*lines[:39], "int other;", *lines[40:]])
    assert moved((mark,), TYPO, changed) == (mark._replace(text="bad (the line was edited since)"),)
    (gone,) = moved((mark,), TYPO, "\n".join(lines[:39] + lines[40:]))
    assert 1 <= gone.line <= 40
    assert gone.text.endswith("edited since)")
    assert moved((mark,), TYPO, "")[0].line == 1


def test_the_built_file_belongs_to_its_sources_and_names_its_licences() -> None:
    digest = hashlib.sha256()
    for path in (*sorted((EDITOR / "src").iterdir()), EDITOR / "package-lock.json"):
        digest.update(path.read_bytes())
    head = code_editor.BUNDLE.read_text(encoding="utf-8")[:400]
    assert digest.hexdigest() in head, "assets/editor has changed: npm ci --ignore-scripts && npm run build"
    assert code_editor.BUNDLE.stat().st_size < 512 * 1024
    licences = (EDITOR / "LICENSES.txt").read_text(encoding="utf-8")
    assert "@codemirror/view" in licences
    assert licences.count("Permission is hereby granted") == licences.count("(MIT)") >= 10


def test_the_built_file_asks_the_network_for_nothing() -> None:
    code = code_editor.BUNDLE.read_text(encoding="utf-8")
    for way in ("fetch(", "XMLHttpRequest", "WebSocket", "import(", "importScripts", "sendBeacon", "eval("):
        assert way not in code


def test_the_code_editor_is_drawn_with_the_draft(
    store: Store, open_page: OpenPage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUTEGEN_EDITOR", "code")
    story = softmax_story(store)
    page = open_page("session", id=story.session, step=4).button(key="decide-edit").click().run()
    assert not page.exception, [e.value for e in page.exception]
    assert not page.text_area
    assert draft_of(store, story.session) == Draft(store.put(TYPO), TYPO)
    assert "Editing step 4" in shown(page)


def test_the_address_may_ask_for_the_text_field(
    store: Store, open_page: OpenPage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUTEGEN_EDITOR", "code")
    story = softmax_story(store)
    page = open_page("session", id=story.session, editor="text").button(key="decide-edit").click().run()
    assert page.text_area[0].label == "Kernel source"


def test_an_unknown_setting_is_named(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    story = softmax_story(store)
    store.save_draft(edit_name(story.session, store.put(KERNEL)), Draft(store.put(KERNEL), KERNEL))
    monkeypatch.setenv("CUTEGEN_EDITOR", "emacs")
    assert "CUTEGEN_EDITOR is &#x27;emacs&#x27;; it can be code or text" in shown(
        framed("session", id=story.session, step="1")
    )
