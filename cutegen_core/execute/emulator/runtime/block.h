// The threads of the running block: state shared by fibers, warps and barriers.
//
//   fibers.cpp    each thread's stack, and switching between stacks
//   warp.cpp      operations of the lanes of a warp
//   barrier.cpp   barriers of the block, of some of its warps, and of a grid
//   deadlock.cpp  explains why no thread can continue
//   block.cpp     runs the threads of a block in turn until all have ended
#pragma once
#include "ptx_machine.h"

extern "C" runner::Index3 threadIdx, blockIdx, blockDim, gridDim;

namespace runner {

// NAMED: waits at a barrier of some warps; WAITING: waits for a change that `note_change` announces;
// GATHER: waits to learn which lanes are at the same place.
enum class State : uint8_t { READY, BARRIER, WARP, NAMED, WAITING, GATHER, DONE };

// A warp operation in progress: each lane passes in a value, waits for the other lanes, and takes its result.
struct WarpOperation {
  uint32_t mask = 0;     // lanes that must arrive
  uint32_t arrived = 0;
  uint32_t unread = 0;   // lanes that must still take the result; the slot is free if this and `arrived` are 0
  const void* identity = nullptr;  // identifies the instruction: lanes at another one must not join
  ptx::Together act = nullptr;          // executed once for all lanes by the last lane to arrive
  alignas(16) uint8_t values[32][16];
};

struct Fiber {
  void* stack_pointer;
  State state;
  int line;              // where it waits
  const char* file;
  uintptr_t pc, frame;
  int barrier_value;
  uint32_t spins;
  const char* what;      // NAMED, WAITING: what it waits for, in words
  int named;             // NAMED: number of the barrier
  uint64_t seen_changes; // WAITING: number of changes already seen
  uint32_t grid_syncs;
};

// bar.sync and bar.arrive of some warps of the block.
struct Named {
  uint32_t expected;     // number of threads; 0: every thread that has not ended
  uint32_t arrived;
  uint32_t lanes[MAX_THREADS / 32];
  Clock clock;           // what the arrived threads had done before
};

struct Warp {
  WarpOperation operations[32];
  uint32_t ended;        // lanes that have left the kernel
  uint32_t present;      // lanes that exist
};

extern uint32_t thread_count, live;  // threads of the block; threads of it that have not ended
extern uint64_t idle_spins;          // spin points since a thread last made progress
extern uint64_t changes;             // number of changes that WAITING threads may wait for

extern bool lanes_met;               // since this was last cleared, lanes that waited for one another were let go on

// fibers.cpp
extern Fiber fibers[MAX_THREADS];
void start_fiber(uint32_t thread);
void number_threads();               // of the launch that begins
void resume(int thread);             // it and then those that `next_ready` gives, each until it waits, spins or ends
void to_scheduler();                 // switches from the running thread to the next one, or to the scheduler
void wait_as(State state, int line, const char* file, uintptr_t pc, uintptr_t frame);

// block.cpp
int next_ready();                    // the next thread of this round that can run; -1 at its end

// warp.cpp
extern Warp warps[MAX_THREADS / 32];
void begin_warps();
void lane_ended(int thread);         // lets operations that waited for this lane continue
bool tell_all_lanes();               // answers waiting queries of the active mask, since no other lane will arrive

// barrier.cpp
constexpr int NAMED_BARRIERS = 16;
extern Named named[NAMED_BARRIERS];
void begin_barriers();
void open_barrier();                 // called when no thread can run: all wait there, or the kernel is wrong
void open_named_barriers();          // opens those that waited for a thread that has ended

// deadlock.cpp
bool same_place(const Fiber& a, const Fiber& b);
int dissenter(int thread);
void judge_ended(int waiting);
[[noreturn]] void fail_waiting(int waiting, const char* kind, const char* text);
[[noreturn]] void explain_deadlock(int waiting, int other);
[[noreturn]] void explain_spin(uintptr_t address, uintptr_t pc, uintptr_t frame);

}  // namespace runner
