"""Results of others become sessions to look at: nothing is lost, what is missing is named, nothing can be run."""

import gzip
import json
import os
import tracemalloc

import pytest

from cutegen_core import views
from cutegen_core.records.decision import Decision, DecisionKind
from cutegen_core.records.errors import StaleDecisionError, StoreError, UsageError
from cutegen_core.records.event import Outcome, SessionState
from cutegen_core.records.trial import Status
from cutegen_core.session import decisions
from cutegen_core.session.moves import WORKING
from cutegen_core.share.exports import export
from cutegen_core.share.imports import import_path, reading
from cutegen_core.trajectory.store import Store

REF = 'import torch.nn as nn\n\nclass Model(nn.Module):\n    """Row sums."""\n'


@pytest.fixture
def store(tmp_path):
    store = Store(tmp_path / "store.db")
    yield store
    store.close()


def node(depth, **changes):
    """Return one node with upstream's fields."""
    fields = {
        "uuid": f"{depth}_20260821-17{depth:02d}36",
        "ref": REF,
        "ref_time": {"mean": 5.56, "std": 0.05, "min": 5.5, "max": 5.7, "num_trials": 100},
        "depth": depth,
        "src": f"cuda_src = '''__global__ void sum_rows(float const* x) {{ /* {depth} */ }}'''\n",
        "prev_src": f"previous of {depth}\n" if depth else "",
        "history": [],
        "error_type": "PASS",
        "time": {"mean": 20.0 - depth, "std": 0.1, "min": 1.0, "max": 21.0, "num_trials": 100},
        "perf": None,
        "metadata": {"hardware": "an H200", "last_passed_src": "x" * 5000},
        "save_folder_path": "/somewhere/saved_nodes/47_Sum_reduction.py",
    }
    return {k: v for k, v in (fields | changes).items() if v is not ...}


def correction(word, text):
    return {"src": text, "error_type": word, "msg": f"{word} said so", "fix": [{"line": 3, "new": "int i;"}]}


def write(folder, nodes):
    folder.mkdir(parents=True, exist_ok=True)
    for number, entry in enumerate(nodes):
        text = entry if isinstance(entry, str) else json.dumps(entry)
        (folder / f"{number}_x.json").write_text(text)
    return folder


def test_the_shape_of_the_published_runs_imports(store, tmp_path):
    for problem in range(19):
        ref = REF.replace("Row", f"Row {problem}")
        nodes = [node(d, ref=ref, save_folder_path=f"/s/{problem}_P.py") for d in range(11 if problem else 14)]
        write(tmp_path / "nodes" / f"{problem}_P.py", nodes)
    brought = import_path(store, tmp_path / "nodes")
    assert brought.steps == 18 * 11 + 14 == 212
    assert len(brought.sessions) == 19
    assert brought.note == "212 nodes in 212 steps (19 sessions)"
    assert {len(views.session_view(store, s).steps) for s in brought.sessions} == {11, 14}


def test_a_run_steps_diffs_and_charts(store, tmp_path):
    nodes = [node(0), node(1, history=[correction("COMPILE", "a\n"), correction("CORRECT", "b\n")]), node(2)]
    brought = import_path(store, write(tmp_path / "47_Sum.py", reversed(nodes)))
    view = views.session_view(store, brought.session)
    assert [s.status for s in view.steps] == [
        Status.PASSED, Status.COMPILE_ERROR, Status.INCORRECT_NUMERICAL, Status.PASSED, Status.PASSED
    ]  # fmt: skip
    assert [s.latency_ms for s in view.steps] == [20.0, None, None, 19.0, 18.0]
    assert [s.outcome for s in view.steps if s.outcome is not Outcome.FAILED] == [Outcome.PROMOTED] * 3
    assert [s.is_best for s in view.steps] == [False, False, False, False, True]
    assert view.steps[1].message == "COMPILE said so"
    assert view.steps[0].idea == "seed: sum_rows"
    assert view.problem.source == REF
    assert view.state.settings.title == "47 Sum reduction, upstream CuTeGen, reference 5.56 ms"
    sources = [(s.base_source, s.source) for s in (views.step_view(store, brought.session, n) for n in (2, 3, 4))]
    assert sources[0] == ("previous of 1\n", "a\n")
    assert sources[1] == ("a\n", "b\n")
    assert sources[2] == ("b\n", nodes[1]["src"])
    record = views.step_view(store, brought.session, 4).calls[0].reply
    assert json.loads(record)["metadata"] == {"hardware": "an H200"}
    assert json.loads(views.step_view(store, brought.session, 2).calls[0].reply)["fix"]


def test_a_step_is_named_after_its_kernel_whatever_is_written_before_the_name(store, tmp_path):
    bounded = "__global__ static void __launch_bounds__(min(256, B), 2)\n  sum_rows(float const* x) {}\n"
    brought = import_path(store, write(tmp_path / "n", [node(0, src=bounded), node(1, src="void host();")]))
    assert [s.idea for s in views.session_view(store, brought.session).steps] == ["seed: sum_rows", "optimisation 1"]


def test_a_slower_version_that_passed_is_kept_but_is_not_the_best(store, tmp_path):
    brought = import_path(store, write(tmp_path / "n", [node(0), node(1, time={"mean": 30.0})]))
    view = views.session_view(store, brought.session)
    assert [s.outcome for s in view.steps] == [Outcome.PROMOTED, Outcome.KEPT]


MALFORMED = {
    "src": (None, "src is empty"),
    "history": ("three", "history is a str, not a list"),
    "error_type": ("EXPLODED", "error_type 'EXPLODED' is not known: no verdict"),
    "time": ({"median": 3}, "time holds no mean"),
    "depth": ("deep", "depth is 'deep', not a number"),
    "prev_src": (12, "prev_src is no text"),
}


@pytest.mark.parametrize("field", MALFORMED)
@pytest.mark.parametrize("missing", [False, True])
def test_a_missing_or_malformed_field_costs_only_itself(store, tmp_path, field, missing):
    value, note = MALFORMED[field]
    changed = {k: v for k, v in node(1).items() if k != field} | ({} if missing else {field: value})
    brought = import_path(store, write(tmp_path / "n", [node(0), changed, node(2)]))
    view = views.session_view(store, brought.session)
    assert brought.steps == len(view.steps) == 3
    told = view.state.steps[1].note
    if not missing:
        assert note in told
        assert "1 step with something missing or malformed" in brought.note
    elif field in ("src", "error_type", "time", "depth"):
        assert f"{field} is missing" in told
    assert [s.status for s in view.steps][0::2] == [Status.PASSED] * 2


def test_files_that_are_no_nodes_are_kept_or_counted(store, tmp_path):
    folder = write(tmp_path / "n", [node(0), '{"src": "cut of', "[1, null]", {"other": "file"}, node(1)])
    brought = import_path(store, folder)
    assert brought.steps == 5
    assert "2 nodes in 5 steps" in brought.note
    assert "3 files that cannot be read" in brought.note
    assert "1_x.json: not JSON" in brought.note
    assert "1 other .json entry passed over" in brought.note
    texts = [c.reply for n in range(1, 6) for c in views.step_view(store, brought.session, n).calls]
    assert '{"src": "cut of' in texts


def test_one_node_and_a_list_of_nodes_import(store, tmp_path):
    (tmp_path / "one.json").write_text(json.dumps(node(3)))
    (tmp_path / "list.json").write_text(json.dumps([node(d, uuid=..., ref=...) for d in (2, 0, 1)]))
    assert import_path(store, tmp_path / "one.json").steps == 1
    brought = import_path(store, tmp_path / "list.json")
    ideas = [s.idea for s in views.session_view(store, brought.session).steps]
    assert ideas == ["seed: sum_rows", "optimisation 1: sum_rows", "optimisation 2: sum_rows"]


def test_nodes_with_only_the_documented_fields_import(store, tmp_path):
    fields = ("src", "prev_src", "history", "error_type", "time", "depth")
    nodes = [{k: v for k, v in node(d).items() if k in fields} for d in range(12)]
    brought = import_path(store, write(tmp_path / "n", nodes))
    assert (brought.steps, len(brought.sessions)) == (12, 1)


def test_half_a_surrogate_in_a_source_is_no_crash(store, tmp_path):
    text = json.dumps(node(0)).replace("sum_rows", "sum_\\ud800rows")
    assert import_path(store, write(tmp_path / "n", [text])).steps == 1


@pytest.mark.parametrize("kind", [k for k in DecisionKind if k is not DecisionKind.AUTONOMY])
def test_an_imported_session_can_never_be_run(store, tmp_path, kind):
    brought = import_path(store, write(tmp_path / "n", [node(0)]))
    view = views.session_view(store, brought.session)
    assert view.state.status is SessionState.STOPPED
    assert view.state.status not in WORKING
    assert view.can_accept is None
    decision = Decision(
        kind,
        seen=10**6,
        gate="diff",
        candidate="c",
        source="s",
        text="t",
        step=1,
        max_steps=5,
        max_tokens=5,
        study="profile",
    )
    with pytest.raises(StaleDecisionError, match=r"imported from n \(upstream CuTeGen\) and is read-only"):
        decisions.check(view.state, decision)


def test_an_imported_session_has_a_report_and_a_recording_but_no_kernel(store, tmp_path):
    brought = import_path(store, write(tmp_path / "n", [node(0), node(1)]))
    export(store, brought.session, "html", tmp_path / "r.html")
    assert "<h2>47 Sum reduction, upstream CuTeGen, reference 5.56 ms" in (tmp_path / "r.html").read_text()
    export(store, brought.session, "jsonl", tmp_path / "r.jsonl")
    assert import_path(store, tmp_path / "r.jsonl").steps == 2
    with pytest.raises(UsageError, match="holds Python files, not kernel files"):
        export(store, brought.session, "cu", tmp_path / "k.cu")


# ---- KernelBench


def run_folder(folder, results):
    folder.mkdir()
    for problem, sample in ((1, 0), (1, 1), (1, 2), (19, 0)):
        (folder / f"level_1_problem_{problem}_sample_{sample}_kernel.py").write_text(f"class ModelNew: '{sample}'\n")
    if results is not None:
        (folder / "eval_results.json").write_text(json.dumps(results))
    return folder


def result(sample, compiled=True, correct=True, runtime=-1.0, **metadata):
    return {
        "sample_id": sample, "compiled": compiled, "correctness": correct, "metadata": metadata, "runtime": runtime,
        "runtime_stats": {},
    }  # fmt: skip


def test_a_kernelbench_run_imports_with_its_results(store, tmp_path):
    results = {
        "1": [result(0, False, False, compilation_error="no nvcc"), result(1, correct=False), result(2, runtime=3.5)],
        "19": [result(0, runtime=-1.0), result(7, correct=False, runtime_error="illegal access")],
    }
    brought = import_path(store, run_folder(tmp_path / "run", results))
    assert (brought.steps, len(brought.sessions)) == (5, 2)
    assert brought.note == "4 kernels of 2 problems; 5 of 5 samples have a verdict"
    first, second = (views.session_view(store, s) for s in brought.sessions)
    assert [s.status for s in first.steps] == [Status.COMPILE_ERROR, Status.INCORRECT_NUMERICAL, Status.PASSED]
    assert [s.latency_ms for s in first.steps] == [None, None, 3.5]
    assert first.steps[0].message == "no nvcc"
    assert [s.latency_ms for s in second.steps] == [None, None]
    assert "the kernel's file is not in the folder" in second.state.steps[1].note


def test_a_kernelbench_run_without_results_says_so(store, tmp_path):
    brought = import_path(store, run_folder(tmp_path / "run", None))
    assert brought.steps == 4
    assert "0 of 4 samples have a verdict (there is no eval_results.json)" in brought.note


def test_older_results_with_one_object_a_problem_import(store, tmp_path):
    brought = import_path(store, run_folder(tmp_path / "run", {"1": result(0, runtime=2.0), "x": 3}))
    assert views.session_view(store, brought.session).steps[0].latency_ms == 2.0


# ---- what cannot be imported


@pytest.mark.parametrize(
    ("name", "content", "error"),
    [
        ("a.jsonl", '{"some": "json"}\n', "no recording of the workbench"),
        ("a.jsonl", '{"cutegen": "recording", "version": 99}\n', "format version 99"),
        ("a.jsonl", '{"cutegen": "recording", "version": 1, "events": 3}\n', "is cut off"),
        (
            "a.jsonl",
            '{"cutegen": "recording", "version": 1, "events": 0}\n{"blob": "ff", "text": "x"}\n',
            "was changed",
        ),
        (
            "a.jsonl",
            '{"cutegen": "recording", "version": 1, "events": 1}\n{"seq": 1, "at": 0, "event": {}}\n',
            "line 2",
        ),
        ("a.jsonl", "{", "line 1 is not JSON"),
        ("a.jsonl.gz", "\x1f\x8b broken", "no recording|cannot be unpacked|not JSON"),
        ("a.json", '{"other": 1}', "holds no CuTeGen node"),
        ("a.json", "nothing", "not JSON"),
        ("a.txt", "text", "is no recording"),
    ],
)
def test_what_cannot_be_imported_is_refused_with_the_reason(store, tmp_path, name, content, error):
    (tmp_path / name).write_text(content, encoding="latin1")
    with pytest.raises((UsageError, StoreError), match=error):
        import_path(store, tmp_path / name)
    assert store.sessions() == ()


NUMBERS = ["Infinity", "-Infinity", "NaN", "1e999", "9" * 4000, "9" * 5000, "true", "1.5", '"1"', "null"]


@pytest.mark.parametrize("field", ["seq", "at", "events"])
@pytest.mark.parametrize("number", NUMBERS, ids=lambda number: number[:9])
def test_a_number_that_cannot_be_one_is_refused_with_its_line(store, tmp_path, field, number):
    given = {"seq": "1", "at": "0", "events": "1"} | {field: number}
    if field == "at" and number == "1.5":
        given["seq"] = "2"
    event = '{"kind": "state_changed", "status": "STOPPED", "reason": ""}'
    (tmp_path / "a.jsonl").write_text(
        f'{{"cutegen": "recording", "version": 1, "events": {given["events"]}}}\n'
        f'{{"seq": {given["seq"]}, "at": {given["at"]}, "event": {event}}}\n'
    )
    with pytest.raises(StoreError):
        import_path(store, tmp_path / "a.jsonl")
    assert store.sessions() == ()


@pytest.mark.parametrize("number", ["Infinity", "-Infinity", "NaN", "9" * 4000, "true", '"1"', "-1"])
def test_a_time_that_cannot_be_one_costs_only_itself(store, tmp_path, number):
    (tmp_path / "²3.json").write_text(f'{{"src": "x", "error_type": "PASS", "time": {{"mean": {number}}}, "depth": 1}}')
    imported = import_path(store, tmp_path)
    assert views.session_view(store, imported.session).steps[0].candidate
    run = tmp_path / "run"
    run.mkdir()
    (run / "level_1_problem_1_sample_0_kernel.py").write_text("x")
    result = f'{{"compiled": true, "correctness": true, "runtime": {number}}}'
    (run / "eval_results.json").write_text(f'{{"1": {result}, "\u00b2": {result}, "{"9" * 5000}": {result}}}')
    assert import_path(store, run).steps == 1


BOMBS = {"one line": b"[" + b" " * (6 << 20), "many lines": (b" " * 1023 + b"\n") * (6 << 10)}


@pytest.mark.parametrize("packed", [True, False])
@pytest.mark.parametrize("bomb", BOMBS)
def test_a_bomb_ends_at_the_limit_of_decoded_bytes(store, tmp_path, monkeypatch, bomb, packed):
    monkeypatch.setattr(reading, "LONGEST_LINE", 4 << 20)
    monkeypatch.setattr(reading, "MAX_BYTES", 5 << 20)
    data = b'{"cutegen": "recording", "version": 1, "events": 0}\n' + BOMBS[bomb]
    file = tmp_path / "a.jsonl"
    file.write_bytes(gzip.compress(data) if packed else data)
    tracemalloc.start()
    with pytest.raises(StoreError, match="which no recording has"):
        import_path(store, file)
    assert tracemalloc.get_traced_memory()[1] < 20 << 20
    tracemalloc.stop()


def test_a_file_of_results_has_a_limit(store, tmp_path, monkeypatch):
    monkeypatch.setattr(reading, "LONGEST_LINE", 1 << 20)
    (tmp_path / "a.json").write_bytes(b'[{"src": ""}' + b" " * (1 << 20) + b"]")
    with pytest.raises(UsageError, match="more than 1 MiB, which no file of results has"):
        import_path(store, tmp_path / "a.json")


@pytest.mark.parametrize("name", ["a.jsonl", "a.json"])
def test_a_pipe_that_nobody_writes_to_is_not_waited_for(store, tmp_path, name):
    os.mkfifo(tmp_path / name)
    with pytest.raises(UsageError, match=f"cannot read .*{name}: it is a folder, a pipe or a device"):
        import_path(store, tmp_path / name)


def test_a_path_that_is_not_there_and_an_empty_folder_are_refused(store, tmp_path):
    with pytest.raises(UsageError, match="does not exist"):
        import_path(store, tmp_path / "gone")
    (tmp_path / "empty").mkdir()
    with pytest.raises(UsageError, match="holds no CuTeGen node"):
        import_path(store, tmp_path / "empty")
