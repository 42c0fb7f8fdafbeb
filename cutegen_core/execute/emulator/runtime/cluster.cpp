// Clusters: every block of a cluster is a process of its own, so that all of them are there at once. A process takes the
// blocks of one rank, cluster after cluster.
//
// A block's shared memory is a part of one file. It is mapped where the block itself finds it, and at the window of its
// rank in the processes of the others.
#include "cluster.h"
#include <errno.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#include <initializer_list>

namespace runner {

Cluster* cluster;
Meeting* meeting;

namespace {

constexpr uintptr_t WINDOWS = SHARED_BASE + 0x90000000, WINDOW_BYTES = 16 << 20;
int parts = -1;  // the file
uint32_t rank_here, number_here;

uintptr_t static_low() { return (uintptr_t)shared_begin() / PAGE * PAGE; }
size_t static_bytes() {
  return shared_bytes() ? ((uintptr_t)shared_begin() + shared_bytes() + PAGE - 1) / PAGE * PAGE - static_low() : 0;
}

void map_part(uintptr_t at, size_t bytes, size_t offset) {
  if (bytes && mmap((void*)at, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, parts, (off_t)offset) == MAP_FAILED)
    fail("MACHINE_ERROR", "memory", "", "cannot map the shared memory of a cluster (errno %d)", errno);
}

uint32_t value_of(uint32_t* word) { return __atomic_load_n(word, __ATOMIC_SEQ_CST); }

// A moment at most: another block may have failed.
void sleep_on(uint32_t* word, uint32_t old) {
  if (*stop) _exit(1);
  timespec const moment = {0, 200000000};
  syscall(SYS_futex, word, FUTEX_WAIT, old, &moment, nullptr, 0);
}

bool can_run(uint32_t rank) {
  Awaited const &awaited = cluster->awaited[rank], &also = cluster->also_awaited[rank];
  auto const unchanged = [](Awaited const& one) { return value_of(one.word) == one.old; };
  return !awaited.word || !unchanged(awaited) || (also.word && !unchanged(also));
}

void give_turn(uint32_t rank) {
  __atomic_store_n(&cluster->turn, rank, __ATOMIC_SEQ_CST);
  tell_others(&cluster->begun[rank], cluster->begun[rank] + 1);
}

// To the next block that has something to do.
void pass_turn() {
  uint32_t const step = spec.order == Order::FORWARD ? 1 : cluster->blocks - 1;
  uint32_t next = (rank_here + step) % cluster->blocks;
  for (uint32_t tried = 1; tried < cluster->blocks; ++tried, next = (next + step) % cluster->blocks) {
    if (can_run(next)) break;
  }
  if (next != rank_here) give_turn(next);
}

void take_turn() {
  for (uint32_t turns = value_of(&cluster->begun[rank_here]); value_of(&cluster->turn) != rank_here; turns = value_of(&cluster->begun[rank_here]))
    sleep_on(&cluster->begun[rank_here], turns);
}

// No block has anything to do: one that waits at a barrier of its own says what for.
void give_up() {
  for (uint32_t rank = 0; rank < cluster->blocks; ++rank)
    if (cluster->awaited[rank].word == &cluster->remote[rank].sent) {
      cluster->stuck = 1;
      if (rank != rank_here) give_turn(rank), take_turn();
      return;
    }
  nap();
}

void note_awaited(Awaited const& awaited, Awaited const& also = {}) {
  lock_cluster();
  cluster->awaited[rank_here] = awaited, cluster->also_awaited[rank_here] = also;
  unlock_cluster();
}

bool any_can_run() {
  lock_cluster();
  bool any = false;
  for (uint32_t rank = 0; rank < cluster->blocks; ++rank) any |= can_run(rank);
  unlock_cluster();
  return any;
}

}  // namespace

uintptr_t address_in(uint32_t rank, size_t offset) {
  return rank == rank_here ? own_address(offset) : window_of(rank) + offset;
}

uintptr_t own_address(size_t offset) {
  return offset < DYNAMIC_BYTES ? DYNAMIC_BASE + offset : static_low() + (offset - DYNAMIC_BYTES);
}

void tell_others(uint32_t* word, uint32_t value) {
  __atomic_store_n(word, value, __ATOMIC_SEQ_CST);
  syscall(SYS_futex, word, FUTEX_WAKE, MAX_CLUSTER, nullptr, nullptr, 0);
}

void lock_cluster() {
  while (__atomic_exchange_n(&cluster->locked, 1, __ATOMIC_SEQ_CST)) {
    if (*stop) _exit(1);
    nap();
  }
}
void unlock_cluster() { __atomic_store_n(&cluster->locked, 0, __ATOMIC_SEQ_CST); }

uint32_t most_blocks() {
  uint32_t most = 1;
  for (int l = 0; l < spec.launch_count; ++l)
    if (spec.launches[l].cluster.count() > most) most = (uint32_t)spec.launches[l].cluster.count();
  return most;
}

uintptr_t window_of(uint32_t rank) { return WINDOWS + rank * WINDOW_BYTES; }
bool of_another_block(uintptr_t address) { return address >= WINDOWS && address < window_of(MAX_CLUSTER); }
uint32_t cluster_rank() { return rank_here; }
uint32_t cluster_number() { return number_here; }
size_t part_bytes() { return DYNAMIC_BYTES + static_bytes(); }
size_t static_offset() { return DYNAMIC_BYTES + ((uintptr_t)shared_begin() - static_low()); }

void prepare_clusters() {
  parts = memfd_create("shared memory of a cluster", MFD_CLOEXEC);
  if (parts < 0 || ftruncate(parts, (off_t)(most_blocks() * part_bytes())) != 0)
    refuse("MACHINE_ERROR", "cannot make the shared memory of a cluster (errno %d)", errno);
  if (spec.checked) prepare_marks();
}

void begin_clusters(Launch const& launch) {
  cluster->blocks = (uint32_t)launch.cluster.count();
  cluster->locked = cluster->fenced = cluster->stuck = 0;
  for (Meeting& one : cluster->meetings) one.arrived = one.ended = one.over = 0;
  for (int rank = 0; rank < MAX_CLUSTER; ++rank) {
    cluster->left[rank] = 0, cluster->awaited[rank] = cluster->also_awaited[rank] = {};
    cluster->remote[rank].sent = cluster->remote[rank].looked_at = cluster->remote[rank].count = 0;
  }
  cluster->first = ++cluster->meetings[0].phase;
  cluster->turn = spec.order == Order::FORWARD ? 0 : cluster->blocks - 1;
}

void join_cluster(uint32_t rank) {
  rank_here = rank;
  size_t const offset = rank * part_bytes();
  // What else lies in the pages of the static variables comes along.
  if (static_bytes() && pwrite(parts, (void*)static_low(), static_bytes(), (off_t)(offset + DYNAMIC_BYTES)) != (ssize_t)static_bytes())
    fail("MACHINE_ERROR", "memory", "", "cannot write the shared memory of a cluster (errno %d)", errno);
  map_part(DYNAMIC_BASE, DYNAMIC_BYTES, offset);
  map_part(static_low(), static_bytes(), offset + DYNAMIC_BYTES);
  for (uint32_t r = 0; r < cluster->blocks; ++r)
    if (r != rank) map_part(window_of(r), part_bytes(), r * part_bytes());
  close(parts);
  if (spec.checked) take_turn();
}

SharedByte shared_byte(uintptr_t address) {
  if (of_another_block(address)) {
    uintptr_t const at = address - WINDOWS;
    return {(int)(at / WINDOW_BYTES), at % WINDOW_BYTES};
  }
  if (address >= DYNAMIC_BASE && address < DYNAMIC_BASE + DYNAMIC_BYTES) return {(int)rank_here, address - DYNAMIC_BASE};
  auto const low = (uintptr_t)shared_begin();
  bool const own = address >= low && address < low + shared_bytes();
  return own ? SharedByte{(int)rank_here, static_offset() + (address - low)} : SharedByte{-1, 0};
}

Index3 rank_coordinates() {
  Index3 const& c = spec.launches[current.launch].cluster;
  return {rank_here % c.x, rank_here / c.x % c.y, rank_here / (c.x * c.y)};
}

void wait_past(uint32_t* word, uint32_t old) {
  note_awaited({word, old});
  if (!spec.checked) {
    sleep_on(word, old);
    return note_awaited({});
  }
  pass_turn();
  take_turn();
  note_awaited({});
  if (value_of(&cluster->turn) == rank_here && value_of(word) == old) give_up();
}

bool wait_for_remote(RemoteOperations& operations) {
  auto const there = [&] { return value_of(&operations.sent) != operations.looked_at || cluster_barrier_opened(); };
  bool const also = waits_at_cluster_barrier();
  note_awaited({&operations.sent, operations.looked_at}, also ? Awaited{&meeting->phase, value_of(&meeting->phase)} : Awaited{});
  if (spec.checked) {
    pass_turn();
    take_turn();
  }
  while (!spec.checked && !there() && any_can_run()) {
    if (also) nap();
    else sleep_on(&operations.sent, operations.looked_at);
  }
  note_awaited({});
  return there() && !cluster->stuck;
}

void let_others_run() {
  if (spec.checked) return pass_turn(), take_turn();
  nap();
}

// A barrier does not wait for blocks that have ended.
void meet(uint32_t Meeting::*count) {
  lock_cluster();
  ++(meeting->*count);
  bool const opens = meeting->arrived + meeting->ended == cluster->blocks, ends = meeting->ended == cluster->blocks;
  if (opens) meeting->arrived = 0;
  if (ends) meeting->ended = 0;
  if (opens) tell_others(&meeting->phase, meeting->phase + 1);
  if (ends) tell_others(&meeting->over, meeting->over + 1);
  unlock_cluster();
}

void enter_cluster(uint32_t number) {
  uint32_t const ahead = spec.checked ? 1 : MOST_AHEAD;
  number_here = number;
  meeting = &cluster->meetings[number % ahead];
  for (uint32_t over = value_of(&meeting->over); over != number / ahead; over = value_of(&meeting->over)) wait_past(&meeting->over, over);
}

void leave_cluster() {
  if (spec.checked) check_leaving();
  meet(&Meeting::ended);
}

void end_clusters() {
  cluster->awaited[rank_here] = {&cluster->blocks, cluster->blocks};  // nothing is left to do
  if (spec.checked) pass_turn();
}

}  // namespace runner

using namespace runner;

extern "C" {

uint32_t emu_cluster_rank() { return cluster_rank(); }
void emu_cluster_shape(uint32_t* xyz) {
  Index3 const& c = spec.launches[current.launch].cluster;
  xyz[0] = c.x, xyz[1] = c.y, xyz[2] = c.z;
}

void* emu_map_shared(const void* address, uint32_t rank) {
  uint64_t const blocks = spec.launches[current.launch].cluster.count();
  SharedByte const byte = shared_byte((uintptr_t)address);
  if (rank >= blocks || byte.rank < 0) at_frames(EMU_CALLER, EMU_FRAME);
  if (rank >= blocks)
    fail("MEMORY_ERROR", "out-of-bounds", "", "maps shared memory of block %u of its cluster, which has %lu block%s", rank, blocks,
         blocks == 1 ? "" : "s");
  if (byte.rank < 0) fail("MEMORY_ERROR", "out-of-bounds", "", "maps an address that is not in shared memory to block %u of the cluster", rank);
  return (void*)address_in(rank, byte.offset);
}

uint32_t emu_shared_rank(const void* address) {
  SharedByte const byte = shared_byte((uintptr_t)address);
  return byte.rank < 0 ? cluster_rank() : (uint32_t)byte.rank;
}

}  // extern "C"
