// Stands in for CUDA's <cooperative_groups.h>, <cooperative_groups/reduce.h> and <cooperative_groups/scan.h>: blocks,
// tiles of up to 32 threads, coalesced groups and the grid of a cooperative launch. Asynchronous copies and larger tiles
// are not here, so a kernel that uses them does not build for the emulator.
#pragma once
#include "threads.hpp"

namespace cooperative_groups {

namespace details {

inline unsigned below_lane() { return (1u << emu::lane()) - 1; }
inline unsigned long long rank_in_block() {
  return threadIdx.x + (unsigned long long)blockDim.x * (threadIdx.y + (unsigned long long)blockDim.y * threadIdx.z);
}

// What threads of one warp can do together; `mask` names them. Ranks follow the lanes.
class lanes {
 public:
  explicit lanes(unsigned mask) : mask(mask) {}
  unsigned num_threads() const { return (unsigned)__builtin_popcount(mask); }
  unsigned size() const { return num_threads(); }
  unsigned thread_rank() const { return (unsigned)__builtin_popcount(mask & below_lane()); }
  void sync(EMU_HERE) const { emu_warp_sync(mask, line, file); }
  template <class T>
  T shfl(T value, int rank, EMU_HERE) const {
    return emu::exchange(mask, value, lane_of((unsigned)rank % num_threads()), line, file);
  }
  template <class T>
  T shfl_up(T value, unsigned delta, EMU_HERE) const {
    unsigned const rank = thread_rank();
    return emu::exchange(mask, value, lane_of(rank < delta ? rank : rank - delta), line, file);
  }
  template <class T>
  T shfl_down(T value, unsigned delta, EMU_HERE) const {
    unsigned const rank = thread_rank();
    return emu::exchange(mask, value, lane_of(rank + delta >= num_threads() ? rank : rank + delta), line, file);
  }
  int any(int predicate, EMU_HERE) const { return __ballot_sync(mask, predicate, line, file) != 0; }
  int all(int predicate, EMU_HERE) const { return __ballot_sync(mask, !predicate, line, file) == 0; }
  unsigned ballot(int predicate, EMU_HERE) const { return packed(__ballot_sync(mask, predicate, line, file)); }
  template <class T>
  unsigned match_any(T value, EMU_HERE) const {
    return packed(__match_any_sync(mask, value, line, file));
  }
  template <class T>
  unsigned match_all(T value, int& predicate, EMU_HERE) const {
    return packed(__match_all_sync(mask, value, &predicate, line, file));
  }
  unsigned lane_mask() const { return mask; }

 protected:
  // Lane of a rank, and votes counted by rank.
  int lane_of(unsigned rank) const {
    unsigned left = mask;
    while (rank--) left &= left - 1;
    return __builtin_ctz(left);
  }
  unsigned packed(unsigned votes) const {
    unsigned result = 0;
    for (unsigned rank = 0, left = mask; left; left &= left - 1, ++rank) result |= (votes >> __builtin_ctz(left) & 1) << rank;
    return result;
  }
  unsigned mask;
};

inline unsigned tile_mask(unsigned size) {
  return (size == 32 ? ~0u : (1u << size) - 1) << ((unsigned)emu::lane() & ~(size - 1));
}

}  // namespace details

class thread_block {
 public:
  static void sync(EMU_HERE) { emu_barrier(line, file); }
  static unsigned thread_rank() { return (unsigned)details::rank_in_block(); }
  static unsigned num_threads() { return blockDim.x * blockDim.y * blockDim.z; }
  static unsigned size() { return num_threads(); }
  static dim3 group_index() { return dim3(blockIdx.x, blockIdx.y, blockIdx.z); }
  static dim3 thread_index() { return dim3(threadIdx.x, threadIdx.y, threadIdx.z); }
  static dim3 dim_threads() { return blockDim; }
  static dim3 group_dim() { return blockDim; }
};
inline thread_block this_thread_block() { return {}; }

template <unsigned Size, class Parent = void>
class thread_block_tile : public details::lanes {
  static_assert(Size && Size <= 32 && (Size & (Size - 1)) == 0, "the emulator has tiles of 1, 2, 4, 8, 16 and 32 threads");

 public:
  thread_block_tile() : lanes(details::tile_mask(Size)) {}
  static constexpr unsigned num_threads() { return Size; }
  static constexpr unsigned size() { return Size; }
  static unsigned thread_rank() { return (unsigned)emu::lane() & (Size - 1); }
  static unsigned meta_group_rank() { return (unsigned)details::rank_in_block() / Size; }
  static unsigned meta_group_size() { return (thread_block::num_threads() + Size - 1) / Size; }
  template <class T>
  T shfl_xor(T value, unsigned bits, EMU_HERE) const {
    return __shfl_xor_sync(mask, value, (int)bits, Size, line, file);
  }
};
template <unsigned Size, class Parent>
inline thread_block_tile<Size, Parent> tiled_partition(Parent const&) { return {}; }

class coalesced_group : public details::lanes {
 public:
  explicit coalesced_group(unsigned mask) : lanes(mask) {}
  unsigned meta_group_rank() const { return 0; }
  unsigned meta_group_size() const { return 1; }
};
inline coalesced_group coalesced_threads(EMU_HERE) { return coalesced_group(emu_active_mask(line, file)); }

template <class Group>
inline coalesced_group labeled_partition(Group const& group, int label, EMU_HERE) {
  return coalesced_group(__match_any_sync(group.lane_mask(), label, line, file));
}
template <class Group>
inline coalesced_group binary_partition(Group const& group, bool side, EMU_HERE) {
  return labeled_partition(group, (int)side, line, file);
}

// A tile whose size is known when the kernel runs.
class thread_group : public details::lanes {
 public:
  explicit thread_group(unsigned mask) : lanes(mask) {}
};
template <class Parent>
inline thread_group tiled_partition(Parent const&, unsigned size) { return thread_group(details::tile_mask(size)); }

// All blocks of a cooperative launch.
class grid_group {
 public:
  static void sync(EMU_HERE) { emu_grid_sync(line, file); }
  static bool is_valid() { return emu_is_cooperative(); }
  static unsigned long long num_blocks() { return (unsigned long long)gridDim.x * gridDim.y * gridDim.z; }
  static unsigned long long block_rank() {
    return blockIdx.x + (unsigned long long)gridDim.x * (blockIdx.y + (unsigned long long)gridDim.y * blockIdx.z);
  }
  static unsigned long long num_threads() { return num_blocks() * thread_block::num_threads(); }
  static unsigned long long size() { return num_threads(); }
  static unsigned long long thread_rank() { return block_rank() * thread_block::num_threads() + details::rank_in_block(); }
  static dim3 dim_blocks() { return gridDim; }
  static dim3 group_dim() { return gridDim; }
  static dim3 block_index() { return dim3(blockIdx.x, blockIdx.y, blockIdx.z); }
};
inline grid_group this_grid() { return {}; }

// The blocks of a cluster; of a launch without clusters, a block alone.
class cluster_group {
 public:
  static void sync(EMU_HERE) { emu_cluster_sync(line, file); }
  struct arrival_token {};
  static arrival_token barrier_arrive() {
    emu::ptx("barrier.cluster.arrive.aligned;");
    return {};
  }
  static void barrier_wait() { emu::ptx("barrier.cluster.wait.aligned;"); }
  static void barrier_wait(arrival_token&&) { barrier_wait(); }
  static dim3 dim_blocks() {
    unsigned xyz[3];
    emu_cluster_shape(xyz);
    return dim3(xyz[0], xyz[1], xyz[2]);
  }
  static unsigned num_blocks() { return dim_blocks().x * dim_blocks().y * dim_blocks().z; }
  static unsigned block_rank() { return emu_cluster_rank(); }
  static unsigned num_threads() { return num_blocks() * thread_block::num_threads(); }
  static unsigned size() { return num_threads(); }
  static unsigned thread_rank() { return block_rank() * thread_block::num_threads() + thread_block::thread_rank(); }
  static dim3 block_index() {
    dim3 const c = dim_blocks();
    return dim3(block_rank() % c.x, block_rank() / c.x % c.y, block_rank() / (c.x * c.y));
  }
  template <class T>
  static T* map_shared_rank(T* address, int rank) { return (T*)emu_map_shared((const void*)address, (unsigned)rank); }
  static unsigned query_shared_rank(const void* address) { return emu_shared_rank(address); }
};
inline cluster_group this_cluster() { return {}; }

template <class Group>
inline void sync(Group const& group, EMU_HERE) { group.sync(line, file); }
template <class Group>
inline auto thread_rank(Group const& group) { return group.thread_rank(); }
template <class Group>
inline auto group_size(Group const& group) { return group.size(); }

// -- reduce.h, scan.h ------------------------------------------------------------------------------------------------------

template <class T> struct plus { T operator()(T a, T b) const { return a + b; } };
template <class T> struct less { T operator()(T a, T b) const { return b < a ? b : a; } };
template <class T> struct greater { T operator()(T a, T b) const { return a < b ? b : a; } };
template <class T> struct bit_and { T operator()(T a, T b) const { return a & b; } };
template <class T> struct bit_or { T operator()(T a, T b) const { return a | b; } };
template <class T> struct bit_xor { T operator()(T a, T b) const { return a ^ b; } };

namespace details {

// `combine` over the values of the lanes in `which`, in their order; `which` is not empty.
template <class T, class F>
inline T fold(const T* all, unsigned which, F combine) {
  T result = all[__builtin_ctz(which)];
  for (which &= which - 1; which; which &= which - 1) result = combine(result, all[__builtin_ctz(which)]);
  return result;
}

}  // namespace details

template <class Group, class T, class F>
inline T reduce(Group const& group, T value, F combine, EMU_HERE) {
  T all[32];
  return details::fold(all, emu_warp_gather(group.lane_mask(), &value, all, sizeof(T), line, file), combine);
}
template <class Group, class T, class F>
inline T inclusive_scan(Group const& group, T value, F combine, EMU_HERE) {
  T all[32];
  unsigned const there = emu_warp_gather(group.lane_mask(), &value, all, sizeof(T), line, file);
  return details::fold(all, there & (details::below_lane() | 1u << emu::lane()), combine);
}
template <class Group, class T>
inline T inclusive_scan(Group const& group, T value, EMU_HERE) { return inclusive_scan(group, value, plus<T>(), line, file); }
template <class Group, class T, class F>
inline T exclusive_scan(Group const& group, T value, F combine, EMU_HERE) {
  T all[32];
  unsigned const before = emu_warp_gather(group.lane_mask(), &value, all, sizeof(T), line, file) & details::below_lane();
  return before ? details::fold(all, before, combine) : T{};
}
template <class Group, class T>
inline T exclusive_scan(Group const& group, T value, EMU_HERE) { return exclusive_scan(group, value, plus<T>(), line, file); }

template <class Group, class F, class... Arguments>
inline void invoke_one(Group const& group, F&& function, Arguments&&... arguments) {
  if (group.thread_rank() == 0) function(arguments...);
}

}  // namespace cooperative_groups
