"""Work that keeps processors busy makes way for what answers, and waits its turn."""

import subprocess
import sys
import threading
import time

import pytest

from cutegen_core.machine import priority
from cutegen_core.machine.turns import Turns
from cutegen_core.machine.worker import Worker
from cutegen_core.records.errors import StoppedError
from tests.patience import PATIENCE_S, wait_until
from tests.priorities import group_niceness, niceness


def test_a_child_and_what_it_starts_make_way():
    program = "import subprocess, sys; sys.stdin.readline(); subprocess.run(['nice'])"
    child = subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        start_new_session=True,
    )  # fmt: skip
    priority.make_way(child.pid)
    assert group_niceness(child.pid) in (None, priority.NICE)
    said, _ = child.communicate("go\n", timeout=PATIENCE_S)
    assert int(said) == min(19, niceness(0) + priority.NICE)


def test_a_child_that_has_ended_is_nobodys_business():
    child = subprocess.Popen(["true"], start_new_session=True)
    child.wait()
    priority.make_way(child.pid)


ECHO = """
from cutegen_core.machine.worker import serve
serve(lambda asked: asked)
"""


@pytest.mark.parametrize("makes_way", [True, False])
def test_a_worker_makes_way_where_it_is_asked_to(makes_way, tmp_path, monkeypatch):
    (tmp_path / "echo.py").write_text(ECHO)
    monkeypatch.syspath_prepend(tmp_path)
    worker = Worker("echo", name="the worker", makes_way=makes_way)
    worker.request({}, PATIENCE_S)
    assert niceness(worker._process.pid) == min(19, niceness(0) + (priority.NICE if makes_way else 0))
    worker.close()


def test_places_are_given_in_the_order_of_coming():
    places, order, waited = Turns(2), [], {}
    go = {name: threading.Event() for name in "abcd"}

    def work(name):
        with places.taken(lambda before: waited.setdefault(name, before)):
            order.append(name)
            go[name].wait()

    threads = {}
    for name in "abcd":
        threads[name] = threading.Thread(target=work, args=(name,))
        threads[name].start()
        wait_until(lambda name=name: name in order or name in waited)
    assert (order, waited) == (["a", "b"], {"c": 2, "d": 3})
    go["b"].set()
    wait_until(lambda: "c" in order)
    time.sleep(0.3)
    assert order == ["a", "b", "c"]
    for event in go.values():
        event.set()
    for thread in threads.values():
        thread.join()
    assert order == ["a", "b", "c", "d"]


def test_who_gives_up_leaves_the_line():
    places = Turns(1)

    def give_up(before):
        raise StoppedError("stopped by the person")

    with places.taken(lambda _: None), pytest.raises(StoppedError), places.taken(give_up):
        pass
    with places.taken(give_up):
        pass


def test_what_fails_in_its_place_gives_it_back():
    places = Turns(1)
    with pytest.raises(ValueError, match="in its place"), places.taken(lambda before: None):
        raise ValueError("in its place")
    with places.taken(lambda before: pytest.fail("nobody is before")):
        pass
