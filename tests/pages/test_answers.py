"""What is clicked and typed reaches the session it was meant for, once, and is not lost on the way."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from cutegen_core.records.decision import DecisionKind, Gate
from cutegen_core.records.event import GateOpened, Role
from cutegen_core.session import start
from cutegen_core.trajectory.store import Draft, Store, edit_name
from tests.later import Later
from tests.pages.conftest import OpenPage, button_of, draft_of, framed, line_of, shown
from tests.pages.stories import KERNEL, ONE_PASS, Story, softmax_story

if TYPE_CHECKING:
    from streamlit.testing.v1 import AppTest

testing = Later("streamlit.testing.v1")
answers = Later("pages.components.session.answers")

PROMPT = "Write a softmax.\nOne warp a row."


def waiting(store: Store, story: Story) -> list[DecisionKind]:
    return [w.decision.kind for w in store.waiting(story.session)]


def test_a_decision_goes_to_the_session_it_was_made_on(store: Store, open_page: OpenPage) -> None:
    meant, opened = softmax_story(store), softmax_story(store)
    page = open_page("session", id=meant.session)
    page.query_params["id"] = opened.session  # another one is opened before the click was taken up
    button_of(page, "decide-stop").click().run()
    assert (waiting(store, meant), waiting(store, opened)) == ([DecisionKind.STOP], [])


def test_every_decision_is_followed_until_it_is_settled(store: Store, open_page: OpenPage) -> None:
    story = softmax_story(store)
    store.save_draft(edit_name(story.session, store.put(KERNEL)), Draft(store.put(KERNEL), ONE_PASS))
    page = open_page("session", id=story.session, step=1)
    button_of(page, "edit-run").click().run()
    button_of(page, "decide-stop").click().run()
    edit, stop = store.waiting(story.session)
    assert (edit.decision.kind, stop.decision.kind) == (DecisionKind.EDIT, DecisionKind.STOP)
    store.append(story.session, [], after=store.last_seq(story.session), taking=edit.id)
    store.refuse(stop.id, "it has stopped already")
    page.run()
    assert draft_of(store, story.session) is None  # the edit was taken
    assert "it has stopped already" in shown(page)


def test_a_decision_is_shown_as_sent_before_the_engine_is_waited_for(
    store: Store, open_page: OpenPage, monkeypatch: pytest.MonkeyPatch
) -> None:
    story, order = softmax_story(store), []
    shows, waits = answers._show_sent, start.await_answer
    monkeypatch.setattr(answers, "_show_sent", lambda *place: (order.append("shown"), shows(*place)))
    monkeypatch.setattr(start, "await_answer", lambda *asked: (order.append("waited for"), waits(*asked))[1])
    page = open_page("session", id=story.session)
    button_of(page, "decide-stop").click().run()
    assert order[:2] == ["shown", "waited for"]
    assert "Sent: stop" in shown(page)  # while nobody has looked at it
    (sent,) = store.waiting(story.session)
    store.append(story.session, [], after=store.last_seq(story.session), taking=sent.id)
    page.run()
    assert "Sent: stop" not in shown(page)


def test_the_line_is_emptied_when_the_instruction_is_taken_and_kept_when_it_is_refused(
    store: Store, open_page: OpenPage
) -> None:
    story = softmax_story(store)
    page = open_page("session", id=story.session)
    line_of(page, story.session).input("one")
    button_of(page, "decide-redirect").click().run()
    (sent,) = store.waiting(story.session)
    assert line_of(page, story.session).value == "one"  # nobody has looked at it yet
    store.refuse(sent.id, "too late")
    page.run()
    assert "too late Your text is still there." in shown(page)
    assert line_of(page, story.session).value == "one"
    button_of(page, "decide-redirect").click().run()
    line_of(page, story.session).input("another one")
    button_of(page, "decide-reject").click().run()
    for left in ("another one", ""):
        first = store.waiting(story.session)[0]
        store.append(story.session, [], after=store.last_seq(story.session), taking=first.id)
        page.run()
        assert line_of(page, story.session).value == left


def test_a_refusal_is_said_with_its_session_where_another_one_is_open(store: Store, open_page: OpenPage) -> None:
    meant, opened = softmax_story(store), softmax_story(store)
    page = open_page("session", id=meant.session)
    button_of(page, "decide-stop").click().run()
    store.refuse(store.waiting(meant.session)[0].id, "it has stopped already")
    page.query_params["id"] = opened.session
    page.run()
    assert f"Session {meant.session}: it has stopped already" in shown(page)


def test_a_click_changes_no_other_page_that_was_opened_since(store: Store) -> None:
    session = softmax_story(store).session
    page = framed("session", id=session)
    older = button_of(page, "step-older")
    page.switch_page("../../present.py")
    older.click().run()
    assert "step" not in page.query_params


def a_prompt_waits(store: Store) -> Story:
    story = softmax_story(store)
    return story.add(GateOpened(5, Gate.PROMPT, prompt=store.put(PROMPT), role=Role.PROPOSER))


def test_a_prompt_that_is_being_changed_survives_a_look_at_another_step(store: Store, open_page: OpenPage) -> None:
    story = a_prompt_waits(store)
    page = open_page("session", id=story.session)
    page.text_area[0].input(f"{PROMPT} Mine.").run()
    button_of(page, "step-older").click().run()
    assert not page.text_area
    button_of(page, "step-newer").click().run()
    assert page.text_area[0].value == f"{PROMPT} Mine."


def test_a_prompt_is_sent_only_where_it_can_be_read(store: Store, open_page: OpenPage) -> None:
    page = open_page("session", id=a_prompt_waits(store).session)
    assert not button_of(page, "decide-approve").disabled
    button_of(page, "decide-edit").click().run()
    assert "edit-run" in [b.key for b in page.button]
    assert not any(b.key and b.key.startswith("decide-approve") for b in page.button)


def test_what_cannot_be_done_is_said_once(store: Store) -> None:
    page = testing.AppTest.from_string(
        "import streamlit as st\n"
        "from pages.components.shared import ui_state\n"
        "def write():\n"
        "    raise OSError('the disk is full')\n"
        "ui_state.carry_out()\n"
        "st.button('write', on_click=ui_state.noted(write))\n"
    ).run()
    page.button[0].click().run()
    assert page.exception
    page.run()
    assert not page.exception


def test_a_parameter_can_be_zero_and_a_refused_choice_is_explained(store: Store, open_page: OpenPage) -> None:
    story = softmax_story(store)
    source = KERNEL.replace("[params]", "[params]\nWIDE = { default = 1, values = [1, 0, 0.5] }", 1)
    store.save_draft(edit_name(story.session, store.put(KERNEL)), Draft(store.put(KERNEL), source))
    page = open_page("session", id=story.session, step=1)
    choice = f"plan-param-{story.session}-WIDE"
    page.selectbox(key=choice).select(0).run()
    assert "WIDE = { default = 0, values = [1, 0, 0.5] }" in page.text_area[0].value
    page.selectbox(key=choice).select(0.5).run()
    assert "not applied: line 9: parameter WIDE is a whole number; 0.5 is not" in shown(page)


@pytest.fixture
def two_tabs(store: Store, open_page: OpenPage) -> tuple[Store, str, AppTest, AppTest]:
    story = softmax_story(store)
    store.save_draft(edit_name(story.session, store.put(KERNEL)), Draft(store.put(KERNEL), KERNEL))
    one, other = (open_page("session", id=story.session, step=1) for _ in range(2))
    return store, story.session, one, other


def test_the_text_field_overwrites_no_draft_of_another_tab(two_tabs: tuple[Store, str, AppTest, AppTest]) -> None:
    store, session, one, other = two_tabs
    one.text_area[0].input("// from one").run()
    other.text_area[0].input("// from the other").run()
    draft = draft_of(store, session)
    assert draft is not None
    assert draft.text == "// from one"
    assert "Your text here is not saved yet" in shown(other)
    assert other.text_area[0].value == "// from the other"
    button_of(other, "edit-mine").click().run()
    assert draft_of(store, session) == Draft(draft.base, "// from the other")
    one.run()  # nothing was typed here since
    assert one.text_area[0].value == "// from the other"


def test_what_is_typed_upon_a_draft_that_was_run_elsewhere_is_kept(
    two_tabs: tuple[Store, str, AppTest, AppTest],
) -> None:
    store, session, one, _ = two_tabs
    one.text_area[0].input("// typed in one").run()
    store.save_draft(edit_name(session, store.put(KERNEL)), None)
    one.text_area[0].input("// typed in one, and on").run()
    draft = draft_of(store, session)
    assert draft is not None
    assert draft.text == "// typed in one, and on"


def test_the_other_text_can_be_taken_over(two_tabs: tuple[Store, str, AppTest, AppTest]) -> None:
    _, _, one, other = two_tabs
    one.text_area[0].input("// from one").run()
    other.text_area[0].input("// from the other").run()
    button_of(other, "edit-theirs").click().run()
    assert other.text_area[0].value == "// from one"
    assert "not saved yet" not in shown(other)
