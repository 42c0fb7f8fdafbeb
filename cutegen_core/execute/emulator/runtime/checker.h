// What the parts of the checker share.
//
// Every word of shared memory (part of a word where smaller ones are used) and every element of a tensor has a cell that
// remembers its last writer and its last readers, with the barrier epoch and the warp stamp at which they came. Two
// accesses of different threads, one of them a write, are ordered by a block barrier between them or, within a warp, by a
// warp operation both took part in, or by barriers of parts of the block; otherwise they race. Blocks of one launch are
// never ordered.
//
//   watched.cpp    which memory is watched, and the cells of it
//   order.cpp      what each thread knows to have happened before
//   checker.cpp    one access: what it conflicts with, what it leaves in its cells
//   findings.cpp   what is wrong, in words
#pragma once
#include "runner.h"

namespace runner {

struct Cell {
  uint32_t write_epoch, write_stamp;
  uint32_t read_epoch, read_stamp;
  uint32_t read_lanes;
  uint32_t foreign_readers;      // launch in which blocks before `read_epoch` read this, 0: none
  uint16_t writer, read_warp;
  bool written_atomically, crossed;  // crossed: threads of several warps read it in `read_epoch`
  bool in_flight;                    // `writer` copies into it and has not waited for that
  bool copied;                       // written by a copy
};

// The last reader of each warp in one epoch; kept only for kernels that synchronise parts of a block.
struct Readers {
  uint32_t epoch;
  uint32_t stamps[MAX_THREADS / 32];  // one more than the stamp, 0: none
  uint16_t threads[MAX_THREADS / 32];
};

enum class Kind : uint8_t { TENSOR, SHARED, DYNAMIC, IMAGE };

struct Region {
  uintptr_t low, high;    // exact bounds
  Kind kind;
  bool writable;
  uint32_t granule;       // bytes a cell stands for; of shared memory as few as its smallest access has
  Cell* cells;
  const char* name;
  size_t itemsize;
  Readers* readers;       // null where they are not kept
  uint8_t* written;       // an element each, for every launch: null where all of it holds something from the start
};

// The access under way.
extern uintptr_t access_pc, access_frame, access_address;
extern size_t access_bytes;

extern uint32_t epoch, launch_epoch, block_epoch;  // barrier epochs never repeat, so cells need no clearing

// watched.cpp
extern Region regions[];
extern int region_count, last_region;
Region* search(uintptr_t address);
inline Region* find(uintptr_t address) {
  Region& last = regions[last_region];
  return address >= last.low && address < last.high ? &last : search(address);
}
void refine(Region& region, uint32_t granule);  // after a smaller access than all before it
void resize_dynamic(size_t bytes);              // shared memory of the launch

// order.cpp: all by thread of the running block
extern uint32_t stamp_counter;
extern uint32_t stamps[MAX_THREADS];            // warp operations it took part in
extern uint32_t seen[MAX_THREADS][32];          // the last one it shares, directly or not, with each lane of its warp
extern uint32_t proxy_fences[MAX_THREADS];      // stamp of its last fence.proxy.async
extern bool partial;                            // the image holds barriers of parts of the block
extern uint32_t far[MAX_THREADS][MAX_THREADS];  // access stamps of others before this happened before what it does now,
                                                // by such barriers
void begin_order();
// The earlier access by `thread` at `stamp` in this very epoch came before what the running thread does now.
inline bool ordered(int thread, uint32_t stamp) {
  return thread == current.thread ||
         (thread / 32 == current.thread / 32 && seen[current.thread][thread % 32] > stamp) ||
         (partial && far[current.thread][thread] > stamp);
}

// findings.cpp
struct Other {
  bool another_block;
  uint32_t epoch;
  int thread;
  bool wrote;
};
void begin_findings();                          // of a launch
void name_block();                              // the running one, for what is found later about its accesses
const char* verb(Access access);
[[noreturn]] void out_of_bounds(const char* name, long offset, size_t itemsize, size_t bytes, bool is_shared, Access access);
[[noreturn]] void explain_stray(uintptr_t address, Access access);
[[noreturn]] void missing_wait(const Region& region, const Cell& cell, uintptr_t address, Access access);
void race(const Region& region, uintptr_t address, Access access, const Other& other);

}  // namespace runner
