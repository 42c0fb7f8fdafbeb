"""A bench takes problems through sessions, says why one has no kernel, and goes on where it was stopped."""

import json
import signal
import subprocess
import sys

import pytest

from cutegen_core import cli, views
from cutegen_core.commands import benches
from cutegen_core.problems import sets
from cutegen_core.records.errors import UsageError
from cutegen_core.records.job import JobKind, JobState
from cutegen_core.session import benching
from cutegen_core.trajectory import jobs
from cutegen_core.trajectory.store import Store
from tests.few_runs import few_runs_file
from tests.patience import PATIENCE_S, wait_until

INVERSE = """
import torch
class Model(torch.nn.Module):
    def forward(self, x):
        return torch.linalg.inv(x)
def get_inputs():
    return [torch.eye(16)]
"""


def command(*arguments):
    return [sys.executable, "-m", "cutegen_core.cli", "bench", *map(str, arguments), "--max-steps", "1", "--json"]


def run(*arguments):
    return subprocess.run(command(*arguments), capture_output=True, text=True, check=False)


def test_files_of_one_name_stay_apart_and_are_compared_by_their_place(workspace_home, tmp_path):
    for place in ("rms.py", "sub/rms.py"):
        (tmp_path / place).parent.mkdir(exist_ok=True)
        (tmp_path / place).write_text("nothing = 1\n")
    first = json.loads(run("--set", tmp_path).stdout)
    assert [(one["problem"], one["path"]) for one in first["problems"]] == [
        ("rms", str(tmp_path / "rms.py")), ("sub/rms", str(tmp_path / "sub" / "rms.py")),
    ]  # fmt: skip
    again = json.loads(run("--set", tmp_path, "--against", first["bench"]).stdout)
    assert again["against"] == {"bench": first["bench"], "changes": []}


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--set", "gnn", "--against", "nosuch"), "no job 'nosuch'"),
        (("--set", "gnn", "--arch", "bogus"), "bogus"),
        (("--set", "gnn", "--proposer", "person"), "nobody can paste replies"),
        (("--set", "gnn", "--proposer", "llm", "--model", "nosuch"), "no model is called 'nosuch'"),
        (("--set", "gnn", "--go-on", "nosuch"), "leave out --set"),
    ],
)
def test_what_cannot_be_done_is_refused_before_a_bench_begins(arguments, says, workspace_home, capsys):
    before = jobs.every(Store(), JobKind.BENCH)
    assert cli.main(["bench", *arguments]) == 2
    assert says in capsys.readouterr().err
    assert jobs.every(Store(), JobKind.BENCH) == before


@pytest.mark.parametrize("kept", ['{"broken', '["a"]', '{"x": "deadbeef00", "y": 3}'])
def test_a_damaged_list_of_begun_sessions_begins_them_anew(kept, tmp_path):
    path = tmp_path / "sessions.json"
    path.write_text(kept)
    assert set(benching._read_begun(path)) <= {"x"}


@pytest.mark.thorough
def test_a_bench_stopped_in_the_middle_goes_on_and_repeats_nothing(workspace_home, tmp_path):
    """The problem that does not load comes first, so that one is done when it is stopped."""
    folder = tmp_path / "set"
    folder.mkdir()
    (folder / "1_broken.py").write_text("nothing = 1\n")
    (folder / "2_inverse.py").write_text(INVERSE)
    few_runs_file("relu", folder, "10_relu")
    store = Store()
    earlier = [job.id for job in jobs.every(store, JobKind.BENCH)]

    def ours():
        return [job for job in jobs.every(store, JobKind.BENCH) if job.id not in earlier]

    first = subprocess.Popen(command("--set", folder), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    wait_until(lambda: [one for job in ours() for one in jobs.reports(store, job.id)])
    first.send_signal(signal.SIGINT)
    first.communicate(timeout=PATIENCE_S)
    assert first.returncode == 2
    (job,) = ours()
    wait_until(lambda: jobs.get(store, job.id).is_over)
    assert jobs.get(store, job.id).state is JobState.STOPPED
    done = views.bench_lines(store, job.id)
    assert [line.outcome for line in done][:1] == [views.BenchOutcome.NOT_LOADED]

    again = subprocess.run(
        command("--go-on", job.id[:6]), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=False
    )
    assert again.returncode == 1
    said = json.loads(again.stdout)
    assert [line["problem"] for line in said["problems"]] == ["1_broken", "2_inverse", "10_relu"]
    broken, inverse, relu = views.bench_lines(store, job.id)
    assert (broken, *done[1:]) == done
    assert inverse.outcome is views.BenchOutcome.NO_PROPOSAL
    assert "linalg_inv" in inverse.why
    assert relu.outcome is views.BenchOutcome.PASSED
    assert relu.features["Tensor"]
    assert relu.latency_us is None
    assert said["figures"]["passed"] == 1
    assert jobs.get(store, job.id).state is JobState.DONE


def test_sets_are_found_in_the_catalogue_and_in_a_checkout(tmp_path):
    assert "relu" in sets.resolve("built-in")
    assert "gather_mean" in sets.resolve("gnn")
    assert "silu_and_mul" in sets.resolve("astra")
    for name, found in sets.SETS.items():
        assert found.level or set() < set(sets.resolve(name)) <= set(sets.resolve("built-in"))
    level = tmp_path / "KernelBench" / "level1"
    level.mkdir(parents=True)
    for name in ("19_ReLU.py", "190_x.py", "9_y.py", "_hidden.py"):
        (level / name).write_text("")
    assert [path.rpartition("/")[2] for path in sets.resolve("level1", tmp_path)] == [
        "9_y.py",
        "19_ReLU.py",
        "190_x.py",
    ]
    assert [path.rpartition("/")[2] for path in sets.resolve("activations", tmp_path)] == ["19_ReLU.py"]


@pytest.mark.parametrize(
    ("name", "checkout", "says"),
    [
        ("level1", False, "--checkout"),
        ("level2", True, "level2"),
        ("nonsense", False, "built-in"),
        ("empty", False, "no problem"),
    ],
)
def test_what_is_no_set_says_what_to_do(name, checkout, says, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    with pytest.raises(UsageError, match=says):
        sets.resolve(name, tmp_path if checkout else None)


def line(problem, us, ratio, outcome=views.BenchOutcome.PASSED):
    speedups, share = ({"eager": ratio} if ratio else {}), (0.5 if us else None)
    return views.BenchLine(
        problem, f"/set/{problem}.py", "s", outcome, "", "", 1.0, 1, us, share, speedups, {"Tensor": 3}
    )


def test_figures_count_every_problem_and_average_what_was_timed():
    figures = views.bench_figures(
        [line("a", 10.0, 4.0), line("b", 10.0, 1.0), line("c", None, None, views.BenchOutcome.NO_KERNEL)]
    )
    assert (figures.passed, figures.problems) == (2, 3)
    assert figures.mean_speedup == {"eager": pytest.approx(2.0)}
    assert figures.fast["eager"] == pytest.approx((1 / 3, 1 / 3, 1 / 3))
    assert figures.mean_share == pytest.approx(0.5)
    assert figures.features == {"Tensor": 2}
    assert views.bench_figures([]) is None


def test_a_comparison_names_what_changed_beyond_the_noise():
    earlier = [
        line("same", 100.0, 1.0),
        line("faster", 100.0, 1.0),
        line("gone", 100.0, 1.0),
        line("only here", 1.0, 1.0),
    ]
    later = [
        line("same", 101.0, 1.0),
        line("faster", 50.0, 2.0),
        line("gone", None, None, views.BenchOutcome.NO_KERNEL),
    ]
    told = "\n".join(map(benches._changed, views.compare_benches(earlier, later)))
    assert "faster: 100.0 µs -> 50.0 µs (2.00x)" in told
    assert "gone: passed -> no kernel passed" in told
    assert "same" not in told
