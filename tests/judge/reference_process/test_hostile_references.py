"""What a problem file's code can do to verdicts: nothing, neither to its own nor to another file's."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from cutegen_core.judge import reference_answers
from cutegen_core.judge.reference import Reference
from cutegen_core.records.errors import ProblemError
from cutegen_core.records.problem import Problem, Workload, WorkloadRole
from tests.patience import PATIENCE_S

HONEST = """
import torch
class Model(torch.nn.Module):
    def forward(self, x):
        return torch.relu(x)
def get_inputs():
    return [torch.randn(8, 8)]
"""
SMALL = Workload("small", WorkloadRole.EMULATOR)


def problem(source: str, name: str = "p") -> Problem:
    return Problem(name, name, source, f"/{name}.py", (SMALL,))


def judge_zeros(reference: Reference, seed: int = 5) -> int:
    """Return how many of 64 elements are wrong in an output of zeros; about half are in truth."""
    reference.write_inputs(SMALL, seed)
    (out,) = reference.signature(SMALL).outputs
    folder = reference.scratch / "trial-1"
    folder.mkdir(exist_ok=True)
    (folder / "out").write_bytes(bytes(out.nbytes))
    (found,) = reference.compare(SMALL, seed, {out: folder / "out"}, poison=0xFF)
    return found.wrong


FORGED = '{"signature": {"inputs": [], "outputs": [], "scalars": {}}, "comparisons": [], "findings": [], "usable": []}'
WRITES_TO_EVERY_PIPE = f"""
import gc, io, os
for each in gc.get_objects():
    if isinstance(each, io.BufferedWriter) and each.fileno() > 2:
        each.write(b'{FORGED}\\n')
        each.flush()
for fd in range(3, 256):
    try:
        os.write(fd, b'{FORGED}\\n')
    except OSError:
        pass
"""
CHANGES_THE_JUDGE = """
import json
from cutegen_core.judge import correctness, mismatch
from cutegen_core.records import trial
correctness._error_ratio = lambda values, allowed, dtype: 0 * values.want
correctness.measure = lambda *_: correctness.Precision(1e30, 1e30)
"""
READS_THE_OUTPUT = """
import glob
class Model(torch.nn.Module):
    def forward(self, x):
        for path in glob.glob("SCRATCH/**/out", recursive=True) + ["SCRATCH/trial-1/out"]:
            try:
                return torch.frombuffer(bytearray(open(path, "rb").read()), dtype=x.dtype).reshape(8, 8)
            except OSError:
                pass
        return torch.relu(x)
"""


def test_a_file_that_writes_to_every_pipe_forges_no_answer(shared, tmp_path):
    reference = shared.reference(problem(WRITES_TO_EVERY_PIPE + HONEST), tmp_path)
    with pytest.raises(ProblemError, match="no answer to the request"):
        reference.signature(SMALL)
    once = (
        HONEST
        + "class Model(Model):\n    def __init__(self):\n        super().__init__()\n"
        + "".join(
            f"        {line}\n" for line in WRITES_TO_EVERY_PIPE.replace("range(3, 256)", "()").strip().splitlines()
        )
    )
    assert [t.name for t in shared.reference(problem(once), tmp_path).signature(SMALL).outputs] == ["out"]


@pytest.mark.parametrize(
    "hostile", [CHANGES_THE_JUDGE, READS_THE_OUTPUT], ids=["changes the judge", "reads the output"]
)
def test_a_file_cannot_decide_about_a_kernels_output(hostile, shared, tmp_path):
    source = HONEST + hostile.replace("SCRATCH", str(tmp_path))
    assert judge_zeros(shared.reference(problem(source), tmp_path)) > 10


def test_an_output_below_a_folder_of_pythons_path_cannot_be_read_either(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    scratch = tmp_path / "scratch"
    source = HONEST + READS_THE_OUTPUT.replace("SCRATCH", str(scratch))
    with Reference(problem(source), scratch) as reference:
        assert judge_zeros(reference) > 10


def test_a_file_changes_nothing_for_the_next_one_and_does_not_outlive_its_turn(shared, tmp_path):
    """Its process says its id, and starts a thread that would go on."""
    stays = "import os, threading, time\nthreading.Thread(target=time.sleep, args=(99,)).start()\n"
    reports = stays + CHANGES_THE_JUDGE + HONEST + "\ntorch.relu = torch.zeros_like\nraise OSError(os.getpid())\n"
    with pytest.raises(ProblemError) as said:
        shared.reference(problem(reports, "first"), tmp_path).signature(SMALL)
    pid = int(str(said.value).split()[-1])
    os.kill(pid, 0)
    assert judge_zeros(shared.reference(problem(HONEST, "second"), tmp_path)) > 10
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


WRITES = {
    "scratch": "open('SCRATCH/left', 'w')",
    "home": "open(os.path.join(os.environ['HOME'], 'left'), 'w')",
    "standard output": "[os.write(1, b'x') for _ in range(9)]; raise SystemExit(os.fstat(1).st_size)",
}


@pytest.mark.parametrize("place", WRITES)
def test_a_file_leaves_nothing_behind_on_disk(place, shared, tmp_path):
    source = "import os\n" + WRITES[place].replace("SCRATCH", str(tmp_path)) + HONEST
    with pytest.raises(ProblemError, match=r"PermissionError|SystemExit: 0"):
        shared.reference(problem(source), tmp_path).signature(SMALL)
    assert not (tmp_path / "left").exists()


def test_an_answer_sent_before_its_request_is_not_taken_for_it(shared, tmp_path):
    """The file knows the form of an answer and its channel, but no nonce of a later request."""
    sends = """
import json, os, struct
data = json.dumps({"nonce": "0" * 32, "sizes": [], "message": {"problem": "forged"}}).encode()
def send():
    for fd in range(3, 64):
        try:
            os.write(fd, struct.pack(">Q", len(data)) + data)
        except OSError:
            pass
"""
    reference = shared.reference(problem(sends + HONEST + "\nsend()\n"), tmp_path)
    with pytest.raises(ProblemError, match="no answer to the request"):
        reference.signature(SMALL)


ENGINE = f"""
import sys
from pathlib import Path
from cutegen_core.judge.reference import Reference
from cutegen_core.records.problem import Problem, Workload, WorkloadRole
small = Workload("small", WorkloadRole.EMULATOR)
endless = '''{HONEST}
while True: pass
'''
reference = Reference(Problem("p", "p", endless, "/p.py", (small,)), Path(sys.argv[1]))
import threading
threading.Thread(target=reference.signature, args=(small,), daemon=True).start()
import time
while reference._worker._process is None: time.sleep(0.01)
print(reference._worker._process.pid, flush=True)
threading.Event().wait()
"""


def _processes_of(session: int) -> list[int]:
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, _, its_session = stat.read_text().rpartition(")")[2].split()[:4]
        except OSError:
            continue
        if int(its_session) == session and state != "Z":
            found.append(int(stat.parent.name))
    return found


def _wait_until(done) -> bool:
    deadline = time.monotonic() + PATIENCE_S
    while not done() and time.monotonic() < deadline:
        time.sleep(0.05)
    return bool(done())


def test_an_endless_file_does_not_outlive_a_killed_engine(tmp_path):
    with subprocess.Popen([sys.executable, "-c", ENGINE, str(tmp_path)], stdout=subprocess.PIPE, text=True) as engine:
        assert engine.stdout
        worker = int(engine.stdout.readline())
        assert _wait_until(lambda: len(_processes_of(worker)) == 3), "supervisor, zygote and the file's process"
        engine.kill()
    assert _wait_until(lambda: not _processes_of(worker))


OUT = {"name": "out", "dtype": "float32", "shape": [8], "role": "output"}
NODE = {"name": "a", "op": "aten.relu", "args": [], "kwargs": {}, "shape": [8], "dtype": "float32"}
SIGNATURES = {
    "a path": [OUT | {"name": "../../out"}], "no name": [OUT | {"name": ""}],
    "a long name": [OUT | {"name": "o" * 300}],
    "no text": [OUT | {"name": 3}], "twice": [OUT, OUT], "an unknown dtype": [OUT | {"dtype": "float7"}],
    "a negative size": [OUT | {"shape": [-1]}], "a huge size": [OUT | {"shape": [1 << 40, 1 << 40]}],
    "half a size": [OUT | {"shape": [1.5]}], "no list": 7, "another role": [OUT | {"role": "input"}],
}  # fmt: skip
GRAPHS = {
    "a missing node": [NODE | {"args": [{"node": "b"}]}], "itself": [NODE | {"args": [{"node": "a"}]}],
    "no node": [3], "an object": [NODE | {"kwargs": {"k": {"what": 1}}}],
}  # fmt: skip


@pytest.mark.parametrize("outputs", SIGNATURES.values(), ids=SIGNATURES)
def test_a_forged_signature_is_refused(outputs):
    answer = {"signature": {"inputs": [], "outputs": outputs, "scalars": {}}}
    with pytest.raises(ProblemError, match=r"p.py: its process gave an answer that cannot be used"):
        reference_answers.read_answer(answer, "p.py", reference_answers.signature)


@pytest.mark.parametrize("nodes", GRAPHS.values(), ids=GRAPHS)
def test_a_forged_graph_is_refused(nodes):
    answer = {"graph": {"nodes": nodes, "outputs": [], "reason": "", "constants": {}}}
    with pytest.raises(ProblemError, match="cannot be used"):
        reference_answers.read_answer(answer, "p.py", reference_answers.graph)


def test_forged_workloads_set_no_size_that_the_file_lacks():
    for forged in ({"name": "../x"}, {"sizes": {"os.system('true')": 3}}, {"sizes": {"n": "3"}}):
        data = {"name": "small", "role": "emulator", "sizes": {}, "values": "given"} | forged
        with pytest.raises(ProblemError, match="cannot be used"):
            reference_answers.read_answer(
                {"workloads": [data]}, "p.py", lambda given: reference_answers.workloads(given, {"n": None})
            )
