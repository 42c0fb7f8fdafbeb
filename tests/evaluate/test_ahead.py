"""Runs that were begun ahead: their results, their order, and their end."""

from __future__ import annotations

import select
import threading

import pytest

from cutegen_core.evaluate.stages.ahead import RunsAhead
from cutegen_core.records.errors import MachineError


def test_a_run_that_was_begun_is_not_made_again() -> None:
    ahead: RunsAhead[str] = RunsAhead(2)
    made = []
    ahead.begin("a", lambda: made.append("a") or "begun")
    assert ahead.result("a", lambda: "now") == "begun"
    assert ahead.result("a", lambda: "now") == "now"
    assert ahead.result("b", lambda: "now") == "now"
    assert made == ["a"]
    ahead.close()


def test_two_runs_go_on_together_and_what_nobody_asked_for_is_given_up() -> None:
    ahead: RunsAhead[int] = RunsAhead(2)
    together = threading.Barrier(2)
    for key in ("a", "b"):
        ahead.begin(key, lambda: together.wait(60))
    assert {ahead.result(key, lambda: 9) for key in ("a", "b")} == {0, 1}
    held, made = threading.Event(), []
    for key in ("c", "d", "e"):
        ahead.begin(key, lambda key=key: made.append(key) or held.wait(0.2) or 1)
    ahead.close()
    assert "e" not in made


def test_a_run_that_is_given_up_ends() -> None:
    """Whoever runs it waits for the stop, too; the next run has another."""
    ahead: RunsAhead[bool] = RunsAhead(1)

    def wait_for_stop() -> bool:
        return bool(select.select([ahead.stop.fd], [], [], 60)[0])

    for end in (ahead.drop, ahead.give_up):
        ahead.begin("held", wait_for_stop)
        end()
    assert ahead.result("held", bool)
    ahead.close()
    ahead.give_up()  # too late, and no harm


def test_a_machine_error_reaches_who_asks() -> None:
    ahead: RunsAhead[int] = RunsAhead(1)

    def fail() -> int:
        raise MachineError("the runner died")

    ahead.begin("a", fail)
    with pytest.raises(MachineError, match="the runner died"):
        ahead.result("a", fail)
    ahead.close()


def test_no_run_begins_after_one_that_is_the_last() -> None:
    """A hung kernel would otherwise hang again for as long before the trial ends."""
    ahead: RunsAhead[str] = RunsAhead(1, lambda result: result == "hung")
    made = []
    for key in ("passed", "hung", "after"):
        ahead.begin(key, lambda key=key: made.append(key) or key)
    assert ahead.result("passed", str) == "passed"
    assert ahead.result("hung", str) == "hung"
    ahead.drop()
    assert made == ["passed", "hung"]
    ahead.begin("anew", lambda: "begun")
    assert ahead.result("anew", str) == "begun"
    ahead.close()
