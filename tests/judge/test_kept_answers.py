"""What a file has said about itself is kept; what is drawn or compared, or cannot be used, never is."""

import struct
from dataclasses import replace

import pytest

from cutegen_core.judge import kept_answers
from cutegen_core.judge import reference as judge_reference
from cutegen_core.judge.kept_answers import load, save
from cutegen_core.judge.reference import Reference, ask_about_file
from cutegen_core.machine import forking
from cutegen_core.records.errors import ProblemError
from cutegen_core.records.problem import Problem, Values, Workload, WorkloadRole
from tests.judge.conftest import OPERATIONS

SMALL = Workload("small", WorkloadRole.EMULATOR)
SOURCE = """import torch
class Model(torch.nn.Module):
    def forward(self, x):
        return torch.relu(x)
def get_inputs():
    return [torch.randn(3, 5)]
"""


class Scripted:
    """A worker that counts what it is asked."""

    def __init__(self, answer):
        self.answer, self.asked = answer, 0

    def request(self, payload, timeout_s, imports=()):
        self.asked += 1
        return self.answer


@pytest.fixture(autouse=True)
def kept(monkeypatch, asked_anew, tmp_path):
    monkeypatch.setattr(kept_answers, "OPERATIONS", OPERATIONS)
    monkeypatch.setattr(kept_answers, "cache_dir", lambda name: tmp_path / name)
    return tmp_path


def question(**changes):
    return {"operation": "signature", "source": SOURCE, "origin": "/p.py", "file": "f"} | changes


def about(worker, **changes):
    return ask_about_file(worker, question(**changes), 10.0, lambda answer: answer["said"])


def test_the_same_question_is_asked_once_and_another_one_again():
    worker = Scripted({"said": 1})
    assert [about(worker), about(worker), about(Scripted({}))] == [1, 1, 1]
    assert worker.asked == 1
    for other in ({"source": SOURCE + "#"}, {"origin": "/q.py"}, {"operation": "graph"}, {"finite": True}):
        asked = Scripted({"said": 2})
        assert (about(asked, **other), asked.asked) == (2, 1)


def test_what_another_code_or_torch_has_answered_is_not_taken(monkeypatch, kept):
    save(question(), {"said": 1})
    monkeypatch.setattr(kept_answers, "_code", lambda: "other")
    assert load(question()) is None
    for number in range(4):
        monkeypatch.setattr(kept_answers, "_code", lambda number=number: f"code {number}")
        save(question(), {})
    assert len(list((kept / "answers").iterdir())) == kept_answers.GENERATIONS


@pytest.mark.parametrize("answer", [{"problem": "it raised"}, {"unreadable": 1}])
def test_a_fault_and_an_answer_that_cannot_be_used_are_not_kept(answer):
    for _ in range(2):
        worker = Scripted(answer)
        with pytest.raises(ProblemError):
            about(worker)
        assert worker.asked == 1


@pytest.mark.parametrize("operation", ["inputs", "compare", "lint"])
def test_nothing_that_is_drawn_compared_or_run_is_kept(operation):
    save(question(operation=operation), {"said": 1})
    assert load(question(operation=operation)) is None


def test_a_damaged_entry_and_a_full_disk_cost_time_only(kept):
    save(question(), {"said": 1})
    (entry,) = (path for path in kept.rglob("*") if path.is_file())
    entry.write_text("{")
    assert about(Scripted({"said": 3})) == 3
    entry.parent.chmod(0)
    (kept / "answers").rename(kept / "gone")
    (kept / "answers").write_text("no folder")
    assert about(Scripted({"said": 4})) == 4
    (kept / "gone" / entry.parent.name).chmod(0o700)


def test_a_second_reference_of_the_file_needs_no_process(shared, tmp_path):
    problem = Problem("p", "p", SOURCE, "/p.py", (SMALL,))
    first = shared.reference(problem)
    said = first.signature(SMALL), first.graph(SMALL), first.find_derived(SMALL)
    with Reference(problem, tmp_path / "scratch") as second:
        assert (second.signature(SMALL), second.graph(SMALL), second.find_derived(SMALL)) == said
        assert second._worker._process is None
        second.write_inputs(SMALL, 3)
        assert second._worker._process is not None


@pytest.mark.thorough
def test_a_worker_that_drew_values_first_answers_what_needs_fake_tensors(monkeypatch, tmp_path):
    """It has not imported what these need, which looks for a folder to write to: a file's process has none."""
    server = forking.ForkServerClient()
    monkeypatch.setattr(forking, "shared", lambda: server)
    monkeypatch.setattr(judge_reference, "_UNTRACED", {"signature"})
    with Reference(Problem("p", "p", SOURCE, "/p.py", (SMALL,)), tmp_path) as reference:
        assert reference.signature(SMALL).inputs[0].shape == (3, 5)
    server.close()


def test_values_are_drawn_by_a_kept_graph_without_tracing_again(tmp_path):
    """The threshold 0.625 is among the values, as the graph says."""
    source = SOURCE.replace("torch.relu(x)", "torch.where(x > 0.625, x, -x)")
    problem = Problem("p", "p", source, "/p.py", (SMALL,))
    exact = replace(SMALL, name="exact", values=Values.EXACT)
    drawn = []
    for other in ("0.625", "0.375"):
        with Reference(problem, tmp_path / other) as reference:
            reference.graph(SMALL)
            for path in (path for path in tmp_path.rglob("*") if path.is_file() and b'"graph"' in path.read_bytes()):
                path.write_bytes(path.read_bytes().replace(b"0.625", other.encode()))
        with Reference(problem, tmp_path / f"{other} again") as reference:
            (file,) = reference.write_inputs(exact, 3, derived=True).values()
            drawn.append({x for (x,) in struct.iter_unpack("f", file.read_bytes())})
    assert [0.625 in each for each in drawn] == [True, False]
    assert [0.375 in each for each in drawn] == [False, True]
