"""A worker whose child misbehaves: every request ends, and the next one has a fresh child."""

import os
from concurrent.futures import ThreadPoolExecutor

import pytest

from cutegen_core.machine import worker
from cutegen_core.machine.worker import Worker
from cutegen_core.records.errors import MachineError
from tests.patience import PATIENCE_S, SOON_S, wait_until

DEAF = """
import os, sys, time
requests, answers = (int(fd) for fd in os.environ["CUTEGEN_PIPES"].split(","))
os.read(requests, 1)
print("going on as", os.getpid(), flush=True)
os.close(answers)
time.sleep(20)
"""


def test_a_child_that_closes_its_pipe_and_lives_on_is_stopped(tmp_path, monkeypatch):
    (tmp_path / "deaf.py").write_text(DEAF)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(worker, "_DEATH_S", 0.3)
    deaf = Worker("deaf", name="the deaf one")
    children = set()
    try:
        for _ in range(2):
            with pytest.raises(MachineError, match="the deaf one closed its pipe, went on running") as said:
                deaf.request({}, timeout_s=PATIENCE_S)
            children.add(int(str(said.value).split()[-1]))
    finally:
        deaf.close()
    assert len(children) == 2
    for child in children:
        with pytest.raises(ProcessLookupError):
            os.kill(child, 0)


EAGER = """
import json, os
requests, answers = (int(fd) for fd in os.environ["CUTEGEN_PIPES"].split(","))
os.write(answers, SAID)
os.read(requests, 1)
os.read(requests, 1 << 16)
"""


@pytest.mark.parametrize(
    "said", [b'{"forged": 1}\n', b'{"nonce": "0", "answer": {}}\n', b"[" * 60000 + b"\n", b"x\n"],
    ids=["no nonce", "another nonce", "deep", "no JSON"],
)  # fmt: skip
def test_an_answer_that_was_sent_before_its_request_is_refused(said, tmp_path, monkeypatch):
    (tmp_path / "eager.py").write_text(EAGER.replace("SAID", repr(said)))
    monkeypatch.syspath_prepend(tmp_path)
    eager = Worker("eager", name="the eager one")
    with pytest.raises(MachineError, match="the eager one sent something that is no answer"):
        eager.request({}, timeout_s=PATIENCE_S)


def test_an_answer_without_an_end_is_stopped(tmp_path, monkeypatch):
    (tmp_path / "endless.py").write_text(
        EAGER.replace("SAID", "b'x'") + "\nwhile True: os.write(answers, b'x' * 65536)"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(worker, "_LONGEST_ANSWER", 1 << 20)
    endless = Worker("endless", name="the endless one")
    with pytest.raises(MachineError, match="the endless one gave an answer of more than 1 MiB"):
        endless.request({}, timeout_s=PATIENCE_S)


ECHO = """
import time
from pathlib import Path
from cutegen_core.machine.worker import serve
def handle(asked):
    if "mark" in asked:
        Path(asked["mark"]).touch()
        time.sleep(1000)
    time.sleep(0.001)
    return {"number": asked["number"]}
serve(handle)
"""


@pytest.fixture
def echo(tmp_path, monkeypatch):
    """A worker that gives back its number; one that is to leave a mark gives none."""
    (tmp_path / "echo.py").write_text(ECHO)
    monkeypatch.syspath_prepend(tmp_path)
    made = Worker("echo", name="the echo")
    yield made
    made.close()


def test_threads_that_ask_one_worker_get_the_answers_to_their_own_requests(echo):
    with ThreadPoolExecutor(4) as threads:
        answers = threads.map(lambda number: echo.request({"number": number}, PATIENCE_S)["number"], range(40))
        assert list(answers) == list(range(40))


def test_a_worker_that_another_thread_closes_ends_its_request_and_starts_anew(echo, tmp_path):
    with ThreadPoolExecutor(1) as threads:
        asked = threads.submit(echo.request, {"mark": str(tmp_path / "asked")}, PATIENCE_S)
        wait_until((tmp_path / "asked").exists)
        echo.close()
        with pytest.raises(MachineError, match="the echo was closed"):
            asked.result(SOON_S)
    assert echo.request({"number": 7}, PATIENCE_S) == {"number": 7}
