"""On a machine with a GPU: every kind of launch runs right, every kind of misbehaviour gets its verdict, and after
each the next honest kernel passes."""

import time
from dataclasses import replace

import numpy as np
import pytest

from cutegen_core.execute.cuda import health, lock
from cutegen_core.machine.device import detect
from cutegen_core.records.launch import Scratch
from cutegen_core.records.trial import Status
from tests.gpu.harness import Harness, launch

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(detect() is None, reason="needs a CUDA GPU")]

N = 1000
X = np.random.default_rng(4).standard_normal(N).astype(np.float32)
RELU = launch("relu", "x", "out", N, grid=4, block=256)


@pytest.fixture(scope="module")
def gpu(tmp_path_factory):
    harness = Harness(tmp_path_factory.mktemp("gpu"))
    yield harness
    harness.executor.close()


@pytest.fixture
def honest_afterwards(gpu):
    """Whatever the test did, an honest kernel passes and nobody holds the device."""
    yield
    ran = gpu.run(RELU, x=X, out=np.zeros_like(X))
    assert ran.status is Status.PASSED, ran.message
    assert np.array_equal(ran.out, np.maximum(X, 0))
    assert lock.find_holder(gpu.executor.device.uuid) is None


# -- what a plan can ask for -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1, 3, 4, 255, 256, 1000, 524288, 524289])
def test_sizes_that_do_not_fill_a_mapping(gpu, size):
    x = np.random.default_rng(size).standard_normal(size).astype(np.float32)
    ran = gpu.run(launch("relu", "x", "out", size, grid=-(-size // 256), block=256), x=x, out=np.zeros_like(x))
    assert ran.status is Status.PASSED, ran.message
    assert np.array_equal(ran.out, np.maximum(x, 0))


def test_numbers_of_every_width(gpu):
    ran = gpu.run(launch("affine", "x", "out", N, 3, 0.5, True, grid=4, block=256), x=X, out=np.zeros_like(X))
    assert ran.status is Status.PASSED, ran.message
    np.testing.assert_allclose(ran.out, -(3 * X + np.float32(0.5)), rtol=1e-6, atol=1e-6)


def test_two_launches_over_zeroed_scratch(gpu):
    steps = (launch("partial_sums", "x", "sums", N, grid=4, block=64), launch("last_sum", "sums", "out", N))
    with gpu.executor.open(gpu.built) as execute:
        for _ in range(3):  # zeroed again each time
            ran = gpu.run(*steps, execute=execute, scratch=(Scratch("sums", "float32", (1,), True),), x=X)
            assert ran.status is Status.PASSED, ran.message
            np.testing.assert_allclose(ran.out[0], X.mean(), rtol=1e-4, atol=1e-6)


def test_scratch_that_is_not_zeroed_is_poisoned(gpu):
    scratch = (Scratch("s", "uint8", (100,), False),)
    for poison in (0xFF, 0x5A):
        out = np.zeros(100, np.uint8)
        ran = gpu.run(launch("copy_scratch", "s", "out", 100, block=32), scratch=scratch, poison=poison, out=out)
        assert set(ran.out) == {poison}


def test_outputs_are_poisoned(gpu):
    ran = gpu.run(launch("relu", "x", "out", 10, block=32), poison=0x5A, x=X, out=np.zeros_like(X))
    assert ran.status is Status.PASSED
    assert set(ran.out[10:].view(np.uint8)) == {0x5A}


def test_a_cooperative_launch_synchronises_the_grid(gpu):
    step = launch("grid_sum", "x", "out", "sums", N, grid=64, block=32, cooperative=True)
    ran = gpu.run(step, scratch=(Scratch("sums", "float32", (64,), False),), x=X)
    assert ran.status is Status.PASSED, ran.message
    np.testing.assert_allclose(ran.out[0], X.sum(), rtol=1e-3)


def test_clusters_share_memory(gpu):
    ran = gpu.run(launch("cluster_ranks", "out", grid=8, cluster=4), out=np.zeros(8, np.int32))
    assert ran.status is Status.PASSED, ran.message
    assert ran.out.tolist() == [100, 200, 300, 0, 500, 600, 700, 400]


def test_shared_memory_over_48_kb(gpu):
    x = np.arange(50_000, dtype=np.float32)
    ran = gpu.run(launch("big_shared", "x", "out", 50_000, block=512, smem=200_000), x=x, out=np.zeros_like(x))
    assert ran.status is Status.PASSED, ran.message
    assert np.array_equal(ran.out, x[::-1])


def test_a_module_is_loaded_afresh_for_every_execution(gpu):
    with gpu.executor.open(gpu.built) as execute:
        counts = [gpu.run(launch("counter", "out"), execute=execute, out=np.zeros(1, np.int32)).out[0] for _ in "abc"]
    assert counts == [1, 1, 1]


def test_a_grid_of_zero_is_left_out_and_shows_as_unwritten(gpu):
    ran = gpu.run(launch("relu", "x", "out", N, grid=0, block=256), x=X, out=np.zeros_like(X))
    assert ran.status is Status.PASSED
    assert np.isnan(ran.out).all()


def test_an_empty_output_needs_no_launch(gpu):
    ran = gpu.run(launch("relu", "x", "out", 0, grid=1, block=32), x=X, out=np.zeros(0, np.float32))
    assert ran.status is Status.PASSED


def test_printing_is_kept_apart_and_bounded(gpu, honest_afterwards):
    ran = gpu.run(launch("talks", "out", 100_000, block=1))
    assert ran.status is Status.PASSED, ran.message
    assert ran.out[0] == 1.0


def test_memory_from_the_device_heap(gpu):
    assert gpu.run(launch("allocates", "out")).out[0] == 3.0


# -- what cannot be launched -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("step", "words"),
    [
        (launch("relu", "x", "out", block=32), ("takes 3 parameters", "gives 2")),
        (launch("relu", "x", "out", 1, 2, block=32), ("takes 3 parameters", "gives 4")),
        (launch("relu", "x", "out", "x", block=32), ("argument 3", "4 bytes", "pointer")),
        (launch("relu", 1, "out", 1 << 40, block=32), ("argument 3", "does not fit")),
        (launch("big_shared", "x", "out", 1, smem=300_000), ("300000 bytes of dynamic", "smem_max")),
        (launch("grid_sum", "x", "out", "x", N, grid=99_999, cooperative=True), ("cooperative", "grid (99999, 1, 1)")),
        (launch("cluster_ranks", "out", grid=9, cluster=4), ("cluster", "multiple")),
        (launch("cluster_ranks", "out", grid=64, cluster=64), ("cluster",)),
        (launch("bounded", "out", block=128), ("block (128, 1, 1)", "__launch_bounds__")),
        (launch("relu", "x", "out", N, grid=1, block=2048), ("block (2048, 1, 1)",)),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused_with_numbers(gpu, honest_afterwards, step, words):
    ran = gpu.run(step, x=X, out=np.zeros_like(X))
    assert ran.status is Status.LAUNCH_ERROR, ran
    for word in words:
        assert word in ran.message


def test_scratch_larger_than_the_device(gpu, honest_afterwards):
    ran = gpu.run(RELU, scratch=(Scratch("s", "float32", (1 << 40,), False),), x=X, out=np.zeros_like(X))
    assert ran.status is Status.LAUNCH_ERROR
    assert "no memory left" in ran.message


# -- what goes wrong while it runs -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("step", "status", "words"),
    [
        (launch("at", "out", N), Status.MEMORY_ERROR, "not given"),
        (launch("at", "out", N + (1 << 22)), Status.MEMORY_ERROR, "not given"),
        (launch("at", "out", -1), Status.MEMORY_ERROR, "in front of out, 1 bytes away"),
        (launch("at", "out", -1000), Status.MEMORY_ERROR, "in front of out, 3997 bytes away"),
        (launch("read_at", "x", "out", N), Status.MEMORY_ERROR, "not given"),
        (launch("misaligned", "out"), Status.MEMORY_ERROR, "not aligned"),
        (launch("traps", "out"), Status.RUNTIME_ERROR, "stopped itself"),
        (launch("asserts", "x", "out", N), Status.RUNTIME_ERROR, "assertion failed: n == 0"),
        (launch("writes_input", "x", "out", N), Status.INPUT_MODIFIED, "its input x"),
        (launch("recurses", "out", 100_000), Status.MEMORY_ERROR, ""),
    ],
    ids=lambda value: getattr(value, "kernel", None),
)
def test_faults(gpu, honest_afterwards, step, status, words):
    ran = gpu.run(step, x=X, out=np.zeros_like(X))
    assert ran.status in (status, Status.RUNTIME_ERROR if step.kernel == "recurses" else status), ran
    assert words in ran.message
    assert ran.executed.findings


def once(step):
    return replace(step, once=True)


def test_a_launch_marked_once_runs_before_the_calls_and_its_scratch_is_read_only_then(gpu, honest_afterwards):
    kept = (Scratch("kept", "float32", (N,), False, kept=True),)
    first = once(launch("relu", "x", "kept", N, grid=4, block=256))
    ran = gpu.run(first, launch("relu", "kept", "out", N, grid=4, block=256), scratch=kept, x=X, out=np.zeros_like(X))
    assert ran.status is Status.PASSED, ran.message
    assert np.array_equal(ran.out, np.maximum(X, 0))
    ran = gpu.run(first, launch("writes_input", "kept", "out", N), scratch=kept, x=X, out=np.zeros_like(X))
    assert ran.status in (Status.INPUT_MODIFIED, Status.MEMORY_ERROR), ran


def test_a_write_behind_an_output_of_odd_size(gpu, honest_afterwards):
    ran = gpu.run(launch("at", "out", 3), out=np.zeros(3, np.float32))
    assert ran.status is Status.MEMORY_ERROR
    assert "behind out, 1 bytes away" in ran.message


def test_a_write_behind_scratch(gpu, honest_afterwards):
    ran = gpu.run(launch("at", "s", 3), scratch=(Scratch("s", "float32", (3,), False),))
    assert ran.status is Status.MEMORY_ERROR
    assert "behind scratch s" in ran.message


def test_an_endless_loop_ends_at_its_limit(gpu, honest_afterwards):
    started = time.monotonic()
    ran = gpu.run(launch("hang", "out"), out=np.zeros(8, np.float32), timeout_s=1.0)
    assert ran.status is Status.TIMEOUT
    assert time.monotonic() - started < 5.0


def test_a_trial_goes_on_after_a_fault(gpu):
    with gpu.executor.open(gpu.built) as execute:
        bad = gpu.run(launch("traps", "out"), execute=execute)
        good = gpu.run(RELU, execute=execute, x=X, out=np.zeros_like(X))
    assert bad.status is Status.RUNTIME_ERROR
    assert np.array_equal(good.out, np.maximum(X, 0))


def test_health_and_sandbox_are_reported(gpu):
    assert health.check(gpu.executor.device.uuid).name == gpu.executor.device.name
    assert "sandbox: seccomp" in gpu.executor.describe()


def test_prewarmed_execution_is_quick(gpu):
    gpu.executor.prepare()
    time.sleep(1.0)
    started = time.monotonic()
    gpu.run(RELU, x=X, out=np.zeros_like(X))
    assert time.monotonic() - started < 0.5
