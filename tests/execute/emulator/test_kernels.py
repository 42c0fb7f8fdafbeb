"""Right kernels of every family of the first phase, in both builds, compared with numpy."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from cutegen_core.kernel.plan_toml import MAX_TABLES
from cutegen_core.records.launch import LaunchPlan, Scratch
from cutegen_core.records.trial import Status
from tests.execute.emulator.emulated import BFLOAT16, Harness, kernel, launch, one

BUILDS = pytest.mark.parametrize("checked", [False, True], ids=["plain", "checked"])


RELU = kernel(
    "relu<128, 4>",
    """
template <int BLOCK, int ITEMS>
__global__ __launch_bounds__(BLOCK) void relu(float const* __restrict__ x, float* __restrict__ out, long n) {
  long const start = (blockIdx.x * (long)BLOCK + threadIdx.x) * ITEMS;
  if (start + ITEMS <= n) {
    Tensor source = make_tensor(make_gmem_ptr(x + start), make_layout(Int<ITEMS>{}));
    Tensor target = make_tensor(make_gmem_ptr(out + start), make_layout(Int<ITEMS>{}));
    Tensor values = make_fragment_like(target);
    copy(AutoVectorizingCopy{}, source, values);
    CUTE_UNROLL
    for (int i = 0; i < ITEMS; ++i) values(i) = fmaxf(values(i), 0.f);
    copy(AutoVectorizingCopy{}, values, target);
  } else {
    for (long i = start; i < n; ++i) out[i] = fmaxf(__ldg(x + i), 0.f);
  }
}
""",
)


@BUILDS
@pytest.mark.parametrize("n", [1, 511, 512, 4099])
def test_vectorised_relu_with_a_tail(harness: Harness, rng: np.random.Generator, checked: bool, n: int) -> None:
    x = rng.standard_normal(n).astype(np.float32)
    plan = one("relu<128, 4>", -(-n // 512), 128, "x:float32", "out:float32", n)
    ran = harness.run(RELU, {"x": x}, {"out": x}, plan, checked=checked)
    assert ran.status is Status.PASSED, ran.executed.message
    np.testing.assert_array_equal(ran.outputs["out"], np.maximum(x, 0))
    assert ran.executed.switches == plan.launches[0].grid[0] * 128  # no thread waits: each gets one turn


SOFTMAX = kernel(
    "softmax<256>",
    """
template <int BLOCK, class F>
__device__ float block_reduce(float value, float identity, F combine) {
  __shared__ float partial[BLOCK / 32];
  for (int offset = 16; offset > 0; offset /= 2) value = combine(value, __shfl_xor_sync(0xffffffffu, value, offset));
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = value;
  __syncthreads();
  value = threadIdx.x % 32 < BLOCK / 32 ? partial[threadIdx.x % 32] : identity;
  for (int offset = 16; offset > 0; offset /= 2) value = combine(value, __shfl_xor_sync(0xffffffffu, value, offset));
  __syncthreads();
  return value;
}

template <int BLOCK>
__global__ void softmax(float const* x, float* out, int columns) {
  float const* row = x + (long)blockIdx.x * columns;
  float largest = -INFINITY;
  for (int i = threadIdx.x; i < columns; i += BLOCK) largest = fmaxf(largest, row[i]);
  largest = block_reduce<BLOCK>(largest, -INFINITY, [](float a, float b) { return fmaxf(a, b); });
  float sum = 0.f;
  for (int i = threadIdx.x; i < columns; i += BLOCK) sum += __expf(row[i] - largest);
  sum = block_reduce<BLOCK>(sum, 0.f, [](float a, float b) { return a + b; });
  for (int i = threadIdx.x; i < columns; i += BLOCK)
    out[(long)blockIdx.x * columns + i] = __fdividef(__expf(row[i] - largest), sum);
}
""",
)


def softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp((x - x.max(axis=1, keepdims=True)).astype(np.float64))
    return e / e.sum(axis=1, keepdims=True)


@BUILDS
@pytest.mark.parametrize("shape", [(3, 1), (5, 127), (2, 1000)])
def test_softmax_with_shuffles(
    harness: Harness, rng: np.random.Generator, checked: bool, shape: tuple[int, int]
) -> None:
    x = rng.standard_normal(shape).astype(np.float32) * 10
    plan = one("softmax<256>", shape[0], 256, "x:float32", "out:float32", shape[1])
    ran = harness.run(SOFTMAX, {"x": x}, {"out": x}, plan, checked=checked, order="random", seed=3)
    assert ran.status is Status.PASSED, ran.executed.message
    np.testing.assert_allclose(ran.outputs["out"], softmax(x), rtol=1e-5, atol=1e-7)


LAYERNORM = kernel(
    "layernorm",
    """
__global__ void layernorm(float const* x, float const* weight, float const* bias, float* out, int columns, float eps) {
  extern __shared__ float row[];
  __shared__ float sums[2];
  if (threadIdx.x < 2) sums[threadIdx.x] = 0.f;
  __syncthreads();
  float sum = 0.f;
  for (int i = threadIdx.x; i < columns; i += blockDim.x) sum += row[i] = x[blockIdx.x * columns + i];
  atomicAdd(&sums[0], sum);
  __syncthreads();
  float const mean = sums[0] / columns;
  float squares = 0.f;
  for (int i = threadIdx.x; i < columns; i += blockDim.x) squares += (row[i] - mean) * (row[i] - mean);
  atomicAdd(&sums[1], squares);
  __syncthreads();
  float const scale = rsqrtf(sums[1] / columns + eps);
  for (int i = threadIdx.x; i < columns; i += blockDim.x)
    out[blockIdx.x * columns + i] = (row[i] - mean) * scale * weight[i] + bias[i];
}
""",
)


@BUILDS
def test_layernorm_in_dynamic_shared_memory(harness: Harness, rng: np.random.Generator, checked: bool) -> None:
    x = rng.standard_normal((7, 253)).astype(np.float32)
    weight, bias = rng.standard_normal((2, 253)).astype(np.float32)
    args = ("x:float32", "weight:float32", "bias:float32", "out:float32", 253, 1e-5)
    plan = one("layernorm", 7, 96, *args, smem=253 * 4)
    ran = harness.run(LAYERNORM, {"x": x, "weight": weight, "bias": bias}, {"out": x}, plan, checked=checked)
    assert ran.status is Status.PASSED, ran.executed.message
    want = (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-5) * weight + bias
    np.testing.assert_allclose(ran.outputs["out"], want, rtol=1e-4, atol=1e-5)


GEMM = (
    kernel(
        "gemm",
        """
__global__ __launch_bounds__(256) void gemm(float const* A, float const* B, float* C, int M, int N, int K) {
  auto bM = Int<64>{}; auto bN = Int<64>{}; auto bK = Int<8>{};
  Tensor mA = make_tensor(make_gmem_ptr(A), make_shape(M, K), make_stride(K, Int<1>{}));
  Tensor mB = make_tensor(make_gmem_ptr(B), make_shape(N, K), make_stride(Int<1>{}, N));
  Tensor mC = make_tensor(make_gmem_ptr(C), make_shape(M, N), make_stride(N, Int<1>{}));
  auto coord = make_coord(blockIdx.x, blockIdx.y, _);
  Tensor gA = local_tile(mA, make_shape(bM, bN, bK), coord, Step<_1, X, _1>{});
  Tensor gB = local_tile(mB, make_shape(bM, bN, bK), coord, Step<X, _1, _1>{});
  Tensor gC = local_tile(mC, make_shape(bM, bN, bK), coord, Step<_1, _1, X>{});
  __shared__ float smemA[64 * 8], smemB[64 * 8];
  Tensor sA = make_tensor(make_smem_ptr(smemA), make_layout(make_shape(bM, bK)));
  Tensor sB = make_tensor(make_smem_ptr(smemB), make_layout(make_shape(bN, bK)));
  auto tA = make_layout(make_shape(Int<32>{}, Int<8>{}));
  Tensor tAgA = local_partition(gA, tA, threadIdx.x);
  Tensor tAsA = local_partition(sA, tA, threadIdx.x);
  Tensor tBgB = local_partition(gB, tA, threadIdx.x);
  Tensor tBsB = local_partition(sB, tA, threadIdx.x);
  auto tC = make_layout(make_shape(Int<16>{}, Int<16>{}));
  Tensor tCsA = local_partition(sA, tC, threadIdx.x, Step<_1, X>{});
  Tensor tCsB = local_partition(sB, tC, threadIdx.x, Step<X, _1>{});
  Tensor tCgC = local_partition(gC, tC, threadIdx.x, Step<_1, _1>{});
  Tensor tCrC = make_tensor_like(tCgC);
  clear(tCrC);
  for (int k = 0; k < size<3>(tAgA); ++k) {
    copy(tAgA(_, _, k), tAsA);
    copy(tBgB(_, _, k), tBsB);
    __syncthreads();
    gemm(tCsA, tCsB, tCrC);
    __syncthreads();
  }
  copy(tCrC, tCgC);
}
""".replace("void gemm(", "void sgemm("),
    )
    .replace('kernel = "gemm"', 'kernel = "sgemm"')
    .replace("size<3>(tAgA)", "size<2>(tAgA)")
)


@pytest.mark.thorough
@BUILDS
def test_simt_gemm_of_cute_tiles(harness: Harness, rng: np.random.Generator, checked: bool) -> None:
    size = 128
    a, b = rng.standard_normal((2, size, size)).astype(np.float32)
    args = ("a:float32", "b:float32", "c:float32", size, size, size)
    plan = one("sgemm", (2, 2, 1), 256, *args)
    ran = harness.run(GEMM, {"a": a, "b": b}, {"c": a}, plan, checked=checked)
    assert ran.status is Status.PASSED, ran.executed.message
    np.testing.assert_allclose(ran.outputs["c"], a.astype(np.float64) @ b, rtol=1e-4, atol=1e-4)


HALF = kernel(
    "swish<TYPE>",
    """
template <class T>
__global__ void swish(T const* x, T* out, int n) {
  int const i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float const value = static_cast<float>(x[i]);
  T const sigmoid = T(1.f / (1.f + __expf(-value)));
  out[i] = x[i] * sigmoid + T(0.f);
}
""",
)


@pytest.mark.by_default(2)
@BUILDS
@pytest.mark.parametrize(
    ("name", "dtype"),
    [("__half", "float16"), ("__nv_bfloat16", BFLOAT16), ("cute::half_t", "float16"), ("cute::bfloat16_t", BFLOAT16)],
)
def test_arithmetic_of_small_floats(
    harness: Harness, rng: np.random.Generator, checked: bool, name: str, dtype: str
) -> None:
    x = rng.standard_normal(300).astype(np.float16 if dtype == "float16" else np.float32)
    plan = one(f"swish<{name}>", 3, 128, f"x:{dtype}", f"out:{dtype}", 300)
    source = HALF.replace("TYPE", name)
    ran = harness.run(source, {"x": x}, {"out": x}, plan, checked=checked, dtypes={"x": dtype, "out": dtype})
    assert ran.status is Status.PASSED, ran.executed.message
    wide = x.astype(np.float64)
    np.testing.assert_allclose(ran.outputs["out"], wide / (1 + np.exp(-wide)), rtol=2e-2, atol=1e-2)


PACKED = kernel(
    "packed",
    """
__global__ void packed(__half2 const* x, __half2* out, int n) {
  int const i = threadIdx.x;
  if (i < n) out[i] = __hfma2(x[i], __float2half2_rn(2.f), h2exp(__hneg2(x[i])));
}
""",
)


@BUILDS
def test_packed_half_arithmetic(harness: Harness, rng: np.random.Generator, checked: bool) -> None:
    x = rng.standard_normal(64).astype(np.float16)
    ran = harness.run(
        PACKED, {"x": x}, {"out": x}, one("packed", 1, 32, "x:float16", "out:float16", 32), checked=checked
    )
    assert ran.status is Status.PASSED, ran.executed.message
    wide = x.astype(np.float64)
    np.testing.assert_allclose(ran.outputs["out"], wide * 2 + np.exp(-wide), rtol=1e-2, atol=1e-2)


HISTOGRAM = kernel(
    "histogram",
    """
__global__ void histogram(int const* x, int* bins, int n) {
  __shared__ int local[16];
  if (threadIdx.x < 16) local[threadIdx.x] = 0;
  __syncthreads();
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) atomicAdd(&local[x[i]], 1);
  __syncthreads();
  if (threadIdx.x < 16) atomicAdd(&bins[threadIdx.x], local[threadIdx.x]);
}
__global__ void zero(int* bins) { bins[threadIdx.x] = 0; }
""",
).replace("/* cutegen\n", '/* cutegen\n[[launch]]\nkernel = "zero"\ngrid = ["1"]\nblock = ["1"]\nargs = []\n')


@BUILDS
def test_histogram_with_atomics_over_two_launches(harness: Harness, rng: np.random.Generator, checked: bool) -> None:
    x = rng.integers(0, 16, 5000, dtype=np.int32)
    plan = LaunchPlan(
        (
            launch("zero", 1, 16, "bins:int32"),
            launch("histogram", 6, 64, "x:int32", "bins:int32", 5000),
        )
    )
    ran = harness.run(HISTOGRAM, {"x": x}, {"bins": np.zeros(16, np.int32)}, plan, checked=checked)
    assert ran.status is Status.PASSED, ran.executed.message
    np.testing.assert_array_equal(ran.outputs["bins"], np.bincount(x, minlength=16))


TWO_STEPS = kernel(
    ("partial", "final"),
    """
__device__ int calls = 0;
__global__ void partial(float const* x, float* sums, int n) {
  float sum = 0.f;
  for (int i = threadIdx.x; i < n; i += 32) sum += x[blockIdx.x * n + i];
  for (int offset = 16; offset > 0; offset /= 2) sum += __shfl_down_sync(0xffffffffu, sum, offset);
  if (threadIdx.x == 0) { sums[blockIdx.x] = sum; atomicAdd(&calls, 1); }
}
__global__ void final(float const* sums, float* out, int n, unsigned char const* zeroed) {
  float total = 0.f;
  for (int i = 0; i < n; ++i) total += sums[i];
  out[0] = total;
  out[1] = calls + zeroed[5];
  calls = 0;  // a call must leave nothing behind for the next one
}
""",
)


@BUILDS
def test_scratch_and_device_variables_carry_over_launches(
    harness: Harness, rng: np.random.Generator, checked: bool
) -> None:
    x = rng.standard_normal((9, 100)).astype(np.float32)
    plan = LaunchPlan(
        (
            launch("partial", 9, 32, "x:float32", "sums:float32", 100),
            launch("final", 1, 1, "sums:float32", "out:float32", 9, "zeroed:uint8"),
        ),
        (Scratch("sums", "float32", (9,), zero=False), Scratch("zeroed", "uint8", (16,), zero=True)),
    )
    ran = harness.run(TWO_STEPS, {"x": x}, {"out": np.zeros(2, np.float32)}, plan, checked=checked)
    assert ran.status is Status.PASSED, ran.executed.message
    np.testing.assert_allclose(ran.outputs["out"], [x.sum(), 9], rtol=1e-4)


VOTES = kernel(
    "votes",
    """
__global__ void votes(int const* x, unsigned* out) {
  int const lane = threadIdx.x % 32, value = x[threadIdx.x];
  unsigned const odd = __ballot_sync(0xffffffffu, value & 1);
  unsigned const same = __match_any_sync(0xffffffffu, value);
  int const all = __all_sync(0xffffffffu, value >= 0), any = __any_sync(0xffffffffu, value == 3);
  int const count = __syncthreads_count(value & 1);
  unsigned half = 0;
  if (lane < 16) half = __shfl_sync(0x0000ffffu, (unsigned)value, 3, 16);
  __syncwarp();
  unsigned* mine = out + threadIdx.x * 6;
  mine[0] = odd; mine[1] = same; mine[2] = all * 2 + any; mine[3] = count; mine[4] = half;
  mine[5] = __reduce_max_sync(0xffffffffu, value) + __popc(odd) + __shfl_up_sync(0xffffffffu, value, 1);
}
""",
)


@BUILDS
@pytest.mark.parametrize("order", ["forward", "reverse", "random"])
def test_votes_and_partial_masks(harness: Harness, rng: np.random.Generator, checked: bool, order: str) -> None:
    x = rng.integers(0, 5, 64, dtype=np.int32)
    out = np.zeros((64, 6), np.int32)
    plan = one("votes", 1, 64, "x:int32", "out:int32")
    ran = harness.run(VOTES, {"x": x}, {"out": out}, plan, checked=checked, order=order, seed=11)
    assert ran.status is Status.PASSED, ran.executed.message
    got = ran.outputs["out"].view(np.uint32)
    for t in range(64):
        warp = x[t // 32 * 32 : t // 32 * 32 + 32]
        odd = sum(int(v & 1) << i for i, v in enumerate(warp))
        same = sum(int(v == x[t]) << i for i, v in enumerate(warp))
        up = warp[max(t % 32 - 1, 0)]
        assert list(got[t]) == [
            odd, same, 2 + int((warp == 3).any()), int((x & 1).sum()), warp[3] if t % 32 < 16 else 0,
            warp.max() + odd.bit_count() + up,
        ]  # fmt: skip


PTX = kernel(
    "ptx",
    """
__global__ void ptx(float const* x, float* out) {
  __shared__ float stage[4];
  float a, b, c, d, e;
  asm volatile("ld.global.v4.f32 {%0, %1, %2, %3}, [%4];" : "=f"(a), "=f"(b), "=f"(c), "=f"(d) : "l"(x));
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(e) : "f"(a));
  unsigned const at = (unsigned)__cvta_generic_to_shared(stage);
  asm volatile("st.shared.f32 [%0 + 4], %1;\\n" :: "r"(at), "f"(e) : "memory");
  asm volatile("bar.sync 0;");
  out[0] = stage[1];
  asm volatile("st.global.v2.f32 [%0], {%1, %2};" :: "l"(out + 2), "f"(b), "f"(d));
  asm volatile("fma.rn.f32 %0, %1, %2, %3;" : "=f"(c) : "f"(a), "f"(b), "f"(c));
  out[1] = c;
}
""",
)


@BUILDS
def test_inline_ptx_is_interpreted(harness: Harness, checked: bool) -> None:
    x = np.array([1.5, 2, 3, 4], np.float32)
    ran = harness.run(PTX, {"x": x}, {"out": x}, one("ptx", 1, 1, "x:float32", "out:float32"), checked=checked)
    assert ran.status is Status.PASSED, ran.executed.message
    np.testing.assert_allclose(ran.outputs["out"], [2**1.5, 6, 2, 4], rtol=1e-6)


def test_empty_tensors_and_an_empty_grid_are_skipped(harness: Harness) -> None:
    x = np.zeros(0, np.float32)
    plan = one("relu<128, 4>", 0, 128, "x:float32", "out:float32", 0)
    assert harness.run(RELU, {"x": x}, {"out": x}, plan, checked=True).status is Status.PASSED


def test_unwritten_outputs_keep_their_poison(harness: Harness) -> None:
    source = kernel("nothing", "__global__ void nothing(float*) {}\n")
    ran = harness.run(source, {}, {"out": np.zeros(5, np.float32)}, one("nothing", 1, 1, "out:float32"))
    assert np.isnan(ran.outputs["out"]).all()


def test_a_repeated_build_comes_from_the_cache(harness: Harness) -> None:
    harness.build(RELU)
    again = harness.build(RELU)
    assert again.cached


VARIETY = kernel(
    "variety<float>",
    """
#include <cuda_runtime.h>
#include <cuda_fp16.h>
#include <cuda_bf16.h>
#include <math_constants.h>
#include <cutlass/array.h>
#include <cutlass/numeric_types.h>
#include <cutlass/fast_math.h>

__constant__ float table[4] = {1.f, 2.f, 4.f, 8.f};
union Pack { float4 v; float f[4]; };

struct Storage { cute::array_aligned<float, 64> a; float b[2]; };

template <class T>
static __device__ __forceinline__ T twice(T x) { return x + x; }

template <class T>
__global__ void __launch_bounds__(64, 2) variety(T const* __restrict__ x, T* __restrict__ out, bool flag,
                                                    size_t n, double scale) {
  extern __shared__ __align__(16) unsigned char raw[];
  Storage& storage = *reinterpret_cast<Storage*>(raw);
  int const i = threadIdx.x;
  auto layout = Layout<Shape<_8, _8>, Stride<_8, _1>>{};
  Tensor s = make_tensor(make_smem_ptr(storage.a.data()), layout);
  s(i / 8, i % 8) = x[i];
  if (thread0()) { storage.b[0] = CUDART_INF_F; storage.b[1] = table[2]; printf("hello\\n"); printf("!"); }
  __syncthreads();
  Pack p;
  p.v = make_float4(1.f, min(2.f, storage.b[0]), max(3, 2), std::max(4.f, cuda::std::min(1.f, 2.f)));
  float4 const q = {p.f[0], p.f[1], p.f[2], p.f[3]};
  float2 r{q.x, q.y};
  float const vote = __shfl_xor_sync(~0u, s(i % 8, i / 8), 0);
  bool const finite = isfinite(vote) && !isnan(vote);
  cutlass::Array<float, 2> pair;
  pair[0] = cutlass::fast_tanh(0.f), pair[1] = r.y;
  double const value = twice(vote) * scale + q.x + pair[0] + storage.b[1] + numeric_limits<T>::epsilon();
  out[i] = finite && flag && i < (int)n ? T(value) : T(-1);
}
""",
)


@BUILDS
def test_a_variety_of_what_device_code_uses(harness: Harness, rng: np.random.Generator, checked: bool) -> None:
    x = rng.standard_normal(64).astype(np.float32)
    plan = one("variety<float>", 1, 64, "x:float32", "out:float32", 1, 60, 0.5, smem=64 * 4 + 8)
    ran = harness.run(VARIETY, {"x": x}, {"out": x}, plan, checked=checked)
    assert ran.status is Status.PASSED, ran.executed.message
    want = np.where(np.arange(64) < 60, x.reshape(8, 8).T.ravel() + 5, -1)
    np.testing.assert_allclose(ran.outputs["out"], want, rtol=1e-5, atol=1e-5)


NEXT = kernel(
    "next_one",
    """
__global__ void next_one(float const* x, float* out, int n) {
  int const i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = x[i] + 1;
}
""",
)


def test_a_plan_may_be_as_large_as_a_kernel_file_allows(harness: Harness) -> None:
    """The plan of a whole network: each launch reads what the one before it wrote, and its own input."""
    steps, n = min(MAX_TABLES["launch"] - 1, MAX_TABLES["scratch"]), 40
    names = ["x0", *(f"held{k}" for k in range(steps)), "out"]
    launches = tuple(
        launch("next_one", 2, 32, f"{before}:float32", f"{name}:float32", n) for before, name in pairwise(names)
    )
    scratch = tuple(Scratch(name, "float32", (n,), zero=False) for name in names[1:-1])
    inputs = {f"x{k}": np.full(n, k, np.float32) for k in range(900)}
    ran = harness.run(NEXT, inputs, {"out": inputs["x0"]}, LaunchPlan(launches, scratch))
    assert ran.status is Status.PASSED, ran.executed.message
    np.testing.assert_array_equal(ran.outputs["out"], np.float32(len(launches)))
