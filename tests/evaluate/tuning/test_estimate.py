"""Estimates rank kernels as their counted things say; the numbers are of the model's stated terms."""

from dataclasses import replace

import pytest

from cutegen_core.evaluate.roofline.bounds import graph_bound
from cutegen_core.evaluate.roofline.nominal import nominal_peaks
from cutegen_core.evaluate.roofline.work import Work
from cutegen_core.evaluate.tuning.estimate import WorkloadOnDevice, estimate
from cutegen_core.evaluate.tuning.static_model import LaunchedWorkload
from cutegen_core.machine.device import KNOWN
from cutegen_core.records.launch import Launch, LaunchPlan, TensorArgument
from cutegen_core.records.problem import Signature, TensorRole, TensorSpec
from cutegen_core.records.trial import KernelResources, Resources, SharedAccess

H100 = KNOWN["sm_90a"]
PEAKS = nominal_peaks(H100)
N = 4096
SIGNATURE = Signature(
    (TensorSpec("a", "float32", (N, N)), TensorSpec("b", "float32", (N, N))),
    (TensorSpec("out", "float32", (N, N), TensorRole.OUTPUT),),
)  # fmt: skip
ARGS = tuple(TensorArgument(name, "float32") for name in ("a", "b", "out"))
PRODUCT = Work(3 * 4 * N * N, {"float32": 2 * N**3})
ROWS = Work(2 * 4 * N * N, {"plain float32": 8 * N * N})
NAIVE = {"FFMA": 4, "global load 32-bit": 8, "integer": 6, "control": 2}
TILED = {"FFMA": 128, "shared load 32-bit": 64, "global load 32-bit": 8, "integer": 40}
LARGE = {"FFMA": 512, "shared load 128-bit": 32, "global load 128-bit": 4, "integer": 60}


def of(mix, work=PRODUCT, grid=132 * 64, block=256, shared=(), **spent):
    kernel = replace(KernelResources("k", "k()", 32, 0, 0, 0, 0, mix), **spent)
    plan = LaunchPlan((Launch("k", (grid, 1, 1), (block, 1, 1), 0, ARGS),))
    workload = WorkloadOnDevice(LaunchedWorkload(SIGNATURE, plan), graph_bound(work, PEAKS))
    return estimate([workload], Resources("sm_90a", (kernel,), (), shared=shared), H100, PEAKS)


def test_a_product_is_ranked_by_what_it_spends_for_each_ffma():
    naive, tiled, large = of(NAIVE), of(TILED), of(LARGE)
    assert naive.us > 2 * tiled.us > 2 * large.us
    assert naive.arithmetic_us == pytest.approx(4 * 8 / 4 * naive.bound_us)
    assert large.us >= large.bound_us
    assert large.share > 0.7


def test_bank_conflicts_cost_as_many_cycles_of_the_loads():
    conflicts = of(TILED, shared=(SharedAccess("k", 40, 10, 7),))
    assert conflicts.arithmetic_us == pytest.approx(4 * (8 + 4 * 64) / 128 * conflicts.bound_us)
    assert of(TILED, shared=(SharedAccess("another", 40, 10),)) == of(TILED)


def test_tensor_cores_do_a_float32_product_in_three_passes():
    assert of({"MMA": 64}).arithmetic_us == pytest.approx(3 * 66.9 / 495 * of(LARGE).bound_us)


def test_no_estimate_lies_below_the_least_that_the_fastest_pipe_allows():
    on_tensor_cores, in_floats = of({"MMA": 64}), of(LARGE)
    assert on_tensor_cores.least_us == in_floats.least_us < in_floats.bound_us
    assert on_tensor_cores.us >= on_tensor_cores.least_us > 0.9 * on_tensor_cores.us
    rows = of({"global load 128-bit": 2}, ROWS)
    assert rows.least_us == rows.bound_us <= rows.us


def test_halves_without_tensor_cores_take_the_fp32_pipe():
    work = Work(PRODUCT.moved_bytes, {"float16": 2 * N**3})
    assert of(LARGE, work).us > 10 * of({"MMA": 64}, work).us


def test_bytes_bound_work_is_ranked_by_its_launches_and_the_width_of_its_accesses():
    narrow, wide = of({"global load 32-bit": 8, "FFMA": 1, "integer": 90}, ROWS), of({"global load 128-bit": 2}, ROWS)
    assert narrow.us == pytest.approx(1.06 * wide.us)
    assert of({"global load 128-bit": 2}, ROWS, grid=16).us > 5 * wide.us
    assert of({"global load 128-bit": 2}, ROWS, spill_store_bytes=64, spill_load_bytes=64).us > 1.4 * wide.us


def test_a_graph_that_could_not_be_traced_has_no_bound_and_counts_its_bytes():
    plan = LaunchPlan((Launch("k", (132 * 8, 1, 1), (256, 1, 1), 0, ARGS),))
    workload = WorkloadOnDevice(LaunchedWorkload(SIGNATURE, plan), None)
    found = estimate([workload], Resources("sm_90a", (), ()), H100, PEAKS)
    assert (found.bound_us, found.share) == (0.0, 0.0)
    assert found.us == found.memory_us > 0


@pytest.mark.parametrize("arch", KNOWN)
def test_every_known_device_has_nominal_peaks(arch):
    peaks = nominal_peaks(KNOWN[arch])
    assert peaks.copy_bytes_per_s > 5e11
    assert set(peaks.flops_per_s) == {"fp32", "tf32", "f16", "bf16", "fp64"}


def test_an_h200_has_the_memory_of_an_h200():
    assert nominal_peaks(replace(H100, name="NVIDIA H200")).copy_bytes_per_s == 4.8e12
