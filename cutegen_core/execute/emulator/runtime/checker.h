// Declarations shared by the parts of the checker.
//
// Every word of shared memory (or part of a word, if smaller accesses occur) and every element of a tensor has a cell.
// The cell stores the last writer and the last readers, with the barrier epoch and the warp stamp of their accesses. Two
// accesses of different threads, at least one of them a write, are ordered by a block barrier between them, by a warp
// operation in which both took part, or by barriers of parts of the block; otherwise they race. Blocks of one launch are
// ordered only where one releases what it did (a device-wide fence, then an atomic or volatile write) and another acquires
// it at the same place, see blocks.cpp.
//
//   watched.cpp    the watched memory and its cells
//   order.cpp      the accesses that are ordered before each thread
//   blocks.cpp     the accesses of other blocks that are ordered before each thread
//   checker.cpp    checks one access for conflicts and records it in its cells
//   findings.cpp   writes the findings in words
#pragma once
#include "runner.h"

namespace runner {

struct Cell {
  uint32_t write_epoch, write_stamp;
  uint32_t read_epoch, read_stamp;
  uint32_t read_lanes;
  uint32_t foreign_readers;      // launch in which earlier blocks (before `read_epoch`) read this; 0: none
  uint32_t cluster_time;         // of its last access
  uint32_t constant_launch;      // launch in which it was read through the read-only cache; 0: none
  uint16_t writer, read_warp;
  bool written_atomically, crossed;  // crossed: threads of several warps read it in `read_epoch`
  bool in_flight;                    // an asynchronous copy by `writer` into it is not yet waited for
  bool copied;                       // written by a copy
  bool read_by_proxy;                // the last readers are the copy engine and the matrix unit only
  uint8_t sent_by;                   // written by a store or copy of this rank + 1 of the cluster; 0: by this block
  bool written_strongly, read_strongly;  // by volatile or relaxed accesses only: no race between them, a flag may be polled
};

// The last reader of each warp in one epoch; kept only for kernels that synchronise parts of a block.
struct Readers {
  uint32_t epoch;
  uint32_t stamps[MAX_THREADS / 32];  // stamp + 1; 0: none
  uint16_t threads[MAX_THREADS / 32];
};

// DEVICE: `__device__` variables. SHARED and DYNAMIC memory belongs to one block, PEER to another of its cluster.
enum class Kind : uint8_t { TENSOR, DEVICE, SHARED, DYNAMIC, IMAGE, PEER };
inline bool of_block(Kind kind) { return kind == Kind::SHARED || kind == Kind::DYNAMIC; }


struct Region {
  uintptr_t low, high;    // exact bounds
  Kind kind;
  bool writable;
  uint32_t granule;       // bytes per cell: the size of the smallest access so far
  Cell* cells;
  const char* name;
  size_t itemsize;
  Readers* readers;       // null if they are not recorded
  uint8_t* written;       // a flag per byte, for all launches; null if everything is initialised from the start
  bool holds(uintptr_t address) const { return address >= low && address < high; }
};

// The access being checked.
extern uintptr_t access_pc, access_frame, access_address;
extern size_t access_bytes;

extern uint32_t epoch, launch_epoch, block_epoch;  // barrier epochs never repeat, so cells need no clearing

// watched.cpp
extern Region regions[];
extern int region_count, last_region;
Region* search(uintptr_t address);
inline Region* find(uintptr_t address) {
  Region& last = regions[last_region];
  return last.holds(address) ? &last : search(address);
}
void refine(Region& region, uint32_t granule);  // called for an access smaller than all before it
void resize_dynamic(size_t bytes);              // shared memory of the launch

// order.cpp: all arrays are indexed by thread of the running block
extern uint32_t stamp_counter;
extern uint32_t stamps[MAX_THREADS];            // number of warp operations the thread took part in
extern uint32_t seen[MAX_THREADS][32];          // the last one that it shares, directly or indirectly, with each lane of its warp
extern uint32_t proxy_fences[MAX_THREADS];      // stamp of the thread's last fence.proxy.async
extern uint32_t last_proxy_fence;               // and of any thread's
extern bool partial;                            // whether the image contains barriers of parts of the block
extern uint32_t far[MAX_THREADS][MAX_THREADS];  // smaller stamps of the other thread are ordered before
                                                // this thread's next access by such barriers
// What the threads of a block had done before they arrived at the last two barriers of their cluster, by its parity, and
// before they arrived at the next one. A thread sees at most one of them.
constexpr int CLUSTER_NONE = 0, CLUSTER_ARRIVING = 3;
extern Clock cluster_clocks[4];
extern uint8_t cluster_seen[MAX_THREADS];
inline uint8_t cluster_clock_of(uint32_t barrier) { return (uint8_t)(1 + barrier % 2); }
void begin_cluster_clocks();
void close_cluster_clock(uint32_t barrier);
void begin_order();
void forget_far();
// Whether the access of `thread` at `stamp` in this epoch is ordered before the running thread's access.
inline bool ordered(int thread, uint32_t stamp) {
  return thread == current.thread ||
         (thread / 32 == current.thread / 32 && seen[current.thread][thread % 32] > stamp) ||
         (partial && (far[current.thread][thread] > stamp || cluster_clocks[cluster_seen[current.thread]].known[thread] > stamp));
}

// blocks.cpp
void begin_blocks_of_launch();
void begin_block_order();
void note_fence();                               // by the running thread, for the whole device
void join_fences_of_block();                     // at a barrier of the block, before its epoch ends
void join_fences_of_warp(int first_thread, uint32_t lanes);
void release_at(uintptr_t address);              // an atomic or volatile write
void acquire_at(uintptr_t address);              // an atomic or volatile read
// Whether what `thread` of an earlier block did in `epoch` at `stamp` is ordered before the running thread's access.
// `unfenced` is set if that rests on an acquire without a fence behind it.
bool known_from_block(uint32_t epoch, int thread, uint32_t stamp, bool* unfenced);
bool any_fence();                                // of the running launch
bool touched_atomically(uintptr_t address);      // an atomic of the block on it is ordered before the running thread

// findings.cpp
struct Other {
  bool another_block;
  uint32_t epoch;
  int thread;
  bool wrote;
  uint8_t sent_by = 0;
};
void begin_findings();                          // called for each launch
void name_block();                              // records the running block, to name it in later findings
const char* verb(Access access);
[[noreturn]] void out_of_bounds(const char* name, long offset, size_t itemsize, size_t bytes, bool is_shared, Access access);
[[noreturn]] void explain_stray(uintptr_t address, Access access);
[[noreturn]] void missing_wait(const Region& region, const Cell& cell, uintptr_t address, Access access);
void race(const Region& region, uintptr_t address, Access access, const Other& other);
void raise_race(const Region& region, uintptr_t address, Access access, bool other_wrote, const char* text);
void warn_unfenced(const Region& region, uintptr_t address);
[[noreturn]] void stale_read(const Region& region, uintptr_t address, bool read_first);
const char* name_of(const Region& region, uintptr_t address);

}  // namespace runner
