/* cutegen
idea = "TF32 tensor cores (m16n8k8), cp.async into swizzled tiles, ldmatrix"

[let]
m = "A.shape[0]"
n = "B.shape[0]"
k = "A.shape[1]"

[numerics]
accumulate = "float32"
allow = ["tf32"]

[[launch]]
kernel = "gemm_tf32"
grid   = ["ceil_div(n, 64)", "ceil_div(m, 64)"]
block  = ["128"]
args   = ["A", "B", "out", "m", "n", "k"]
*/
#include <cute/tensor.hpp>
using namespace cute;

using Element = tfloat32_t;
using Instruction = SM80_16x8x8_F32TF32TF32F32_TN;
constexpr int DEPTH = 16;
constexpr int STAGES = 2;

// out = A @ B^T, both with contiguous rows of K, a multiple of DEPTH. Rows outside a matrix are copied as zeros.
__global__ __launch_bounds__(128) void gemm_tf32(float const* a, float const* b, float* out, int m, int n, int k) {
  auto atom = composition(Swizzle<2, 2, 3>{}, make_layout(make_shape(_8{}, Int<DEPTH>{}), LayoutRight{}));
  auto tile = tile_to_shape(atom, make_shape(_64{}, Int<DEPTH>{}, Int<STAGES>{}));
  __shared__ alignas(128) Element a_data[cosize_v<decltype(tile)>];
  __shared__ alignas(128) Element b_data[cosize_v<decltype(tile)>];
  Tensor sa = make_tensor(make_smem_ptr(a_data), tile);
  Tensor sb = make_tensor(make_smem_ptr(b_data), tile);
  auto const* first_a = reinterpret_cast<Element const*>(a);
  auto const* first_b = reinterpret_cast<Element const*>(b);
  Tensor rows_a = make_tensor(make_gmem_ptr(first_a), make_shape(m, k), make_stride(k, _1{}));
  Tensor rows_b = make_tensor(make_gmem_ptr(first_b), make_shape(n, k), make_stride(k, _1{}));
  Tensor ga = local_tile(rows_a, make_shape(_64{}, Int<DEPTH>{}), make_coord(blockIdx.y, _));
  Tensor gb = local_tile(rows_b, make_shape(_64{}, Int<DEPTH>{}), make_coord(blockIdx.x, _));

  constexpr int WIDTH = 16 / sizeof(Element);
  using Load = Copy_Atom<SM80_CP_ASYNC_CACHEGLOBAL_ZFILL<uint128_t>, Element>;
  auto loaders = make_layout(make_shape(Int<128 * WIDTH / DEPTH>{}, Int<DEPTH / WIDTH>{}), LayoutRight{});
  auto load = make_tiled_copy(Load{}, loaders, make_layout(make_shape(_1{}, Int<WIDTH>{})));
  auto my_load = load.get_slice(threadIdx.x);
  Tensor from_a = my_load.partition_S(ga);
  Tensor from_b = my_load.partition_S(gb);
  Tensor to_a = my_load.partition_D(sa);
  Tensor to_b = my_load.partition_D(sb);
  Tensor places = my_load.partition_S(make_identity_tensor(make_shape(_64{}, Int<DEPTH>{})));
  auto fetch = [&](int step, int slot) {
    CUTE_UNROLL
    for (int i = 0; i < size<1>(places); ++i) {
      int const row = get<0>(places(0, i, 0));
      copy(load.with(int(blockIdx.y) * 64 + row < m), from_a(_, i, _, step), to_a(_, i, _, slot));
      copy(load.with(int(blockIdx.x) * 64 + row < n), from_b(_, i, _, step), to_b(_, i, _, slot));
    }
    cp_async_fence();
  };

  auto product = make_tiled_mma(MMA_Atom<Instruction>{}, make_layout(make_shape(_2{}, _2{})), Tile<_32, _32, _8>{});
  auto my_product = product.get_slice(threadIdx.x);
  Tensor fa = my_product.partition_fragment_A(sa(_, _, 0));
  Tensor fb = my_product.partition_fragment_B(sb(_, _, 0));
  Tensor gc = local_tile(make_tensor(make_gmem_ptr(out), make_shape(m, n), make_stride(n, _1{})),
                         make_shape(_64{}, _64{}), make_coord(blockIdx.y, blockIdx.x));
  Tensor my_c = my_product.partition_C(gc);
  Tensor sums = product.make_fragment_C(my_c);
  clear(sums);
  using Matrices = Copy_Atom<SM75_U32x4_LDSM_N, Element>;
  auto read_a = make_tiled_copy_A(Matrices{}, product);
  auto read_b = make_tiled_copy_B(Matrices{}, product);
  Tensor sa_read = read_a.get_slice(threadIdx.x).partition_S(sa);
  Tensor sb_read = read_b.get_slice(threadIdx.x).partition_S(sb);
  Tensor fa_read = read_a.get_slice(threadIdx.x).retile_D(fa);
  Tensor fb_read = read_b.get_slice(threadIdx.x).retile_D(fb);

  int const steps = k / DEPTH;
  fetch(0, 0);
  for (int step = 0; step < steps; ++step) {
    int const slot = step % STAGES;
    cp_async_wait<0>();
    __syncthreads();
    if (step + 1 < steps) fetch(step + 1, (step + 1) % STAGES);
    CUTE_UNROLL
    for (int block = 0; block < size<2>(fa); ++block) {
      copy(read_a, sa_read(_, _, block, slot), fa_read(_, _, block));
      copy(read_b, sb_read(_, _, block, slot), fb_read(_, _, block));
      gemm(product, fa(_, _, block), fb(_, _, block), sums);
    }
  }
  Tensor at = my_product.partition_C(make_identity_tensor(make_shape(_64{}, _64{})));
  CUTE_UNROLL
  for (int i = 0; i < size(sums); ++i)
    if (int(blockIdx.y) * 64 + get<0>(at(i)) < m && int(blockIdx.x) * 64 + get<1>(at(i)) < n) my_c(i) = sums(i);
}
