"""A run as a process: JSON lines on stdout, checkpoints that survive any end, errors for a person."""

import json
import signal
import time
from dataclasses import replace

import pytest

from cutegen_core.records import as_json
from cutegen_core.records.gnn import Task
from tests.workloads.gnn.runs import SMALL, ended, losses, started, train_small, wait_for

LONG = 10_000


def test_a_run_writes_progress_epochs_and_a_result(tmp_path):
    with started(tmp_path, SMALL) as process:
        lines, code = ended(process)
    assert code == 0
    kinds = [kind for kind, _ in lines]
    assert kinds[0] == "progress"
    assert kinds[-1] == "result"
    assert kinds.count("epoch") == SMALL.epochs
    result = lines[-1][1]
    assert [record for kind, record in lines if kind == "epoch"] == list(result.epochs)
    assert losses(result) == losses(train_small())
    assert result.settings == SMALL
    assert result.graph.nodes == SMALL.graph.nodes
    assert {"device", "torch", "processors"} <= set(result.machine)


def go_on(folder, checkpoints, epochs):
    """What a new run with the same folder gives at the end."""
    with started(folder, replace(SMALL, epochs=epochs, checkpoint=str(checkpoints))) as process:
        lines, code = ended(process)
    assert code == 0, lines
    return [record for kind, record in lines if kind == "epoch"], lines[-1][1]


def test_sigterm_leaves_a_checkpoint_and_kill_loses_no_epoch_of_one(tmp_path):
    """Twice the same run, ended in both ways; the third finishes it with the curve of a run that was never ended."""
    kept, done = tmp_path / "checkpoints", 0
    settings = replace(SMALL, epochs=LONG, checkpoint=str(kept))
    with started(tmp_path, settings) as process:
        reported = wait_for(process, "epoch", 3)
        process.send_signal(signal.SIGTERM)
        began = time.monotonic()
        lines, code = ended(process)
        assert time.monotonic() - began < 5
    assert code == 128 + signal.SIGTERM
    assert not [kind for kind, _ in lines if kind in ("error", "result")]
    done = max([reported.epoch, *(record.epoch for kind, record in lines if kind == "epoch")])
    with started(tmp_path, settings) as process:
        first = wait_for(process, "epoch")
        assert first.epoch == done + 1
        process.kill()
        lines, _ = ended(process)
    done = max([first.epoch, *(record.epoch for kind, record in lines if kind == "epoch")])
    fresh, result = go_on(tmp_path, kept, done + 2)
    assert fresh[0].epoch in (done + 1, done + 2)  # one more epoch may have been kept than was reported
    assert [report.epoch for report in result.epochs] == list(range(1, done + 3))
    assert losses(result) == pytest.approx(losses(train_small(epochs=done + 2)), rel=1e-12)


def test_a_second_signal_ends_it_at_once(tmp_path):
    """While the graph is generated the run cannot look at the first one."""
    slow = replace(SMALL, graph=replace(SMALL.graph, nodes=3_000_000, degree=24))
    with started(tmp_path, slow) as process:
        wait_for(process, "progress")
        process.send_signal(signal.SIGTERM)
        time.sleep(0.3)
        process.send_signal(signal.SIGTERM)
        began = time.monotonic()
        _, code = ended(process)
        assert time.monotonic() - began < 2
        assert code == 128 + signal.SIGTERM


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        (replace(SMALL, epochs=0), "epochs is 0; it must be at least 1."),
        (replace(SMALL, dropout=1.0), "dropout is 1; it must be at least 0 and below 1."),
        (replace(SMALL, fanouts=()), "fanouts is []; it needs one number above 0 per hop, such as 15,10,5."),
        (replace(SMALL, fanouts=(5,)), "inference_fanouts has 2 hops, fanouts 1: each is one layer"),
        (replace(SMALL, device="tpu"), 'device is "tpu": choose cpu, cuda, or sleep:MILLISECONDS.'),
        (replace(SMALL, device="sleep:5", ranks=2), "device sleep computes nothing: leave ranks at 1"),
        (replace(SMALL, slots=1), "slots is 1; it must be at least 2."),
        (replace(SMALL, task=Task.INFER), "task infer needs `checkpoint`"),
        (replace(SMALL, model="gat", hidden=18), "hidden is 18; for model gat it must be a multiple of 4, its heads."),
        (replace(SMALL, model="gat", aggregate="spmm"), "aggregate spmm would not be used"),
        (replace(SMALL, batch_size=1, ranks=2), "batch_size 1 is that of all 2 ranks"),
        ('{"model": "gcn"}', "stored RunSettings cannot be read: model:"),
        ("not JSON", "stored RunSettings cannot be read: record: Invalid JSON"),
    ],
    ids=lambda value: value[:30] if isinstance(value, str) else "",
)
def test_wrong_settings_are_one_error_line(tmp_path, settings, says):
    with started(tmp_path, settings) as process:
        lines, code = ended(process, timeout=30)
    assert code == 1
    ((kind, text),) = lines
    assert kind == "error"
    assert text.startswith(says) or says in text


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"aggregate": "scatter"}, 'aggregate is "scatter": choose one of'),
        ({"graph": replace(SMALL.graph, source="/nowhere")}, "/nowhere"),
    ],
    ids=["aggregate", "graph"],
)
def test_what_only_the_run_can_find_is_one_error_line_too(tmp_path, changes, says):
    with started(tmp_path, replace(SMALL, **changes)) as process:
        lines, code = ended(process)
    assert code == 1
    assert [kind for kind, _ in lines if kind != "progress"] == ["error"]
    assert says in lines[-1][1]


def test_a_result_reads_back_with_numbers_that_are_none(tmp_path):
    """A declared sleep has no loss: NaN goes through the lines and back."""
    with started(tmp_path, replace(SMALL, device="sleep:1", epochs=1)) as process:
        lines, code = ended(process)
    assert code == 0
    result = lines[-1][1]
    assert result.epochs[0].loss != result.epochs[0].loss
    assert json.loads(as_json.dump(result))["accuracies"] == []
