"""What came with Ampere: asynchronous copies, matrix instructions, named barriers; right kernels against numpy, and the
same kernels with one mistake each, which must be found with its kind and line."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import pytest

from cutegen_core.records.trial import Status
from tests.execute.emulator.emulated import BFLOAT16, Harness, Ran, kernel, line_of, one

BUILDS = pytest.mark.parametrize("checked", [False, True], ids=["plain", "checked"])
MEMORY = Status.MEMORY_ERROR


# A 32 x 16 tile of C by four warps; A and B come in three stages of 16 columns through cp.async.
GEMM = kernel(
    "gemm_f16",
    """
constexpr int PITCH = 24;
__device__ void fill(__half const* A, __half const* B, __half* sA, __half* sB, int K, int k, int row, int column) {
  int const t = threadIdx.x, i = t < 64 ? t : t - 64, r = i / 2, c = i % 2 * 8;
  if (t >= 96) return;
  __half const* const from = t < 64 ? A + (row + r) * K + k + c : B + (column + r) * K + k + c;
  unsigned const to = __cvta_generic_to_shared((t < 64 ? sA : sB) + r * PITCH + c);
  asm volatile("cp.async.cg.shared.global [%0], [%1], %2;" ::"r"(to), "l"(from), "n"(16));  // COPY
}
__global__ void gemm_f16(__half const* A, __half const* B, float* C, int N, int K) {
  __shared__ __align__(16) __half sA[3][32 * PITCH];
  __shared__ __align__(16) __half sB[3][16 * PITCH];
  int const row = blockIdx.y * 32, column = blockIdx.x * 16, lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  float d[4] = {0, 0, 0, 0};
  for (int s = 0; s < 2; ++s) {
    if (s * 16 < K) fill(A, B, sA[s], sB[s], K, s * 16, row, column);
    asm volatile("cp.async.commit_group;");
  }
  for (int k = 0; k < K / 16; ++k) {
    asm volatile("cp.async.wait_group 1;");
    __syncthreads();
    int const next = k + 2;
    if (next * 16 < K) fill(A, B, sA[next % 3], sB[next % 3], K, next * 16, row, column);
    asm volatile("cp.async.commit_group;");
    unsigned a[4], b[2];
    __half const* const pa = sA[k % 3] + (warp / 2 * 16 + lane % 16) * PITCH + lane / 16 * 8;
    __half const* const pb = sB[k % 3] + (warp % 2 * 8 + lane % 8) * PITCH + lane / 8 % 2 * 8;
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"  // LOAD A
                 : "=r"(a[0]), "=r"(a[1]), "=r"(a[2]), "=r"(a[3]) : "r"((unsigned)__cvta_generic_to_shared(pa)));
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];"
                 : "=r"(b[0]), "=r"(b[1]) : "r"((unsigned)__cvta_generic_to_shared(pb)));
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                 "{%0, %1, %2, %3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
  }
  float* const c = C + (row + warp / 2 * 16 + lane / 4) * N + column + warp % 2 * 8 + lane % 4 * 2;
  *reinterpret_cast<float2*>(c) = make_float2(d[0], d[1]);
  *reinterpret_cast<float2*>(c + 8 * N) = make_float2(d[2], d[3]);
}
""",
)


def run_gemm(
    harness: Harness, rng: np.random.Generator, source: str, *, checked: bool, order: str
) -> tuple[Ran, float]:
    """Return the run and its largest error."""
    m, n, k = 64, 32, 80
    a, b = rng.standard_normal((m, k)).astype(np.float16), rng.standard_normal((n, k)).astype(np.float16)
    plan = one("gemm_f16", (n // 16, m // 32, 1), 128, "a:float16", "b:float16", "c:float32", n, k)
    c = np.zeros((m, n), np.float32)
    ran = harness.run(source, {"a": a, "b": b}, {"c": c}, plan, checked=checked, order=order)
    if "c" not in ran.outputs:
        return ran, float("nan")
    return ran, float(np.abs(ran.outputs["c"] - a.astype(np.float64) @ b.astype(np.float64).T).max())


@BUILDS
@pytest.mark.parametrize("order", ["forward", "reverse", "random"])
def test_multi_stage_f16_gemm(harness: Harness, rng: np.random.Generator, checked: bool, order: str) -> None:
    ran, error = run_gemm(harness, rng, GEMM, checked=checked, order=order)
    assert ran.status is Status.PASSED, ran.executed.message
    assert not ran.executed.findings
    assert error < 1e-4


class Mistake(NamedTuple):
    """A change of a right kernel and what must be said about it; `mark` is in the line to be named."""

    old: str
    new: str
    kind: str
    variable: str
    mark: str
    words: str = ""


MISTAKES = {
    "missing wait": Mistake(
        'asm volatile("cp.async.wait_group 1;");', "", "missing-wait", "sA", "// LOAD A", "has not waited"
    ),
    "wait for too few groups": Mistake("wait_group 1", "wait_group 2", "missing-wait", "sA", "// LOAD A"),
    "overwritten too early": Mistake(
        "fill(A, B, sA[next % 3]", "fill(A, B, sA[k % 3]", "race", "sA", "// COPY", "copies into"
    ),
    "missing barrier": Mistake("    __syncthreads();\n", "", "", "sA", "// LOAD A"),
    "misaligned copy": Mistake("PITCH = 24", "PITCH = 20", "misaligned", "sA", "// COPY", "16 bytes"),
    "copy out of bounds of the source": Mistake(
        "fill(A, B, sA[next % 3], sB[next % 3], K, next * 16", "fill(A, B, sA[next % 3], sB[next % 3], K, K * 64",
        "out-of-bounds", "a", "// COPY",
    ),
    "copy out of bounds of the stage": Mistake("sA[3][32 * PITCH]", "sA[3][24 * PITCH]", "", "", "// COPY"),
    "rows nobody has filled": Mistake(
        "if (t >= 96) return;", "if (t >= 95) return;", "uninitialised", "sB", "", "reads"
    ),
}  # fmt: skip


@pytest.mark.by_default(2)
@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes_in_the_gemm_are_named(harness: Harness, rng: np.random.Generator, name: str) -> None:
    mistake = MISTAKES[name]
    assert mistake.old in GEMM
    source = GEMM.replace(mistake.old, mistake.new)
    ran, _ = run_gemm(harness, rng, source, checked=True, order="random")
    assert ran.status is MEMORY, ran.executed
    assert mistake.kind in ran.finding.kind, ran.executed.message
    assert mistake.variable in ran.finding.variable
    assert mistake.words in ran.executed.message
    if mistake.mark:
        assert ran.finding.line == line_of(source, mistake.mark), ran.executed.message


@pytest.mark.parametrize("name", ["missing wait", "overwritten too early"])
@pytest.mark.parametrize("order", ["forward", "reverse"])
def test_plain_runs_compute_something_else(harness: Harness, rng: np.random.Generator, name: str, order: str) -> None:
    """Uninstrumented, a copy that arrives late leaves NaN behind; one that arrives at once may hide the mistake."""
    mistake = MISTAKES[name]
    ran, error = run_gemm(harness, rng, GEMM.replace(mistake.old, mistake.new), checked=False, order=order)
    assert ran.status is Status.PASSED
    assert not error < 1e-4 or (name == "missing wait" and order == "reverse")


def test_a_transposed_fragment_computes_something_else(harness: Harness, rng: np.random.Generator) -> None:
    source = GEMM.replace("m8n8.x2.shared", "m8n8.x2.trans.shared")
    ran, error = run_gemm(harness, rng, source, checked=True, order="random")
    assert ran.status is Status.PASSED
    assert error > 1


CUTE_GEMM = """
template <class T, class Atom, int BM, int BN, int BK, int STAGES>
__global__ void cute_gemm(T const* A, T const* B, float* C, int M, int N, int K) {
  auto tile = make_shape(Int<BM>{}, Int<BN>{}, Int<BK>{});
  auto at = make_coord(blockIdx.x, blockIdx.y, _);
  auto whole_a = make_tensor(make_gmem_ptr(A), make_shape(M, K), make_stride(K, _1{}));
  auto whole_b = make_tensor(make_gmem_ptr(B), make_shape(N, K), make_stride(K, _1{}));
  auto whole_c = make_tensor(make_gmem_ptr(C), make_shape(M, N), make_stride(N, _1{}));
  Tensor gA = local_tile(whole_a, tile, at, Step<_1, X, _1>{});
  Tensor gB = local_tile(whole_b, tile, at, Step<X, _1, _1>{});
  Tensor gC = local_tile(whole_c, tile, at, Step<_1, _1, X>{});
  constexpr int VEC = 16 / sizeof(T);
  auto rows = make_layout(make_shape(_8{}, Int<BK>{}), make_stride(Int<BK>{}, _1{}));
  auto atom = composition(Swizzle<2, 3, 3>{}, rows);
  auto layoutA = tile_to_shape(atom, make_shape(Int<BM>{}, Int<BK>{}, Int<STAGES>{}));
  auto layoutB = tile_to_shape(atom, make_shape(Int<BN>{}, Int<BK>{}, Int<STAGES>{}));
  __shared__ alignas(128) T smemA[BM * BK * STAGES];
  __shared__ alignas(128) T smemB[BN * BK * STAGES];
  Tensor sA = make_tensor(make_smem_ptr(smemA), layoutA);
  Tensor sB = make_tensor(make_smem_ptr(smemB), layoutB);
  auto async = make_tiled_copy(
      Copy_Atom<SM80_CP_ASYNC_CACHEGLOBAL<cute::uint128_t>, T>{},
      make_layout(make_shape(Int<128 * VEC / BK>{}, Int<BK / VEC>{}), make_stride(Int<BK / VEC>{}, _1{})),
      make_layout(make_shape(_1{}, Int<VEC>{})));
  auto mine = async.get_slice(threadIdx.x);
  Tensor fromA = mine.partition_S(gA);
  Tensor toA = mine.partition_D(sA);
  Tensor fromB = mine.partition_S(gB);
  Tensor toB = mine.partition_D(sB);
  auto mma = make_tiled_mma(Atom{}, Layout<Shape<_2, _2>>{}, Tile<Int<BM>, Int<BN>, Int<2 * VEC>>{});
  auto part = mma.get_slice(threadIdx.x);
  Tensor tCgC = part.partition_C(gC);
  Tensor rC = part.make_fragment_C(tCgC);
  clear(rC);
  Tensor rA = part.partition_fragment_A(sA(_, _, 0));
  Tensor rB = part.partition_fragment_B(sB(_, _, 0));
  auto ldA = make_tiled_copy_A(Copy_Atom<SM75_U32x4_LDSM_N, T>{}, mma);
  auto ldB = make_tiled_copy_B(Copy_Atom<SM75_U32x2_LDSM_N, T>{}, mma);
  Tensor tXsA = ldA.get_slice(threadIdx.x).partition_S(sA);
  Tensor tXrA = ldA.get_slice(threadIdx.x).retile_D(rA);
  Tensor tXsB = ldB.get_slice(threadIdx.x).partition_S(sB);
  Tensor tXrB = ldB.get_slice(threadIdx.x).retile_D(rB);
  int const tiles = size<3>(fromA);
  auto fetch = [&](int k, int stage) {
    if (k < tiles) {
      copy(async, fromA(_, _, _, k), toA(_, _, _, stage));
      copy(async, fromB(_, _, _, k), toB(_, _, _, stage));
    }
    cp_async_fence();
  };
  for (int s = 0; s < STAGES - 1; ++s) fetch(s, s);
  for (int k = 0; k < tiles; ++k) {
    cp_async_wait<STAGES - 2>();
    __syncthreads();
    fetch(k + STAGES - 1, (k + STAGES - 1) % STAGES);
    for (int i = 0; i < size<2>(rA); ++i) {
      copy(ldA, tXsA(_, _, i, k % STAGES), tXrA(_, _, i));
      copy(ldB, tXsB(_, _, i, k % STAGES), tXrB(_, _, i));
      gemm(mma, rA(_, _, i), rB(_, _, i), rC);
    }
  }
  copy(rC, tCgC);
}
"""
# One stage, word by word, without ldmatrix: half the templates, and the other kind of operand.
CUTE_GEMM_TF32 = """
template <class T, class Atom, int BM, int BN, int BK>
__global__ void cute_gemm(T const* A, T const* B, float* C, int M, int N, int K) {
  auto tile = make_shape(Int<BM>{}, Int<BN>{}, Int<BK>{});
  auto at = make_coord(blockIdx.x, blockIdx.y, _);
  auto whole_a = make_tensor(make_gmem_ptr(A), make_shape(M, K), make_stride(K, _1{}));
  auto whole_b = make_tensor(make_gmem_ptr(B), make_shape(N, K), make_stride(K, _1{}));
  auto whole_c = make_tensor(make_gmem_ptr(C), make_shape(M, N), make_stride(N, _1{}));
  Tensor gA = local_tile(whole_a, tile, at, Step<_1, X, _1>{});
  Tensor gB = local_tile(whole_b, tile, at, Step<X, _1, _1>{});
  Tensor gC = local_tile(whole_c, tile, at, Step<_1, _1, X>{});
  __shared__ alignas(128) T smemA[BM * BK];
  __shared__ alignas(128) T smemB[BN * BK];
  auto rows = [](auto extent) { return make_layout(make_shape(extent, Int<BK>{}), make_stride(Int<BK>{}, _1{})); };
  Tensor sA = make_tensor(make_smem_ptr(smemA), rows(Int<BM>{}));
  Tensor sB = make_tensor(make_smem_ptr(smemB), rows(Int<BN>{}));
  Copy_Atom<SM80_CP_ASYNC_CACHEALWAYS<uint32_t>, T> atom;
  auto async = make_tiled_copy(atom, Layout<Shape<_8, _16>, Stride<_16, _1>>{});
  auto mine = async.get_slice(threadIdx.x);
  auto mma = make_tiled_mma(Atom{}, Layout<Shape<_2, _2>>{});
  auto part = mma.get_slice(threadIdx.x);
  Tensor tCgC = part.partition_C(gC);
  Tensor rC = part.make_fragment_C(tCgC);
  clear(rC);
  Tensor rA = part.partition_fragment_A(sA);
  Tensor rB = part.partition_fragment_B(sB);
  for (int k = 0; k < size<2>(gA); ++k) {
    copy(async, mine.partition_S(gA(_, _, k)), mine.partition_D(sA));
    copy(async, mine.partition_S(gB(_, _, k)), mine.partition_D(sB));
    cp_async_fence();
    cp_async_wait<0>();
    __syncthreads();
    copy(part.partition_A(sA), rA);
    copy(part.partition_B(sB), rB);
    gemm(mma, rA, rB, rC);
    __syncthreads();
  }
  copy(rC, tCgC);
}
"""


class Cute(NamedTuple):
    """A kernel of CuTe's atoms: source, template arguments, columns of A in a tile."""

    source: str
    arguments: str
    depth: int


CUTE = {
    BFLOAT16: Cute(CUTE_GEMM, "cute::bfloat16_t, SM80_16x8x16_F32BF16BF16F32_TN, 32, 32, 32, 3", 32),
    "float32": Cute(CUTE_GEMM_TF32, "cute::tfloat32_t, SM80_16x8x8_F32TF32TF32F32_TN, 32, 32, 16", 16),
}


def kept_bits(x: np.ndarray, bits: int) -> np.ndarray:
    """Return float32 with its lower bits cut off, as tf32 operands are read."""
    return (x.view(np.uint32) >> bits << bits).view(np.float32)


@pytest.mark.thorough
@pytest.mark.parametrize("dtype", CUTE)
def test_tiled_mma_of_cute(harness: Harness, rng: np.random.Generator, dtype: str) -> None:
    name = f"cute_gemm<{CUTE[dtype].arguments}>"
    m, n, k = 64, 32, 4 * CUTE[dtype].depth
    # Values that bfloat16 and tf32 hold exactly.
    a, b = (kept_bits(rng.standard_normal((extent, k)).astype(np.float32), 16) for extent in (m, n))
    plan = one(name, (m // 32, n // 32, 1), 128, f"a:{dtype}", f"b:{dtype}", "c:float32", m, n, k)
    dtypes = {"a": dtype, "b": dtype}
    out = {"c": np.zeros((m, n), np.float32)}
    ran = harness.run(
        kernel(name, CUTE[dtype].source), {"a": a, "b": b}, out, plan, checked=True, dtypes=dtypes, order="random"
    )
    assert ran.status is Status.PASSED, ran.executed.message
    np.testing.assert_allclose(ran.outputs["c"], a.astype(np.float64) @ b.T.astype(np.float64), rtol=1e-5, atol=1e-5)


# Fragments filled and read by plain loads and stores, so that every shape's layout is compared with numpy.
FRAGMENTS = """
__global__ void one_product(ELEMENT const* A, ELEMENT const* B, SUM const* C, SUM* D) {
  constexpr int K = DEPTH, P = PACKED;
  int const g = threadIdx.x / 4, t = threadIdx.x % 4;
  unsigned a[K / (2 * P)], b[K / (4 * P)];
  for (int r = 0; r < K / (2 * P); ++r)
    memcpy(&a[r], A + (g + 8 * (r % 2)) * K + 4 * P * (r / 2) + P * t, 4);
  for (int r = 0; r < K / (4 * P); ++r) memcpy(&b[r], B + g * K + 4 * P * r + P * t, 4);
  SUM c[4] = {C[g * 8 + 2 * t], C[g * 8 + 2 * t + 1], C[(g + 8) * 8 + 2 * t], C[(g + 8) * 8 + 2 * t + 1]}, d[4];
  STATEMENT
  D[g * 8 + 2 * t] = d[0], D[g * 8 + 2 * t + 1] = d[1];
  D[(g + 8) * 8 + 2 * t] = d[2], D[(g + 8) * 8 + 2 * t + 1] = d[3];
}
"""


class Shape(NamedTuple):
    """One form of mma: depth, PTX types, C++ and numpy names, elements in a register."""

    depth: int
    types: str
    element: str
    dtype: str
    packed: int
    sum_type: str = "float"
    sum_dtype: str = "float32"


SHAPES = {
    "m16n8k4 tf32": Shape(4, "f32.tf32.tf32.f32", "float", "float32", 1),
    "m16n8k8 tf32": Shape(8, "f32.tf32.tf32.f32", "float", "float32", 1),
    "m16n8k8 f16": Shape(8, "f32.f16.f16.f32", "__half", "float16", 2),
    "m16n8k8 bf16": Shape(8, "f32.bf16.bf16.f32", "__nv_bfloat16", BFLOAT16, 2),
    "m16n8k16 f16": Shape(16, "f32.f16.f16.f32", "__half", "float16", 2),
    "m16n8k16 f16 in f16": Shape(16, "f16.f16.f16.f16", "__half", "float16", 2, "__half", "float16"),
    "m16n8k16 bf16": Shape(16, "f32.bf16.bf16.f32", "__nv_bfloat16", BFLOAT16, 2),
    "m16n8k16 s8": Shape(16, "s32.s8.s8.s32", "signed char", "int8", 4, "int", "int32"),
    "m16n8k32 s8": Shape(32, "s32.s8.s8.s32", "signed char", "int8", 4, "int", "int32"),
}


def statement(shape: Shape, *, backwards: bool) -> str:
    """Return the mma statement on arrays a, b, c and d; its inputs are its arguments in this order, or backwards."""
    sums = 2 if shape.sum_type == "__half" else 4
    count_a, count_b = shape.depth // (2 * shape.packed), shape.depth // (4 * shape.packed)
    letter = {"float": "f", "int": "r", "__half": "r"}[shape.sum_type]
    names = {"d": [f"d[{i}]" for i in range(4)], "c": [f"c[{i}]" for i in range(4)]}
    if sums == 2:
        for word in names:
            names[word] = [f"reinterpret_cast<unsigned*>({word})[{i}]" for i in range(2)]
    inputs_count = count_a + count_b + sums
    numbers = iter([*range(sums), *(sums + i for i in range(inputs_count)[:: -1 if backwards else 1])])
    lists = ["{" + ", ".join(f"%{next(numbers)}" for _ in range(n)) + "}" for n in (sums, count_a, count_b, sums)]
    outputs = ", ".join(f'"={letter}"({name})' for name in names["d"])
    inputs = [*(f'"r"(a[{i}])' for i in range(count_a)), *(f'"r"(b[{i}])' for i in range(count_b))]
    inputs += [f'"{letter}"({name})' for name in names["c"]]
    inputs = inputs[:: -1 if backwards else 1]
    opcode = f"mma.sync.aligned.m16n8k{shape.depth}.row.col.{shape.types}"
    return f'asm volatile("{opcode} {", ".join(lists)};" : {outputs} : {", ".join(inputs)});'


def operand(rng: np.random.Generator, extents: tuple[int, int], dtype: str) -> np.ndarray:
    if dtype in ("int8", "int32"):
        return rng.integers(-100, 100, extents, dtype=np.dtype(dtype))
    values = kept_bits(rng.standard_normal(extents).astype(np.float32), 16)
    return values.astype(np.float16) if dtype == "float16" else values


@pytest.mark.by_default(3)
@pytest.mark.parametrize(("name", "backwards"), [*((name, False) for name in SHAPES), ("m16n8k8 tf32", True)])
def test_products_of_every_shape(harness: Harness, rng: np.random.Generator, name: str, backwards: bool) -> None:
    shape = SHAPES[name]
    text = FRAGMENTS.replace("STATEMENT", statement(shape, backwards=backwards)).replace("DEPTH", str(shape.depth))
    text = text.replace("PACKED", str(shape.packed)).replace("ELEMENT", shape.element).replace("SUM", shape.sum_type)
    a, b = (operand(rng, (extent, shape.depth), shape.dtype) for extent in (16, 8))
    c = operand(rng, (16, 8), shape.sum_dtype)
    types = {"a": shape.dtype, "b": shape.dtype, "c": shape.sum_dtype, "d": shape.sum_dtype}
    plan = one("one_product", 1, 32, *(f"{tensor}:{dtype}" for tensor, dtype in types.items()))
    ran = harness.run(kernel("one_product", text), {"a": a, "b": b, "c": c}, {"d": c}, plan, dtypes=types)
    assert ran.status is Status.PASSED, ran.executed.message
    want = a.astype(np.float64) @ b.T.astype(np.float64) + c
    tolerance = {"float16": 1e-3, "float32": 1e-6, "int32": 0}[shape.sum_dtype]
    np.testing.assert_allclose(ran.outputs["d"].astype(np.float64), want, rtol=tolerance, atol=10 * tolerance)


# nvcuda::wmma and the functions of <cuda_pipeline.h>: one warp computes a 16 x 16 tile from two stages.
WMMA = kernel(
    "tile_wmma",
    """
#include <mma.h>
#include <cuda_pipeline.h>
using namespace nvcuda;
__global__ void tile_wmma(__half const* A, __half const* B, float* C, int N, int K) {
  __shared__ __align__(16) __half sA[2][256], sB[2][256];
  int const row = blockIdx.y * 16, column = blockIdx.x * 16, r = threadIdx.x / 2, c = threadIdx.x % 2 * 8;
  wmma::fragment<wmma::matrix_a, 16, 16, 16, __half, wmma::row_major> a;
  wmma::fragment<wmma::matrix_b, 16, 16, 16, __half, wmma::col_major> b;
  wmma::fragment<wmma::accumulator, 16, 16, 16, float> sum;
  wmma::fill_fragment(sum, 0.0f);
  auto fetch = [&](int k) {
    if (k < K) {
      __pipeline_memcpy_async(&sA[k / 16 % 2][r * 16 + c], &A[(row + r) * K + k + c], 16);
      __pipeline_memcpy_async(&sB[k / 16 % 2][r * 16 + c], &B[(column + r) * K + k + c], 16);
    }
    __pipeline_commit();
  };
  fetch(0);
  for (int k = 0; k < K; k += 16) {
    fetch(k + 16);
    __pipeline_wait_prior(1);
    __syncwarp();
    wmma::load_matrix_sync(a, sA[k / 16 % 2], 16);  // LOAD
    wmma::load_matrix_sync(b, sB[k / 16 % 2], 16);
    wmma::mma_sync(sum, a, b, sum);
  }
  for (int i = 0; i < sum.num_elements; ++i) sum.x[i] *= 2.0f;
  wmma::store_matrix_sync(C + row * N + column, sum, N, wmma::mem_row_major);
}
""",
)


@BUILDS
def test_wmma_with_pipelined_copies(harness: Harness, rng: np.random.Generator, checked: bool) -> None:
    a, b = rng.standard_normal((2, 32, 48)).astype(np.float16)
    plan = one("tile_wmma", (2, 2, 1), 32, "a:float16", "b:float16", "c:float32", 32, 48)
    out = {"c": np.zeros((32, 32), np.float32)}
    ran = harness.run(WMMA, {"a": a, "b": b}, out, plan, checked=checked)
    assert ran.status is Status.PASSED, ran.executed.message
    np.testing.assert_allclose(
        ran.outputs["c"], 2 * (a.astype(np.float64) @ b.astype(np.float64).T), rtol=1e-4, atol=1e-4
    )
    if checked:
        wrong = WMMA.replace("__pipeline_wait_prior(1)", "__pipeline_wait_prior(2)")
        ran = harness.run(wrong, {"a": a, "b": b}, out, plan, checked=True)
        assert (ran.status, ran.finding.kind, ran.finding.variable) == (MEMORY, "missing-wait", "sA")
        assert ran.finding.line == line_of(wrong, "// LOAD")


MATRICES = kernel(
    "matrices",
    """
__global__ void matrices(int const* x, int* out) {
  __shared__ __align__(16) int tile[128], back[128];
  int const lane = threadIdx.x;
  for (int i = lane; i < 128; i += 32) tile[i] = x[i];
  __syncthreads();
  unsigned const at = __cvta_generic_to_shared(tile + lane * 4);
  unsigned a, b, c, d, t;
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(a), "=r"(b), "=r"(c), "=r"(d) : "r"(at));
  asm("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(t) : "r"(a));
  unsigned const to = __cvta_generic_to_shared(back + lane * 4);
  asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};"
               ::"r"(to), "r"(a), "r"(b), "r"(c), "r"(d) : "memory");
  __syncwarp();
  for (int i = lane; i < 128; i += 32) out[i] = back[i];
  out[128 + lane] = t;
  out[160 + lane] = a;
}
""",
)


@BUILDS
def test_matrices_are_loaded_stored_and_transposed(harness: Harness, rng: np.random.Generator, checked: bool) -> None:
    x = rng.integers(0, 1 << 31, 128, dtype=np.int32)
    plan = one("matrices", 1, 32, "x:int32", "out:int32")
    ran = harness.run(MATRICES, {"x": x}, {"out": np.zeros(192, np.int32)}, plan, checked=checked)
    assert ran.status is Status.PASSED, ran.executed.message
    out = ran.outputs["out"]
    np.testing.assert_array_equal(out[:128], x)
    first = x[:32].view(np.uint16).reshape(8, 8)
    np.testing.assert_array_equal(out[128:160].view(np.uint16).reshape(8, 8), first)
    np.testing.assert_array_equal(out[160:].view(np.uint16).reshape(8, 8), first.T)


ZERO_FILL = kernel(
    "zero_fill",
    """
__global__ void zero_fill(float const* x, float* out, int n) {
  __shared__ __align__(16) float tile[32 * 4];
  int const at = threadIdx.x * 4, left = n - at, given = left <= 0 ? 0 : left >= 4 ? 16 : left * 4;
  unsigned const to = __cvta_generic_to_shared(tile + at);
  asm volatile("cp.async.ca.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(to), "l"(x + at), "r"(given));
  asm volatile("{ .reg .pred p; setp.gt.s32 p, %2, 0; @!p bra DONE;\\n"
               "cp.async.ca.shared.global [%0], [%1], 4; DONE: }" ::"r"(to), "l"(x), "r"(left > 0 ? 0 : left));
  asm volatile("cp.async.wait_all;");
  for (int i = 0; i < 4; ++i) out[at + i] = tile[at + i];
}
""",
)


@BUILDS
def test_copies_fill_with_zeros_past_the_end(harness: Harness, rng: np.random.Generator, checked: bool) -> None:
    x = rng.standard_normal(70).astype(np.float32)
    plan = one("zero_fill", 1, 32, "x:float32", "out:float32", 70)
    ran = harness.run(ZERO_FILL, {"x": x}, {"out": np.zeros(128, np.float32)}, plan, checked=checked)
    assert ran.status is Status.PASSED, ran.executed.message
    np.testing.assert_array_equal(ran.outputs["out"], np.concatenate([x, np.zeros(58, np.float32)]))


# One warp loads, two compute; two stages, handed over through named barriers 1 + stage (full) and 3 + stage (empty).
PRODUCER = kernel(
    "pipeline",
    """
__device__ void sync(int barrier) { asm volatile("bar.sync %0, %1;" ::"r"(barrier), "r"(96) : "memory"); }
__device__ void arrive(int barrier) { asm volatile("bar.arrive %0, %1;" ::"r"(barrier), "r"(96) : "memory"); }
__global__ void pipeline(float const* x, float* out, int tiles) {
  __shared__ float stage[2][64];
  if (threadIdx.x < 32) {
    for (int k = 0; k < tiles; ++k) {
      if (k >= 2) sync(3 + k % 2);  // EMPTY
      for (int i = threadIdx.x; i < 64; i += 32) stage[k % 2][i] = x[k * 64 + i];  // FILL
      arrive(1 + k % 2);
    }
  } else {
    int const t = threadIdx.x - 32;
    float sum = 0;
    for (int k = 0; k < tiles; ++k) {
      sync(1 + k % 2);  // FULL
      sum += stage[k % 2][63 - t];  // USE
      if (k + 2 < tiles) arrive(3 + k % 2);
    }
    out[t] = sum;
  }
}
""",
)


def run_pipeline(harness: Harness, source: str, *, checked: bool, order: str = "random") -> Ran:
    x = np.arange(5 * 64, dtype=np.float32)
    plan = one("pipeline", 1, 96, "x:float32", "out:float32", 5)
    return harness.run(source, {"x": x}, {"out": np.zeros(64, np.float32)}, plan, checked=checked, order=order, seed=3)


@BUILDS
@pytest.mark.parametrize("order", ["forward", "reverse", "random"])
def test_named_barriers_hand_stages_over(harness: Harness, checked: bool, order: str) -> None:
    ran = run_pipeline(harness, PRODUCER, checked=checked, order=order)
    assert ran.status is Status.PASSED, ran.executed.message
    assert not ran.executed.findings
    want = np.arange(5 * 64, dtype=np.float32).reshape(5, 64).sum(axis=0)[::-1]
    np.testing.assert_array_equal(ran.outputs["out"], want)


HANDOVERS: Mapping[str, Mistake] = {
    "handed back before it was read": Mistake(
        "      sum += stage[k % 2][63 - t];  // USE\n      if (k + 2 < tiles) arrive(3 + k % 2);",
        "      if (k + 2 < tiles) arrive(3 + k % 2);\n      sum += stage[k % 2][63 - t];  // USE",
        "race", "stage", "", "no barrier in between",
    ),
    "filled without waiting": Mistake(
        "      if (k >= 2) sync(3 + k % 2);  // EMPTY\n", "", "divergent-barrier", "", "", "arrives a second time"
    ),
    "nobody waits for the stage to be full": Mistake(
        "sync(1 + k % 2);  // FULL", "arrive(1 + k % 2);", "", "", ""
    ),
    "the other stage": Mistake("stage[k % 2][63 - t]", "stage[(k + 1) % 2][63 - t]", "", "stage", "// USE"),
    "one that never comes": Mistake(
        "arrive(1 + k % 2);", "if (k < 4) arrive(1 + k % 2);", "divergent-barrier", "", "__device__ void sync",
        "waits for ever at named barrier 1, where 64 of 96 threads have come",
    ),
    "another number of threads": Mistake(
        "sync(1 + k % 2);  // FULL", 'asm volatile("bar.sync %0, 64;" ::"r"(1 + k % 2));', "divergent-barrier", "",
        "", "asks for",
    ),
    "half a warp": Mistake(
        "sync(1 + k % 2);  // FULL", "if (t < 48) sync(1 + k % 2);  // FULL", "", "", ""
    ),
}  # fmt: skip


@pytest.mark.by_default(3)
@pytest.mark.parametrize("name", HANDOVERS)
def test_mistakes_at_named_barriers_are_named(harness: Harness, name: str) -> None:
    mistake = HANDOVERS[name]
    assert mistake.old in PRODUCER
    source = PRODUCER.replace(mistake.old, mistake.new)
    ran = run_pipeline(harness, source, checked=True)
    assert ran.status is MEMORY, ran.executed
    assert mistake.kind in ran.finding.kind, ran.executed.message
    assert mistake.variable in ran.finding.variable
    assert mistake.words in ran.executed.message
    if mistake.mark:
        assert ran.finding.line == line_of(source, mistake.mark), ran.executed.message
