"""Drafts of kernels: each at its own step, kept, discarded and brought back; and the bar while one is open."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from cutegen_core.records.candidate import content_key
from cutegen_core.records.decision import Gate
from cutegen_core.records.event import GateOpened, Outcome, SessionState, StateChanged, StepStarted
from cutegen_core.trajectory.store import Draft, Store, edit_name
from tests.pages.conftest import OpenPage, button_of, draft_of, shown
from tests.pages.stories import KERNEL, ONE_PASS, Story, softmax_story

if TYPE_CHECKING:
    from streamlit.testing.v1 import AppTest


def save(store: Store, session: str, source: str, text: str) -> str:
    """Save a draft that was begun from this kernel; return its name."""
    name = edit_name(session, store.put(source))
    store.save_draft(name, Draft(store.put(source), text))
    return name


def texts(page: AppTest) -> list[str]:
    return [area.value for area in page.text_area]


def labels(page: AppTest) -> list[str]:
    return [button.label for button in page.button]


def number_of(page: AppTest) -> str:
    """Return the step in the address."""
    value = page.query_params["step"]
    return value if isinstance(value, str) else value[0]


@pytest.fixture
def story(store: Store) -> Story:
    return softmax_story(store)


def test_every_step_shows_its_own_draft_and_names_the_others(store: Store, story: Story, open_page: OpenPage) -> None:
    save(store, story.session, KERNEL, KERNEL + "// one\n")
    save(store, story.session, ONE_PASS, ONE_PASS + "// three\n")
    assert texts(open_page("session", id=story.session, step=1)) == [KERNEL + "// one\n"]
    page = open_page("session", id=story.session, step=3)
    assert texts(page) == [ONE_PASS + "// three\n"]
    assert "Evidence of step 3, before your edit" in shown(page)
    assert not {"Reject", "Redirect", "Stop"} & set(labels(page))
    last = open_page("session", id=story.session)
    assert not texts(last)
    assert {"Draft of step 1", "Draft of step 3", "Redirect"} <= set(labels(last))
    next(b for b in last.button if b.label == "Draft of step 1").click().run()
    assert (texts(last), number_of(last)) == ([KERNEL + "// one\n"], "1")


def test_editing_another_step_begins_with_its_own_kernel(store: Store, story: Story, open_page: OpenPage) -> None:
    save(store, story.session, KERNEL, KERNEL + "// one\n")
    page = open_page("session", id=story.session, step=3)
    button_of(page, "decide-edit").click().run()
    assert texts(page) == [ONE_PASS]
    assert len(store.edits(story.session)) == 2


def test_a_step_without_a_kernel_is_edited_at_the_one_it_continues_from(store: Store, open_page: OpenPage) -> None:
    story = Story(store).begin(held=True)
    seed = story.propose(KERNEL, "seed")
    story.close(Outcome.PROMOTED)
    story.add(StepStarted(2, seed), GateOpened(2, Gate.INSTRUCTION)).publish()
    page = open_page("session", id=story.session, step=2)
    button_of(page, "decide-edit").click().run()
    assert (texts(page), number_of(page)) == ([KERNEL], "1")
    assert "Editing step 1: seed" in shown(page)


def test_closing_keeps_the_draft_and_the_last_step_needs_no_address(
    store: Store, story: Story, open_page: OpenPage
) -> None:
    page = open_page("session", id=story.session)
    button_of(page, "decide-edit").click().run()
    assert number_of(page) == "5"
    page.text_area[0].input("// mine\n").run()
    button_of(page, "edit-close").click().run()
    assert (texts(page), "step" in page.query_params) == ([], False)
    button_of(page, "decide-edit").click().run()
    assert texts(page) == ["// mine\n"]


def test_a_discarded_draft_comes_back(store: Store, story: Story, open_page: OpenPage) -> None:
    name = save(store, story.session, KERNEL, KERNEL + "// one\n")
    page = open_page("session", id=story.session, step=1)
    button_of(page, "edit-discard").click().run()
    assert (texts(page), store.draft(name)) == ([], None)
    assert "Undo discard" not in labels(open_page("session", id=story.session, step=3))
    again = open_page("session", id=story.session, step=1)  # also after a reload
    button_of(again, "draft-restore").click().run()
    assert texts(again) == [KERNEL + "// one\n"]
    assert "Undo discard" not in labels(again)
    # A draft that nobody has typed in is no loss.
    other = open_page("session", id=story.session, step=3)
    button_of(other, "decide-edit").click().run()
    button_of(other, "edit-discard").click().run()
    assert "Undo discard" not in labels(other)


def test_nothing_can_be_run_while_the_session_works(store: Store, story: Story, open_page: OpenPage) -> None:
    save(store, story.session, KERNEL, KERNEL + "// one\n")
    story.add(StateChanged(SessionState.RUNNING))
    page = open_page("session", id=story.session, step=1)
    assert texts(page) == [KERNEL + "// one\n"]
    assert button_of(page, "edit-run").disabled
    assert "step 5 is running: it can be run when that ends" in shown(page)
    assert "Stop" in labels(page)


def test_what_was_typed_on_after_a_run_is_a_draft_of_the_new_kernel(
    store: Store, story: Story, open_page: OpenPage
) -> None:
    name, run = save(store, story.session, KERNEL, KERNEL + "// run\n"), KERNEL + "// run\n"
    page = open_page("session", id=story.session, step=1)
    button_of(page, "edit-run").click().run()
    (waiting,) = store.waiting(story.session)
    typed = Draft(store.put(KERNEL), run + "// and on\n")
    store.save_draft(name, typed)
    store.put(run)
    store.append(story.session, [], after=store.last_seq(story.session), taking=waiting.id)
    page.run()
    assert draft_of(store, story.session) == Draft(content_key(run), typed.text)


def test_a_refused_edit_is_shown_again_with_its_text(store: Store, story: Story, open_page: OpenPage) -> None:
    save(store, story.session, KERNEL, KERNEL + "// one\n")
    page = open_page("session", id=story.session, step=1)
    button_of(page, "edit-run").click().run()
    assert not texts(page)  # the last step
    store.refuse(store.waiting(story.session)[0].id, "too late")
    page.run()
    assert "too late Your text is still there." in shown(page)
    assert (texts(page), number_of(page)) == ([KERNEL + "// one\n"], "1")
