// Thread coordinates, barriers, shuffles and votes, with the names CUDA gives them.
// Default arguments carry the caller's line, so that a report names the line of the kernel file.
#pragma once
#include <cuda_runtime_api.h>
#include "abi.h"

// Constant as a thread sees them: the runner sets them whenever it switches threads.
extern "C" const uint3 threadIdx, blockIdx;
extern "C" const dim3 blockDim, gridDim;
constexpr int warpSize = 32;

#define EMU_HERE int line = __builtin_LINE(), const char* file = __builtin_FILE()

inline void __syncthreads(EMU_HERE) { emu_barrier(line, file); }
inline int __syncthreads_count(int predicate, EMU_HERE) { return emu_barrier_reduce(0, predicate, line, file); }
inline int __syncthreads_and(int predicate, EMU_HERE) { return emu_barrier_reduce(1, predicate, line, file); }
inline int __syncthreads_or(int predicate, EMU_HERE) { return emu_barrier_reduce(2, predicate, line, file); }
inline void __syncwarp(unsigned mask = 0xffffffffu, EMU_HERE) { emu_warp_sync(mask, line, file); }
inline unsigned __activemask(EMU_HERE) { return emu_active_mask(line, file); }
inline void __prof_trigger(int) {}

inline void __threadfence_block() { emu_fence(0); }
inline void __threadfence() { emu_fence(1); }
inline void __threadfence_system() { emu_fence(2); }
inline void __nanosleep(unsigned) {}
inline long long clock64() { return (long long)emu_clock(); }
inline void __trap() { emu_trap("__trap()"); }
inline void __brkpt() { emu_trap("__brkpt()"); }

inline size_t __cvta_generic_to_shared(const void* address) { return emu_generic_to_shared(address); }
inline void* __cvta_shared_to_generic(size_t offset) { return emu_shared_to_generic(offset); }
inline size_t __cvta_generic_to_global(const void* address) { return (size_t)address; }
inline void* __cvta_global_to_generic(size_t address) { return (void*)address; }
inline unsigned __isShared(const void* address) { return emu_is_shared(address); }
inline unsigned __isGlobal(const void* address) { return emu_is_global(address); }
inline unsigned __isLocal(const void* address) { return !emu_is_global(address) && !emu_is_shared(address); }

namespace emu {

inline int lane() {
  return (threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)) & 31;
}

template <class T>
inline T exchange(unsigned mask, T value, int source, int line, const char* file) {
  static_assert(sizeof(T) <= 16, "a shuffle moves at most 16 bytes");
  T result;
  emu_warp_exchange(mask, &value, &result, sizeof(T), source, line, file);
  return result;
}

}  // namespace emu

template <class T>
inline T __shfl_sync(unsigned mask, T value, int source, int width = 32, EMU_HERE) {
  int const segment = emu::lane() & ~(width - 1);
  return emu::exchange(mask, value, segment | (source & (width - 1)), line, file);
}
template <class T>
inline T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32, EMU_HERE) {
  int const lane = emu::lane(), source = lane - (int)delta;
  return emu::exchange(mask, value, source < (lane & ~(width - 1)) ? lane : source, line, file);
}
template <class T>
inline T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32, EMU_HERE) {
  int const lane = emu::lane(), source = lane + (int)delta;
  return emu::exchange(mask, value, source > (lane | (width - 1)) ? lane : source, line, file);
}
template <class T>
inline T __shfl_xor_sync(unsigned mask, T value, int bits, int width = 32, EMU_HERE) {
  int const lane = emu::lane(), source = lane ^ bits;
  return emu::exchange(mask, value, source > (lane | (width - 1)) ? lane : source, line, file);
}

inline unsigned __ballot_sync(unsigned mask, int predicate, EMU_HERE) {
  uint8_t all[32], mine = predicate != 0;
  unsigned const there = emu_warp_gather(mask, &mine, all, 1, line, file);
  unsigned votes = 0;
  for (int i = 0; i < 32; ++i) votes |= (there >> i & 1u & all[i]) << i;
  return votes;
}
inline int __any_sync(unsigned mask, int predicate, EMU_HERE) { return __ballot_sync(mask, predicate, line, file) != 0; }
inline int __all_sync(unsigned mask, int predicate, EMU_HERE) { return __ballot_sync(mask, !predicate, line, file) == 0; }

template <class T>
inline unsigned __match_any_sync(unsigned mask, T value, EMU_HERE) {
  T all[32];
  unsigned const there = emu_warp_gather(mask, &value, all, sizeof(T), line, file);
  unsigned same = 0;
  for (int i = 0; i < 32; ++i)
    if ((there >> i & 1) && memcmp(&all[i], &value, sizeof(T)) == 0) same |= 1u << i;
  return same;
}
template <class T>
inline unsigned __match_all_sync(unsigned mask, T value, int* predicate, EMU_HERE) {
  unsigned const same = __match_any_sync(mask, value, line, file);
  *predicate = same == mask;
  return *predicate ? mask : 0;
}

namespace emu {

template <class T, class F>
inline T reduce(unsigned mask, T value, F combine, int line, const char* file) {
  T all[32];
  unsigned const there = emu_warp_gather(mask, &value, all, sizeof(T), line, file);
  T result = value;
  bool first = true;
  for (int i = 0; i < 32; ++i)
    if (there >> i & 1) {
      result = first ? all[i] : combine(result, all[i]);
      first = false;
    }
  return result;
}

}  // namespace emu

#define EMU_REDUCE(NAME, TYPE, EXPRESSION)                                    \
  inline TYPE NAME(unsigned mask, TYPE value, EMU_HERE) {                     \
    return emu::reduce(mask, value, [](TYPE a, TYPE b) -> TYPE { return EXPRESSION; }, line, file); \
  }
EMU_REDUCE(__reduce_add_sync, unsigned, a + b)
EMU_REDUCE(__reduce_add_sync, int, a + b)
EMU_REDUCE(__reduce_min_sync, unsigned, a < b ? a : b)
EMU_REDUCE(__reduce_min_sync, int, a < b ? a : b)
EMU_REDUCE(__reduce_max_sync, unsigned, a > b ? a : b)
EMU_REDUCE(__reduce_max_sync, int, a > b ? a : b)
EMU_REDUCE(__reduce_and_sync, unsigned, a & b)
EMU_REDUCE(__reduce_or_sync, unsigned, a | b)
EMU_REDUCE(__reduce_xor_sync, unsigned, a ^ b)
#undef EMU_REDUCE
