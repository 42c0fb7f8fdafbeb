"""Children that are forks of a process with their modules: each as separate as a process of its own, and as mortal."""

import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import pytest

from cutegen_core.judge.reference_process import TRACED
from cutegen_core.machine import forking
from cutegen_core.machine.worker import Worker
from cutegen_core.records.errors import MachineError, WorkerLimitError
from tests.few_runs import few_runs
from tests.patience import PATIENCE_S, wait_until
from tests.priorities import group_niceness, niceness

DEAR = "import os\nBY = os.getpid()\n"
CHILD = """
import os, signal, subprocess, sys, threading
from cutegen_core.machine.worker import serve
import dear

def answer(request):
    if "end" in request:
        print("the last words", flush=True)
        os._exit(request["end"])
    if "signal" in request:
        os.kill(os.getpid(), request["signal"])
    if "loaded" in request:
        return {"loaded": request["loaded"] in sys.modules}
    if "start" in request:
        return {"pid": subprocess.Popen(["sleep", "1000"]).pid}
    return {
        "pid": os.getpid(), "parent": os.getppid(), "imported_by": dear.BY, "session": os.getsid(0),
        "threads_at_first": THREADS, "files": FILES, "home": os.environ["HOME"], "arguments": sys.argv[1:],
        "folder": os.getcwd(), "secret": os.environ.get("A_SECRET", ""), "path": sys.path,
    }

def main():
    global THREADS, FILES
    THREADS = len(os.listdir("/proc/self/task"))
    FILES = {fd: os.readlink(f"/proc/self/fd/{fd}") for fd in map(int, os.listdir("/proc/self/fd")) if os.path.lexists(f"/proc/self/fd/{fd}")}
    serve(answer)
"""  # noqa: E501


@pytest.fixture
def forked(tmp_path, monkeypatch):
    """Makes workers that are forks of a fork server of this test's own."""
    (tmp_path / "dear.py").write_text(DEAR)
    (tmp_path / "child.py").write_text(CHILD)
    monkeypatch.syspath_prepend(tmp_path)
    own = forking.ForkServerClient()
    monkeypatch.setattr(forking, "shared", lambda: own)
    made = []

    def make(*arguments, imports=("dear",)):
        made.append(Worker("child", arguments, name="the child", imports=imports))
        return made[-1]

    yield make
    for worker in made:
        worker.close()
    own.close()


def ask(worker, **request):
    return worker.request(request, PATIENCE_S)


def exists(pid):
    return Path(f"/proc/{pid}").exists()


def test_children_share_what_was_imported_and_nothing_else(forked, tmp_path, monkeypatch):
    monkeypatch.setenv("A_SECRET", "sk-1")
    first, second = forked("a", "b"), forked("c")
    one, elsewhere = ask(first), tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    two = ask(second)
    assert one["imported_by"] == two["imported_by"] == one["parent"] == two["parent"]
    assert one["pid"] != two["pid"]
    assert one["session"] == one["pid"]
    assert one["threads_at_first"] == 1
    assert (one["arguments"], two["arguments"]) == (["a", "b"], ["c"])
    assert two["folder"] == str(elsewhere) != one["folder"]
    assert one["home"] != two["home"]
    assert Path(one["home"]).is_dir()
    assert one["secret"] == ""
    assert two["path"] == sys.path
    for said in (one, two):
        kinds = [name.split(":")[0] for fd, name in said["files"].items() if int(fd) > 2 and "/proc/" not in name]
        assert kinds == ["pipe", "pipe"], "its requests and its answers, and no other child's"


def test_a_fork_server_makes_way_for_nobody_while_it_imports(forked):
    """Whoever asked waits for that; its children make way where they are asked to (`test_priority`)."""
    said = ask(forked())
    assert niceness(said["parent"]) == niceness(os.getpid())
    assert group_niceness(said["parent"]) in (None, 0), "a session of its own is a group of its own, which starts at 0"


WITH_A_THREAD = "import threading\nthreading.Thread(target=threading.Event().wait, daemon=True).start()\n"


def test_a_process_that_has_got_a_thread_is_not_forked_but_starts_new_programs(forked, tmp_path):
    (tmp_path / "with_a_thread.py").write_text(WITH_A_THREAD)
    worker = forked("a b", "c", imports=("dear", "with_a_thread"))
    said = ask(worker)
    assert said["imported_by"] == said["pid"], "it has imported everything itself"
    assert (said["threads_at_first"], said["arguments"], said["secret"]) == (1, ["a b", "c"], "")
    kinds = [name.split(":")[0] for fd, name in said["files"].items() if int(fd) > 2 and "/proc/" not in name]
    assert kinds == ["pipe", "pipe"]
    worker.close()
    wait_until(lambda: not exists(said["pid"]), "the child is not reaped")


def test_the_worker_that_tests_share_is_a_fork(shared):
    """Fork it: nothing that it imports has started a thread."""
    problem = few_runs("relu")
    asked = replace(problem, source=f"{problem.source}\n# {uuid4()}: no answer of an earlier run is kept for it\n")
    shared.reference(asked).signature(asked.workloads[0])
    pid = shared.worker()._process.pid
    assert "cutegen_core.machine.fork_server" in Path(f"/proc/{pid}/cmdline").read_text(), "a program of its own"


@pytest.mark.thorough
def test_what_reference_workers_import_starts_no_thread_and_does_not_ask_the_driver(forked, tmp_path):
    """Else they would not be forks. A driver that torch asks for GPUs would start a thread: asking fails here, in the
    middle of the import."""
    (tmp_path / "no_driver.py").write_text("import torch\ntorch._C._ensureCUDADeviceGuardSet = None\n")
    worker = forked(imports=("dear", "no_driver", TRACED))
    said = ask(worker)
    assert said["imported_by"] == said["parent"]
    assert ask(worker, loaded=TRACED) == {"loaded": True}, "its import failed in the fork server"


def test_what_a_child_starts_ends_with_it(forked):
    worker = forked()
    started, child = ask(worker, start=1)["pid"], ask(worker)["pid"]
    worker.close()
    wait_until(lambda: not exists(child), "the child is not reaped")
    wait_until(lambda: not exists(started), "its own child lives on")


def test_how_a_child_ended_is_said_with_its_last_words_and_the_next_request_has_another(forked):
    worker = forked()
    before = ask(worker)["pid"]
    with pytest.raises(MachineError, match=r"(?s)died with exit code 3\..*the last words"):
        ask(worker, end=3)
    with pytest.raises(WorkerLimitError, match="killed"):
        ask(worker, signal=signal.SIGKILL)
    assert ask(worker)["pid"] != before


def test_children_die_with_their_fork_server_and_the_next_ones_have_another(forked):
    worker, other = forked(), forked()
    one, two = ask(worker), ask(other)
    os.kill(one["parent"], signal.SIGKILL)
    wait_until(lambda: not exists(two["pid"]) or "Z" in Path(f"/proc/{two['pid']}/stat").read_text(), "it lives on")
    assert ask(worker)["parent"] != one["parent"]
    assert ask(other)["parent"] == ask(worker)["parent"]


def test_a_module_that_cannot_be_imported_is_named(forked):
    assert ask(forked(imports=("nowhere_to_be_found",)))["arguments"] == []
    bad = Worker("not_there_either", name="the bad one", imports=("dear",))
    with pytest.raises(MachineError, match="No module named 'not_there_either'"):
        bad.request({}, PATIENCE_S)


CLIENT = """
import sys, threading
from cutegen_core.machine.worker import Worker
said = Worker("child", name="the child", imports=("dear",)).request({}, 60)
print(said["pid"], said["parent"], flush=True)
threading.Event().wait()
"""


def test_everything_ends_with_the_client(forked, tmp_path):
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen([sys.executable, "-c", CLIENT], stdout=subprocess.PIPE, text=True, env=environment) as client:
        assert client.stdout
        pids = [int(word) for word in client.stdout.readline().split()]
        client.kill()
    wait_until(lambda: not any(exists(pid) for pid in pids), "the child or the fork server lives on")


def test_a_fork_server_that_has_ended_is_no_zombie(forked):
    """It may have ended for having been idle, and nobody asks for it again."""
    ended = ask(forked())["parent"]
    os.kill(ended, signal.SIGKILL)
    wait_until(lambda: not exists(ended), "it is not reaped")


def test_a_fork_server_without_children_ends_after_a_while(forked, monkeypatch):
    from cutegen_core.machine import fork_server

    monkeypatch.setattr(fork_server, "IDLE_S", 0.0)
    control, theirs = fork_server.socket.socketpair(type=fork_server.socket.SOCK_SEQPACKET)
    with control:
        fork_server.ForkServer(theirs).serve()  # returns
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    theirs.close()
