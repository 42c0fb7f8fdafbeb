// Barriers of the whole block, of some of its warps, and of the grid of a cooperative launch.
#include <stdio.h>
#include <string.h>
#include "block.h"
#include "cluster.h"

namespace runner {

Named named[NAMED_BARRIERS];

namespace {

bool named_used;       // whether this block used a named barrier
int barrier_operation;
uint32_t grid_syncs;   // number of grid barriers this block has passed

// Opens a named barrier once all expected threads have arrived.
void open_named(int id) {
  Named& barrier = named[id];
  if (!barrier.arrived || barrier.arrived < (barrier.expected ? barrier.expected : live)) return;
  for (uint32_t t = 0; t < thread_count; ++t) {
    Fiber& fiber = fibers[t];
    uint32_t const all = warps[t / 32].present & ~warps[t / 32].ended, here = barrier.lanes[t / 32] & ~warps[t / 32].ended;
    bool const mine = fiber.state == State::NAMED && fiber.named == id;
    if (mine && here != all) {
      char text[160];
      snprintf(text, sizeof text, "only some lanes of warp %u come to %s %d (mask 0x%08x); all of a warp must", t / 32, fiber.what, id, here);
      fail_waiting((int)t, "divergent-barrier", text);
    }
    if (!mine) continue;
    fiber.state = State::READY;
    if (spec.checked) acquire_for((int)t, barrier.clock);
  }
  barrier = {};
  idle_spins = 0;
  note_change();
}

}  // namespace

void begin_barriers() {
  if (named_used) memset(named, 0, sizeof named);
  named_used = false;
  grid_syncs = 0;
}

void open_barrier() {
  int first = 0;
  while (fibers[first].state == State::DONE) ++first;
  int const other = dissenter(first);
  if (other >= 0) explain_deadlock(first, other);
  if (fibers[first].state != State::BARRIER) explain_deadlock(first, first);
  judge_ended(first);
  int count = 0;
  for (uint32_t t = 0; t < thread_count; ++t) count += fibers[t].state == State::BARRIER && fibers[t].barrier_value != 0;
  int const value = barrier_operation == 1 ? count == (int)live : barrier_operation == 2 ? count > 0 : count;
  for (uint32_t t = 0; t < thread_count; ++t)
    if (fibers[t].state == State::BARRIER) fibers[t].state = State::READY, fibers[t].barrier_value = value;
  idle_spins = 0;
  *met = 1;
  note_change();
  if (!spec.checked) return;
  checker_barrier();
  share_cluster_waits();
}

void open_named_barriers() {
  for (int id = 0; named_used && id < NAMED_BARRIERS; ++id) open_named(id);
}

void named_barrier(int id, uint32_t expected, bool waits, uintptr_t pc, uintptr_t frame) {
  Named& barrier = named[id];
  uint32_t const bit = 1u << (current.thread % 32);
  at_line(0, "");
  at_frames(pc, frame);
  if (expected % 32 != 0)
    fail("MEMORY_ERROR", "divergent-barrier", "", "named barrier %d asks for %u threads, which is no multiple of a warp", id, expected);
  if (barrier.arrived && barrier.expected != expected)
    fail("MEMORY_ERROR", "divergent-barrier", "", "named barrier %d asks for %u threads here and for %u where others came", id,
         expected, barrier.expected);
  if (barrier.lanes[current.thread / 32] & bit)
    fail("MEMORY_ERROR", "divergent-barrier", "", "this thread arrives a second time at named barrier %d, which has not opened", id);
  named_used = true;
  *met = 1;
  barrier.expected = expected;
  barrier.lanes[current.thread / 32] |= bit;
  ++barrier.arrived;
  if (spec.checked) release_into(barrier.clock);
  Fiber& self = fibers[current.thread];
  self.what = "named barrier", self.named = id;
  if (!waits) return open_named(id);
  // Mark this thread as waiting first, so that the last thread to arrive opens the barrier for itself too.
  self.state = State::NAMED;
  self.line = 0, self.file = "", self.pc = pc, self.frame = frame;
  open_named(id);
  if (self.state == State::NAMED) wait_as(State::NAMED, 0, "", pc, frame);
}

}  // namespace runner

using namespace runner;

extern "C" {

void emu_barrier(int line, const char* file) {
  fibers[current.thread].barrier_value = 0;
  wait_as(State::BARRIER, line, file, EMU_CALLER, EMU_FRAME);
}

int emu_barrier_reduce(int operation, int predicate, int line, const char* file) {
  barrier_operation = operation;
  fibers[current.thread].barrier_value = predicate;
  wait_as(State::BARRIER, line, file, EMU_CALLER, EMU_FRAME);
  return fibers[current.thread].barrier_value;
}

int emu_is_cooperative() { return spec.launches[current.launch].cooperative; }

void emu_grid_sync(int line, const char* file) {
  if (!emu_is_cooperative()) {
    at_line(line, file);
    at_frames(EMU_CALLER, EMU_FRAME);
    fail("RUNTIME_ERROR", "grid-sync", "", "grid.sync() in a launch that is not cooperative; set `cooperative = true` in the plan");
  }
  wait_as(State::BARRIER, line, file, EMU_CALLER, EMU_FRAME);
  // The first thread to continue waits for the other blocks on behalf of its whole block.
  if (fibers[current.thread].grid_syncs++ == grid_syncs) {
    at_line(line, file);
    at_frames(EMU_CALLER, EMU_FRAME);
    ++grid_syncs;
    if (spec.checked)
      warn("race-unproven", "", "blocks of a cooperative launch are watched one by one: races between them are not judged");
    wait_for_grid();
  }
}

}  // extern "C"
