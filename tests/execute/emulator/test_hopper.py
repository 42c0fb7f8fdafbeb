"""Tensor maps, barriers that count bytes, and wgmma on the emulator: right kernels, every layout, seeded mistakes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benchmarks.kernels import wgmma_tiles
from cutegen_core.execute.executors.cpu import CpuExecutor
from cutegen_core.execute.port import Executed, Execution
from cutegen_core.kernel import kernel_file
from cutegen_core.machine.device import KNOWN
from cutegen_core.records.launch import Launch, LaunchPlan, ScalarArgument, TensorArgument, TensorMap, TensorMapArgument
from cutegen_core.records.problem import Signature, TensorRole
from cutegen_core.records.trial import Status
from tests.execute.emulator.emulated import BFLOAT16, Harness, Ran, from_bytes, kernel, line_of, one, spec, to_bytes
from tests.places import DATA

BUILDS = pytest.mark.parametrize("checked", [False, True], ids=["plain", "checked"])


@pytest.fixture(scope="module")
def harness(executor: CpuExecutor, tmp_path_factory: pytest.TempPathFactory) -> Harness:
    return Harness(executor, tmp_path_factory.mktemp("hopper"))


def rounded(array: np.ndarray) -> np.ndarray:
    """Round to bfloat16 and back."""
    return from_bytes(to_bytes(array, BFLOAT16), spec("x", array, TensorRole.INPUT, BFLOAT16))


def random(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


# -- whole kernel files ------------------------------------------------------------------------------------------------


def test_folders_may_have_spaces(harness: Harness, tmp_path: Path) -> None:
    folder = tmp_path / "a folder, 100 %25 full"
    folder.mkdir()
    ran = copies(Harness(harness.executor, folder))
    assert ran.status is Status.PASSED


@BUILDS
def test_a_transpose_by_tma_at_ragged_sizes(harness: Harness, checked: bool) -> None:
    source = (DATA / "transpose_tma.cu").read_text()
    for rows, columns in ((32, 32), (40, 76), (4, 100)):
        x, out = random(rows, columns), np.zeros((columns, rows), np.float32)
        signature = Signature((spec("x", x, TensorRole.INPUT),), (spec("out", out, TensorRole.OUTPUT),))
        plan = kernel_file.parse(source).plan(signature, KNOWN["sm_90a"])
        ran = harness.run(source, {"x": x}, {"out": out}, plan, checked=checked, order="reverse")
        assert ran.status is Status.PASSED, ran.executed
        np.testing.assert_array_equal(ran.outputs["out"], x.T)


def test_a_store_without_a_proxy_fence_is_found(harness: Harness) -> None:
    source = (DATA / "transpose_tma.cu").read_text().replace("  tma_store_fence();\n", "")
    x, out = random(32, 32), np.zeros((32, 32), np.float32)
    signature = Signature((spec("x", x, TensorRole.INPUT),), (spec("out", out, TensorRole.OUTPUT),))
    plan = kernel_file.parse(source).plan(signature, KNOWN["sm_90a"])
    ran = harness.run(source, {"x": x}, {"out": out}, plan, checked=True)
    assert (ran.status, ran.finding.kind, ran.finding.variable) == (Status.MEMORY_ERROR, "missing-fence", "turned")
    assert ran.finding.line == line_of(source, "SM90_TMA_STORE_2D::copy")


GEMM = (DATA / "gemm_bf16_wgmma.cu").read_text()


def product(
    harness: Harness, source: str, params: dict[str, int], shape: tuple[int, int, int], *, checked: bool, order: str
) -> tuple[Executed, bool]:
    """Run a version of the matrix product on two blocks; how it ended, and whether every number is right."""
    file, (m, n, k) = kernel_file.parse(source), shape
    a, b = rounded(random(m, k)), rounded(random(n, k, seed=1))
    tensors = (spec("a", a, TensorRole.INPUT, BFLOAT16), spec("b", b, TensorRole.INPUT, BFLOAT16))
    out = spec("out", np.zeros((m, n), np.float32), TensorRole.OUTPUT, BFLOAT16)
    plan = file.plan(Signature(tensors, (out,)), replace(KNOWN["sm_90a"], sm_count=2), params)
    paths = {tensor: harness.folder / tensor.name for tensor in (*tensors, out)}
    for tensor, values in zip(tensors, (a, b), strict=True):
        paths[tensor].write_bytes(to_bytes(values, BFLOAT16))
    paths[out].write_bytes(b"")
    built = harness.executor.build(file, params, lambda: pytest.fail("no cubin is needed"), checked=checked)
    assert built.status is Status.PASSED, built.log
    given = {tensor: paths[tensor] for tensor in tensors}
    with harness.executor.open(built) as execute:
        done = execute(Execution(built, plan, given, {out: paths[out]}, order=order, seed=7))
    data = paths[out].read_bytes()
    got = from_bytes(data, out) if len(data) == out.nbytes else np.full((m, n), np.nan, np.float32)
    return done, np.allclose(got, a @ b.T, rtol=2**-7, atol=1e-5)


@pytest.mark.thorough
def test_static_arrays_of_another_kernel_do_not_hide_what_a_descriptor_means(harness: Harness) -> None:
    """The arrays take 40 KiB, the tiles 88 KiB of dynamic shared memory: 18 bits of an address tell them apart."""
    other = "\n__global__ void other(float* out) {\n  __shared__ float table[10240];\n  table[threadIdx.x] = 1.0f;\n"
    source = f"{GEMM}{other}  __syncthreads();\n  out[threadIdx.x] = table[threadIdx.x ^ 1];\n}}\n"
    params = {"GROUPS": 1, "BN": 128, "STAGES": 3, "RASTER": 4}
    done, right = product(harness, source, params, (66, 72, 72), checked=False, order="forward")
    assert (done.status, right) == (Status.PASSED, True), done.message


def test_a_matrix_product_with_a_pipeline_of_tma_and_wgmma(harness: Harness) -> None:
    """Two blocks walk nine ragged tiles with two stages: every barrier goes round, every buffer is used again."""
    params = {"GROUPS": 1, "BN": 64, "STAGES": 2, "RASTER": 4}
    for order in ("forward", "random"):
        done, right = product(harness, GEMM, params, (130, 136, 200), checked=True, order=order)
        assert (done.status, done.findings, right) == (Status.PASSED, (), True)


PIPELINE_MISTAKES = {
    "announces too many bytes": ("sizeof(Element));\n      constexpr", "sizeof(Element) + 128);\n      constexpr"),
    "producer waits for the wrong parity": ("slot.parity ^ 1", "slot.parity"),
    "consumer waits for the wrong parity": ("full[slot.index], slot.parity)", "full[slot.index], slot.parity ^ 1)"),
    "stage released before the products are done": ("      warpgroup_wait<1>();", "      "),
    "no wait for the store before": ("if (thread == 0) tma_store_wait<1>();", ""),
    "no fence before the store": ("    tma_store_fence();\n", ""),
    "accumulators read without a wait": ("    warpgroup_wait<0>();\n", ""),
    "no barrier before the store": (
        "tma_store_fence();\n    cutlass::arch::NamedBarrier::sync(128, group);", "tma_store_fence();",
    ),
    "epilogue without the swizzle": (" ^ (line % 8)", ""),
    "map without the swizzle": ('box = [64, 64]\nswizzle = "128B"', "box = [64, 64]"),
    "one group frees a stage for both": ("empty[i], GROUPS)", "empty[i], 1)"),
    "barriers used before they are there": ("  __syncthreads();\n", ""),
    "last stage of a tile never freed": (
        "arrive_barrier(storage.empty[last]);\n    store(", "arrive_barrier(storage.full[last]);\n    store(",
    ),
}  # fmt: skip


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.parametrize(
    "mistake",
    [pytest.param(m, marks=() if n % 12 == 0 else pytest.mark.thorough) for n, m in enumerate(PIPELINE_MISTAKES)],
)
def test_mistakes_in_the_pipeline_are_found(harness: Harness, mistake: str) -> None:
    old, new = PIPELINE_MISTAKES[mistake]
    assert GEMM.count(old) == 1
    params = {"GROUPS": 2, "BN": 64, "STAGES": 2, "RASTER": 4}
    done, right = product(harness, GEMM.replace(old, new), params, (260, 136, 200), checked=True, order="forward")
    assert done.status is not Status.PASSED or done.findings or not right


# -- every layout of a tile --------------------------------------------------------------------------------------------

VARIANTS = (DATA / "wgmma_variants.cu").read_text()


def variant(
    harness: Harness, kind: str, a_span: int = 128, b_span: int = 128, mistake: str = "NONE", *,
    checked: bool = False, a_swizzle: str = "",
) -> tuple[Ran, np.ndarray]:  # fmt: skip
    """Run one tile; return what came out, and what should have."""
    tile = wgmma_tiles.tile(kind)
    plan = wgmma_tiles.plan(tile, kind, a_span, b_span, mistake, a_swizzle)
    inputs, dtypes = {"a": tile.a, "b": tile.b}, {"a": tile.dtype, "b": tile.dtype}
    out = np.zeros(tile.want.shape, np.float32)
    return harness.run(VARIANTS, inputs, {"out": out}, plan, checked=checked, dtypes=dtypes), tile.want


@BUILDS
@pytest.mark.parametrize(("kind", "a_span", "b_span"), wgmma_tiles.LAYOUTS)
def test_a_product_in_every_layout(harness: Harness, kind: str, a_span: int, b_span: int, checked: bool) -> None:
    ran, want = variant(harness, kind, a_span, b_span, checked=checked)
    assert (ran.status, ran.executed.findings) == (Status.PASSED, ()), ran.executed
    np.testing.assert_allclose(ran.outputs["out"], want, rtol=1e-4, atol=1e-5)


# -- mistakes ----------------------------------------------------------------------------------------------------------


@BUILDS
@pytest.mark.parametrize(
    ("mistake", "said"),
    [
        ("TOO_MANY_BYTES", "misses 0 of 1 arrivals and 16 bytes that were announced and that no copy brings"),
        ("TOO_FEW_BYTES", "misses 0 of 1 arrivals; copies brought 16 bytes more than were announced"),
        ("TOO_MANY_ARRIVALS", "misses 1 of 2 arrivals"),
    ],
)
def test_a_barrier_that_never_completes_is_a_deadlock_with_its_numbers(
    harness: Harness, mistake: str, said: str, checked: bool
) -> None:
    ran, _ = variant(harness, "K_MAJOR", mistake=mistake, checked=checked)
    assert ran.finding.kind == "deadlock"
    assert said in ran.finding.message
    assert ran.finding.line == line_of(VARIANTS, "wait_barrier(barrier, mistake == WRONG_PARITY")


@pytest.mark.parametrize("mistake", ["NO_WAIT", "NO_COMMIT", "OVERWRITTEN"])
def test_what_is_not_waited_for_gives_no_numbers(harness: Harness, mistake: str) -> None:
    ran, _ = variant(harness, "K_MAJOR", mistake=mistake)
    assert ran.status is Status.PASSED
    assert np.isnan(ran.outputs["out"]).any()


def test_a_copy_that_a_block_does_not_wait_for_is_found_at_its_end(harness: Harness) -> None:
    ran, _ = variant(harness, "K_MAJOR", mistake="WRONG_PARITY")
    assert (ran.status, ran.finding.kind) == (Status.MEMORY_ERROR, "bulk-copy")
    assert "still writes to its shared memory: wait for its barrier" in ran.finding.message


@pytest.mark.parametrize(
    ("mistake", "kind", "first", "last"),
    [
        # The compiler made one call of the five asm statements, at the switch or at one of its cases.
        ("WRONG_PARITY", "missing-wait", "__device__ void multiply", "// Tiles lie as boxes"),
        ("OVERWRITTEN", "missing-wait", "__device__ void multiply", "// Tiles lie as boxes"),
        ("NO_FENCE", "wgmma", "__device__ void multiply", "// Tiles lie as boxes"),
        ("READ_TOO_EARLY", "missing-wait", "// read here:", "wait_barrier(barrier, mistake == WRONG_PARITY"),
    ],
)
def test_the_instrumented_build_names_the_place(
    harness: Harness, mistake: str, kind: str, first: str, last: str
) -> None:
    ran, _ = variant(harness, "K_MAJOR", mistake=mistake, checked=True)
    assert ran.finding.kind == kind, ran.executed
    assert line_of(VARIANTS, first) < ran.finding.line < line_of(VARIANTS, last)


def test_products_nobody_waited_for_are_said(harness: Harness) -> None:
    ran, _ = variant(harness, "K_MAJOR", mistake="NO_WAIT")
    assert "matrix products nobody waited for" in ran.finding.message


@BUILDS
def test_a_barrier_nobody_initialised(harness: Harness, checked: bool) -> None:
    ran, _ = variant(harness, "K_MAJOR", mistake="NO_INIT", checked=checked)
    assert ran.finding.kind == ("uninitialised" if checked else "mbarrier")


def test_a_swizzle_the_descriptor_does_not_know_of_gives_wrong_numbers(harness: Harness) -> None:
    ran, want = variant(harness, "K_MAJOR", a_swizzle="none")
    assert ran.status is Status.PASSED
    got = ran.outputs["out"]
    assert np.isfinite(got).all()
    assert (np.abs(got - want) > 0.1).mean() > 0.5


# -- copies ------------------------------------------------------------------------------------------------------------

COPIES = kernel(
    "copies",
    """
#include <cutlass/arch/barrier.h>
__global__ void copies(const __grid_constant__ CUtensorMap from, const __grid_constant__ CUtensorMap to,
                       float const* x, float* plain, int column, int mistake) {
  __shared__ alignas(128) float box[4 * 2 * 8];
  __shared__ alignas(128) float line[64];
  __shared__ alignas(8) uint64_t barrier[1];
  if (threadIdx.x == 0) initialize_barrier(barrier[0], 1);
  __syncthreads();
  if (cute::elect_one_sync()) {
    if (mistake != 1) set_barrier_transaction_bytes(barrier[0], sizeof box + sizeof line);
    SM90_TMA_LOAD_3D::copy(mistake == 2 ? (CUtensorMap const*)x : &from, barrier, 0, box, column, 1, 0);
    SM90_BULK_COPY_G2S::copy(x, barrier, line, sizeof line);
    wait_barrier(barrier[0], 0);
    SM90_TMA_STORE_3D::copy(&to, box, 0, 0, 0);
    SM90_BULK_COPY_S2G::copy(line, plain, sizeof line);
    if (mistake != 3) tma_store_arrive();
    if (mistake != 3) tma_store_wait<0>();
  }
  if (mistake == 10) {
    __shared__ alignas(8) uint64_t go[1], looked[1];
    if (threadIdx.x == 0) initialize_barrier(go[0], 1), initialize_barrier(looked[0], 1);
    __syncthreads();
    int looks = 0;
    if (threadIdx.x == 0)
      while (!cutlass::arch::ClusterBarrier::try_wait(go, 0))
        if (++looks == 3) arrive_barrier(looked[0]);
    if (threadIdx.x == 1) wait_barrier(looked[0], 0), arrive_barrier(go[0]);
    __syncwarp();
    plain[threadIdx.x] = looks;
  } else if (mistake >= 8) {
    __shared__ alignas(8) uint64_t ready[1];
    if (threadIdx.x == 0) initialize_barrier(ready[0], mistake == 9 ? 33 : 32);
    __syncthreads();
    uint32_t const to = cast_smem_ptr_to_uint(line + threadIdx.x);
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(to), "l"(x + 64 + threadIdx.x));
    if (column) cutlass::arch::cpasync_barrier_arrive_noinc(ready);
    else cutlass::arch::cpasync_barrier_arrive(ready), arrive_barrier(ready[0]);
    wait_barrier(ready[0], 0);
    plain[threadIdx.x] = line[31 - threadIdx.x];
  }
  if (mistake == 4) asm volatile("mbarrier.pending_count.b64 %0, %1;" : "=r"(*(int*)line) : "l"(barrier[0]));
  if (mistake == 5) SM90_TMA_LOAD_MULTICAST_3D::copy(&from, barrier, 3, 0, box, 0, 0, 0);
  if (mistake == 6) asm volatile("tcgen05.fence::before_thread_sync;");
  if (mistake == 7) asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(*(int*)line) : "r"(column), "r"(1));
}
""",
)


def copies(harness: Harness, column: int = 0, mistake: int = 0, fill: str = "zero", checked: bool = False) -> Ran:
    """Move a box of 8 x 2 x 4 floats from (column, 1, 0) of x[4, 3, 20] to out[4, 2, 8], and 64 floats as they lie."""
    x = random(4, 3, 20)
    source = TensorMap("from", "x", "float32", 0, (20, 3, 4), (80, 240), (8, 2, 4), (1, 1, 1), oob_fill=fill)
    target = TensorMap("to", "out", "float32", 0, (8, 2, 4), (32, 64), (8, 2, 4), (1, 1, 1))
    tensors = TensorArgument("x", "float32"), TensorArgument("plain", "float32")
    numbers = ScalarArgument(column, "column"), ScalarArgument(mistake, "mistake")
    args = (TensorMapArgument("from"), TensorMapArgument("to"), *tensors, *numbers)
    plan = LaunchPlan((Launch("copies", (1, 1, 1), (32, 1, 1), 0, args),), (), (source, target))
    outputs = {"out": np.zeros((4, 2, 8), np.float32), "plain": np.zeros(64, np.float32)}
    return harness.run(COPIES, {"x": x}, outputs, plan, checked=checked)


@BUILDS
@pytest.mark.parametrize(("column", "fill"), [(4, "zero"), (-4, "zero"), (16, "zero"), (16, "nan"), (100, "zero")])
def test_boxes_that_leave_the_tensor_are_filled(harness: Harness, column: int, fill: str, checked: bool) -> None:
    ran = copies(harness, column, fill=fill, checked=checked)
    assert (ran.status, ran.executed.findings) == (Status.PASSED, ()), ran.executed
    x = random(4, 3, 20)
    padded = np.full((4, 3, 220), np.nan if fill == "nan" else 0, np.float32)
    padded[:, :, 100:120] = x
    np.testing.assert_array_equal(ran.outputs["out"], padded[:, 1:3, 100 + column : 108 + column])
    np.testing.assert_array_equal(ran.outputs["plain"], x.reshape(-1)[:64])


@pytest.mark.parametrize("column", [1, -3, 14])
def test_a_box_begins_at_a_multiple_of_16_bytes(harness: Harness, column: int) -> None:
    """On an H200 such loads, stores and reductions end the kernel as an illegal instruction."""
    ran = copies(harness, column)
    assert (ran.status, ran.finding.kind) == (Status.RUNTIME_ERROR, "tensor-map"), ran.executed
    assert f"begins at element {column} of the first dimension" in ran.finding.message


@BUILDS
@pytest.mark.parametrize("column", [0, 4], ids=["counted", "noinc"])
def test_a_barrier_that_waits_for_cp_async(harness: Harness, column: int, checked: bool) -> None:
    ran = copies(harness, column, mistake=8, checked=checked)
    assert (ran.status, ran.executed.findings) == (Status.PASSED, ()), ran.executed
    np.testing.assert_array_equal(ran.outputs["plain"][:32], random(4, 3, 20).reshape(-1)[95:63:-1])
    missed = copies(harness, column, mistake=9, checked=checked)
    assert "misses 1 of 33 arrivals" in missed.finding.message


@BUILDS
def test_a_thread_may_look_at_a_barrier_and_do_something_else(harness: Harness, checked: bool) -> None:
    """Everybody waits for a thread that only looks: it gets an answer, and this is no deadlock."""
    ran = copies(harness, mistake=10, checked=checked)
    assert (ran.status, ran.executed.findings) == (Status.PASSED, ()), ran.executed
    assert ran.outputs["plain"][0] >= 3


TWICE = kernel(
    "twice",
    """
#include <cutlass/arch/barrier.h>
__global__ void twice(float const* x, float* out) {
  __shared__ alignas(128) float line[32];
  __shared__ alignas(8) uint64_t full[1], empty[1];
  if (threadIdx.x == 0) initialize_barrier(full[0], 1), initialize_barrier(empty[0], 32);
  __syncthreads();
  for (int k = 0; k < 2; ++k) {
    if (threadIdx.x == 32) {
      wait_barrier(empty[0], k % 2 ^ 1);
      set_barrier_transaction_bytes(full[0], sizeof line);
      SM90_BULK_COPY_G2S::copy(x + 32 * k, full, line, sizeof line);  // HERE
    }
    if (threadIdx.x >= 32) continue;
    wait_barrier(full[0], k % 2);
    out[32 * k + threadIdx.x] = line[31 - threadIdx.x];
    cutlass::arch::fence_view_async_shared();
    arrive_barrier(empty[0]);
  }
}
""",
)


@pytest.mark.parametrize("fenced", [True, False])
def test_a_copy_over_what_was_read_without_a_proxy_fence_is_warned_of(harness: Harness, fenced: bool) -> None:
    """On an H200 a layer norm with such a ring was wrong in two of three forms."""
    source = TWICE if fenced else TWICE.replace("    cutlass::arch::fence_view_async_shared();\n", "")
    x, tensors = random(64), (TensorArgument("x", "float32"), TensorArgument("out", "float32"))
    plan = LaunchPlan((Launch("twice", (1, 1, 1), (64, 1, 1), 0, tensors),))
    ran = harness.run(source, {"x": x}, {"out": np.zeros(64, np.float32)}, plan, checked=True)
    assert ran.status is Status.PASSED, ran.executed
    np.testing.assert_array_equal(ran.outputs["out"], x.reshape(2, 32)[:, ::-1].reshape(-1))
    found = [(f.kind, f.variable, f.line) for f in ran.executed.findings]
    assert found == ([] if fenced else [("missing-fence", "line", line_of(source, "// HERE"))])


def test_mistakes_with_copies_are_named(harness: Harness) -> None:
    unannounced = copies(harness, mistake=1)
    assert "copies brought 512 bytes more than were announced" in unannounced.finding.message
    stranger = copies(harness, mistake=2)
    assert (stranger.status, stranger.finding.kind) == (Status.RUNTIME_ERROR, "tensor-map")
    unfinished = copies(harness, mistake=3)
    assert unfinished.status is Status.MEMORY_ERROR
    assert "a bulk store may still read its shared memory" in unfinished.finding.message


@pytest.mark.parametrize(
    ("mistake", "name"),
    [(4, "mbarrier.pending_count.b64"), (6, "tcgen05.fence::before_thread_sync")],
)
def test_what_the_emulator_lacks_is_unsupported_by_name(harness: Harness, mistake: int, name: str) -> None:
    ran = copies(harness, mistake=mistake)
    assert ran.status is Status.UNSUPPORTED
    assert name in ran.executed.message


@pytest.mark.parametrize(
    ("mistake", "words"), [(5, "mask 0x3 of a cluster of 1"), (7, "block 1 of its cluster, which has 1 block")]
)
def test_a_block_alone_has_no_neighbour_in_its_cluster(harness: Harness, mistake: int, words: str) -> None:
    ran = copies(harness, mistake=mistake)
    assert (ran.status, ran.finding.kind) == (Status.MEMORY_ERROR, "out-of-bounds")
    assert words in ran.finding.message


def test_a_copy_of_no_bytes_is_none(harness: Harness) -> None:
    source = kernel(
        "nothing",
        """#include <cutlass/arch/barrier.h>
__global__ void nothing(float const* x, float* out) {
  __shared__ alignas(16) float line[4];
  __shared__ alignas(8) uint64_t barrier[1];
  if (threadIdx.x == 0) initialize_barrier(barrier[0], 1);
  __syncthreads();
  if (threadIdx.x == 0) {
    set_barrier_transaction_bytes(barrier[0], 0);
    SM90_BULK_COPY_G2S::copy(x, barrier, line, 0);
  }
  wait_barrier(barrier[0], 0);
  out[threadIdx.x] = x[threadIdx.x];
}
""",
    )
    x = random(32)
    ran = harness.run(source, {"x": x}, {"out": np.zeros_like(x)}, one("nothing", 1, 32, "x:float32", "out:float32"))
    assert (ran.status, ran.executed.findings) == (Status.PASSED, ()), ran.executed
    np.testing.assert_array_equal(ran.outputs["out"], x)
