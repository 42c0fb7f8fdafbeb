"""A store of its own for every test, and pages run by Streamlit's own runner."""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from cutegen_core.trajectory.store import Draft, Store
from tests.later import Later
from tests.patience import PATIENCE_S

if TYPE_CHECKING:
    from streamlit.testing.v1 import AppTest
    from streamlit.testing.v1.element_tree import Button, TextInput

testing = Later("streamlit.testing.v1")
manifest_scanner = Later("streamlit.components.v2.manifest_scanner")
element_tree = Later("streamlit.testing.v1.element_tree")

FRAME = Path(__file__).parent.parent.parent / "pages" / "components" / "shared" / "frame.py"
PAGES = Path(__file__).parent.parent.parent / "pages"

OpenPage = Callable[..., "AppTest"]
_IN_THE_BACKGROUND = ("doctor", "lint", "shapes", "who-proposes")
"""The threads of `machine.background` that pages begin."""
_ONE_PAGE = """
import runpy
from pages.components.session import answers
from pages.components.shared import data
sent = answers.take_up(data.store)
runpy.run_path({path!r})
answers.drawn(sent)
"""


@pytest.fixture(scope="session", autouse=True)
def packages_scanned_once() -> Iterator[None]:
    """Every `AppTest` looks through all installed packages for components: half a second of a core, the same answer."""
    with pytest.MonkeyPatch.context() as patch:
        scan = cache(manifest_scanner.scan_component_manifests)
        patch.setattr("streamlit.components.v2.manifest_scanner.scan_component_manifests", scan)
        yield


@pytest.fixture(scope="session", autouse=True)
def fields_found_by_name() -> Iterator[None]:
    """A page draws a new field, with a key of its own, where a value was changed elsewhere. A test names the field."""

    def named(self: Sequence[Any], key: str) -> object:
        for element in self:
            if (getattr(element, "key", None) or "").partition("-turn-")[0] == key:
                return element
        raise KeyError(key)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(element_tree.ElementList, "__call__", named)
        yield


@pytest.fixture
def store(tmp_path: Path, workspace_home: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    """The store of a workspace with the run's caches: what problem files say of themselves is not asked again."""
    (tmp_path / "cache").symlink_to(workspace_home / "cache")
    monkeypatch.setenv("CUTEGEN_HOME", str(tmp_path))
    monkeypatch.setenv("CUTEGEN_EDITOR", "text")  # AppTest cannot type into a component
    return Store()


@pytest.fixture
def open_page(store: Store) -> OpenPage:
    """Runs one page with these query parameters, after what was clicked; what it raises fails the test."""

    def run(name: str, /, **query: object) -> AppTest:
        page = testing.AppTest.from_string(_ONE_PAGE.format(path=str(PAGES / f"{name}.py")), default_timeout=PATIENCE_S)
        for key, value in query.items():
            page.query_params[key] = str(value)
        page.run()
        assert not page.exception, [e.value for e in page.exception]
        return page

    return run


def draft_of(store: Store, session: str) -> Draft | None:
    """Return the session's only draft."""
    (found,) = store.edits(session) or (None,)
    return found


def shown(page: AppTest) -> str:
    """Return all HTML of the page, as one text."""
    return "\n".join(str(element.value) for element in page.html)


def drawn_until(page: AppTest, holds: Callable[[], object]) -> None:
    """Draw the page again until it holds, each time after what pages do in the background of this process has ended:
    a drawing costs a tenth of a second of a core."""
    deadline = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < deadline, shown(page)
        for thread in threading.enumerate():
            if thread.name in _IN_THE_BACKGROUND:
                thread.join(PATIENCE_S)
        page.run()


def step_rows(page: AppTest) -> dict[int, dict[str, Any]]:
    """Return what the list of steps was drawn with, by number."""
    (drawn,) = (e for e in page.get("bidi_component") if e.proto.component_name == "cutegen-steps")
    return {row["n"]: row for row in json.loads(drawn.proto.json)["rows"]}


def button_of(page: AppTest, key: str) -> Button:
    """Return the button with this key, or with this key and the state it is bound to."""
    return next(b for b in page.button if b.key and (b.key == key or re.fullmatch(rf"{re.escape(key)}-\d+", b.key)))


def line_of(page: AppTest, session: str) -> TextInput:
    """Return the field for an instruction, in its latest turn."""
    (found,) = [field for field in page.text_input if str(field.key).startswith(f"answer-{session}")]
    return found


def framed(page: str = "", **query: str) -> AppTest:
    """Return a page inside the frame, as the server runs it; the start page when none is named."""
    app = testing.AppTest.from_file(str(FRAME), default_timeout=PATIENCE_S)
    app.run()
    if page:
        for key, value in query.items():
            app.query_params[key] = value
        app.switch_page(f"../../{page}.py").run()
    assert not app.exception, [e.value for e in app.exception]
    return app
