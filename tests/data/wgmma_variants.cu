/* cutegen
idea = "one wgmma tile in every layout its descriptor can say; the tests give the tensor maps and may ask for a mistake"

[[tensormap]]
name = "a_map"
tensor = "a"
box = [64, 64]
swizzle = "128B"

[[tensormap]]
name = "b_map"
tensor = "b"
box = [64, 16]
swizzle = "128B"

[[launch]]
kernel = "variant"
grid   = [1]
block  = [128]
smem   = 16384
args   = ["a_map", "b_map", "a", "out", 0, 128, 128, 0]
*/
// out[64, 16] = a b^T over 128 bytes of K (64 bfloat16 or float16, 32 tf32), float32.
// KIND: operands of K-major tiles are a[64, K], b[16, K]; of MN-major ones a[K, 64], b[K, 16].
#include <cute/tensor.hpp>
#include <cutlass/arch/barrier.h>
using namespace cute;

enum Kind { K_MAJOR, MN_MAJOR, REGISTERS, TF32, HALF };
enum Mistake {
  NONE, TOO_MANY_BYTES, TOO_FEW_BYTES, WRONG_PARITY, NO_WAIT, NO_FENCE, NO_COMMIT, OVERWRITTEN, TOO_MANY_ARRIVALS,
  NO_INIT, READ_TOO_EARLY
};
constexpr int ROWS = 64, COLUMNS = 16, ROW_BYTES = 128, STEPS = 4;

#define PRODUCT(TYPES, OPERANDS) \
  "wgmma.mma_async.sync.aligned.m64n16k" TYPES " {%0, %1, %2, %3, %4, %5, %6, %7}, " OPERANDS ";\n"

__device__ void multiply(int kind, float (&d)[8], uint64_t a, uint64_t b, uint32_t const (&r)[4]) {
  switch (kind) {
    case K_MAJOR:
      asm volatile(
          PRODUCT("16.f32.bf16.bf16", "%8, %9, 1, 1, 1, 0, 0")
          : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7])
          : "l"(a), "l"(b));
      break;
    case MN_MAJOR:
      asm volatile(
          PRODUCT("16.f32.bf16.bf16", "%8, %9, 1, 1, 1, 1, 1")
          : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7])
          : "l"(a), "l"(b));
      break;
    case TF32:
      asm volatile(
          PRODUCT("8.f32.tf32.tf32", "%8, %9, 1, 1, 1")
          : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7])
          : "l"(a), "l"(b));
      break;
    case HALF:
      asm volatile(
          PRODUCT("16.f32.f16.f16", "%8, %9, 1, 1, 1, 0, 0")
          : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7])
          : "l"(a), "l"(b));
      break;
    default:
      asm volatile(
          PRODUCT("16.f32.bf16.bf16", "{%8, %9, %10, %11}, %12, 1, 1, 1, 0")
          : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7])
          : "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3]), "l"(b));
      break;
  }
}

// Tiles lie as boxes whose rows are `span` bytes; without a swizzle the span is 16. Offsets in units of 16 bytes.
__device__ uint64_t descriptor(char const* tile, int span, int lines, int step, bool mn_major) {
  int const along = mn_major ? step * 16 * span : step * 32 / span * lines * span + step * 32 % span;
  uint64_t const start = cast_smem_ptr_to_uint(tile + along) >> 4 & 0x3FFF;
  uint64_t box = lines * span / 16, eight = 8 * span / 16;
  uint64_t const type = span == 128 ? 1 : span == 64 ? 2 : span == 32 ? 3 : 0;
  if (mn_major && span == 16) { uint64_t const other = box; box = eight, eight = other; }
  return start | box << 16 | eight << 32 | type << 62;
}

__device__ void load(CUtensorMap const& map, uint64_t& barrier, char* tile, int span, int lines, int item, int bytes) {
  constexpr auto hint = static_cast<uint64_t>(TMA::CacheHintSm90::EVICT_NORMAL);
  for (int at = 0; at < bytes; at += span, tile += lines * span)
    SM90_TMA_LOAD_2D::copy(&map, &barrier, hint, tile, at / item, 0);
}

__global__ __launch_bounds__(128) void variant(const __grid_constant__ CUtensorMap a_map,
                                               const __grid_constant__ CUtensorMap b_map, void const* a_values,
                                               float* out, int kind, int a_span, int b_span, int mistake) {
  extern __shared__ __align__(1024) char memory[];
  char *const a = memory, *const b = memory + ROWS * ROW_BYTES;
  uint64_t& barrier = *reinterpret_cast<uint64_t*>(b + COLUMNS * ROW_BYTES);
  bool const mn_major = kind == MN_MAJOR;
  int const item = kind == TF32 ? 4 : 2, k = ROW_BYTES / item;
  if (threadIdx.x == 0 && mistake != NO_INIT) {
    initialize_barrier(barrier, mistake == TOO_MANY_ARRIVALS ? 2 : 1);
    cutlass::arch::fence_barrier_init();
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    int const slip = mistake == TOO_MANY_BYTES ? 16 : mistake == TOO_FEW_BYTES ? -16 : 0;
    set_barrier_transaction_bytes(barrier, (ROWS + COLUMNS) * ROW_BYTES + slip);
    load(a_map, barrier, a, a_span, mn_major ? k : ROWS, item, mn_major ? ROWS * item : ROW_BYTES);
    load(b_map, barrier, b, b_span, mn_major ? k : COLUMNS, item, mn_major ? COLUMNS * item : ROW_BYTES);
  }
  // read here: the copies are under way
  if (mistake == READ_TOO_EARLY) out[threadIdx.x] = a[threadIdx.x];
  wait_barrier(barrier, mistake == WRONG_PARITY ? 1 : 0);

  int const thread = threadIdx.x, row = thread / 32 * 16 + thread % 32 / 4, pair = thread % 4;
  float d[8] = {};
  if (mistake != NO_FENCE) warpgroup_arrive();
  for (int step = 0; step < STEPS; ++step) {
    uint32_t r[4] = {};
    for (int i = 0; kind == REGISTERS && i < 4; ++i)
      r[i] = static_cast<uint32_t const*>(a_values)[(row + i % 2 * 8) * 32 + step * 8 + i / 2 * 4 + pair];
    multiply(kind, d, descriptor(a, a_span, mn_major ? k : ROWS, step, mn_major),
             descriptor(b, b_span, mn_major ? k : COLUMNS, step, mn_major), r);
  }
  if (mistake != NO_COMMIT) warpgroup_commit_batch();
  if (mistake == OVERWRITTEN && thread == 0) {
    set_barrier_transaction_bytes(barrier, ROWS * ROW_BYTES);
    load(a_map, barrier, a, a_span, ROWS, item, ROW_BYTES);
  }
  if (mistake != NO_WAIT) warpgroup_wait<0>();
  for (int i = 0; i < 8; ++i) out[(row + i / 2 % 2 * 8) * COLUMNS + i / 4 * 8 + pair * 2 + i % 2] = d[i];
  if (mistake == OVERWRITTEN) wait_barrier(barrier, 1);
}
