"""Padding changes no loss, and a captured step does what the step does; here on the CPU, in tests/gpu on a GPU."""

import contextlib
from dataclasses import replace

import pytest

from cutegen_core.records.errors import StoppedError
from cutegen_core.records.gnn import ComputeType, ModelName, PipelineMode, Place, Steps
from tests.later import Later
from tests.workloads.gnn.runs import losses, open_small, train_small

torch = Later("torch")
fixing = Later("cutegen_core.workloads.gnn.training.fixing")
training = Later("cutegen_core.workloads.gnn.training.train")
devices = Later("cutegen_core.workloads.gnn.training.devices")
capture = Later("cutegen_core.workloads.gnn.training.capture")
fixed = Later("cutegen_core.workloads.gnn.sampling.fixed")


def padded(on=None, **changes):
    """Return a run on the CPU whose training batches are padded."""
    run = open_small(on, **changes)
    run.layout = fixing.derive_layout(run)
    return run


MODELS = [
    {"model": model, "features": place} for model in ModelName for place in Place
] + [{"layered": True}, {"precision": ComputeType.BF16}, {"aggregate": "index_add"}, {"aggregate": "spmm"}]  # fmt: skip


@pytest.mark.parametrize("changes", MODELS, ids=str)
def test_padding_changes_no_loss(changes):
    """600 nodes in batches of 128: the last one has 88."""
    plain = train_small(dropout=0.0, **changes)
    found = training.train(padded(dropout=0.0, **changes))
    near = 2e-3 if "precision" in changes else 1e-5
    assert losses(found) == pytest.approx(losses(plain), rel=near)
    assert found.accuracies == pytest.approx(plain.accuracies, abs=0.01)
    assert [one.edges for one in found.epochs] == [one.edges for one in plain.epochs]


class CapturingProcessor:
    """Make a CPU whose slots are places: with one slot every padded batch lies where the one before lay."""

    def __new__(cls):
        class Capturing(devices.Processor):
            captures = True

            def send(self, batch):
                flight = super().send(batch)
                place = flight.inputs.labels.data_ptr() if batch.fixed else 0
                flight.inputs = flight.inputs._replace(place=place)
                return flight

        return Capturing(None)


class Repeating:
    """Stand in for CUDA graphs: a replay does the work again, on the memory of the batch that it was captured for.

    Attributes:
        replays: how often.
    """

    def __init__(self, *, waits=False, fails=False):
        self.failures, self.replays, self.captures = 0, 0, 0
        self._waits, self._fails = waits, fails

    def capture(self, work):
        if self._fails:
            self.failures += 1
            raise capture.CaptureError("it is not permitted")
        self.captures += 1

        def replay():
            self.replays += 1
            work()

        return replay

    @contextlib.contextmanager
    def refuse_waits(self):
        yield
        if self._waits:
            raise capture.CaptureError("an operation in it waits for the device")


def capturing(capturer, **changes):
    run = open_small(**changes)
    run.device, run.capturer = CapturingProcessor(), capturer
    return run


@pytest.mark.parametrize("mode", PipelineMode)
def test_replayed_steps_learn_what_steps_learn(mode):
    """With dropout: every step draws anew, and the same as without a capture."""
    plain = training.train(padded(mode=mode))
    run = capturing(capturer := Repeating(), mode=mode)
    found = training.train(run)
    assert losses(found) == losses(plain)
    assert found.accuracies == plain.accuracies
    slots = 1 if mode is PipelineMode.SERIAL else 3
    assert capturer.captures <= slots
    assert sum(one.captured for one in found.epochs) == capturer.replays == 2 * 5 - 3
    assert found.machine["steps"] == "7 of 10 captured as CUDA graphs"


@pytest.mark.parametrize(
    ("capturer", "why"),
    [
        (lambda: Repeating(waits=True), "eager: an operation in it waits for the device"),
        (lambda: Repeating(fails=True), "eager: it is not permitted"),
    ],
)
def test_a_step_that_cannot_be_captured_runs_as_it_is_and_says_why(capturer, why):
    plain = training.train(padded())
    found = training.train(capturing(capturer()))
    assert losses(found) == losses(plain)
    assert found.machine["steps"] == why
    assert [one.captured for one in found.epochs] == [0, 0]


def test_a_failed_capture_makes_another_steps_captures_anew():
    run = capturing(capturer := Repeating(), mode=PipelineMode.SERIAL, epochs=3)
    trainee = training.make_trainee(run, 1)
    training.fix_sizes(run)
    trainee.step.refusal = run.why_eager
    reports = training.train_trial(run, trainee, training.Estimate(run, 3))
    assert next(reports).captured == 2
    assert capturer.captures == 1
    capturer.failures += 1
    assert next(reports).captured == 5
    assert capturer.captures == 2


def test_batches_that_do_not_fit_are_counted(monkeypatch):
    """Here only those with fewer than 128 nodes fit: the last of each epoch, which follow three as they are."""
    monkeypatch.setattr(fixing, "fixed_sizes", _tight)
    run = capturing(Repeating(), epochs=6, dropout=0.0)
    found = training.train(run)
    assert [one.captured for one in found.epochs] == [0, 0, 0, 1, 1, 1]
    assert losses(found) == pytest.approx(losses(train_small(epochs=6, dropout=0.0)), rel=1e-5)


def _tight(samples):
    sizes = fixed.fixed_sizes(samples)
    return (*sizes[:-1], sizes[-1]._replace(targets=100))


def test_steps_say_when_nobody_asked_for_captures():
    assert train_small(epochs=1).machine["steps"] == "eager: only a GPU's steps are captured"
    assert train_small(epochs=1, steps=Steps.EAGER).machine["steps"] == "eager: the settings ask for it"


def test_a_captured_run_resumes_in_the_middle_of_an_epoch(tmp_path):
    whole = training.train(capturing(Repeating(), checkpoint=str(tmp_path / "whole")))
    folder = str(tmp_path / "two")
    run = capturing(Repeating(), checkpoint=folder)
    original = run.device.run

    def stop_after(flight, step):
        original(flight, step)
        if flight.inputs.number == 3:
            run.stop.signal = 15

    run.device.run = stop_after
    with pytest.raises(StoppedError):
        training.train(run)
    rest = training.train(capturing(Repeating(), checkpoint=folder))
    assert losses(rest) == pytest.approx(losses(whole), rel=1e-6)


def test_sizes_follow_from_the_settings():
    first, second = (fixing.derive_layout(open_small(threads=threads)) for threads in (1, 3))
    assert first.hops == second.hops
    assert fixing.derive_layout(open_small(seed=9)).hops[-1].targets == first.hops[-1].targets


def test_reports_say_how_steps_ran():
    epoch = train_small(epochs=1).epochs[0]
    reports = [replace(epoch, captured=4), replace(epoch, captured=5)]
    assert fixing.say_steps(reports, {"": ""}) == "9 of 10 captured as CUDA graphs"
    assert fixing.say_steps(reports, {"a": "", "spmm": "it waits"}) == "9 of 10 captured as CUDA graphs; spmm: it waits"
    assert fixing.say_steps([epoch], {"a": "why", "b": "why"}) == "eager: why"
