"""A worker whose child misbehaves: every request ends, and the next one has a fresh child."""

import os

import pytest

from cutegen_core.machine import worker
from cutegen_core.machine.worker import Worker
from cutegen_core.records.errors import MachineError

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
                deaf.request({}, timeout_s=15.0)
            children.add(int(str(said.value).split()[-1]))
    finally:
        deaf.close()
    assert len(children) == 2
    for child in children:
        with pytest.raises(ProcessLookupError):
            os.kill(child, 0)
