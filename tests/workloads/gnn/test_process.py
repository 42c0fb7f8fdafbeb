"""A run as a process: JSON lines on stdout, checkpoints that survive any end, errors for a person."""

import io
import math
import signal
import time
from dataclasses import replace

import pytest

from cutegen_core.records.errors import UsageError
from cutegen_core.records.gnn import ComputeType, ModelName, Task
from cutegen_core.workloads.gnn import reporting
from cutegen_core.workloads.gnn.training.settings import check_settings
from tests.workloads.gnn.runs import SMALL, ended, epochs_of, losses, read, started, train_small, wait_for

LONG = 10_000


def test_a_run_writes_progress_epochs_and_a_result(tmp_path):
    with started(tmp_path, SMALL) as process:
        lines, code = ended(process)
    assert code == 0
    kinds = [kind for kind, _ in lines]
    assert kinds[0] == "progress"
    assert kinds[-1] == "result"
    assert kinds.count("report") == SMALL.epochs
    result = lines[-1][1]
    told = [record for kind, record in lines if kind == "report"]
    assert all(report.timeline for report in told)
    assert list(result.epochs) == [replace(told[0], timeline=()), told[1]]
    assert losses(result) == losses(train_small())
    assert result.settings == SMALL
    assert result.graph.nodes == SMALL.graph.nodes
    assert {"device", "torch", "processors"} <= set(result.machine)


@pytest.mark.thorough
def test_sigterm_leaves_a_checkpoint_and_kill_loses_no_epoch_of_one(tmp_path):
    """Twice the same run, ended in both ways; the third finishes it with the curve of a run that was never ended."""
    kept, told = tmp_path / "checkpoints", {}
    settings = replace(SMALL, epochs=LONG, checkpoint=str(kept))
    with started(tmp_path, settings) as process:
        wait_for(process, "report", 3, told)
        process.send_signal(signal.SIGTERM)
        lines, code = ended(process)
    assert code == 128 + signal.SIGTERM
    assert not [kind for kind, _ in lines if kind in ("error", "result")]
    told |= epochs_of(lines)
    with started(tmp_path, settings) as process:
        first = wait_for(process, "report", 1, told)
        assert first.epoch == len(told)  # it went on where the other ended
        process.kill()
        told |= epochs_of(ended(process)[0])
    assert sorted(told) == list(range(1, len(told) + 1))
    result = train_small(epochs=len(told) + 2, checkpoint=str(kept))
    assert all(result.epochs[number - 1].seconds == report.seconds for number, report in told.items())  # none anew
    assert losses(result) == pytest.approx(losses(train_small(epochs=len(told) + 2)), rel=1e-12)


@pytest.mark.parametrize("signals", [pytest.param(1, marks=pytest.mark.thorough), 2])
def test_a_run_inside_native_code_ends_too(tmp_path, signals):
    """While the graph is generated nothing looks at the signal: the run ends after its grace, or at the second one."""
    slow = replace(SMALL, graph=replace(SMALL.graph, nodes=20_000_000, degree=24))
    with started(tmp_path, slow) as process:
        wait_for(process, "progress")
        for _ in range(signals):
            process.send_signal(signal.SIGTERM)
            time.sleep(0.3)  # two at once would be one
        lines, code = ended(process)
    assert code == 128 + signal.SIGTERM
    assert lines == []


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"epochs": 0}, "epochs is 0; it must be at least 1."),
        ({"dropout": 1.0}, "dropout is 1; it must be at least 0 and below 1."),
        ({"learning_rate": math.nan}, "learning_rate is nan; it must be above 0."),
        ({"fanouts": ()}, "fanouts is []; it needs one number above 0 per hop, such as 15,10,5."),
        ({"fanouts": (5,)}, "inference_fanouts has 2 hops, fanouts 1: each is one layer"),
        ({"device": "tpu"}, 'device is "tpu": choose cpu, cuda, or sleep:MILLISECONDS.'),
        ({"precision": ComputeType.TF32}, "precision is tf32, which only GPUs have"),
        ({"device": "sleep:5", "ranks": 2}, "device sleep computes nothing: leave ranks at 1"),
        ({"device": "sleep:5", "aggregate": "kernel:a.1"}, "device sleep computes nothing: a kernel would not run"),
        ({"device": "sleep:5", "task": Task.INFER}, "device sleep computes nothing, so it has no accuracy"),
        ({"slots": 1}, "slots is 1; it must be 0 (enough for all threads) or at least 2"),
        ({"task": Task.INFER}, "task infer needs `checkpoint`"),
        ({"model": ModelName.GAT, "hidden": 18}, "hidden is 18; for model gat it must be a multiple of its 4 heads."),
        ({"model": ModelName.GAT, "aggregate": "spmm"}, "aggregate spmm would not be used"),
        ({"batch_size": 1, "ranks": 2}, "batch_size 1 is that of all 2 ranks"),
    ],
    ids=str,
)
def test_wrong_settings_are_named(changes, says):
    with pytest.raises(UsageError) as refused:
        check_settings(replace(SMALL, **changes))
    assert says in str(refused.value)


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        (replace(SMALL, epochs=0), "epochs is 0; it must be at least 1."),
        pytest.param('{"model": "gcn"}', "stored RunSettings cannot be read: model:", marks=pytest.mark.thorough),
        ("not JSON", "stored RunSettings cannot be read: record: Invalid JSON"),
        pytest.param(
            replace(SMALL, aggregate="scatter"), 'aggregate is "scatter": choose one of', marks=pytest.mark.thorough
        ),
    ],
    ids=["number", "name", "text", "aggregate"],
)
def test_an_error_is_one_line(tmp_path, settings, says):
    with started(tmp_path, settings) as process:
        lines, code = ended(process)
    assert code == 1
    ((kind, text),) = lines
    assert kind == "error"
    assert text.startswith(says)


def test_a_loss_that_is_none_goes_through_the_lines():
    """A declared sleep has no loss."""
    out = io.StringIO()
    reporting.Reporter(out).result(train_small(device="sleep:1", epochs=1))
    kind, result = read(out.getvalue())
    assert kind == "result"
    assert math.isnan(result.epochs[0].loss)
    assert result.accuracies == ()
