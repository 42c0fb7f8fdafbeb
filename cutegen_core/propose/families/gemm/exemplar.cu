/* cutegen
idea = "next slice fetched while this one is multiplied, tiles tunable"

[let]
M = "x.shape[0]"
N = "linear_weight.shape[0]"
K = "x.shape[1]"
stride_linear_weight = "linear_weight.shape[1]"

[params]
BM = { default = 64, values = [64, 128] }
BN = { default = 64, values = [64, 128] }
BK = { default = 8, values = [8, 16] }
TM = { default = 4, values = [4, 8] }
TN = { default = 4, values = [4, 8] }
where = ["(BM // TM) * (BN // TN) <= 1024", "(BM // TM) * (BN // TN) >= 64"]

[[launch]]
kernel = "matmul_bias_relu_kernel<BM, BN, BK, TM, TN>"
grid = ["ceil_div(N, BN)", "ceil_div(M, BM)", 1]
block = ["(BM // TM) * (BN // TN)"]
args = ["x", "linear_weight", "linear_bias", "out", "M", "N", "K", "stride_linear_weight"]

[numerics]
accumulate = "float32"
deterministic = true
*/
#include <cute/tensor.hpp>

using namespace cute;

// A BM x BN tile of the result a block; slices of BK of both operands staged in shared memory, TM x TN results a thread.
// The next slice is read into registers while the current one is multiplied.
template <int BM, int BN, int BK, int TM, int TN>
__global__ __launch_bounds__((BM / TM) * (BN / TN)) void matmul_bias_relu_kernel(
    float const* x, float const* linear_weight, float const* linear_bias, float* out, int M, int N, int K, long stride_linear_weight) {
  constexpr int THREADS = (BM / TM) * (BN / TN);
  int const l = blockIdx.z;
  Tensor mX = make_tensor(make_gmem_ptr(x), make_layout(make_shape(M, K, 1), make_stride(long(K), Int<1>{}, Int<0>{})));
  Tensor mLinear_weight = make_tensor(make_gmem_ptr(linear_weight), make_layout(make_shape(N, K, 1), make_stride(stride_linear_weight, Int<1>{}, Int<0>{})));
  Tensor mLinear_bias = make_tensor(make_gmem_ptr(linear_bias), make_layout(make_shape(M, N, 1), make_stride(Int<0>{}, Int<1>{}, Int<0>{})));
  Tensor mOut = make_tensor(make_gmem_ptr(out), make_layout(make_shape(M, N, 1), make_stride(long(N), Int<1>{}, Int<0>{})));
  auto const a_tile = make_shape(Int<BM>{}, Int<BK>{});
  auto const b_tile = make_shape(Int<BN>{}, Int<BK>{});
  Tensor gA = local_tile(mX(_, _, l), a_tile, make_coord(int(blockIdx.y), _));  // (BM, BK, slices)
  Tensor gB = local_tile(mLinear_weight(_, _, l), b_tile, make_coord(int(blockIdx.x), _));  // (BN, BK, slices)

  // One column more than needed, so that neither writes nor reads meet in one bank.
  auto const a_layout = make_layout(a_tile, make_stride(Int<1>{}, Int<BM + 1>{}));
  auto const b_layout = make_layout(b_tile, make_stride(Int<1>{}, Int<BN + 1>{}));
  __shared__ float a_memory[cosize_v<decltype(a_layout)>];
  __shared__ float b_memory[cosize_v<decltype(b_layout)>];
  Tensor sA = make_tensor(make_smem_ptr(a_memory), a_layout);
  Tensor sB = make_tensor(make_smem_ptr(b_memory), b_layout);

  // Which elements of a slice a thread moves: neighbours in memory by neighbouring threads.
  auto const a_order = make_layout(make_shape(Int<BK>{}, Int<BM>{}), make_stride(Int<BM>{}, Int<1>{}));
  auto const b_order = make_layout(make_shape(Int<BK>{}, Int<BN>{}), make_stride(Int<BN>{}, Int<1>{}));
  int const m_left = M - int(blockIdx.y) * BM;
  int const n_left = N - int(blockIdx.x) * BN;
  constexpr int A_EACH = (BM * BK + THREADS - 1) / THREADS;
  constexpr int B_EACH = (BN * BK + THREADS - 1) / THREADS;
  Tensor rA = make_tensor<float>(Int<A_EACH>{});
  Tensor rB = make_tensor<float>(Int<B_EACH>{});

  auto const fetch = [&](int slice) {
    int const k_left = K - slice * BK;
    CUTE_UNROLL
    for (int e = 0; e < A_EACH; ++e) {
      int const i = a_order(cute::min(int(threadIdx.x) + e * THREADS, BM * BK - 1));
      int const m = i % BM, kk = i / BM;
      rA(e) = m < m_left && kk < k_left ? static_cast<float>(gA(m, kk, slice)) : float(0);
    }
    CUTE_UNROLL
    for (int e = 0; e < B_EACH; ++e) {
      int const i = b_order(cute::min(int(threadIdx.x) + e * THREADS, BN * BK - 1));
      int const n = i % BN, kk = i / BN;
      rB(e) = n < n_left && kk < k_left ? static_cast<float>(gB(n, kk, slice)) : float(0);
    }
  };
  auto const stage = [&] {
    CUTE_UNROLL
    for (int e = 0; e < A_EACH; ++e) {
      if (int(threadIdx.x) + e * THREADS < BM * BK) {
        int const i = a_order(int(threadIdx.x) + e * THREADS);
        sA(i % BM, i / BM) = rA(e);
      }
    }
    CUTE_UNROLL
    for (int e = 0; e < B_EACH; ++e) {
      if (int(threadIdx.x) + e * THREADS < BN * BK) {
        int const i = b_order(int(threadIdx.x) + e * THREADS);
        sB(i % BN, i / BN) = rB(e);
      }
    }
  };

  // Thread (tm, tn) owns rows tm, tm + BM / TM, ... and columns tn, tn + BN / TN, ...
  int const tn = threadIdx.x % (BN / TN), tm = threadIdx.x / (BN / TN);
  Tensor tA = local_tile(sA, make_shape(Int<BM / TM>{}, Int<BK>{}), make_coord(_, 0));
  Tensor tB = local_tile(sB, make_shape(Int<BN / TN>{}, Int<BK>{}), make_coord(_, 0));
  Tensor rC = make_tensor<float>(make_shape(Int<TM>{}, Int<TN>{}));
  clear(rC);

  int const slices = ceil_div(K, BK);
  fetch(0);
  for (int slice = 0; slice < slices; ++slice) {
    stage();
    __syncthreads();
    if (slice + 1 < slices) fetch(slice + 1);
    CUTE_UNROLL
    for (int kk = 0; kk < BK; ++kk) {
      float a[TM], b[TN];
      CUTE_UNROLL
      for (int i = 0; i < TM; ++i) a[i] = tA(tm, kk, i);
      CUTE_UNROLL
      for (int j = 0; j < TN; ++j) b[j] = tB(tn, kk, j);
      CUTE_UNROLL
      for (int i = 0; i < TM; ++i) {
        CUTE_UNROLL
        for (int j = 0; j < TN; ++j) rC(i, j) += a[i] * b[j];
      }
    }
    __syncthreads();
  }

  CUTE_UNROLL
  for (int i = 0; i < TM; ++i) {
    CUTE_UNROLL
    for (int j = 0; j < TN; ++j) {
      int const m = blockIdx.y * BM + tm + i * (BM / TM);
      int const n = blockIdx.x * BN + tn + j * (BN / TN);
      if (m < M && n < N) {
        float const acc = rC(i, j);
        float const linear_bias_value = static_cast<float>(mLinear_bias(m, n, l));
        float const t1 = acc + linear_bias_value;
        float const t2 = t1 < float(0) ? float(0) : t1;
        mOut(m, n, l) = static_cast<float>(t2);
      }
    }
  }
}
