"""The loader prepares in threads, in order and bounded; it ends cleanly whatever happens, and loses no error."""

import threading
import time
import traceback

import numpy as np
import pytest

from cutegen_core.records.errors import UsageError
from cutegen_core.workloads.gnn.sampling.sampler import Sampler
from tests.later import Later
from tests.workloads.gnn.graphs import digest, skewed

loading = Later("cutegen_core.workloads.gnn.sampling.loader")
slots_of = Later("cutegen_core.workloads.gnn.sampling.slots")

GRAPH = skewed(2000, 30_000, width=24)


@pytest.fixture(autouse=True)
def _no_thread_stays():
    yield
    assert [thread.name for thread in threading.enumerate() if thread.name.startswith("gnn")] == []


def batches(count, size=64, seed=0):
    random = np.random.default_rng(seed)
    return [random.choice(2000, size, replace=False) for _ in range(count)]


def loader(given, *, threads=2, slots=3, sampler=None, graph=GRAPH, **more):
    return loading.BatchLoader(
        graph, sampler or Sampler(graph, (5, 5)), given, threads=threads, slots=slots, pin=False,
        slice_features=True, **more,
    )  # fmt: skip


class Counting:
    """A sampler that counts what it begins, and may wait before a batch or fail at it."""

    def __init__(self, *, waits=(), fails_at=None):
        self._sampler, self._waits, self._fails_at = Sampler(GRAPH, (5, 5)), dict(waits), fails_at
        self.begun = []

    def sample_into(self, seeds, batch, buffers):
        self.begun.append(batch)
        time.sleep(self._waits.get(batch, 0))
        if batch == self._fails_at:
            raise RuntimeError(f"cannot sample batch {batch}")
        return self._sampler.sample_into(seeds, batch, buffers)


@pytest.mark.parametrize("width", [1, 3, 24, 100])
@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_features_and_labels_are_those_of_the_batch(width, dtype):
    features = np.random.default_rng(0).standard_normal((2000, width)).astype(dtype)
    graph = type(GRAPH)("t", GRAPH.indptr, GRAPH.indices, features, GRAPH.labels, 3, GRAPH.splits)
    with loader(given := batches(4), graph=graph) as loaded:
        for batch, seeds in zip(loaded, given, strict=True):
            assert (batch.features.numpy() == features[batch.sampled.nodes]).all()
            assert batch.features.numpy().dtype == dtype
            assert (batch.labels.numpy() == graph.labels[seeds]).all()
            batch.release()


def test_a_graph_that_is_mapped_is_read_from_the_file(tmp_path):
    arrays = {}
    for name in ("indptr", "indices", "features", "labels"):
        np.save(tmp_path / f"{name}.npy", getattr(GRAPH, name))
        arrays[name] = np.load(tmp_path / f"{name}.npy", mmap_mode="r")
    mapped = type(GRAPH)("t", *arrays.values(), 3, GRAPH.splits)
    with loader(batches(3), graph=mapped) as ours, loader(batches(3)) as theirs:
        for one, other in zip(ours, theirs, strict=True):
            assert digest(one.sampled) == digest(other.sampled)
            assert (one.features == other.features).all()
            one.release()
            other.release()


def test_batches_are_the_same_with_any_number_of_threads():
    def digests(threads, slots):
        with loader(batches(12), threads=threads, slots=slots) as loaded:
            found = []
            for batch in loaded:
                found.append((batch.number, digest(batch.sampled), batch.features.sum().item()))
                batch.release()
            return found

    expected = digests(1, 1)
    assert [number for number, _, _ in expected] == list(range(12))
    assert digests(2, 2) == digests(3, 4) == digests(4, 1) == expected


def test_order_holds_where_the_first_is_slow():
    sampler = Counting(waits={0: 0.1, 3: 0.05})
    with loader(batches(8), sampler=sampler, threads=3) as loaded:
        numbers = []
        for batch in loaded:
            numbers.append(batch.number)
            batch.release()
    assert numbers == list(range(8))


def test_no_more_is_prepared_than_there_are_slots():
    sampler = Counting()
    with loader(batches(20), sampler=sampler, threads=3, slots=4) as loaded:
        held = []
        for batch in loaded:
            held.append(batch)
            time.sleep(0.02)
            assert len(sampler.begun) <= batch.number + 1 - (len(held) - 1) + 4
            if len(held) == 3:
                held.pop(0).release()
    assert sorted(sampler.begun) == list(range(20))


def test_slots_are_used_again_and_hold_their_batch_until_released():
    pool = slots_of.SlotPool(pin=False)
    places = set()
    for epoch in range(3):
        with loader(batches(6, seed=epoch), slots=2, first=6 * epoch, pool=pool) as loaded:
            for batch in loaded:
                before = digest(batch.sampled)
                time.sleep(0.005)
                assert digest(batch.sampled) == before
                places.add(batch.sampled.nodes.ctypes.data)
                batch.release()
                batch.release()
    assert len(places) <= 4  # two slots, each of which may have grown once


def test_a_slot_released_twice_is_not_given_twice():
    with loader(batches(5), slots=2) as loaded:
        batches_of = iter(loaded)
        first = next(batches_of)
        first.release()
        first.release()
        second, third = next(batches_of), next(batches_of)
        assert second.sampled.nodes.ctypes.data != third.sampled.nodes.ctypes.data


def numbers_of(loaded, into):
    """Take and releases all batches."""
    with loaded:
        for batch in loaded:
            into.append(batch.number)
            batch.release()


def test_an_error_of_a_thread_surfaces_in_its_turn_with_its_traceback():
    got = []
    loaded = loader(batches(9), sampler=Counting(fails_at=5), threads=3)
    with pytest.raises(RuntimeError, match="cannot sample batch 5") as raised:
        numbers_of(loaded, got)
    assert got == [0, 1, 2, 3, 4]
    assert "sample_into" in "".join(traceback.format_tb(raised.value.__traceback__))


def test_a_seed_that_is_no_node_surfaces():
    with pytest.raises(UsageError, match="seed 5000"):
        numbers_of(loader([*batches(2), np.array([5000])]), [])


@pytest.mark.parametrize("taken", [0, 1, 3])
def test_leaving_early_ends_the_threads(taken):
    with loader(batches(50)) as loaded:
        for _, batch in zip(range(taken), loaded, strict=False):
            batch.release()
    assert [thread for thread in threading.enumerate() if thread.name.startswith("gnn")] == []


def test_no_batches_and_batches_without_seeds():
    with loader([]) as loaded:
        assert list(loaded) == []
    with loader([np.empty(0, np.int64)]) as loaded:
        (batch,) = loaded
        assert (len(batch.sampled.nodes), batch.features.shape, len(batch.labels)) == (0, (0, 24), 0)


def hold_all_and_raise(loaded):
    with loaded:
        held = [batch for _, batch in zip(range(2), loaded, strict=False)]
        raise ZeroDivisionError(len(held))


def test_a_trainer_that_raises_while_all_slots_are_held_ends_the_threads():
    with pytest.raises(ZeroDivisionError):
        hold_all_and_raise(loader(batches(50), slots=2))


def test_waiting_costs_no_processor_time():
    with loader(batches(8), slots=2, threads=3) as loaded:
        held = [batch for _, batch in zip(range(2), loaded, strict=False)]
        time.sleep(0.05)
        start = time.process_time()
        time.sleep(0.3)
        assert time.process_time() - start < 0.03
        assert held
    slow = Counting(waits={0: 0.3})
    with loader(batches(1), sampler=slow) as loaded:
        start = time.process_time()
        next(iter(loaded)).release()
        assert time.process_time() - start < 0.1


def test_what_was_prepared_says_when_and_by_which_thread():
    begun = time.perf_counter()
    with loader(batches(6), threads=2) as loaded:
        for batch in loaded:
            sampling, slicing = batch.prepared
            assert begun <= sampling.start_s < sampling.end_s == slicing.start_s < slicing.end_s <= time.perf_counter()
            assert sampling.lane == slicing.lane
            assert sampling.lane in ("prepare 0", "prepare 1")
            assert sampling.batch == slicing.batch == batch.number
            batch.release()


@pytest.mark.parametrize("sizes", [{"threads": 0}, {"slots": 0}])
def test_a_loader_needs_threads_and_slots(sizes):
    with pytest.raises(UsageError, match="at least one thread and one slot"):
        loader(batches(1), **sizes)
