"""Threads that ask for the same thing at the same time share one answer, or one failure."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from cutegen_core.machine.together import Together
from tests.patience import PATIENCE_S, wait_until


def test_two_threads_share_one_call_and_the_next_one_is_made_anew() -> None:
    together: Together[int] = Together()
    calls, go_on = [], threading.Event()

    def make() -> int:
        calls.append(1)
        assert go_on.wait(PATIENCE_S)
        return len(calls)

    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(together.ask, "a", make)
        wait_until(lambda: bool(calls))
        second = pool.submit(together.ask, "a", make)
        assert together.ask("b", lambda: 7) == 7
        go_on.set()
        assert (first.result(), second.result() in (1, 2)) == (1, True)
    assert together.ask("a", make) == len(calls)


def test_a_failure_reaches_all_that_wait_and_is_not_kept() -> None:
    together: Together[int] = Together()

    def fail() -> int:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        together.ask("a", fail)
    assert together.ask("a", lambda: 3) == 3
