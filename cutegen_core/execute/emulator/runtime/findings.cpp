// Describes the defects that a checked run finds: the place of an access, and the access it conflicts with.
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include "cluster.h"

namespace runner {

bool write_pending;

namespace {

// The first epoch of a block, used to name the block of an earlier access.
struct BlockStart {
  uint32_t epoch;
  Index3 block;
};
BlockStart* block_starts;
size_t block_start_count, block_start_capacity;

// A write that races with another write; it is harmless if both write the same value.
struct PendingWrite {
  uint8_t old[16];
  uintptr_t address;
  size_t bytes;
  Report draft;
} pending;

const Region* nearest_shared(uintptr_t address) {
  const Region* best = nullptr;
  for (int i = 0; i < region_count; ++i) {
    const Region& region = regions[i];
    if (of_another_block(address) ? region.kind != Kind::PEER : !of_block(region.kind)) continue;
    if (region.low <= address && (!best || region.low > best->low)) best = &region;
  }
  for (int i = 0; i < region_count && !best; ++i)
    if (regions[i].kind == Kind::SHARED) best = &regions[i];
  return best;
}

Index3 block_of(uint32_t at) {
  Index3 block = {};
  for (size_t i = 0; i < block_start_count && block_starts[i].epoch <= at; ++i) block = block_starts[i].block;
  return block;
}

void describe_race(char* text, size_t size, const Region& region, uintptr_t address, Access access, const Other& other) {
  Index3 const thread = thread_coordinates(other.thread), block = block_of(other.epoch);
  long const element = (long)((address - region.low) / region.itemsize);
  const char *const name = name_of(region, address), *const unit = region.kind == Kind::DEVICE ? "byte" : "element";
  const char* const did = other.wrote ? "wrote" : "read";
  if (other.another_block)
    snprintf(text, size, "%s %s %ld of %s, which block (%u, %u, %u) %s in the same launch; blocks run in any order%s",
             verb(access), unit, element, name, block.x, block.y, block.z, did,
             any_fence() ? ". A fence orders them only with an atomic behind it that the other block reads" : "");
  else if (other.sent_by)
    snprintf(text, size, "%s %s %ld of %s, which block %u of the cluster stored or copied there, without having waited for the barrier that "
             "this reports to", verb(access), unit, element, name, other.sent_by - 1);
  else
    snprintf(text, size, "%s %s %ld of %s, which thread (%u, %u, %u) %s with no barrier in between", verb(access),
             unit, element, name, thread.x, thread.y, thread.z, did);
}

}  // namespace

void begin_findings() {
  block_start_count = 0;
}

void name_block() {
  if (block_start_count == block_start_capacity) {
    size_t const capacity = block_start_capacity ? block_start_capacity * 2 : 4096;
    void* const place = mmap(nullptr, capacity * sizeof(BlockStart), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (place == MAP_FAILED) fail("UNSUPPORTED", "memory", "", "too many blocks for the instrumented run");
    memcpy(place, block_starts, block_start_count * sizeof(BlockStart));
    block_starts = (BlockStart*)place, block_start_capacity = capacity;
  }
  block_starts[block_start_count++] = {epoch, current.block};
}

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
  fail("MEMORY_ERROR", "out-of-bounds", name, "%s %s%s out of bounds: element %ld, it has %zu element%s (%zu bytes)",
       verb(access), is_shared ? "shared variable " : "", name, element, bytes / itemsize,
       bytes == itemsize ? "" : "s", bytes);
}

[[noreturn]] void explain_stray(uintptr_t address, Access access) {
  long offset = 0;
  if (const Buffer* const buffer = buffer_near(address, &offset))
    out_of_bounds(buffer->name, offset, buffer->itemsize, buffer->bytes, false, access);
  if (emu_is_shared((void*)address) || of_another_block(address))
    if (const Region* const region = nearest_shared(address))
      out_of_bounds(region->name, (long)(address - region->low), region->itemsize, region->high - region->low, true, access);
  at_frames(access_pc, access_frame);
  for (int t = 0; t < (int)spec.launches[current.launch].block.count(); ++t)
    if (address >= fiber_stack_low(t) && address < fiber_stack_low(t) + STACK_BYTES)
      fail("MEMORY_ERROR", "out-of-bounds", "", "%s the local memory of another thread", verb(access));
  stray(address, verb(access));
}

void race(const Region& region, uintptr_t address, Access access, const Other& other) {
  if (write_pending) return;  // the next byte of the same access
  char text[512];
  describe_race(text, sizeof text, region, address, access, other);
  raise_race(region, address, access, other.wrote, text);
}

void raise_race(const Region& region, uintptr_t address, Access access, bool other_wrote, const char* text) {
  if (write_pending) return;
  at_frames(access_pc, access_frame);
  if (access == Access::WRITE && other_wrote && access_bytes <= sizeof pending.old) {
    write_pending = true;
    pending.address = access_address, pending.bytes = access_bytes;
    memcpy(pending.old, (const void*)access_address, access_bytes);
    prepare_failure(&pending.draft, "MEMORY_ERROR", "race", name_of(region, address), text);
    return;
  }
  fail("MEMORY_ERROR", "race", name_of(region, address), "%s", text);
}

const char* name_of(const Region& region, uintptr_t address) {
  return region.kind == Kind::DEVICE ? device_variable_at(address) : region.name;
}

void warn_unfenced(const Region& region, uintptr_t address) {
  at_frames(access_pc, access_frame);
  warn("missing-fence", name_of(region, address), "reads %s, which another block wrote, after an atomic without __threadfence(): "
       "a GPU may read an older value from its cache; put __threadfence() behind the atomic, or read volatile",
       name_of(region, address));
}

[[noreturn]] void stale_read(const Region& region, uintptr_t address, bool read_first) {
  at_frames(access_pc, access_frame);
  const char* const name = name_of(region, address);
  fail("MEMORY_ERROR", "read-only-load", name, "%s %s, which the same launch %s the read-only cache (__ldg, ld.global.nc): "
       "that cache is not told of writes; load it as usual", read_first ? "writes" : "reads", name,
       read_first ? "reads through" : "wrote, through");
}

void settle_pending_write() {
  if (!write_pending) return;
  write_pending = false;
  bool poisoned = true;  // NaN plus anything is NaN, so equal NaNs prove nothing
  for (size_t i = 0; i < pending.bytes; ++i) poisoned &= pending.old[i] == spec.poison;
  if (!poisoned && memcmp(pending.old, (const void*)pending.address, pending.bytes) == 0) return;
  fail_prepared(&pending.draft);
}

[[noreturn]] void missing_wait(const Region& region, const Cell& cell, uintptr_t address, Access access) {
  at_frames(access_pc, access_frame);
  Index3 const thread = thread_coordinates(cell.writer);
  fail("MEMORY_ERROR", "missing-wait", region.name,
       "%s element %ld of %s while an asynchronous copy of thread (%u, %u, %u) into it is under way, which has not waited for it%s",
       verb(access), (long)((address - region.low) / region.itemsize), region.name, thread.x, thread.y, thread.z,
       cell.writer == current.thread ? "" : "; before others touch it, that thread must wait and a barrier must follow");
}

}  // namespace runner
