/* cutegen
idea = "implicit product: the unfolded image is a layout, gathered tile by tile into shared memory"

[let]
N = "x.shape[0]"
C = "x.shape[1]"
H = "x.shape[2]"
W = "x.shape[3]"
F = "conv_weight.shape[0]"

[params]
BM = { default = 64, values = [32, 64, 128] }
BN = { default = 64, values = [64, 128] }
BK = { default = 16, values = [8, 16] }
TM = { default = 4, values = [4, 8] }
TN = { default = 4, values = [4, 8] }
where = ["(BM // TM) * (BN // TN) <= 512", "(BM // TM) * (BN // TN) >= 64"]

[[launch]]
kernel = "conv_bias_relu_kernel<BM, BN, BK, TM, TN>"
grid = ["ceil_div(N * H * W, BN)", "ceil_div(F, BM)"]
block = ["(BM // TM) * (BN // TN)"]
args = ["x", "conv_weight", "conv_bias", "out", "N", "C", "H", "W", "F"]

[numerics]
accumulate = "float32"
deterministic = true
*/
#include <cute/tensor.hpp>

using namespace cute;

// Filters (F x taps) by the unfolded image (taps x places): a BM x BN tile a block, TM x TN results a thread. The 3 x 3 taps
// of each channel and the places of each image are modes of one layout over x; a tap outside of the image counts as zero.
template <int BM, int BN, int BK, int TM, int TN>
__global__ __launch_bounds__((BM / TM) * (BN / TN)) void conv_bias_relu_kernel(
    float const* x, float const* weight, float const* bias, float* out, int N, int C, int H, int W, int F) {
  constexpr int THREADS = (BM / TM) * (BN / TN);
  long const image = long(H) * W;
  auto const places = make_shape(W, H, N);
  auto const taps = make_shape(Int<3>{}, Int<3>{}, C);
  int const depth = size(taps), columns = size(places);

  Tensor mA = make_tensor(make_gmem_ptr(weight), make_layout(make_shape(F, depth), make_stride(long(depth), Int<1>{})));
  // (place, tap) -> where that tap of that place lies, counted from the corner of the border above x.
  Tensor mB = make_tensor(make_gmem_ptr(x - W - 1), make_layout(make_shape(places, taps),
      make_stride(make_stride(Int<1>{}, W, image * C), make_stride(Int<1>{}, W, image))));
  Tensor mBias = make_tensor(make_gmem_ptr(bias), make_layout(F));
  Tensor mOut = make_tensor(make_gmem_ptr(out), make_layout(make_shape(F, places),
      make_stride(image, make_stride(Int<1>{}, W, image * F))));

  // One column more than needed, so that neither writes nor reads meet in one bank.
  auto const a_layout = make_layout(make_shape(Int<BM>{}, Int<BK>{}), make_stride(Int<1>{}, Int<BM + 1>{}));
  auto const b_layout = make_layout(make_shape(Int<BN>{}, Int<BK>{}), make_stride(Int<1>{}, Int<BN + 1>{}));
  __shared__ float a_memory[cosize_v<decltype(a_layout)>];
  __shared__ float b_memory[cosize_v<decltype(b_layout)>];
  Tensor sA = make_tensor(make_smem_ptr(a_memory), a_layout);
  Tensor sB = make_tensor(make_smem_ptr(b_memory), b_layout);

  int const m_first = blockIdx.y * BM, n_first = blockIdx.x * BN;
  auto const gather = [&](int slice) {
    for (int i = threadIdx.x; i < BM * BK; i += THREADS) {  // neighbouring threads read neighbouring taps of a filter
      int const m = m_first + i / BK, k = slice * BK + i % BK;
      sA(i / BK, i % BK) = m < F && k < depth ? mA(m, k) : 0.0f;
    }
    for (int i = threadIdx.x; i < BN * BK; i += THREADS) {  // and neighbouring places of an image
      int const n = n_first + i % BN, k = slice * BK + i / BN;
      auto const place = idx2crd(n, places);
      auto const tap = idx2crd(k, taps);
      int const w = get<0>(place) + get<0>(tap) - 1, h = get<1>(place) + get<1>(tap) - 1;
      bool const inside = n < columns && k < depth && w >= 0 && w < W && h >= 0 && h < H;
      sB(i % BN, i / BN) = inside ? mB(place, tap) : 0.0f;
    }
  };

  // Thread (tm, tn) owns rows tm, tm + BM / TM, ... and columns tn, tn + BN / TN, ...
  int const tn = threadIdx.x % (BN / TN), tm = threadIdx.x / (BN / TN);
  Tensor tA = local_tile(sA, make_shape(Int<BM / TM>{}, Int<BK>{}), make_coord(_, 0));
  Tensor tB = local_tile(sB, make_shape(Int<BN / TN>{}, Int<BK>{}), make_coord(_, 0));
  Tensor rC = make_tensor<float>(make_shape(Int<TM>{}, Int<TN>{}));
  clear(rC);
  for (int slice = 0; slice < ceil_div(depth, BK); ++slice) {
    gather(slice);
    __syncthreads();
    CUTE_UNROLL
    for (int kk = 0; kk < BK; ++kk) {
      CUTE_UNROLL
      for (int i = 0; i < TM; ++i) {
        CUTE_UNROLL
        for (int j = 0; j < TN; ++j) rC(i, j) += tA(tm, kk, i) * tB(tn, kk, j);
      }
    }
    __syncthreads();
  }

  CUTE_UNROLL
  for (int i = 0; i < TM; ++i) {
    CUTE_UNROLL
    for (int j = 0; j < TN; ++j) {
      int const m = m_first + tm + i * (BM / TM), n = n_first + tn + j * (BN / TN);
      if (m < F && n < columns) {
        float const value = rC(i, j) + mBias(m);
        mOut(m, idx2crd(n, places)) = value < 0.0f ? 0.0f : value;
      }
    }
  }
}
