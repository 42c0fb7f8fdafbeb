// Every thread of a block is a fiber on its own small stack; this one switches between them.
#include <sys/mman.h>
#include "block.h"
#include "cluster.h"

// Saves what the System V ABI asks a callee to keep, then continues on the other stack: 28 ns, where ucontext takes 480.
asm(R"(
.text
.globl emu_switch
.type emu_switch, @function
emu_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size emu_switch, .-emu_switch
)");
extern "C" void emu_switch(void** save, void* load);

namespace runner {

Fiber fibers[MAX_THREADS];
uint64_t switches;

namespace {

constexpr size_t STACK_STRIDE = STACK_BYTES + PAGE;
// The variables of the lanes of a warp are read together: from stacks that all began at the same place of a page they
// would lie in the same few sets of the caches.
constexpr size_t STACK_SHIFT = 192;
uint8_t* stacks;
void* scheduler_pointer;

Index3 coordinates[MAX_THREADS];

void enter(int thread) {
  ++switches;
  current.thread = thread;
  current.stack_low = (uint8_t*)fiber_stack_low(thread);
  threadIdx = coordinates[thread];
}

void fiber_main() {
  current.kernel->invoke(spec.launches[current.launch].arguments);
  fibers[current.thread].state = State::DONE;
  lane_ended(current.thread);
  --live;
  leave_cluster_barrier(current.thread);
  idle_spins = 0;
  note_change();
  open_named_barriers();
  to_scheduler();
  __builtin_trap();
}

}  // namespace

// The next thread of the round continues at once: one switch instead of two.
void to_scheduler() {
  if (spec.checked) settle_pending_write();
  int const mine = current.thread, next = next_ready();
  if (next >= 0) enter(next);
  emu_switch(&fibers[mine].stack_pointer, next >= 0 ? fibers[next].stack_pointer : scheduler_pointer);
}

void start_fiber(uint32_t thread) {
  auto* const top = (uintptr_t*)(fiber_stack_low((int)thread) + STACK_BYTES - thread * STACK_SHIFT % PAGE);
  top[-1] = 0;                            // what `fiber_main` would return to: ends the chain of frames
  top[-2] = (uintptr_t)fiber_main;        // leaves the stack 16-byte aligned as after a call
  for (int saved = 3; saved <= 8; ++saved) top[-saved] = 0;
  fibers[thread] = {};
  fibers[thread].stack_pointer = top - 8;
}

void resume(int thread) {
  enter(thread);
  emu_switch(&scheduler_pointer, fibers[thread].stack_pointer);
  current.thread = -1;
}

void wait_as(State state, int line, const char* file, uintptr_t pc, uintptr_t frame) {
  Fiber& self = fibers[current.thread];
  self.state = state;
  self.line = line, self.file = file, self.pc = pc, self.frame = frame;
  self.spins = 0;
  to_scheduler();
}

uintptr_t fiber_stack_low(int thread) { return (uintptr_t)stacks + PAGE + (uintptr_t)thread * STACK_STRIDE; }

Index3 thread_coordinates(int thread) { return coordinates[thread]; }

void number_threads() {
  for (uint32_t t = 0; t < thread_count; ++t)
    coordinates[t] = {t % blockDim.x, t / blockDim.x % blockDim.y, t / (blockDim.x * blockDim.y)};
}

void prepare_fibers(uint32_t threads) {
  size_t const bytes = PAGE + threads * STACK_STRIDE;
  void* const place = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (place == MAP_FAILED) refuse("MACHINE_ERROR", "cannot reserve %zu MiB for the stacks of a block", bytes >> 20);
  stacks = (uint8_t*)place;
  for (uint32_t t = 0; t < threads; ++t) mprotect(stacks + t * STACK_STRIDE, PAGE, PROT_NONE);
}

}  // namespace runner
