// The threads of the running block: what its fibers, warps and barriers know of one another.
//
//   fibers.cpp    every thread's stack, and the switch between them
//   warp.cpp      operations of the lanes of a warp
//   barrier.cpp   barriers of the block, of some of its warps, and of a grid
//   deadlock.cpp  why nobody can go on
//   block.cpp     runs the threads of one block after another until all have ended
#pragma once
#include "ptx_machine.h"

extern "C" runner::Index3 threadIdx, blockIdx, blockDim, gridDim;

namespace runner {

// NAMED: at a barrier of some warps; WAITING: for something that `note_change` may have brought.
// GATHER: to be told which lanes are here with it.
enum class State : uint8_t { READY, BARRIER, WARP, NAMED, WAITING, GATHER, DONE };

// A warp operation in flight: lanes hand in a value, wait for the others, take what they came for.
struct WarpOperation {
  uint32_t mask = 0;     // lanes that must come
  uint32_t arrived = 0;
  uint32_t unread = 0;   // lanes that still have to take the result; 0 and arrived == 0: free
  const void* identity = nullptr;  // what may join: lanes at another instruction must not
  ptx::Together act = nullptr;          // done once for all by the lane that completes it
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
  uint64_t seen_changes; // WAITING: as many changes have been looked at
  uint32_t grid_syncs;
};

// bar.sync and bar.arrive of some warps of the block.
struct Named {
  uint32_t expected;     // threads; 0: every thread that has not ended
  uint32_t arrived;
  uint32_t lanes[MAX_THREADS / 32];
  Clock clock;           // what those that came had done
};

struct Warp {
  WarpOperation operations[32];
  uint32_t ended;        // lanes that have left the kernel
  uint32_t present;      // lanes that exist
};

extern uint32_t thread_count, live;  // of the block; of those, the ones that have not ended
extern uint64_t idle_spins;          // spin points since a thread last got anywhere
extern uint64_t changes;             // counts what WAITING threads may be waiting for

// fibers.cpp
extern Fiber fibers[MAX_THREADS];
void start_fiber(uint32_t thread);
void resume(int thread);             // until it waits, spins or ends
void to_scheduler();                 // leaves the running thread
void wait_as(State state, int line, const char* file, uintptr_t pc, uintptr_t frame);

// warp.cpp
extern Warp warps[MAX_THREADS / 32];
void begin_warps();
void lane_ended(int thread);         // operations that waited for it go on
bool tell_all_lanes();               // what they asked of the active mask, as nobody else will come

// barrier.cpp
constexpr int NAMED_BARRIERS = 16;
extern Named named[NAMED_BARRIERS];
void begin_barriers();
void open_barrier();                 // when no thread can run: everybody waits there, or the kernel is wrong
void open_named_barriers();          // those that waited for a thread that has ended

// deadlock.cpp
bool same_place(const Fiber& a, const Fiber& b);
int dissenter(int thread);
void judge_ended(int waiting);
[[noreturn]] void fail_waiting(int waiting, const char* kind, const char* text);
[[noreturn]] void explain_deadlock(int waiting, int other);
[[noreturn]] void explain_spin(uintptr_t address, uintptr_t pc, uintptr_t frame);

}  // namespace runner
