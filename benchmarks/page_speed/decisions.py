"""A decision until it is answered, and until its effect can be seen: in the tab it was made in, and in another one. The
work itself is not waited for: the effect of an approval is that the next stage has begun, of a redirect that the next
step has. A decision is answered when the page says that it is sent, or shows its effect.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from typing import NamedTuple

from playwright.sync_api import Browser, Page

from benchmarks.page_speed import watch, windows
from benchmarks.page_speed.watch import Sign
from cutegen_core.problems import library
from cutegen_core.records.decision import Gate
from cutegen_core.records.event import AnsweredBy
from cutegen_core.records.trial import ExecutorKind
from cutegen_core.session import start
from cutegen_core.trajectory.store import Store

STEPS_AT_MOST = 200
CHIP, HEADER = ".cg-header .cg-chip", ".cg-header"
WAITS = Sign(CHIP, "awaiting review")


class Answer(NamedTuple):
    """One kind of decision: how a person makes it, the event the clock starts with, and what can be seen then."""

    name: str
    make: Callable[[Page], None]
    event: str
    effect: Callable[[int], Sign]


def _key(letter: str) -> Callable[[Page], None]:
    return lambda page: page.keyboard.press(letter)


def _typed(button: str) -> Callable[[Page], None]:
    threads = itertools.cycle((64, 128, 256, 512, 1024, 32))

    def make(page: Page) -> None:
        page.get_by_label("Instruction or reason").fill(f"{next(threads)} threads")
        page.locator(f'[class*="st-key-decide-{button}"] button').click()

    return make


def _steps(page: Page) -> int:
    found = re.search(r"steps (\d+) of", page.locator(HEADER).inner_text())
    assert found is not None
    return int(found[1])


def _settled(*pages: Page) -> None:
    """Wait until the engine waits, and no page is being drawn."""
    quiet = Sign('[data-test-script-state="notRunning"]')
    for page in pages:
        watch.arm(page, (quiet, Sign(CHIP, "awaiting review|stopped")), event="")
        watch.seen(page)


def _told(times: dict[str, list[float]]) -> dict[str, object]:
    everything = [took for several in times.values() for took in several]
    return {"all": watch.spread(everything), **{name: watch.spread(several) for name, several in times.items()}}


def _next_step(step: int) -> Sign:
    return Sign(HEADER, f"steps {step + 1} of")


def _on_its_way(step: int) -> Sign:
    """Return the sign that the trial runs, or that the next step begins: a kernel tried before has a verdict."""
    return Sign(f"{CHIP}, {HEADER}", f"running|steps {step + 1} of")


REDIRECT = Answer("redirect", _typed("redirect"), "click", _next_step)
ANSWERS = (
    REDIRECT,
    Answer("stop", _key("s"), "keydown", lambda _: Sign(CHIP, "stopped")),
    Answer("resume", _key("g"), "keydown", lambda _: WAITS),
    Answer("branch", _key("b"), "keydown", _next_step),
    Answer("reject", _typed("reject"), "click", _next_step),
    Answer("rewind", _key("w"), "keydown", _next_step),
    REDIRECT,
    Answer("approve", _key("a"), "keydown", _on_its_way),
)
"""In an order in which each of them is possible, also when the playbook has nothing more to propose by itself. No two
that follow each other are the same, or the first would still be shown as sent."""


def decisions(started: Browser, url: str, store: Store, rounds: int) -> dict[str, object]:
    """Time each kind of decision in turn, in two windows, on a playbook session that waits before every change."""
    problem = next(p for p in library.catalogue() if p.name == "softmax")
    session = start.create(
        store,
        problem,
        answered_by=AnsweredBy.PLAYBOOK,
        executor=ExecutorKind.CPU,
        gates=(Gate.DIFF,),
        max_steps=STEPS_AT_MOST,
    )
    answered: dict[str, list[float]] = {}
    here: dict[str, list[float]] = {}
    there: dict[str, list[float]] = {}
    with windows.tabs(started, 2) as (deciding, other):
        for page in (deciding, other):
            watch.opened(page, f"{url}/session?id={session}", (WAITS,))
        for answer in itertools.chain.from_iterable(itertools.repeat(ANSWERS, rounds)):
            _settled(deciding, other)
            effect = answer.effect(_steps(deciding))
            watch.arm(deciding, (effect,), event=answer.event, answer=Sign(".cg-sent", f"Sent: {answer.name}"))
            watch.arm(other, (effect,), event="")
            answer.make(deciding)
            seen = watch.seen(deciding)
            answered.setdefault(answer.name, []).append(seen.answered_ms)
            here.setdefault(answer.name, []).append(seen.took_ms)
            there.setdefault(answer.name, []).append(watch.seen(other).at_ms - watch.began_ms(deciding))
    return {"answered": _told(answered), "deciding_tab": _told(here), "other_tab": _told(there)}
