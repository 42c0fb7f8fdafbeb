// Executes a grid: one block at a time, every thread of the block a fiber on its own small stack.
//
// A fiber runs until it waits (barrier, warp operation), spins or ends. When no fiber can run, either all that are left
// wait at the same barrier, and it opens, or the kernel is wrong.
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include "ptx_hopper.h"

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

extern "C" runner::Index3 threadIdx, blockIdx, blockDim, gridDim;

namespace runner {

using ptx::Together;

Current current = {-1, {}, nullptr, 0, nullptr};

namespace {

// NAMED: at a barrier of some warps; WAITING: for something that `note_change` may have brought.
// GATHER: to be told which lanes are here with it.
enum class State : uint8_t { READY, BARRIER, WARP, NAMED, WAITING, GATHER, DONE };

// A warp operation in flight: lanes hand in a value, wait for the others, take what they came for.
struct WarpOperation {
  uint32_t mask = 0;     // lanes that must come
  uint32_t arrived = 0;
  uint32_t unread = 0;   // lanes that still have to take the result; 0 and arrived == 0: free
  uint32_t bytes = 0;
  const void* identity = nullptr;  // what may join: lanes at another instruction must not
  Together act = nullptr;          // done once for all by the lane that completes it
  alignas(16) uint8_t values[32][16];
};

struct Fiber {
  void* stack_pointer;
  State state;
  int line;              // where it waits
  const char* file;
  uintptr_t pc, frame;
  int barrier_value;
  WarpOperation* operation;
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

Fiber fibers[MAX_THREADS];
Warp warps[MAX_THREADS / 32];
uint16_t pick[MAX_THREADS];
uint8_t* stacks;
void* scheduler_pointer;
uint32_t thread_count, live;
int barrier_operation;
uint64_t random_state;
uint64_t idle_spins;     // spin points since a thread last got anywhere
uint64_t changes;        // counts what WAITING threads may be waiting for
using IdleHook = bool (*)();
IdleHook idle_hooks[4];  // bring what is under way when nobody can go on; false when nothing is
constexpr int NAMED_BARRIERS = 16;
Named named[NAMED_BARRIERS];
bool named_used;         // by this block
uint32_t grid_syncs;     // barriers of the grid this block has passed
const EmuArgument* arguments;

constexpr uint32_t SPINS_PER_TURN = 64;
constexpr uint64_t HOPELESS_SPINS = 200000, NAP_SPINS = 2000;
constexpr size_t STACK_STRIDE = STACK_BYTES + PAGE;

uint32_t random_below(uint32_t limit) {
  random_state ^= random_state << 13, random_state ^= random_state >> 7, random_state ^= random_state << 17;
  return (uint32_t)(random_state % limit);
}

void order_threads() {
  for (uint32_t i = 0; i < thread_count; ++i)
    pick[i] = (uint16_t)(spec.order == Order::REVERSE ? thread_count - 1 - i : i);
  if (spec.order != Order::RANDOM) return;
  for (uint32_t i = thread_count - 1; i > 0; --i) {
    uint32_t const j = random_below(i + 1);
    uint16_t const other = pick[i];
    pick[i] = pick[j], pick[j] = other;
  }
}

void to_scheduler() {
  if (spec.checked) settle_pending_write();
  emu_switch(&fibers[current.thread].stack_pointer, scheduler_pointer);
}

// Every lane handed in the address of its call.
void act_for_all(WarpOperation& operation) {
  const ptx::Call* lanes[32] = {};
  for (int lane = 0; lane < 32; ++lane)
    if (operation.arrived >> lane & 1) memcpy(&lanes[lane], operation.values[lane], sizeof lanes[lane]);
  operation.act(lanes);
}

// Lets the lanes of a warp operation go on once all that are waited for have come. Lanes that have left the kernel, or
// never existed, are not waited for.
bool complete(int first_thread, WarpOperation& operation) {
  Warp const& warp = warps[first_thread / 32];
  uint32_t const expected = operation.mask & warp.present & ~warp.ended;
  if ((operation.arrived & expected) != expected) return false;
  operation.unread = operation.arrived;
  idle_spins = 0;
  *met = 1;
  for (int lane = 0; lane < 32; ++lane)
    if (operation.arrived >> lane & 1) fibers[first_thread + lane].state = State::READY;
  if (spec.checked) checker_warp(first_thread, operation.arrived);
  if (operation.act) act_for_all(operation);
  return true;
}

void open_named(int id);

void fiber_main() {
  current.kernel->invoke(arguments);
  Fiber& self = fibers[current.thread];
  self.state = State::DONE;
  Warp& warp = warps[current.thread / 32];
  warp.ended |= 1u << (current.thread % 32);
  for (auto& operation : warp.operations)
    if (operation.arrived && !operation.unread) complete(current.thread / 32 * 32, operation);
  --live;
  idle_spins = 0;
  note_change();
  for (int id = 0; named_used && id < NAMED_BARRIERS; ++id) open_named(id);
  to_scheduler();
  __builtin_trap();
}

void start_fiber(uint32_t thread) {
  auto* const top = (uintptr_t*)(fiber_stack_low((int)thread) + STACK_BYTES);
  top[-1] = 0;                            // what `fiber_main` would return to: ends the chain of frames
  top[-2] = (uintptr_t)fiber_main;        // leaves the stack 16-byte aligned as after a call
  for (int saved = 3; saved <= 8; ++saved) top[-saved] = 0;
  fibers[thread] = {};
  fibers[thread].stack_pointer = top - 8;
}

void resume(int thread) {
  current.thread = thread;
  current.stack_low = (uint8_t*)fiber_stack_low(thread);
  threadIdx = thread_coordinates(thread);
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

void describe(char* text, size_t size, int thread) {
  Index3 const at = thread_coordinates(thread);
  snprintf(text, size, "thread (%u, %u, %u)", at.x, at.y, at.z);
}

bool same_place(const Fiber& a, const Fiber& b) {
  bool const other_cause = a.state == State::WAITING && b.state == State::WAITING && strcmp(a.what, b.what) != 0;
  return a.line == b.line && strcmp(a.file, b.file) == 0 && !other_cause;
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

[[noreturn]] void fail_waiting(int waiting, const char* kind, const char* text) {
  Fiber const& fiber = fibers[waiting];
  current.thread = waiting;
  current.stack_low = (uint8_t*)fiber_stack_low(waiting);
  at_line(fiber.line, fiber.file);
  at_frames(fiber.pc, fiber.frame);
  fail("MEMORY_ERROR", kind, "", "%s", text);
}

// Nobody can run and not everybody waits at one barrier.
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

// One thread that waits elsewhere than `thread` does; -1 when all that are left wait at the same barrier.
int dissenter(int thread) {
  for (uint32_t t = 0; t < thread_count; ++t) {
    if (fibers[t].state == State::DONE) continue;
    if (fibers[t].state != fibers[thread].state || !same_place(fibers[t], fibers[thread])) return (int)t;
  }
  return -1;
}

// Since Volta a thread that has ended is not waited for, so the `return` of threads without work, or of a whole warp that
// has done its part, is said and not judged. A lane that worked since the last barrier and then left without coming to
// this one, while others of its warp came, has skipped it, which is judged.
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
  if (spec.checked) checker_barrier();
}

// Opens a named barrier once all it waits for have come.
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

void begin_block(Index3 block) {
  current.block = block;
  blockIdx = block;
  memset(shared_begin(), 0xFF, shared_bytes());
  memset((void*)DYNAMIC_BASE, 0xFF, DYNAMIC_BYTES < emu_dynamic_smem_bytes() + 256 ? DYNAMIC_BYTES : emu_dynamic_smem_bytes() + 256);
  live = thread_count;
  idle_spins = 0;
  if (named_used) memset(named, 0, sizeof named);
  named_used = false;
  grid_syncs = 0;
  for (uint32_t t = 0; t < thread_count; ++t) start_fiber(t);
  for (uint32_t w = 0; w < (thread_count + 31) / 32; ++w) {
    uint32_t const lanes = thread_count - w * 32;
    warps[w].ended = 0;  // its operations are free again: a block ends only when nobody waits
    warps[w].present = lanes >= 32 ? ~0u : (1u << lanes) - 1;
  }
  order_threads();
  if (spec.checked) checker_begin_block();
  ptx::begin_block();
  ptx::hopper::begin_block();
}

// Lanes that ask for the active mask learn of one another once none of the block can go on, or the whole warp is there.
bool tell_lanes(uint32_t warp, bool everybody_only) {
  Fiber* const lanes = fibers + warp * 32;
  uint32_t const there = warps[warp].present & ~warps[warp].ended;
  bool told = false;
  for (int lane = 0; lane < 32; ++lane) {
    if (!(there >> lane & 1) || lanes[lane].state != State::GATHER) continue;
    uint32_t same = 0;
    for (int l = 0; l < 32; ++l)
      if ((there >> l & 1) && lanes[l].state == State::GATHER && same_place(lanes[l], lanes[lane]) &&
          (lanes[lane].line || lanes[l].pc == lanes[lane].pc))
        same |= 1u << l;
    if (everybody_only && same != there) return false;
    for (int l = 0; l < 32; ++l)
      if (same >> l & 1) lanes[l].state = State::READY, lanes[l].barrier_value = (int)same;
    told = true;
  }
  return told;
}

bool tell_all_lanes() {
  bool told = false;
  for (uint32_t w = 0; w < (thread_count + 31) / 32; ++w) told |= tell_lanes(w, false);
  return told;
}

bool brought_something() {
  if (tell_all_lanes()) return true;
  for (IdleHook hook : idle_hooks)
    if (hook && hook()) return true;
  return false;
}

void run_block(Index3 block) {
  begin_block(block);
  while (live) {
    bool moved = false;
    for (uint32_t i = 0; i < thread_count; ++i) {
      Fiber& fiber = fibers[pick[i]];
      if (fiber.state == State::WAITING && fiber.seen_changes != changes) fiber.state = State::READY;
      if (fiber.state != State::READY) continue;
      resume(pick[i]);
      moved = true;
    }
    if (!moved && !brought_something()) open_barrier();
  }
  ptx::hopper::end_block();
}

}  // namespace

uintptr_t fiber_stack_low(int thread) { return (uintptr_t)stacks + PAGE + (uintptr_t)thread * STACK_STRIDE; }

Index3 thread_coordinates(int thread) {
  auto const t = (uint32_t)thread;
  return {t % blockDim.x, t / blockDim.x % blockDim.y, t / (blockDim.x * blockDim.y)};
}

void prepare_fibers(uint32_t threads) {
  size_t const bytes = PAGE + threads * STACK_STRIDE;
  void* const place = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (place == MAP_FAILED) refuse("MACHINE_ERROR", "cannot reserve %zu MiB for the stacks of a block", bytes >> 20);
  stacks = (uint8_t*)place;
  for (uint32_t t = 0; t < threads; ++t) mprotect(stacks + t * STACK_STRIDE, PAGE, PROT_NONE);
}

// Blocks are dealt out like cards, or each to a process of its own (a cooperative launch); with one worker they run in the chosen order.
void run_launch(int index, uint32_t worker, uint32_t workers) {
  Launch const& launch = spec.launches[index];
  size_t count = 0;
  current.launch = index;
  current.kernel = &kernels(&count)[launch.kernel];
  arguments = launch.arguments;
  gridDim = launch.grid, blockDim = launch.block;
  thread_count = (uint32_t)launch.block.count();
  random_state = spec.seed * 0x9E3779B97F4A7C15u + 88172645463325252u + (uint64_t)index;
  if (spec.checked) checker_begin_launch();
  uint64_t const blocks = launch.grid.count();
  for (uint64_t i = worker; i < blocks && !*stop; i += workers) {
    uint64_t const b = spec.order == Order::FORWARD ? i : blocks - 1 - i;
    run_block({(uint32_t)(b % launch.grid.x), (uint32_t)(b / launch.grid.x % launch.grid.y),
               (uint32_t)(b / launch.grid.x / launch.grid.y)});
  }
}

void note_change() { ++changes; }
void when_idle(bool (*hook)()) {
  for (IdleHook& known : idle_hooks) {
    if (known && known != hook) continue;
    known = hook;
    return;
  }
}

void wait_for_change(const char* what, uintptr_t pc, uintptr_t frame) {
  Fiber& self = fibers[current.thread];
  self.what = what, self.seen_changes = changes;
  *met = 1;
  wait_as(State::WAITING, 0, "", pc, frame);
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
  // As if it waited already: the last to come opens the barrier for itself too.
  self.state = State::NAMED;
  self.line = 0, self.file = "", self.pc = pc, self.frame = frame;
  open_named(id);
  if (self.state == State::NAMED) wait_as(State::NAMED, 0, "", pc, frame);
}

uint32_t active_mask_at(int line, const char* file, uintptr_t pc, uintptr_t frame) {
  Fiber& self = fibers[current.thread];
  self.state = State::GATHER;
  self.line = line, self.file = file, self.pc = pc;
  *met = 1;
  if (!tell_lanes((uint32_t)current.thread / 32, true)) wait_as(State::GATHER, line, file, pc, frame);
  return (uint32_t)self.barrier_value;
}

void got_somewhere() { idle_spins = 0; }

namespace {

// Nobody gets anywhere. What a thread of this block could still change is shared memory; what another block could is not.
[[noreturn]] void explain_spin(uintptr_t address) {
  at_frames(EMU_CALLER, *(uintptr_t*)EMU_FRAME);
  bool const alone = gridDim.count() == 1;
  if (alone || emu_is_shared((const void*)address))
    fail("TIMEOUT", "deadlock", spec.checked ? name_at(address) : "",
         "threads wait in a loop for a change of %s that no thread %s makes: this never ends", alone ? "memory" : "shared memory",
         alone ? "of the launch" : "of the block");
  fail("UNSUPPORTED", "inter-block-wait", "",
       "threads of this block wait for something no thread of this block does; the emulator runs blocks one after "
       "another, so kernels in which blocks wait for one another cannot be executed here");
}

}  // namespace

// Lets the others run where a thread may be waiting for them (atomics, volatile reads), and gives up when nobody gets
// anywhere. A thread's own variables are nobody else's to change.
void spin_point(uintptr_t address) {
  if (current.thread < 0 || address - (uintptr_t)current.stack_low < STACK_BYTES) return;
  if (++fibers[current.thread].spins % SPINS_PER_TURN != 0) return;
  if (++idle_spins > NAP_SPINS && emu_is_cooperative()) nap();
  else if (idle_spins > HOPELESS_SPINS) explain_spin(address);
  to_scheduler();
}

namespace {

// Joins the operation the other lanes of `mask` are in, or opens one; returns once all have come.
WarpOperation* join(uint32_t mask, const void* mine, uint32_t bytes, int line, const char* file, uintptr_t pc,
                    uintptr_t frame, const void* identity = nullptr, Together act = nullptr) {
  Warp& warp = warps[current.thread / 32];
  uint32_t const self = 1u << (current.thread % 32);
  if (!(mask & self)) {
    at_line(line, file);
    at_frames(pc, frame);
    fail("MEMORY_ERROR", "divergent-warp", "", "the mask 0x%08x does not name the calling lane %d", mask,
         current.thread % 32);
  }
  WarpOperation* found = nullptr;
  for (auto& candidate : warp.operations) {
    bool const open = candidate.arrived && candidate.unread == 0 && candidate.mask == mask && candidate.identity == identity &&
                      !(candidate.arrived & self);
    if (open) { found = &candidate; break; }
    if (!found && !candidate.arrived && !candidate.unread) found = &candidate;
  }
  found->mask = mask;
  found->arrived |= self;
  found->bytes = bytes;
  found->identity = identity, found->act = act;
  memcpy(found->values[current.thread % 32], mine, bytes);
  fibers[current.thread].operation = found;
  if (!complete(current.thread / 32 * 32, *found)) wait_as(State::WARP, line, file, pc, frame);
  return found;
}

void leave(WarpOperation* operation) {
  operation->unread &= ~(1u << (current.thread % 32));
  if (!operation->unread) operation->arrived = 0;
}

}  // namespace

void ptx::warp_together(const Call& call, uint32_t mask, Together act) {
  const Call* const mine = &call;
  leave(join(mask, &mine, sizeof mine, 0, "", call.pc, call.frame, call.at, act));
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

void emu_warp_sync(uint32_t mask, int line, const char* file) {
  leave(join(mask, "", 1, line, file, EMU_CALLER, EMU_FRAME));
}

void emu_warp_exchange(uint32_t mask, const void* mine, void* result, uint32_t bytes, int source, int line,
                       const char* file) {
  WarpOperation* const operation = join(mask, mine, bytes, line, file, EMU_CALLER, EMU_FRAME);
  bool const there = source >= 0 && source < 32 && (operation->arrived >> source & 1);
  if (there) memcpy(result, operation->values[source], bytes);
  else memset(result, 0xFF, bytes);
  leave(operation);
}

uint32_t emu_warp_gather(uint32_t mask, const void* mine, void* all, uint32_t bytes, int line, const char* file) {
  WarpOperation* const operation = join(mask, mine, bytes, line, file, EMU_CALLER, EMU_FRAME);
  for (int lane = 0; lane < 32; ++lane) memcpy((uint8_t*)all + lane * bytes, operation->values[lane], bytes);
  uint32_t const there = operation->arrived;
  leave(operation);
  return there;
}

uint32_t emu_active_mask(int line, const char* file) { return active_mask_at(line, file, EMU_CALLER, EMU_FRAME); }

int emu_is_cooperative() { return spec.launches[current.launch].cooperative; }

void emu_grid_sync(int line, const char* file) {
  if (!emu_is_cooperative()) {
    at_line(line, file);
    at_frames(EMU_CALLER, EMU_FRAME);
    fail("RUNTIME_ERROR", "grid-sync", "", "grid.sync() in a launch that is not cooperative; set `cooperative = true` in the plan");
  }
  wait_as(State::BARRIER, line, file, EMU_CALLER, EMU_FRAME);
  // The first thread to go on waits for the other blocks in the name of all.
  if (fibers[current.thread].grid_syncs++ == grid_syncs) {
    at_line(line, file);
    at_frames(EMU_CALLER, EMU_FRAME);
    ++grid_syncs;
    if (spec.checked)
      warn("race-unproven", "", "blocks of a cooperative launch are watched one by one: races between them are not judged");
    wait_for_grid();
  }
}

uint32_t emu_dynamic_smem_bytes() { return spec.launches[current.launch].smem_bytes; }
uint64_t emu_clock() { return __builtin_ia32_rdtsc(); }

size_t emu_generic_to_shared(const void* address) { return (uintptr_t)address - SHARED_BASE; }
void* emu_shared_to_generic(size_t offset) { return (void*)(SHARED_BASE + (uint32_t)offset); }
int emu_is_shared(const void* address) {
  auto const a = (uintptr_t)address;
  return (a >= (uintptr_t)shared_begin() && a < (uintptr_t)shared_begin() + shared_bytes()) ||
         (a >= DYNAMIC_BASE && a < DYNAMIC_BASE + DYNAMIC_BYTES);
}
int emu_is_global(const void* address) {
  long offset;
  return buffer_near((uintptr_t)address, &offset) != nullptr;
}

}  // extern "C"
