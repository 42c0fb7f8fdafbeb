/* cutegen
idea = "TMA loads feed wgmma: one warp group copies, two multiply; persistent blocks, tiles in L2-friendly order"

[let]
M = "a.shape[0]"
N = "b.shape[0]"
K = "a.shape[1]"

[params]
GROUPS = { default = 2, values = [1, 2] }          # warp groups that multiply, 64 rows of the tile each
BN     = { default = 256, values = [64, 128, 256] }
STAGES = { default = 4, values = [2, 3, 4, 5] }
RASTER = { default = 16, values = [4, 8, 16] }     # tile rows that are walked together
where = "STAGES * (64 * GROUPS + BN) * 128 + GROUPS * 16384 + 2048 <= smem_max"

[[tensormap]]
name = "a_map"
tensor = "a"
box = [64, "64 * GROUPS"]
swizzle = "128B"
l2_promotion = "256B"

[[tensormap]]
name = "b_map"
tensor = "b"
box = [64, "BN"]
swizzle = "128B"
l2_promotion = "256B"

[[tensormap]]
name = "out_map"
tensor = "out"
box = [64, 64]
swizzle = "128B"

[[launch]]
kernel = "matmul"
grid   = ["min(sm_count, ceil_div(M, 64 * GROUPS) * ceil_div(N, BN))"]
block  = ["128 * (GROUPS + 1)"]
smem   = "STAGES * (64 * GROUPS + BN) * 128 + GROUPS * 16384 + 2048"
args   = ["a_map", "b_map", "out_map", "M", "N", "K"]

[numerics]
accumulate = "float32"
*/
// out[M, N] = a[M, K] b[N, K]^T, all bfloat16. M may be anything; rows must be multiples of 16 bytes (K % 8, N % 8).
#include <cute/tensor.hpp>
#include <cutlass/arch/barrier.h>
#include <cutlass/arch/reg_reconfig.h>
using namespace cute;

using Element = cutlass::bfloat16_t;
constexpr int BM = 64 * GROUPS, BK = 64;

struct Storage {
  alignas(1024) Element a[STAGES][BM * BK];
  alignas(1024) Element b[STAGES][BN * BK];
  alignas(1024) Element c[GROUPS][2][64 * 64];
  uint64_t full[STAGES];    // a stage holds what the copies brought
  uint64_t empty[STAGES];   // every multiplying group has read it
};

// Walks the stages round and round; the parity of the round is what the barriers are asked for.
struct Slot {
  int index = 0, parity = 0;
  __device__ void advance() {
    if (++index == STAGES) index = 0, parity ^= 1;
  }
};

struct Tiles {
  int rows, columns;
  __device__ Tiles(int m, int n) : rows((m + BM - 1) / BM), columns((n + BN - 1) / BN) {}
  __device__ int count() const { return rows * columns; }
  // RASTER tile rows at a time, down the rows first: the blocks that run together share operands in the L2 cache.
  __device__ void place(int tile, int& row, int& column) const {
    int const strip = tile / (RASTER * columns), first = strip * RASTER;
    int const height = rows - first < RASTER ? rows - first : RASTER, within = tile - first * columns;
    row = first + within % height, column = within / height;
  }
};

__device__ void produce(CUtensorMap const& a_map, CUtensorMap const& b_map, Storage& storage, Tiles tiles, int k) {
  Slot slot;
  for (int tile = blockIdx.x; tile < tiles.count(); tile += gridDim.x) {
    int row, column;
    tiles.place(tile, row, column);
    for (int at = 0; at < k; at += BK, slot.advance()) {
      uint64_t& full = storage.full[slot.index];
      wait_barrier(storage.empty[slot.index], slot.parity ^ 1);
      set_barrier_transaction_bytes(full, (BM + BN) * BK * sizeof(Element));
      constexpr auto hint = static_cast<uint64_t>(TMA::CacheHintSm90::EVICT_NORMAL);
      SM90_TMA_LOAD_2D::copy(&a_map, &full, hint, storage.a[slot.index], at, row * BM);
      SM90_TMA_LOAD_2D::copy(&b_map, &full, hint, storage.b[slot.index], at, column * BN);
    }
  }
}

__device__ uint32_t packed(float low, float high) {
  __nv_bfloat162 const pair = __floats2bfloat162_rn(low, high);
  return reinterpret_cast<uint32_t const&>(pair);
}

// Two buffers of 64 x 64 take turns: while one is written out the other is filled.
template <int COUNT>
__device__ void store(CUtensorMap const& out_map, Element (&buffers)[2][64 * 64], uint32_t (&values)[COUNT], int row,
                      int column, int group, int& turn) {
  int const thread = threadIdx.x % 128, lane = thread % 32;
  int const line = thread / 32 * 16 + lane % 16;  // of the 16 x 16 piece this lane gives the address of
  CUTE_UNROLL
  for (int part = 0; part < COUNT / 16; ++part) {
    char* const buffer = reinterpret_cast<char*>(buffers[turn++ % 2]);
    if (thread == 0) tma_store_wait<1>();
    cutlass::arch::NamedBarrier::sync(128, group);
    CUTE_UNROLL
    for (int piece = 0; piece < 4; ++piece) {
      uint32_t const* const v = values + part * 16 + piece * 4;
      int const chunk = (piece * 2 + lane / 16) ^ (line % 8);  // the 128-byte swizzle of out_map
      SM90_U32x4_STSM_N::copy(v[0], v[1], v[2], v[3], *reinterpret_cast<uint128_t*>(buffer + line * 128 + chunk * 16));
    }
    tma_store_fence();
    cutlass::arch::NamedBarrier::sync(128, group);
    if (thread == 0) {
      SM90_TMA_STORE_2D::copy(&out_map, buffer, column + part * 64, row);
      tma_store_arrive();
    }
  }
}

__device__ void consume(CUtensorMap const& out_map, Storage& storage, Tiles tiles, int k) {
  int const thread = threadIdx.x - 128, group = thread / 128;
  auto mma = make_tiled_mma(SM90::GMMA::ss_op_selector<Element, Element, float, Shape<Int<BM>, Int<BN>, Int<BK>>>(),
                            Layout<Shape<Int<GROUPS>, _1, _1>>{});
  auto const atom = SM90::GMMA::Layout_K_SW128_Atom<Element>{};
  auto const a = make_tensor(make_smem_ptr(storage.a[0]), tile_to_shape(atom, Shape<Int<BM>, Int<BK>, Int<STAGES>>{}));
  auto const b = make_tensor(make_smem_ptr(storage.b[0]), tile_to_shape(atom, Shape<Int<BN>, Int<BK>, Int<STAGES>>{}));
  auto const mine = mma.get_thread_slice(thread);
  auto const a_operand = mine.partition_fragment_A(a);
  auto const b_operand = mine.partition_fragment_B(b);
  auto sums = partition_fragment_C(mma, Shape<Int<BM>, Int<BN>>{});

  Slot slot;
  int turn = 0;
  for (int tile = blockIdx.x; tile < tiles.count(); tile += gridDim.x) {
    int row, column, last = 0;
    tiles.place(tile, row, column);
    mma.accumulate_ = SM90::GMMA::ScaleOut::Zero;
    for (int at = 0; at < k; at += BK, slot.advance()) {
      wait_barrier(storage.full[slot.index], slot.parity);
      warpgroup_fence_operand(sums);
      warpgroup_arrive();
      CUTE_UNROLL
      for (int i = 0; i < BK / 16; ++i) {
        gemm(mma, a_operand(_, _, i, slot.index), b_operand(_, _, i, slot.index), sums);
        mma.accumulate_ = SM90::GMMA::ScaleOut::One;
      }
      warpgroup_commit_batch();
      warpgroup_wait<1>();  // the products before these are done: their stage may be filled again
      if (at > 0 && thread % 128 == 0) arrive_barrier(storage.empty[last]);
      last = slot.index;
    }
    warpgroup_wait<0>();
    warpgroup_fence_operand(sums);
    uint32_t values[BN / 4];
    CUTE_UNROLL
    for (int i = 0; i < BN / 4; ++i) values[i] = packed(sums(2 * i), sums(2 * i + 1));
    if (thread % 128 == 0) arrive_barrier(storage.empty[last]);
    store(out_map, storage.c[group], values, row * BM + group * 64, column * BN, group, turn);
  }
  if (thread % 128 == 0) tma_store_wait<0>();  // shared memory must outlive the copies that read it
}

__global__ __launch_bounds__(128 * (GROUPS + 1), 1) void matmul(const __grid_constant__ CUtensorMap a_map,
                                                                const __grid_constant__ CUtensorMap b_map,
                                                                const __grid_constant__ CUtensorMap out_map, int m,
                                                                int n, int k) {
  extern __shared__ char memory[];
  Storage& storage = *reinterpret_cast<Storage*>((reinterpret_cast<size_t>(memory) + 1023) / 1024 * 1024);
  if (threadIdx.x == 0) {
    prefetch_tma_descriptor(&a_map);
    prefetch_tma_descriptor(&b_map);
    prefetch_tma_descriptor(&out_map);
    for (int i = 0; i < STAGES; ++i) {
      initialize_barrier(storage.full[i], 1);
      initialize_barrier(storage.empty[i], GROUPS);
    }
    cutlass::arch::fence_barrier_init();
  }
  __syncthreads();
  Tiles const tiles(m, n);
  if (threadIdx.x < 128) {
    if constexpr (GROUPS == 2) cutlass::arch::warpgroup_reg_dealloc<40>();
    if (threadIdx.x == 0) produce(a_map, b_map, storage, tiles, k);
  } else {
    if constexpr (GROUPS == 2) cutlass::arch::warpgroup_reg_alloc<232>();
    consume(out_map, storage, tiles, k);
  }
}
