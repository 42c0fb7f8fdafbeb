// Explains why no thread can continue: different barriers, lanes that never arrive, a change that no thread makes.
#include <stdio.h>
#include <string.h>
#include "block.h"
#include "cluster.h"

namespace runner {

namespace {

void describe(char* text, size_t size, int thread) {
  Index3 const at = thread_coordinates(thread);
  snprintf(text, size, "thread (%u, %u, %u)", at.x, at.y, at.z);
}

const char* describe_wait(const Fiber& fiber) {
  static char texts[2][160];
  static int turn;
  char* const text = texts[turn ^= 1];
  switch (fiber.state) {
    case State::WARP: return "a warp operation";
    case State::WAITING: return fiber.what;
    case State::NAMED: {
      const Named& barrier = named[fiber.named];
      snprintf(text, sizeof texts[0], "%s %d, where %u of %u threads have come", fiber.what, fiber.named, barrier.arrived,
               barrier.expected ? barrier.expected : live);
      return text;
    }
    default: return "__syncthreads()";
  }
}

}  // namespace

bool same_place(const Fiber& a, const Fiber& b) {
  bool const other_cause = a.state == State::WAITING && b.state == State::WAITING && strcmp(a.what, b.what) != 0;
  return a.line == b.line && strcmp(a.file, b.file) == 0 && !other_cause;
}

// Finds a thread that waits at another place than `thread`; -1 if all remaining threads wait at the same barrier.
int dissenter(int thread) {
  for (uint32_t t = 0; t < thread_count; ++t) {
    if (fibers[t].state == State::DONE) continue;
    if (fibers[t].state != fibers[thread].state || !same_place(fibers[t], fibers[thread])) return (int)t;
  }
  return -1;
}

[[noreturn]] void fail_waiting(int waiting, const char* kind, const char* text) {
  Fiber const& fiber = fibers[waiting];
  current.thread = waiting;
  current.stack_low = (uint8_t*)fiber_stack_low(waiting);
  at_line(fiber.line, fiber.file);
  at_frames(fiber.pc, fiber.frame);
  fail("MEMORY_ERROR", kind, "", "%s", text);
}

// Called when no thread can run and the threads do not all wait at one barrier.
[[noreturn]] void explain_deadlock(int waiting, int other) {
  char first[64], second[64], text[768];
  describe(first, sizeof first, waiting);
  describe(second, sizeof second, other);
  const Fiber &here = fibers[waiting], &there = fibers[other];
  const char* const what = describe_wait(here);
  if (waiting == other)
    snprintf(text, sizeof text, "%s waits for ever at %s%s", first, what,
             here.state == State::WARP ? " for lanes that wait elsewhere" : "");
  else if (there.state == State::DONE)
    snprintf(text, sizeof text, "%s waits at %s, but %s has left the kernel without reaching it", first, what, second);
  else if (here.line && there.line)
    snprintf(text, sizeof text, "%s waits at %s in line %d while %s waits at %s in line %d", first, what, here.line, second,
             describe_wait(there), there.line);
  else
    snprintf(text, sizeof text, "%s waits at %s while %s waits at %s", first, what, second, describe_wait(there));
  const char* const kind = here.state == State::WARP ? "divergent-warp" : here.state == State::WAITING ? "deadlock" : "divergent-barrier";
  fail_waiting(waiting, kind, text);
}

// Since Volta, barriers do not wait for threads that have ended. A `return` of threads without work, or of a whole warp
// that has finished, therefore gives only a warning. But a lane that accessed memory since the last barrier and then ended
// without reaching this one, while other lanes of its warp did, has skipped the barrier: that is an error.
void judge_ended(int waiting) {
  if (live == thread_count) return;
  int ended = -1;
  for (uint32_t t = 0; t < thread_count; ++t) {
    if (fibers[t].state != State::DONE) continue;
    bool const others_wait = warps[t / 32].present & ~warps[t / 32].ended;
    if (spec.checked && others_wait && worked_since_barrier((int)t)) explain_deadlock(waiting, (int)t);
    if (ended < 0) ended = (int)t;
  }
  char text[64];
  describe(text, sizeof text, ended);
  at_line(fibers[waiting].line, fibers[waiting].file);
  current.thread = waiting, current.stack_low = (uint8_t*)fiber_stack_low(waiting);
  at_frames(fibers[waiting].pc, fibers[waiting].frame);
  warn("divergent-barrier", "", "%s has left the kernel before this __syncthreads(), which needs every thread of the block; "
       "devices since Volta do not wait for it, older ones do", text);
  current.thread = -1;
}

// Called when no thread makes progress. Only threads of this block could change its shared memory, so waiting for it never
// ends; other memory could be changed by another block.
[[noreturn]] void explain_spin(uintptr_t address, uintptr_t pc, uintptr_t frame) {
  at_frames(pc, frame);
  bool const alone = gridDim.count() == 1;
  if (alone || emu_is_shared((const void*)address))
    fail("TIMEOUT", "deadlock", spec.checked ? name_at(address) : "",
         "threads wait in a loop for a change of %s that no thread %s makes: this never ends", alone ? "memory" : "shared memory",
         alone ? "of the launch" : clustered() ? "of the cluster" : "of the block");
  fail("UNSUPPORTED", "inter-block-wait", "",
       "threads of this block wait for something no thread of this block does; the emulator runs blocks one after "
       "another, so kernels in which blocks wait for one another cannot be executed here");
}

}  // namespace runner
