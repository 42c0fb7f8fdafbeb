// barrier.cluster: a block has arrived when each of its threads has; a thread that waits goes on when every block has.
#include <string.h>
#include "block.h"
#include "cluster.h"

namespace runner {

namespace {

uint32_t base;                 // barriers that had opened when this cluster began
uint32_t posted, opened;       // barriers at which this block has arrived, and that it knows to be open
uint32_t came;                 // threads that have arrived at the next one
uint32_t arrivals[MAX_THREADS], waits[MAX_THREADS];
uint32_t known[MAX_THREADS];   // barriers that are ordered before the thread: its own waits, and what it learned of others
uint32_t most_known;           // of any thread of the block

uint32_t phase() { return __atomic_load_n(&meeting->phase, __ATOMIC_SEQ_CST); }

// Where every thread waits at once after it has arrived, the barrier orders all threads of the block.
void post() {
  ++posted, came = 0;
  if (spec.checked && partial) close_cluster_clock(posted);
  if (spec.checked && !partial) checker_barrier();
  cluster->times[cluster_rank()] = ++cluster_time;
  idle_spins = 0;
  *met = 1;
  meet(&Meeting::arrived);
}

// A relaxed arrival orders nothing by itself; a fence of the block may.
void arrive_relaxed(uintptr_t pc, uintptr_t frame) {
  uint32_t const number = arrivals[current.thread] - base;
  at_frames(pc, frame);
  if (number >= 64)
    fail("UNSUPPORTED", "unsupported-ptx", "", "the emulator has no relaxed arrival at a cluster's barrier behind its first 64; use barrier.cluster.arrive");
  if (!any_fence()) cluster->relaxed[cluster_rank()] |= (uint64_t)1 << number;
}

}  // namespace

void begin_cluster_block() {
  if (!clustered()) return;
  base = posted = opened = phase();
  came = 0;
  cluster->relaxed[cluster_rank()] = 0;
  for (uint32_t t = 0; t < thread_count; ++t) arrivals[t] = waits[t] = known[t] = base;
  most_known = base;
  if (spec.checked && partial) begin_cluster_clocks();
}

void arrive_at_cluster(bool relaxed, uintptr_t pc, uintptr_t frame) {
  int const self = current.thread;
  if (arrivals[self] > waits[self]) {
    at_line(0, "");
    at_frames(pc, frame);
    fail("MEMORY_ERROR", "divergent-barrier", "", "this thread arrives a second time at the cluster's barrier without having waited for it");
  }
  if (relaxed && spec.checked) arrive_relaxed(pc, frame);
  ++arrivals[self];
  if (spec.checked && partial && !relaxed) release_into(cluster_clocks[CLUSTER_ARRIVING]);
  if (++came == live) post();
}

void wait_for_cluster(int line, const char* file, uintptr_t pc, uintptr_t frame) {
  int const self = current.thread;
  if (arrivals[self] == waits[self]) {
    at_line(line, file);
    at_frames(pc, frame);
    fail("MEMORY_ERROR", "divergent-barrier", "", "this thread waits at the cluster's barrier without having arrived at it");
  }
  while ((int32_t)(phase() - arrivals[self]) < 0) wait_for_change("the barrier of the cluster", pc, frame);
  known[self] = waits[self] = arrivals[self];
  if (known[self] > most_known) most_known = known[self];
  if (spec.checked && partial) cluster_seen[self] = cluster_clock_of(waits[self]);
  learn_times(cluster->times);
}

void leave_cluster_barrier(int thread) {
  if (!clustered()) return;
  came -= arrivals[thread] == posted + 1;
  if (live && came == live) post();
}

bool open_cluster_barrier() {
  if (!clustered() || posted == opened) return false;
  for (uint32_t now = phase(); (int32_t)(now - posted) < 0; now = phase()) wait_past(&meeting->phase, now);
  opened = posted;
  note_change();
  return true;
}

uint32_t next_cluster_arrival() { return arrivals[current.thread] + 1; }
bool has_waited_for(uint32_t barrier) { return (int32_t)(waits[current.thread] - barrier) >= 0; }
bool waits_at_cluster_barrier() { return posted != opened; }
bool cluster_barrier_opened() { return posted != opened && (int32_t)(phase() - posted) >= 0; }

void share_cluster_waits() {
  if (!clustered()) return;
  for (uint32_t t = 0; t < thread_count; ++t) known[t] = most_known;
}

uint32_t cluster_base() { return base; }
uint32_t cluster_arrivals() { return arrivals[current.thread]; }
bool cluster_began() { return known[current.thread] > base; }
bool released_by(uint32_t rank, uint32_t when) {
  uint64_t const relaxed = cluster->relaxed[rank];
  for (uint32_t number = when - base; number < known[current.thread] - base; ++number)
    if (number >= 64 || !(relaxed >> number & 1)) return true;
  return false;
}
uint32_t most_cluster_waits() { return most_known; }

}  // namespace runner

using namespace runner;

extern "C" {

void emu_cluster_sync(int line, const char* file) {
  if (!clustered()) return wait_as(State::BARRIER, line, file, EMU_CALLER, EMU_FRAME);
  arrive_at_cluster(false, EMU_CALLER, EMU_FRAME);
  wait_for_cluster(line, file, EMU_CALLER, EMU_FRAME);
}

}  // extern "C"
