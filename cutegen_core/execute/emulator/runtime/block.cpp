// Executes a grid, one block at a time; each thread of the block is a fiber.
//
// A fiber runs until it waits (barrier, warp operation), spins or ends. When no fiber can run, either all remaining
// fibers wait at the same barrier, which then opens, or the kernel is wrong.
#include "block.h"
#include <string.h>
#include "cluster.h"
#include "ptx_hopper.h"

namespace runner {

Current current = {-1, {}, nullptr, 0, nullptr};
uint32_t thread_count, live;
uint64_t idle_spins, changes;
bool lanes_met;

namespace {

uint16_t pick[MAX_THREADS];  // threads in scheduling order
uint32_t next_pick;          // of this round
uint32_t stays;              // times in a row that this round came back to the same warp
uint64_t random_state;
using IdleHook = bool (*)();
IdleHook idle_hooks[4];      // complete pending copies when no thread can run; false if there are none

constexpr uint8_t FILLED = 0xFF;
constexpr uint32_t SPINS_PER_TURN = 64, STAYS_AT_MOST = 256;
constexpr uint64_t HOPELESS_SPINS = 200000, NAP_SPINS = 2000;

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

// Bytes behind dynamic shared memory that are filled like it, so that reads of them show, and looked at, for writes.
uint32_t bytes_behind() {
  constexpr uint32_t MOST = 256;
  uint32_t const left = (uint32_t)DYNAMIC_BYTES - emu_dynamic_smem_bytes();
  return left < MOST ? left : MOST;
}

// In the instrumented build each access is checked; here is what shows of a write behind the end at any size.
void check_behind_dynamic() {
  uint32_t const size = emu_dynamic_smem_bytes(), behind = bytes_behind();
  auto const* const end = (const uint8_t*)DYNAMIC_BASE + size;
  for (uint32_t i = 0; i < behind; ++i)
    if (end[i] != FILLED)
      fail("MEMORY_ERROR", "out-of-bounds", "", "a thread of this block wrote byte %u of dynamic shared memory, of which the launch has %u",
           size + i, size);
}

void begin_block(Index3 block) {
  current.block = block;
  blockIdx = block;
  memset(shared_begin(), FILLED, shared_bytes());
  memset((void*)DYNAMIC_BASE, FILLED, emu_dynamic_smem_bytes() + bytes_behind());
  live = thread_count;
  idle_spins = 0;
  begin_barriers();
  begin_cluster_block();
  for (uint32_t t = 0; t < thread_count; ++t) start_fiber(t);
  begin_warps();
  order_threads();
  if (spec.checked) checker_begin_block();
  ptx::begin_block();
  ptx::hopper::begin_block();
}

bool brought_something() {
  if (tell_all_lanes()) return true;
  for (IdleHook hook : idle_hooks)
    if (hook && hook()) return true;
  return ptx::hopper::ask_others() || open_cluster_barrier();
}

void run_block(Index3 block) {
  begin_block(block);
  while (live) {
    next_pick = 0;
    int const first = next_ready();
    if (first >= 0) resume(first);  // returns at the end of the round
    else if (!brought_something()) open_barrier();
  }
  ptx::hopper::end_block();
  check_behind_dynamic();
  if (spec.checked) banks_end_block();
}

// The blocks of this worker's rank, one of each cluster.
void run_clusters(Launch const& launch) {
  Index3 const &c = launch.cluster, rank = rank_coordinates();
  Index3 const across = {launch.grid.x / c.x, launch.grid.y / c.y, launch.grid.z / c.z};
  uint64_t const clusters = across.count();
  for (uint64_t i = 0; i < clusters && !*stop; ++i) {
    uint64_t const n = spec.order == Order::FORWARD ? i : clusters - 1 - i;
    enter_cluster((uint32_t)i);
    run_block({(uint32_t)(n % across.x) * c.x + rank.x, (uint32_t)(n / across.x % across.y) * c.y + rank.y,
               (uint32_t)(n / across.x / across.y) * c.z + rank.z});
    leave_cluster();
  }
  end_clusters();
}

}  // namespace

// Assigns blocks to workers round-robin, or each to its own process in a cooperative launch; a single worker runs them
// in the chosen order.
void run_launch(int index, uint32_t worker, uint32_t workers) {
  Launch const& launch = spec.launches[index];
  size_t count = 0;
  current.launch = index;
  current.kernel = &kernels(&count)[launch.kernel];
  gridDim = launch.grid, blockDim = launch.block;
  thread_count = (uint32_t)launch.block.count();
  number_threads();
  random_state = spec.seed * 0x9E3779B97F4A7C15u + 88172645463325252u + (uint64_t)index;
  if (spec.checked) checker_begin_launch();
  if (launch.clustered()) return run_clusters(launch);
  uint64_t const blocks = launch.grid.count();
  for (uint64_t i = worker; i < blocks && !*stop; i += workers) {
    uint64_t const b = spec.order == Order::FORWARD ? i : blocks - 1 - i;
    run_block({(uint32_t)(b % launch.grid.x), (uint32_t)(b / launch.grid.x % launch.grid.y),
               (uint32_t)(b / launch.grid.x / launch.grid.y)});
  }
}

// A warp whose lanes have met goes on before the next one: its variables are in the caches. Not for ever: a loop may
// wait for another warp.
bool stay_at_warp() {
  bool const stay = lanes_met && spec.order != Order::RANDOM && next_pick % 32 == 0 && next_pick && stays < STAYS_AT_MOST;
  if (next_pick % 32 == 0) {
    lanes_met = false;
    stays = stay ? stays + 1 : 0;
  }
  return stay;
}

int next_ready() {
  while (true) {
    if (stay_at_warp()) next_pick -= 32;
    if (next_pick == thread_count) return -1;
    int const thread = pick[next_pick++];
    Fiber& fiber = fibers[thread];
    if (fiber.state == State::WAITING && fiber.seen_changes != changes) fiber.state = State::READY;
    if (fiber.state == State::READY) return thread;
  }
}

void note_change() { ++changes; }

void got_somewhere() { idle_spins = 0; }

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

// Lets other threads run at a point where this thread may be waiting for them (an atomic or a volatile read), and fails
// when no thread makes progress. Other threads cannot change a thread's own variables, so those are skipped.
void spin_point(uintptr_t address) {
  if (current.thread < 0 || address - (uintptr_t)current.stack_low < STACK_BYTES) return;
  if (++fibers[current.thread].spins % SPINS_PER_TURN != 0) return;
  if (++idle_spins > NAP_SPINS && clustered() && idle_spins < HOPELESS_SPINS / 2) let_others_run();
  else if (idle_spins > NAP_SPINS && emu_is_cooperative()) nap();
  else if (idle_spins > HOPELESS_SPINS) explain_spin(address, EMU_CALLER, *(uintptr_t*)EMU_FRAME);
  to_scheduler();
}

}  // namespace runner

using namespace runner;

extern "C" {

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
