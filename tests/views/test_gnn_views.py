"""A run's figures: P, C, waits, Amdahl's bound, aggregations and ranks beside one another."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from cutegen_core.records import as_json
from cutegen_core.records.gnn import (
    AggregateTimes,
    EpochReport,
    GraphFacts,
    GraphSettings,
    PipelineMode,
    RunProgress,
    RunResult,
    RunSettings,
    StageTimes,
    Task,
)
from cutegen_core.records.job import Job, JobKind, JobState
from cutegen_core.trajectory import jobs
from cutegen_core.trajectory.store import Store
from cutegen_core.views import gnn

FACTS = GraphFacts("blocks", 1000, 16000, 64, 8, 500, 250, 250)
PLUGGED = "kernel:abcd123456.3"


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    monkeypatch.setenv("CUTEGEN_HOME", str(tmp_path))
    made = Store()
    yield made
    made.close()


def epoch(number: int = 1, seconds: float = 4.0, compute: float = 3.0, prepare: float = 4.0, **changes) -> EpochReport:
    times = StageTimes(prepare, 0.5, compute, 0.6, 0.0, threads=2)
    return EpochReport(1, number, seconds, 10, 8_000_000, 1.5 / number, 0.9, times, **changes)


def run(store: Store, epochs: list[EpochReport], settings: RunSettings | None = None, **result) -> gnn.RunView:
    settings = settings or RunSettings()
    found = replace(RunResult(settings, FACTS, {"device": "cpu"}, ()), **result)
    job = Job("", JobKind.GNN, "a run", as_json.dump(settings), JobState.DONE, result=store.put_record(found))
    return gnn.run_view(store, jobs.adopt(store, job, [as_json.dump(one) for one in epochs]))


def test_p_and_c_are_of_the_median_epoch_without_the_first(store: Store) -> None:
    view = run(store, [epoch(1, 90.0), epoch(2, 4.0), epoch(3, 3.6), epoch(4, 3.3)], compute_only_s=3.0)
    found = gnn.figures(view)
    assert found is not None
    assert (found.epoch.epoch, found.longest) == (3, "compute")
    assert found.p == pytest.approx(1.2)
    assert found.c == pytest.approx(1.2)
    assert found.prepare == 2.0, "4 s by two threads"
    assert found.edges_per_thread_s == 2_000_000


def test_an_epoch_that_was_done_again_counts_once(store: Store) -> None:
    view = run(store, [epoch(1), epoch(2, 9.0), epoch(2, 4.0)])
    assert [(one.epoch, one.seconds) for one in view.epochs] == [(1, 4.0), (2, 4.0)]


def test_waits_are_said_with_their_share(store: Store) -> None:
    (prepared, copied) = gnn.waits(epoch())
    assert prepared.words == "waited for batches to be prepared"
    assert (prepared.seconds, prepared.share) == (0.6, 0.15)
    assert copied.share == 0.0


@pytest.mark.parametrize(
    ("share", "prepare", "gain", "said"),
    [
        (0.5, 1.0, 4 / 2.5, "A kernel can give at most 1.60x here: aggregation is 50 % of the time to compute."),
        (0.9, 6.0, 4 / 3.0, "and an epoch cannot be shorter than preparing batches."),
        (0.0, 1.0, 1.0, "at most 1.00x"),
    ],
)
def test_amdahls_bound(store: Store, share: float, prepare: float, gain: float, said: str) -> None:
    view = run(store, [epoch(prepare=prepare)], aggregate_share=share)
    base = gnn.beside(store, view).baseline
    assert base is not None
    assert base.bound is not None
    assert base.bound.gain == pytest.approx(gain)
    assert said in gnn.bound_words(base.bound)


def test_a_plugged_kernel_is_compared_with_pytorchs_best(store: Store) -> None:
    plain = RunSettings(device="cuda")
    slow = run(store, [epoch(seconds=8.0)], replace(plain, aggregate="index_add"))
    base = run(store, [epoch(seconds=4.0)], plain, aggregate_share=0.5)
    run(store, [epoch(seconds=1.0)], replace(plain, aggregate="spmm", hidden=8))
    shown = run(store, [epoch(seconds=2.5)], replace(plain, aggregate=PLUGGED, seed=7))
    found = gnn.beside(store, shown)
    assert [side.aggregate for side in found.sides] == [PLUGGED, "embedding_bag", "index_add"]
    assert found.baseline is not None
    assert found.baseline.job == base.job.id
    assert found.shown is not None
    assert found.shown.speedup == pytest.approx(1.6)
    assert gnn.beside(store, slow).shown is not None


def test_a_time_on_the_emulator_is_no_speedup(store: Store) -> None:
    run(store, [epoch(seconds=4.0)])
    run(store, [epoch(seconds=8.0)], RunSettings(aggregate="spmm"))
    shown = run(store, [epoch(seconds=2.0)], RunSettings(aggregate=PLUGGED))
    assert [side.speedup for side in gnn.beside(store, shown).sides] == [None, None, 0.5]


def test_a_run_of_another_machine_is_not_beside_this_one(store: Store) -> None:
    shown = run(store, [epoch()], replace(RunSettings(), aggregate=PLUGGED))
    run(store, [epoch()], machine={"device": "NVIDIA H200"})
    assert gnn.beside(store, shown).baseline is None


def test_a_bench_compares_in_turns_and_both_modes(store: Store) -> None:
    epochs = [
        epoch(number, seconds, aggregate=name, mode=mode)
        for number in (1, 2)
        for name, mode, seconds in (
            ("embedding_bag", PipelineMode.PIPELINED, 4.0),
            ("spmm", PipelineMode.PIPELINED, 5.0),
            ("embedding_bag", PipelineMode.SERIAL, 6.0),
        )
    ]
    times = (AggregateTimes("embedding_bag", 4.0, 3.2, 0.5), AggregateTimes("spmm", 5.0, 4.1, 0.6))
    view = run(store, epochs, replace(RunSettings(), task=Task.BENCH), aggregates=times, compute_only_s=3.2)
    assert [one.epoch for one in view.epochs] == [1, 2]
    found, beside = gnn.figures(view), gnn.beside(store, view)
    assert found is not None
    assert found.over_serial == pytest.approx(1.5)
    assert beside.in_turns
    assert [(side.aggregate, side.speedup) for side in beside.sides] == [("embedding_bag", None), ("spmm", 0.8)]
    assert beside.baseline is not None
    assert beside.baseline.bound is not None
    assert beside.baseline.bound.gain == pytest.approx(4 / 2.4)


def test_ranks_are_scaled_by_their_fastest_runs(store: Store) -> None:
    shown = run(store, [epoch(seconds=4.0)])
    run(store, [epoch(seconds=9.0)], replace(RunSettings(), ranks=2))
    run(store, [epoch(seconds=2.1)], replace(RunSettings(), ranks=2, seed=3))
    run(store, [epoch(seconds=1.0)], replace(RunSettings(), ranks=4, mode=PipelineMode.SERIAL))
    assert [(point.ranks, point.epoch_s) for point in gnn.scaling(store, shown)] == [(1, 4.0), (2, 2.1)]


@pytest.mark.parametrize(
    ("device", "machine", "origin", "said"),
    [
        ("cpu", "cpu, 2 threads", "here", "computed on this CPU"),
        ("sleep:20", "cpu", "here", "declared sleep of 20 ms per step, nothing computed"),
        ("cuda", "NVIDIA H200", "here", "computed on NVIDIA H200"),
        ("cpu", "cpu", "imported from a.json", "computed on the CPU of the machine that recorded it"),
    ],
)
def test_which_device_the_figures_are_from_is_said(
    store: Store, device: str, machine: str, origin: str, said: str
) -> None:
    view = run(store, [epoch()], replace(RunSettings(), device=device), machine={"device": machine})
    view = view._replace(job=replace(view.job, origin=origin))
    assert gnn.computed_on(view) == said
    assert (gnn.imported_words(view) == "") == (origin == "here")


def test_a_kernel_without_a_gpu_is_said_to_be_on_the_emulator(store: Store) -> None:
    view = run(store, [epoch()], RunSettings(aggregate=PLUGGED))
    assert gnn.computed_on(view) == "computed on this CPU, the plugged kernel on the emulator"


def test_titles_tell_runs_apart_and_hide_nothing() -> None:
    settings = replace(RunSettings(), aggregate="spmm", ranks=2, graph=GraphSettings("/data/\u202eproducts"))
    assert gnn.run_title(settings) == "train sage on ⟨U+202E⟩products, pipelined, cpu, spmm, 2 ranks"


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(0.0084, "8.4 ms"), (1.254, "1.25 s"), (75.2, "75 s"), (200, "3 min 20 s"), (7500, "2 h 5 min"),
     (float("inf"), "–"), (float("nan"), "–")],
)  # fmt: skip
def test_time_spans_are_written(seconds: float, said: str) -> None:
    assert gnn.duration(seconds) == said


def test_progress_has_an_estimate_or_says_that_there_is_none() -> None:
    assert gnn.progress_words(RunProgress("opening the graph")) == "opening the graph · no estimate yet"
    whole = RunProgress("training", 1, 2, 5, 3, 10, 1.25, 90.0)
    assert gnn.progress_words(whole) == "training · epoch 2 of 5 · batch 3 of 10 · loss 1.25 · about 90 s left"
