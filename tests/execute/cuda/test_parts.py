"""What of the GPU executor needs no GPU: the lock, the wire, layouts, packing, programs, verdicts, refusals."""

import json
import os
import signal
import socket
import struct
import subprocess
import sys
import threading
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cutegen_core.execute.cuda import health, lock
from cutegen_core.execute.cuda.launching import LaunchRefused, pack
from cutegen_core.execute.cuda.layout import FRONT_BYTES, Layout
from cutegen_core.execute.cuda.memory import GUARD, Damage, find_damage
from cutegen_core.execute.cuda.program import Function, PassedArgument, Program, make_program
from cutegen_core.execute.cuda.runner_process import RunnerProcess
from cutegen_core.execute.cuda.verdicts import judge_error
from cutegen_core.execute.cuda.wire import Channel, make_pair
from cutegen_core.execute.executors.gpu import GpuExecutor
from cutegen_core.machine.worker import Worker
from cutegen_core.records.errors import MachineError
from cutegen_core.records.launch import (
    Launch,
    LaunchPlan,
    ScalarArgument,
    Scratch,
    TensorArgument,
    TensorMap,
    TensorMapArgument,
)
from cutegen_core.records.trial import Status
from tests.patience import PATIENCE_S, SOON_S

MIB = 1 << 20


# -- the lock ----------------------------------------------------------------------------------------------------------

HOLD = """
import sys, time
from cutegen_core.execute.cuda import lock
with lock.hold(sys.argv[1], "a test"):
    print("held", flush=True)
    time.sleep(60)
"""


@pytest.fixture
def uuid():
    name = f"GPU-test-{os.getpid()}-{time.monotonic_ns()}"
    yield name
    lock.path(name).unlink(missing_ok=True)


@pytest.fixture
def other(uuid):
    """Another process that holds the device."""
    process = subprocess.Popen([sys.executable, "-c", HOLD, uuid], stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "held\n"
    yield process
    process.kill()
    process.wait()


def test_the_holder_is_known_to_others(uuid, other):
    now = lock.find_holder(uuid)
    assert (now.pid, now.what) == (other.pid, "a test")
    with (
        pytest.raises(MachineError, match=rf"process {other.pid} of \S+ \(a test\) holds it"),
        lock.hold(uuid, "", 0.1),
    ):
        pass


def test_the_lock_ends_with_its_process(uuid, other):
    threading.Timer(0.3, other.send_signal, (signal.SIGKILL,)).start()
    with lock.hold(uuid, "next", 10.0) as waited:
        assert 0.1 < waited < 5.0
        assert lock.find_holder(uuid).pid == os.getpid()
    assert lock.find_holder(uuid) is None


def test_a_child_does_not_inherit_the_lock(uuid):
    with lock.hold(uuid, "parent"):
        child = subprocess.Popen(["sleep", "30"])
    try:
        with lock.hold(uuid, "again", 1.0):
            pass
    finally:
        child.kill()
        child.wait()


def test_a_thread_enters_again_and_others_wait(uuid):
    waits = []

    def wait():
        with lock.hold(uuid, "other thread") as waited:
            waits.append(waited)

    thread = threading.Thread(target=wait)
    with lock.hold(uuid, "outer"):
        with lock.hold(uuid, "inner") as inner:
            assert inner == 0.0
        thread.start()
        time.sleep(0.5)
        assert not waits
    thread.join(SOON_S)
    assert waits[0] > 0


def test_a_lock_that_is_a_link_is_refused(uuid, tmp_path):
    lock.path(uuid).symlink_to(tmp_path / "victim")
    with pytest.raises(MachineError, match="cannot be opened"), lock.hold(uuid, ""):
        pass
    assert not (tmp_path / "victim").exists()


# -- the wire ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def channels():
    ours, theirs = make_pair()
    other = Channel(theirs)
    yield ours, other
    ours.close()
    other.close()


def test_more_descriptors_than_fit_one_message_keep_their_order(channels):
    ours, theirs = channels
    files = [os.memfd_create("f") for _ in range(450)]
    for number, fd in enumerate(files):
        os.write(fd, struct.pack("i", number))
    thread = threading.Thread(target=lambda: ours.send({"a": "b" * 300_000}, files))
    thread.start()
    message, fds = theirs.receive(10.0)
    thread.join()
    assert message == {"a": "b" * 300_000}
    assert [struct.unpack("i", os.pread(fd, 4, 0))[0] for fd in fds] == list(range(450))
    assert not any(os.get_inheritable(fd) for fd in fds)
    for fd in (*files, *fds):
        os.close(fd)


def test_messages_keep_their_own_descriptors(channels):
    ours, theirs = channels
    reads, writes = os.pipe()
    ours.send({"n": 1}, [reads])
    ours.send({"n": 2})
    ours.send({"n": 3}, [writes])
    received = [theirs.receive(1.0) for _ in range(3)]
    assert [(r.message["n"], len(r.fds)) for r in received] == [(1, 1), (2, 0), (3, 1)]
    os.write(received[2].fds[0], b"!")
    assert os.read(received[0].fds[0], 1) == b"!"
    for fd in (reads, writes, *received[0].fds, *received[2].fds):
        os.close(fd)


def test_silence_and_a_closed_channel_are_told_apart(channels):
    ours, theirs = channels
    with pytest.raises(TimeoutError):
        theirs.receive(0.05)
    ours.socket.shutdown(socket.SHUT_RDWR)
    with pytest.raises(EOFError):
        theirs.receive(1.0)
    with pytest.raises(EOFError):
        theirs.send({"x": "y" * 10})


def test_a_process_ends_with_the_other_end_even_in_the_middle_of_something():
    code = "import time; from cutegen_core.machine.parent import exit_when_closed; exit_when_closed(0); "
    code += "print('up', flush=True); time.sleep(60)"
    child = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert child.stdout.readline() == "up\n"
    child.stdin.close()
    assert child.wait(SOON_S) == 0


# -- layouts -----------------------------------------------------------------------------------------------------------


@given(st.integers(0, 9 * MIB), st.sampled_from([16, 256]))
def test_a_tensor_ends_where_its_mapping_does(nbytes, alignment):
    layout = Layout.of(nbytes, 2 * MIB, alignment)
    assert layout.mapped % (2 * MIB) == 0
    assert layout.offset % alignment == 0
    assert layout.offset >= FRONT_BYTES - alignment
    assert 0 <= layout.tail < alignment
    assert layout.tail == 0 or nbytes % alignment


# -- packing -----------------------------------------------------------------------------------------------------------


INTACT = bytes([GUARD]) * 64


@pytest.mark.parametrize(
    ("front", "behind", "damage"),
    [
        (INTACT, INTACT[:8], None),
        (b"", b"", None),
        (INTACT[:-3] + b"\0" + INTACT[:2], b"", Damage("in front of", 3)),
        (b"\0" + INTACT[1:], b"", Damage("in front of", 64)),
        (INTACT, b"\0" + INTACT[:7], Damage("behind", 1)),
        (INTACT[:-1] + b"\0", INTACT[:5] + b"\0\0" + INTACT[:1], Damage("behind", 6)),
    ],
)
def test_damage_to_the_guards_is_told_by_its_distance(front, behind, damage):
    assert find_damage(front, behind) == damage
    assert find_damage(bytearray(front), bytearray(behind)) == damage


@pytest.mark.parametrize(
    ("passed", "size", "packed"),
    [
        (PassedArgument("tensor", 0x302000000), 8, struct.pack("<Q", 0x302000000)),
        (PassedArgument("int", -2), 4, struct.pack("<i", -2)),
        (PassedArgument("int", 1 << 31), 4, struct.pack("<I", 1 << 31)),
        (PassedArgument("int", -(1 << 63)), 8, struct.pack("<q", -(1 << 63))),
        (PassedArgument("int", True), 1, b"\1"),
        (PassedArgument("int", 300), 2, struct.pack("<h", 300)),
        (PassedArgument("float", 0.1), 4, struct.pack("<f", 0.1)),
        (PassedArgument("float", 0.1), 8, struct.pack("<d", 0.1)),
        (PassedArgument("float", float("inf")), 4, struct.pack("<f", float("inf"))),
    ],
)
def test_arguments_are_packed(passed, size, packed):
    assert pack(passed, size, "k, argument 1") == packed


@pytest.mark.parametrize(
    ("passed", "size", "words"),
    [
        (PassedArgument("tensor", 1), 4, "the parameter has 4 bytes, a pointer has 8"),
        (PassedArgument("int", 1), 16, "the parameter has 16 bytes, a whole number has 1 or 2 or 4 or 8"),
        (PassedArgument("float", 1.0), 2, "a floating-point number has 4 or 8"),
        (PassedArgument("int", 300), 1, "300 does not fit into the 1 bytes"),
        (PassedArgument("int", -129), 1, "-129 does not fit"),
    ],
)
def test_arguments_that_do_not_fit(passed, size, words):
    with pytest.raises(LaunchRefused, match=rf"^k, argument 2: .*{words}"):
        pack(passed, size, "k, argument 2")


# -- programs ----------------------------------------------------------------------------------------------------------


def test_a_plan_becomes_a_program_and_survives_json():
    tensor_map = TensorMap("xm", "x", "bfloat16", 0, (64, 128), (128,), (64, 64), (1, 1), swizzle="128B")
    args = (
        TensorArgument("x", "float32"), ScalarArgument(3, "n"), ScalarArgument(2, "2"), ScalarArgument(0.5, "eps"),
        TensorMapArgument("xm"),
    )  # fmt: skip
    first = Launch("k<4>", (8, 1, 1), (128, 1, 1), 1024, args, (2, 1, 1), True, 9)
    plan = LaunchPlan(
        (first, Launch("e", (0, 1, 1), (1, 1, 1), 0, ())), (Scratch("s", "int64", (3, 5), True),), (tensor_map,)
    )
    made = make_program(
        plan,
        {
            "k<4>": Function("_Z1kILi4EE", "void k<4>(float const*, int, float, double, CUtensorMap)"),
            "e": Function("_Z1ev", "e()"),
        },
    )
    assert [p.kind for p in made.steps[0].passed] == ["tensor", "int", "float", "float", "map"]
    assert made.steps[0].passed[2].value == 2.0
    assert [step.empty for step in made.steps] == [False, True]
    assert made.scratch[0].nbytes == 120
    assert made.maps[0].codes == (9, 0, 3, 0, 0)
    assert Program.from_json(json.loads(json.dumps(made.to_json()))) == made


# -- verdicts ----------------------------------------------------------------------------------------------------------


def test_faults_are_verdicts_that_say_what_to_do():
    illegal = judge_error("CUDA_ERROR_ILLEGAL_ADDRESS", "cuStreamQuery", "an illegal memory access was encountered")
    assert illegal.status is Status.MEMORY_ERROR
    assert "past the end of a tensor" in illegal.message
    assert "sanitizer" in illegal.message
    log = "candidate.cu:12: void f<4>(float *): block: [0,0,0], thread: [3,0,0] Assertion `n < 4` failed."
    assert judge_error("CUDA_ERROR_ASSERT", "cuStreamQuery", "", log).message == "line 12: assertion failed: n < 4"
    assert judge_error("CUDA_ERROR_NO_BINARY_FOR_GPU", "cuModuleLoadData", "").status is Status.LAUNCH_ERROR
    assert judge_error("CUDA_ERROR_ECC_UNCORRECTABLE", "cuStreamQuery", "") is None


# -- the sandbox -------------------------------------------------------------------------------------------------------

SEALED = """
import os, subprocess, sys, threading, time
from cutegen_core.machine.sandbox import confine
stop = threading.Event()
said = []
def work():  # a thread from before, as the driver's are
    stop.wait()
    try:
        os.open("/etc/passwd", os.O_RDONLY)
        said.append("open")
    except PermissionError:
        said.append("denied")
thread = threading.Thread(target=work)
thread.start()
level = confine.seal(1 << 20)
stop.set()
thread.join()
for forbidden in (lambda: subprocess.run(["/bin/true"]), os.fork, lambda: os.kill(os.getppid(), 0)):
    try:
        forbidden()
        said.append("done")
    except OSError:
        said.append("denied")
late = threading.Thread(target=lambda: said.append("thread"))
late.start()
late.join()
print(level, *said)
"""


def test_sealing_binds_threads_that_run_already():
    done = subprocess.run([sys.executable, "-c", SEALED], capture_output=True, text=True, timeout=PATIENCE_S)
    assert done.stdout.split() == ["seccomp", "denied", "denied", "denied", "denied", "thread"], done.stderr


def test_a_child_that_ends_before_it_reads_its_request_is_a_fault_of_the_machine():
    worker = Worker("cutegen_core.records.errors", name="the host")
    with pytest.raises(MachineError, match="the host died"):
        worker.request({"more than": "a pipe holds" * 100_000}, 20.0)
    worker.close()


# -- a machine without a driver ----------------------------------------------------------------------------------------


@pytest.mark.skipif(os.path.exists("/dev/nvidiactl"), reason="there is a driver here")
def test_without_a_driver_everybody_says_so():
    runner = RunnerProcess("GPU-none")
    try:
        with pytest.raises(MachineError, match="NVIDIA driver is not installed"):
            runner.wait_until_ready()
    finally:
        runner.close()
    with pytest.raises(MachineError, match="NVIDIA driver is not installed"):
        health.check("GPU-none")
    with pytest.raises(MachineError, match="--executor cpu"):
        GpuExecutor()
