"""Work in the background: its order, its result, its faults, and the end of a process that has some under way."""

import subprocess
import sys
import threading

import pytest

from cutegen_core.machine import background
from cutegen_core.machine.background import OneAfterAnother
from tests.patience import PATIENCE_S, SOON_S, wait_until

ENDS = """
import time
from cutegen_core.machine import background
queue = background.OneAfterAnother("queue")
for begin in (background.begin, lambda name, work, *more: queue.begin(work, *more)):
    for _ in range(2):
        begin("endless", time.sleep, 1000)
print("at its end", flush=True)
"""


def test_a_process_ends_while_work_is_under_way_and_waits():
    ended = subprocess.run([sys.executable, "-c", ENDS], capture_output=True, text=True, timeout=SOON_S, check=True)
    assert ended.stdout == "at its end\n"


def test_work_is_done_one_after_the_other_in_the_order_in_which_it_came():
    queue, done, may_go_on = OneAfterAnother("queue"), [], threading.Event()

    def first():
        may_go_on.wait(PATIENCE_S)
        done.append(0)

    begun = [queue.begin(first), *(queue.begin(done.append, number) for number in range(1, 9))]
    assert done == []
    assert not any(one.done() for one in begun)
    may_go_on.set()
    wait_until(lambda: all(one.done() for one in begun))
    assert done == list(range(9))


def test_what_work_raises_is_its_result_and_stops_nothing_that_comes_later():
    queue = OneAfterAnother("queue")
    bad, good = queue.begin(int, "no number"), queue.begin(int, "7")
    assert good.result(PATIENCE_S) == 7
    for faulty in (bad, background.begin("one", int, "no number")):
        with pytest.raises(ValueError, match="no number"):
            faulty.result(PATIENCE_S)
