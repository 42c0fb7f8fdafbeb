"""A page whose store is deleted, whose rows are missing, or whose server is killed at a commit of what was pressed."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from cutegen_core import views
from cutegen_core.records.event import SessionState
from cutegen_core.trajectory.store import Store
from tests.later import Later
from tests.pages.conftest import button_of, framed, shown
from tests.pages.stories import Story, softmax_story
from tests.session.mortal import dies, make_mortal

data = Later("pages.components.shared.data")

if TYPE_CHECKING:
    from streamlit.testing.v1 import AppTest


def take_away(store: Store, folder: Path) -> list[Path]:
    """Move the store's files away while it is open."""
    folder.mkdir()
    files = sorted(store.path.parent.glob("store.db*"))
    return [file.rename(folder / file.name) for file in files]


@pytest.mark.by_default(2)
@pytest.mark.parametrize("page", ["", "session", "compare", "present"])
def test_a_store_that_is_deleted_under_a_page_is_said_and_can_be_put_back(store: Store, page: str) -> None:
    session = softmax_story(store).session
    beside = store.path.parent / "models.toml"
    beside.write_text("# mine\n")
    query = {"id": session} if page else {}
    opened = framed(page, **query)
    kept = take_away(store, store.path.parent / "away")
    again = opened.run()
    assert not again.exception, [e.value for e in again.exception]
    assert "was deleted or replaced while the workbench ran" in shown(again)
    assert "Put it back" in shown(again)
    for file in (*store.path.parent.glob("store.db*"),):
        file.unlink()
    for file in kept:
        file.rename(store.path.parent / file.name)
    data.forget_store()
    assert "Put it back" not in shown(framed(page, **query))
    assert beside.read_text() == "# mine\n"
    assert Store().sessions() == (session,)


def test_the_pages_go_on_with_an_empty_store(store: Store) -> None:
    session = softmax_story(store).session
    opened = framed("session", id=session)
    take_away(store, store.path.parent / "away")
    assert "was deleted or replaced" in shown(opened.run())
    start = framed()
    assert "Continue a session · 0" in shown(start)
    assert not start.button(key="new-start-any").disabled
    assert f"there is no session {session}" in shown(framed("session", id=session))


@pytest.mark.by_default(1)
@pytest.mark.parametrize("table", ["events", "blobs", "sessions"])
def test_rows_that_are_missing_under_a_page_are_said_and_hide_no_other_session(store: Store, table: str) -> None:
    broken, whole = softmax_story(store).session, Story(store).begin().session
    opened = framed("session", id=broken)
    with sqlite3.connect(store.path) as db:
        column = {"events": "session", "sessions": "id"}.get(table)
        db.execute(f"DELETE FROM {table}" + (f" WHERE {column} = ?" if column else ""), (broken,) if column else ())
    db.close()
    opened.run()
    assert not opened.exception, [e.value for e in opened.exception]
    start = framed()
    assert not start.exception
    assert whole in Store().sessions()


def press(page: AppTest, key: str) -> None:
    """Press it in a server that is killed on the way, or to the end."""
    button_of(page, key).click().run()


@pytest.mark.by_default(1)
@pytest.mark.parametrize("before", [True, False], ids=["before the commit", "after it"])
def test_a_page_killed_at_any_commit_of_a_decision_sends_it_once_or_not(store: Store, before: bool) -> None:
    session = softmax_story(store).session
    events = store.events(session)
    for boundary in range(1, 9):
        page = framed("session", id=session)

        def decide(page: AppTest = page, boundary: int = boundary) -> None:
            make_mortal(data.store(), boundary, before=before)
            press(page, "decide-stop")

        sent = len(store.waiting(session))
        killed = dies(decide)
        assert store.events(session) == events, "only the engine writes events"
        now = len(store.waiting(session)) - sent
        assert now in ((0,) if killed and before else (0, 1))
        if not killed:
            break
        for waiting in store.waiting(session):
            store.refuse(waiting.id, "as if it had been taken")
    assert boundary > 1


@pytest.mark.by_default(1)
@pytest.mark.parametrize("before", [True, False], ids=["before the commit", "after it"])
def test_a_page_killed_at_any_commit_of_a_start_leaves_a_whole_session_or_none(store: Store, before: bool) -> None:
    for boundary in range(1, 9):
        page, known = framed(), store.sessions()

        def start(page: AppTest = page, boundary: int = boundary) -> None:
            make_mortal(data.store(), boundary, before=before)
            page.button(key="new-start-any").click().run()

        killed = dies(start)
        made = [session for session in store.sessions() if session not in known]
        assert len(made) <= 1
        for session in made:
            assert views.session_view(store, session).state.status is SessionState.READY
        if not killed:
            break
    assert boundary > 1
    assert len(made) == 1
