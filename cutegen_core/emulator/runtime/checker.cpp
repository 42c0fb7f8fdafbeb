// Watches every load and store of a checked build; callbacks.cpp hands them over.
//
// Every word of shared memory (part of a word where smaller ones are used) and every element of a tensor has a cell that
// remembers its last writer and its last readers, with the barrier epoch and the warp stamp at which they came. Two
// accesses of different threads, one of them a write, are ordered by a block barrier between them or, within a warp, by a
// warp operation both took part in, or by barriers of parts of the block; otherwise they race. Blocks of one launch are
// never ordered.
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <initializer_list>
#include "runner.h"

extern "C" runner::Index3 threadIdx, blockIdx, blockDim, gridDim;

namespace runner {

bool write_pending;

namespace {

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

constexpr uint32_t WORD = 4;
constexpr int MAX_REGIONS = MAX_BUFFERS + 256;
Region regions[MAX_REGIONS];
int region_count, last_region, dynamic_region = -1;

uint32_t epoch, launch_epoch, block_epoch;  // barrier epochs never repeat, so cells need no clearing
uint32_t launch_number;
bool fenced;                                // some thread of this launch used a device-wide fence

// A block's first epoch, to name the block of an earlier access.
struct BlockStart {
  uint32_t epoch;
  Index3 block;
};
BlockStart* block_starts;
size_t block_start_count, block_start_capacity;

// stamps[t]: warp operations thread t took part in; seen[t][l]: the last one it shares, directly or not, with lane l.
uint32_t stamp_counter;
uint32_t stamps[MAX_THREADS];
uint32_t proxy_fences[MAX_THREADS];         // stamp of a thread's last fence.proxy.async
uint32_t last_access[MAX_THREADS];          // epoch in which thread t last touched shared or global memory
uint32_t seen[MAX_THREADS][32];

// far[t][u]: access stamps of thread u before this one happened before what t does now, by barriers of parts of the block.
bool partial;                               // the image holds such barriers
uint32_t far[MAX_THREADS][MAX_THREADS];

// A write that races with another write may still be harmless: both put the same value there.
struct PendingWrite {
  uint8_t old[16];
  uintptr_t address;
  size_t bytes;
  Report draft;
} pending;

uintptr_t access_pc, access_frame, access_address;
size_t access_bytes;

template <class T>
T* map_cells(size_t count) {
  void* const place = mmap(nullptr, count * sizeof(T) + PAGE, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (place == MAP_FAILED) refuse("UNSUPPORTED", "not enough memory for the instrumented run; use a smaller workload");
  return (T*)place;
}

// What nobody may write is never raced for, and constants are not watched: they have no cells.
void add_region(uintptr_t low, size_t bytes, Kind kind, const char* name, uint32_t granule, bool writable, size_t itemsize) {
  if (region_count == MAX_REGIONS) refuse("UNSUPPORTED", "more than %d variables to watch", MAX_REGIONS);
  size_t const count = (bytes + granule - 1) / granule;
  Cell* const cells = kind == Kind::IMAGE || !writable ? nullptr : map_cells<Cell>(count);
  Readers* const readers = cells && partial ? map_cells<Readers>(count) : nullptr;
  regions[region_count++] = {low, low + bytes, kind, writable, granule, cells, name, itemsize, readers, nullptr};
}

// Outputs and scratch hold nothing of this call until it writes there; shared, since each launch is a process.
uint8_t* map_written(const Buffer& buffer) {
  if (buffer.role == Role::INPUT || buffer.zero) return nullptr;
  void* const place = mmap(nullptr, buffer.bytes / buffer.itemsize + PAGE, PROT_READ | PROT_WRITE,
                           MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (place == MAP_FAILED) refuse("UNSUPPORTED", "not enough memory for the instrumented run; use a smaller workload");
  return (uint8_t*)place;
}

Region* find(uintptr_t address) {
  Region& last = regions[last_region];
  if (address >= last.low && address < last.high) return &last;
  for (int i = 0; i < region_count; ++i)
    if (address >= regions[i].low && address < regions[i].high) {
      last_region = i;
      return &regions[i];
    }
  return nullptr;
}

// -- what is wrong --------------------------------------------------------------------------------------------------

const char* verb(Access access) {
  switch (access) {
    case Access::READ: return "reads";
    case Access::WRITE: return "writes";
    case Access::COPY: return "copies into";
    default: return "updates";
  }
}

[[noreturn]] void out_of_bounds(const char* name, long offset, size_t itemsize, size_t bytes, bool is_shared, Access access) {
  at_frames(access_pc, access_frame);
  long const element = offset >= 0 ? offset / (long)itemsize : -((-offset + (long)itemsize - 1) / (long)itemsize);
  fail("MEMORY_ERROR", "out-of-bounds", name, "%s %s%s out of bounds: element %ld, it has %zu elements (%zu bytes)",
       verb(access), is_shared ? "shared variable " : "", name, element, bytes / itemsize, bytes);
}

const Region* nearest_shared(uintptr_t address) {
  const Region* best = nullptr;
  for (int i = 0; i < region_count; ++i) {
    const Region& region = regions[i];
    if (region.kind != Kind::SHARED && region.kind != Kind::DYNAMIC) continue;
    if (region.low <= address && (!best || region.low > best->low)) best = &region;
  }
  for (int i = 0; i < region_count && !best; ++i)
    if (regions[i].kind == Kind::SHARED) best = &regions[i];
  return best;
}

[[noreturn]] void explain_stray(uintptr_t address, Access access) {
  long offset = 0;
  if (const Buffer* const buffer = buffer_near(address, &offset))
    out_of_bounds(buffer->name, offset, buffer->itemsize, buffer->bytes, false, access);
  if (emu_is_shared((void*)address))
    if (const Region* const region = nearest_shared(address))
      out_of_bounds(region->name, (long)(address - region->low), region->itemsize, region->high - region->low, true, access);
  at_frames(access_pc, access_frame);
  for (int t = 0; t < (int)spec.launches[current.launch].block.count(); ++t)
    if (address >= fiber_stack_low(t) && address < fiber_stack_low(t) + STACK_BYTES)
      fail("MEMORY_ERROR", "out-of-bounds", "", "%s the local memory of another thread", verb(access));
  fail("MEMORY_ERROR", "out-of-bounds", "", "%s address 0x%lx, which belongs to no tensor and no variable", verb(access),
       (unsigned long)address);
}

Index3 block_of(uint32_t at) {
  Index3 block = {};
  for (size_t i = 0; i < block_start_count && block_starts[i].epoch <= at; ++i) block = block_starts[i].block;
  return block;
}

struct Other {
  bool another_block;
  uint32_t epoch;
  int thread;
  bool wrote;
};

void describe_race(char* text, size_t size, const Region& region, uintptr_t address, Access access, const Other& other) {
  Index3 const thread = thread_coordinates(other.thread), block = block_of(other.epoch);
  long const element = (long)((address - region.low) / region.itemsize);
  const char* const did = other.wrote ? "wrote" : "read";
  if (other.another_block)
    snprintf(text, size, "%s element %ld of %s, which block (%u, %u, %u) %s in the same launch; blocks run in any order",
             verb(access), element, region.name, block.x, block.y, block.z, did);
  else
    snprintf(text, size, "%s element %ld of %s, which thread (%u, %u, %u) %s with no barrier in between", verb(access),
             element, region.name, thread.x, thread.y, thread.z, did);
}

void race(const Region& region, uintptr_t address, Access access, const Other& other) {
  if (write_pending) return;  // the same access, its next byte
  char text[512];
  describe_race(text, sizeof text, region, address, access, other);
  at_frames(access_pc, access_frame);
  // Known limit: a fence and an atomic can order blocks; that order is not followed, so it is said and not judged.
  if (other.another_block && fenced)
    return warn("race-unproven", region.name, "%s; the kernel uses __threadfence(), which may order this: not judged", text);
  if (access == Access::WRITE && other.wrote && access_bytes <= sizeof pending.old) {
    write_pending = true;
    pending.address = access_address, pending.bytes = access_bytes;
    memcpy(pending.old, (const void*)access_address, access_bytes);
    prepare_failure(&pending.draft, "MEMORY_ERROR", "race", region.name, text);
    return;
  }
  fail("MEMORY_ERROR", "race", region.name, "%s", text);
}

// -- one access -----------------------------------------------------------------------------------------------------

// The earlier access by `thread` at `stamp` in this very epoch came before what the running thread does now.
bool ordered(int thread, uint32_t stamp) {
  return thread == current.thread ||
         (thread / 32 == current.thread / 32 && seen[current.thread][thread % 32] > stamp) ||
         (partial && far[current.thread][thread] > stamp);
}

// Epochs before `since` do not concern this access: another launch, or another block's shared memory.
bool conflicts_with_write(const Cell& cell, Access access, uint32_t since, Other* other) {
  if (cell.write_epoch < since) return false;
  if (cell.written_atomically && access == Access::ATOMIC) return false;
  bool const another_block = cell.write_epoch < block_epoch;
  if (!another_block && (cell.write_epoch != epoch || ordered(cell.writer, cell.write_stamp))) return false;
  *other = {another_block, cell.write_epoch, cell.writer, true};
  return true;
}

// Every warp's last reader was followed by a barrier the running thread knows of.
bool conflicts_with_readers(const Readers& readers, Other* other) {
  for (int warp = 0; warp < MAX_THREADS / 32; ++warp)
    if (readers.stamps[warp] && !ordered(readers.threads[warp], readers.stamps[warp] - 1)) {
      *other = {false, epoch, readers.threads[warp], false};
      return true;
    }
  return false;
}

bool conflicts_with_reads(const Cell& cell, const Readers* readers, uint32_t since, Other* other) {
  bool const foreign = since < block_epoch && cell.foreign_readers == launch_number;
  if (foreign || (cell.read_epoch >= since && cell.read_epoch < block_epoch)) {
    *other = {true, cell.read_epoch >= block_epoch ? launch_epoch : cell.read_epoch, 0, false};
    return true;
  }
  if (cell.read_epoch != epoch) return false;
  if (readers) return conflicts_with_readers(*readers, other);
  int const first = cell.read_warp * 32;
  for (int lane = 0; lane < 32; ++lane)
    if ((cell.read_lanes >> lane & 1) && (cell.crossed ? first + lane != current.thread : !ordered(first + lane, cell.read_stamp))) {
      *other = {false, epoch, first + lane, false};
      return true;
    }
  return false;
}

void remember_reader(Readers& readers) {
  int const warp = current.thread / 32;
  if (readers.epoch != epoch) readers = {}, readers.epoch = epoch;
  if (stamps[current.thread] + 1 < readers.stamps[warp]) return;
  readers.stamps[warp] = stamps[current.thread] + 1;
  readers.threads[warp] = (uint16_t)current.thread;
}

void remember_read(Cell& cell, Readers* readers) {
  if (readers) remember_reader(*readers);
  int const warp = current.thread / 32;
  uint32_t const lane = 1u << (current.thread % 32), stamp = stamps[current.thread];
  if (cell.read_epoch == epoch) {
    cell.crossed |= cell.read_warp != warp;
    if (cell.read_warp == warp) cell.read_lanes |= lane;
    if (stamp < cell.read_stamp) cell.read_stamp = stamp;
    return;
  }
  if (cell.read_epoch >= launch_epoch && cell.read_epoch < block_epoch) cell.foreign_readers = launch_number;
  cell.read_epoch = epoch, cell.read_stamp = stamp, cell.read_lanes = lane;
  cell.read_warp = (uint16_t)warp, cell.crossed = false;
}

void remember_write(Cell& cell, Access access) {
  cell.write_epoch = epoch, cell.write_stamp = stamps[current.thread];
  cell.writer = (uint16_t)current.thread;
  cell.written_atomically = access == Access::ATOMIC, cell.in_flight = cell.copied = access == Access::COPY;
}

[[noreturn]] void missing_wait(const Region& region, const Cell& cell, uintptr_t address, Access access) {
  at_frames(access_pc, access_frame);
  Index3 const thread = thread_coordinates(cell.writer);
  fail("MEMORY_ERROR", "missing-wait", region.name,
       "%s element %ld of %s while an asynchronous copy of thread (%u, %u, %u) into it is under way, which has not waited for it%s",
       verb(access), (long)((address - region.low) / region.itemsize), region.name, thread.x, thread.y, thread.z,
       cell.writer == current.thread ? "" : "; before others touch it, that thread must wait and a barrier must follow");
}

void visit(const Region& region, Cell& cell, Readers* readers, uintptr_t address, Access access) {
  Other other;
  if (cell.in_flight && cell.write_epoch >= block_epoch) missing_wait(region, cell, address, access);
  bool const needs_value = access == Access::READ || access == Access::ATOMIC;
  if (region.kind != Kind::TENSOR && needs_value && cell.write_epoch < block_epoch) {
    at_frames(access_pc, access_frame);
    fail("MEMORY_ERROR", "uninitialised", region.name, "%s element %ld of shared variable %s, which no thread of this block has written",
         verb(access), (long)((address - region.low) / region.itemsize), region.name);
  }
  uint32_t const since = region.kind == Kind::TENSOR ? launch_epoch : block_epoch;
  if (conflicts_with_write(cell, access, since, &other)) race(region, address, access, other);
  if (access == Access::READ) return remember_read(cell, readers);
  if (conflicts_with_reads(cell, readers, since, &other)) race(region, address, access, other);
  remember_write(cell, access);
}

template <class T>
T* spread(T* old, size_t old_count, size_t times) {
  if (!old) return nullptr;
  T* const made = map_cells<T>(old_count * times);
  for (size_t i = 0; i < old_count * times; ++i) made[i] = old[i / times];
  munmap((void*)old, old_count * sizeof(T) + PAGE);
  return made;
}

// A smaller access than all before it: every cell becomes several.
void refine(Region& region, uint32_t granule) {
  size_t const bytes = region.kind == Kind::DYNAMIC ? DYNAMIC_BYTES : region.high - region.low;
  size_t const count = (bytes + region.granule - 1) / region.granule, times = region.granule / granule;
  region.cells = spread(region.cells, count, times);
  region.readers = spread(region.readers, count, times);
  region.granule = granule;
}

// What lies in an output or in scratch before this call wrote there is another call's, or the judge's poison.
void check_written(const Region& region, uintptr_t address, size_t bytes, Access access) {
  size_t const first = (address - region.low) / region.itemsize, last = (address + bytes - 1 - region.low) / region.itemsize;
  for (size_t i = first; i <= last; ++i) {
    if (access != Access::WRITE && !region.written[i]) {
      at_frames(access_pc, access_frame);
      fail("MEMORY_ERROR", "uninitialised", region.name, "%s element %zu of %s, which nothing has written in this call",
           verb(access), i, region.name);
    }
    region.written[i] = 1;
  }
}

void check_region(Region& region, uintptr_t address, size_t bytes, Access access) {
  if (address + bytes > region.high)
    out_of_bounds(region.name, (long)(region.high - region.low), region.itemsize, region.high - region.low,
                  region.kind != Kind::TENSOR, access);
  if (access != Access::READ && !region.writable) {
    at_frames(access_pc, access_frame);
    fail("INPUT_MODIFIED", "input-modified", region.name, "writes to input %s (element %ld)", region.name,
         (long)((address - region.low) / region.itemsize));
  }
  if (region.kind != Kind::IMAGE) last_access[current.thread] = epoch;
  if (region.written) check_written(region, address, bytes, access);
  if (!region.cells) return;
  if (region.kind != Kind::TENSOR) {
    auto const all = (uint32_t)((address - region.low) | bytes | region.granule), finest = all & -all;
    if (finest < region.granule) refine(region, finest);
  }
  if (bytes < region.granule) return;
  size_t const first = (address - region.low) / region.granule, last = (address + bytes - 1 - region.low) / region.granule;
  for (size_t i = first; i <= last; ++i)
    visit(region, region.cells[i], region.readers ? region.readers + i : nullptr, region.low + i * region.granule, access);
}

}  // namespace

void settle_pending_write() {
  if (!write_pending) return;
  write_pending = false;
  bool poisoned = true;  // NaN stays NaN whatever is added: that is no agreement
  for (size_t i = 0; i < pending.bytes; ++i) poisoned &= pending.old[i] == spec.poison;
  if (!poisoned && memcmp(pending.old, (const void*)pending.address, pending.bytes) == 0) return;
  fail_prepared(&pending.draft);
}

void check_access(uintptr_t address, size_t bytes, Access access, uintptr_t pc, uintptr_t frame) {
  settle_pending_write();
  if (address - (uintptr_t)current.stack_low < STACK_BYTES || current.thread < 0) return;
  access_pc = pc, access_frame = frame;
  access_address = address, access_bytes = bytes;
  if (Region* const region = find(address)) return check_region(*region, address, bytes, access);
  explain_stray(address, access);
}

namespace {

// Named after the kernel's `extern __shared__` array, unless several kernels call it differently.
void add_dynamic_region(const EmuShared* records, size_t count) {
  const EmuShared* named = nullptr;
  for (size_t i = 0; i < count; ++i) {
    if (records[i].address) continue;
    if (named && (strcmp(named->name, records[i].name) != 0 || named->itemsize != records[i].itemsize)) {
      named = nullptr;
      break;
    }
    named = &records[i];
  }
  dynamic_region = region_count;
  add_region(DYNAMIC_BASE, DYNAMIC_BYTES, Kind::DYNAMIC, named ? named->name : "dynamic shared memory", WORD, true,
             named ? named->itemsize : 1);
}

}  // namespace

void check_alignment(uintptr_t address, size_t alignment, uintptr_t pc, uintptr_t frame) {
  if (address % alignment == 0) return;
  at_frames(pc, frame);
  const char* const name = name_at(address);
  fail("MEMORY_ERROR", "misaligned", name, "an access of %s must lie at a multiple of %zu bytes", name[0] ? name : "memory", alignment);
}

namespace {

// The text of every PTX statement is part of the image. `bar.sync 0;` is a barrier of the whole block.
bool has_partial_barriers() {
  for (const char* const word : {"mbarrier", "bar.arrive", "barrier.arrive", "barrier.sync", "bar.cta"})
    if (memmem((void*)IMAGE_BASE, image_bytes(), word, strlen(word))) return true;
  auto const* const end = (const char*)IMAGE_BASE + image_bytes();
  for (auto const* at = (const char*)IMAGE_BASE;; ++at) {
    at = (const char*)memmem(at, (size_t)(end - at), "bar.sync ", 9);
    if (!at) return false;
    at += 9;
    if (at[0] != '0' || at[1] != ';') return true;
  }
}

}  // namespace

void prepare_checker() {
  partial = has_partial_barriers();
  for (int i = 0; i < spec.buffer_count; ++i) {
    const Buffer& buffer = spec.buffers[i];
    add_region((uintptr_t)buffer.data, buffer.bytes, Kind::TENSOR, buffer.name, buffer.itemsize,
               buffer.role != Role::INPUT, buffer.itemsize);
    regions[region_count - 1].written = map_written(buffer);
  }
  size_t count = 0;
  const EmuShared* const records = shared_records(&count);
  for (size_t i = 0; i < count; ++i)
    if (records[i].address) add_region((uintptr_t)records[i].address, records[i].bytes, Kind::SHARED, records[i].name, WORD, true, records[i].itemsize);
  add_dynamic_region(records, count);
  // What the runner itself hands to a thread.
  add_region((uintptr_t)spec.launches, sizeof spec.launches, Kind::IMAGE, "arguments", 1, false, 1);
  add_region((uintptr_t)spec.descriptors, sizeof spec.descriptors, Kind::IMAGE, "tensor maps", 1, false, 1);
  for (Index3* const own : {&threadIdx, &blockIdx, &blockDim, &gridDim})
    add_region((uintptr_t)own, sizeof *own, Kind::IMAGE, "threadIdx", 1, false, 1);
  // Constants and `__device__` variables: everything of the image but its shared variables.
  uintptr_t const shared_low = (uintptr_t)shared_begin(), shared_high = shared_low + shared_bytes();
  if (shared_high == shared_low) return add_region(IMAGE_BASE, image_bytes(), Kind::IMAGE, "", 1, true, 1);
  add_region(IMAGE_BASE, shared_low - IMAGE_BASE, Kind::IMAGE, "", 1, true, 1);
  add_region(shared_high, IMAGE_BASE + image_bytes() - shared_high, Kind::IMAGE, "", 1, true, 1);
}

void checker_begin_launch() {
  ++launch_number;
  launch_epoch = ++epoch;
  fenced = false;
  block_start_count = 0;
  regions[dynamic_region].high = DYNAMIC_BASE + spec.launches[current.launch].smem_bytes;
}

void checker_begin_block() {
  block_epoch = ++epoch;
  if (block_start_count == block_start_capacity) {
    size_t const capacity = block_start_capacity ? block_start_capacity * 2 : 4096;
    void* const place = mmap(nullptr, capacity * sizeof(BlockStart), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (place == MAP_FAILED) fail("UNSUPPORTED", "memory", "", "too many blocks for the instrumented run");
    memcpy(place, block_starts, block_start_count * sizeof(BlockStart));
    block_starts = (BlockStart*)place, block_start_capacity = capacity;
  }
  block_starts[block_start_count++] = {epoch, current.block};
  memset(stamps, 0, sizeof stamps);
  memset(proxy_fences, 0, sizeof proxy_fences);
  memset(seen, 0, sizeof seen);
  auto const threads = partial ? spec.launches[current.launch].block.count() : 0;
  for (size_t t = 0; t < threads; ++t) memset(far[t], 0, sizeof far[t]);
  stamp_counter = 0;
}

void checker_barrier() { ++epoch; }

bool worked_since_barrier(int thread) { return last_access[thread] == epoch; }

void release_into(Clock& clock) {
  int const self = current.thread, first = self / 32 * 32;
  for (int t = 0; t < MAX_THREADS; ++t)
    if (far[self][t] > clock.known[t]) clock.known[t] = far[self][t];
  for (int lane = 0; lane < 32; ++lane)
    if (seen[self][lane] > clock.known[first + lane]) clock.known[first + lane] = seen[self][lane];
  clock.known[self] = ++stamp_counter;
  stamps[self] = stamp_counter;  // what comes later is not part of it
}

void note_proxy_fence() { proxy_fences[current.thread] = stamps[current.thread] = ++stamp_counter; }

// The writer has fenced since, or the running thread has.
void check_proxy(uintptr_t address, size_t bytes, uintptr_t pc, uintptr_t frame) {
  const Region* const region = find(address);
  if (!region || !region->cells || address + bytes > region->high) return;
  for (size_t i = (address - region->low) / region->granule; i <= (address + bytes - 1 - region->low) / region->granule; ++i) {
    const Cell& cell = region->cells[i];
    bool const fenced = proxy_fences[cell.writer] > cell.write_stamp || proxy_fences[current.thread] > cell.write_stamp;
    if (cell.write_epoch < block_epoch || cell.copied || fenced) continue;
    Index3 const writer = thread_coordinates(cell.writer);
    at_frames(pc, frame);
    return warn("missing-fence", region->name, "this reads %s through the async proxy, but thread (%u, %u, %u) wrote it without "
                "fence.proxy.async afterwards (tma_store_fence()): a GPU may see what was there before", region->name, writer.x,
                writer.y, writer.z);
  }
}

void acquire_for(int thread, const Clock& clock) {
  for (int t = 0; t < MAX_THREADS; ++t)
    if (clock.known[t] > far[thread][t]) far[thread][t] = clock.known[t];
}

void copy_arrived(int thread, uintptr_t address, size_t bytes) {
  const Region* const region = find(address);
  if (!spec.checked || !region || !region->cells) return;
  for (size_t i = (address - region->low) / region->granule; i <= (address + bytes - 1 - region->low) / region->granule; ++i) {
    Cell& cell = region->cells[i];
    if (!cell.in_flight || cell.writer != thread) continue;
    cell.in_flight = false;
    cell.write_epoch = epoch, cell.write_stamp = stamps[thread];
  }
}

// What one lane has acquired from a barrier, the others it meets know too.
void share_far(int first_thread, uint32_t lanes) {
  uint32_t known[MAX_THREADS] = {};
  auto const count = (int)spec.launches[current.launch].block.count();
  for (int lane = 0; lane < 32; ++lane)
    if (lanes >> lane & 1)
      for (int t = 0; t < count; ++t)
        if (far[first_thread + lane][t] > known[t]) known[t] = far[first_thread + lane][t];
  for (int lane = 0; lane < 32; ++lane)
    if (lanes >> lane & 1) memcpy(far[first_thread + lane], known, (size_t)count * sizeof *known);
}

// Every lane that took part now knows what the others knew, and that they came this far.
void checker_warp(int first_thread, uint32_t lanes) {
  uint32_t known[32] = {};
  ++stamp_counter;
  for (int lane = 0; lane < 32; ++lane)
    if (lanes >> lane & 1)
      for (int l = 0; l < 32; ++l)
        if (seen[first_thread + lane][l] > known[l]) known[l] = seen[first_thread + lane][l];
  for (int lane = 0; lane < 32; ++lane)
    if (lanes >> lane & 1) known[lane] = stamp_counter;
  for (int lane = 0; lane < 32; ++lane)
    if (lanes >> lane & 1) {
      memcpy(seen[first_thread + lane], known, sizeof known);
      stamps[first_thread + lane] = stamp_counter;
    }
  if (partial) share_far(first_thread, lanes);
}

void note_device_fence() { fenced = true; }

const char* name_at(uintptr_t address) {
  const Region* const region = find(address);
  return region ? region->name : "";
}

}  // namespace runner
