"""Who decides is drawn first."""

from __future__ import annotations

import threading
import time

from cutegen_core.trajectory.store import Store
from pages.components.shared import first_turn
from tests.pages.conftest import framed
from tests.pages.stories import softmax_story
from tests.patience import SOON_S


def test_a_poll_waits_for_the_page_with_a_decision_but_not_long() -> None:
    drawn, told = threading.Event(), threading.Event()

    def decide() -> None:
        first_turn.take()
        told.set()
        drawn.wait(SOON_S)
        first_turn.over()

    page = threading.Thread(target=decide)
    page.start()
    told.wait(SOON_S)
    begun = time.monotonic()
    first_turn.give_way()
    assert time.monotonic() - begun >= first_turn.AT_MOST_S, "nobody waits longer than that"
    poll = threading.Thread(target=first_turn.give_way)
    poll.start()
    drawn.set()
    for one in (page, poll):
        one.join(SOON_S)
        assert not one.is_alive()
    first_turn.take()
    first_turn.give_way()  # not for itself
    first_turn.over()


def test_a_page_that_has_drawn_a_decision_is_over(store: Store) -> None:
    page = framed("session", id=softmax_story(store).session)
    page.button(key="decide-stop").click().run()
    assert not page.exception
    assert store.waiting()
    assert not first_turn.others_decide()


def test_a_page_that_ended_in_the_middle_of_a_decision_holds_nobody_up() -> None:
    page = threading.Thread(target=first_turn.take)
    page.start()
    page.join(SOON_S)
    assert not first_turn.others_decide()
