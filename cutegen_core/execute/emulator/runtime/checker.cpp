// Checks every load and store of a checked build; callbacks.cpp calls it.
#include <stdio.h>
#include <string.h>
#include "cluster.h"

namespace runner {

uintptr_t access_pc, access_frame, access_address;
size_t access_bytes;
uint32_t epoch, launch_epoch, block_epoch;
bool strong_access, proxy_access;

namespace {

uint32_t launch_number;
bool unfenced;                      // the access being checked is ordered by an acquire without a fence
uint32_t last_access[MAX_THREADS];  // epoch in which thread t last touched shared or global memory

// Whether the reads of an earlier block are ordered before the running thread; of several lanes the earliest is remembered.
bool known_reads(const Cell& cell) {
  bool ignored = false;
  for (int lane = 0; lane < 32; ++lane)
    if ((cell.read_lanes >> lane & 1) && !known_from_block(cell.read_epoch, cell.read_warp * 32 + lane, cell.read_stamp, &ignored))
      return false;
  return !cell.crossed || known_from_block(cell.read_epoch, -1, 0, &ignored);
}

// Volatile and relaxed accesses of global memory do not race: a flag may be polled. Of shared memory they do within a block:
// there they are what stands where a barrier is missing.
// Ignores epochs before `since`: they belong to another launch, or to another block's shared memory.
bool conflicts_with_write(const Region& region, const Cell& cell, Access access, uint32_t since, Other* other) {
  if (cell.write_epoch < since) return false;
  if (cell.written_atomically && access == Access::ATOMIC) return false;
  bool const another_block = cell.write_epoch < block_epoch;
  bool const polls = access == Access::ATOMIC || (strong_access && access == Access::READ);
  if ((another_block || !of_block(region.kind)) && polls && cell.written_strongly) return false;
  if (another_block && known_from_block(cell.write_epoch, cell.writer, cell.write_stamp, &unfenced)) return false;
  if (another_block && cell.written_atomically && touched_atomically(access_address)) return false;
  if (!another_block && (cell.write_epoch != epoch || ordered(cell.writer, cell.write_stamp))) return false;
  *other = {another_block, cell.write_epoch, cell.writer, true, cell.sent_by};
  return true;
}

// Finds a warp whose last read is not ordered before the running thread by a barrier.
bool conflicts_with_readers(const Readers& readers, Other* other) {
  for (int warp = 0; warp < MAX_THREADS / 32; ++warp)
    if (readers.stamps[warp] && !ordered(readers.threads[warp], readers.stamps[warp] - 1)) {
      *other = {false, epoch, readers.threads[warp], false};
      return true;
    }
  return false;
}

bool conflicts_with_reads(
    const Region& region, const Cell& cell, const Readers* readers, Access access, uint32_t since, Other* other) {
  bool const foreign = since < block_epoch && cell.foreign_readers == launch_number;
  bool const another_block = cell.read_epoch >= since && cell.read_epoch < block_epoch;
  bool const is_polled = (strong_access || access == Access::ATOMIC) && cell.read_strongly;
  if (another_block && (is_polled || (!foreign && known_reads(cell)))) return false;
  if (cell.read_epoch == epoch && is_polled && !foreign && !of_block(region.kind)) return false;
  if (foreign || another_block) {
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
  cell.cluster_time = cluster_time;
  uint32_t const lane = 1u << (current.thread % 32), stamp = stamps[current.thread];
  if (cell.read_epoch == epoch) {
    cell.crossed |= cell.read_warp != warp;
    if (cell.read_warp == warp) cell.read_lanes |= lane;
    if (stamp < cell.read_stamp) cell.read_stamp = stamp;
    cell.read_strongly &= strong_access, cell.read_by_proxy &= proxy_access;
    return;
  }
  bool const foreign = cell.read_epoch >= launch_epoch && cell.read_epoch < block_epoch;
  if (foreign && !known_reads(cell)) cell.foreign_readers = launch_number;
  cell.read_epoch = epoch, cell.read_stamp = stamp, cell.read_lanes = lane;
  cell.read_warp = (uint16_t)warp, cell.crossed = false, cell.read_strongly = strong_access;
  cell.read_by_proxy = proxy_access;
}

void remember_write(Cell& cell, Access access) {
  cell.write_epoch = epoch, cell.write_stamp = stamps[current.thread];
  cell.writer = (uint16_t)current.thread, cell.cluster_time = cluster_time;
  cell.written_atomically = access == Access::ATOMIC, cell.in_flight = cell.copied = access == Access::COPY;
  cell.written_strongly = strong_access || access == Access::ATOMIC, cell.sent_by = 0;
}

void visit(const Region& region, Cell& cell, Readers* readers, uintptr_t address, Access access) {
  Other other;
  if (cell.in_flight && cell.write_epoch >= block_epoch) missing_wait(region, cell, address, access);
  bool const needs_value = access == Access::READ || access == Access::ATOMIC;
  if (of_block(region.kind) && needs_value && cell.write_epoch < block_epoch && !written_by_cluster(region, address)) {
    at_frames(access_pc, access_frame);
    fail("MEMORY_ERROR", "uninitialised", region.name, "%s element %ld of shared variable %s, which no thread of this block has written",
         verb(access), (long)((address - region.low) / region.itemsize), region.name);
  }
  uint32_t const since = of_block(region.kind) ? block_epoch : launch_epoch;
  if (conflicts_with_write(region, cell, access, since, &other)) race(region, address, access, other);
  if (access == Access::READ) return remember_read(cell, readers);
  if (cell.constant_launch == launch_number) stale_read(region, address, true);
  if (conflicts_with_reads(region, cell, readers, access, since, &other)) race(region, address, access, other);
  remember_write(cell, access);
}

// Until this call writes there, outputs and scratch hold values of another call, or the judge's poison.
void check_written(const Region& region, uintptr_t address, size_t bytes, Access access) {
  uint8_t* const flags = region.written + (address - region.low);
  if (access != Access::WRITE)
    if (auto const* const missing = (const uint8_t*)memchr(flags, 0, bytes)) {
      at_frames(access_pc, access_frame);
      fail("MEMORY_ERROR", "uninitialised", region.name, "%s element %zu of %s, which nothing has written in this call",
           verb(access), (size_t)(missing - region.written) / region.itemsize, region.name);
    }
  memset(flags, 1, bytes);
}

// What other blocks can wait for, or be told by.
void synchronise(Access access, uintptr_t address) {
  if (access == Access::ATOMIC || (strong_access && access == Access::READ)) acquire_at(address);
  if (access == Access::ATOMIC || (strong_access && access == Access::WRITE)) release_at(address);
}

void check_region(Region& region, uintptr_t address, size_t bytes, Access access) {
  if (address + bytes > region.high)
    out_of_bounds(region.name, (long)(region.high - region.low), region.itemsize, region.high - region.low,
                  of_block(region.kind) || region.kind == Kind::PEER, access);
  if (access != Access::READ && !region.writable) {
    at_frames(access_pc, access_frame);
    fail("INPUT_MODIFIED", "input-modified", region.name, "writes to input %s (element %ld)", region.name,
         (long)((address - region.low) / region.itemsize));
  }
  if (region.kind != Kind::IMAGE) last_access[current.thread] = epoch;
  if (region.written) check_written(region, address, bytes, access);
  if (region.kind != Kind::IMAGE && clustered()) mark_access(region, address, bytes, access);
  if (!region.cells) return;
  auto const all = (uint32_t)((address - region.low) | bytes | region.granule), finest = all & -all;
  if (finest < region.granule) refine(region, finest);
  unfenced = false;
  size_t const first = (address - region.low) / region.granule, last = (address + bytes - 1 - region.low) / region.granule;
  for (size_t i = first; i <= last; ++i)
    visit(region, region.cells[i], region.readers ? region.readers + i : nullptr, region.low + i * region.granule, access);
  if (unfenced && access == Access::READ && !strong_access) warn_unfenced(region, address);
  if (!of_block(region.kind)) synchronise(access, address);
}

}  // namespace

void check_access(uintptr_t address, size_t bytes, Access access, uintptr_t pc, uintptr_t frame) {
  if (write_pending) settle_pending_write();
  if (address - (uintptr_t)current.stack_low < STACK_BYTES || current.thread < 0) return;
  access_pc = pc, access_frame = frame;
  access_address = address, access_bytes = bytes;
  if (Region* const region = find(address)) return check_region(*region, address, bytes, access);
  explain_stray(address, access);
}

// The read-only cache is not told of writes: what it serves must not be written in the same launch, not even before.
void check_read_only(uintptr_t address, size_t bytes, uintptr_t pc, uintptr_t frame) {
  Region* const region = current.thread < 0 ? nullptr : find(address);
  if (!region || !region->cells || of_block(region->kind) || address + bytes > region->high) return;
  access_pc = pc, access_frame = frame;
  for (size_t i = (address - region->low) / region->granule; i <= (address + bytes - 1 - region->low) / region->granule; ++i) {
    Cell& cell = region->cells[i];
    if (cell.write_epoch >= launch_epoch) stale_read(*region, region->low + i * region->granule, false);
    cell.constant_launch = launch_number;
  }
}

// Looks at the cells of a stretch until it has `found` one.
template <class Found>
void find_cell(uintptr_t address, size_t bytes, Found found) {
  const Region* const region = find(address);
  if (!region || !region->cells || address + bytes > region->high) return;
  for (size_t i = (address - region->low) / region->granule; i <= (address + bytes - 1 - region->low) / region->granule; ++i)
    if (found(*region, region->cells[i])) return;
}

// The writer or the running thread must have executed a proxy fence since the write. Where another thread has, it may be
// ordered between them: that is a warning.
void check_proxy(uintptr_t address, size_t bytes, uintptr_t pc, uintptr_t frame) {
  find_cell(address, bytes, [=](const Region& region, const Cell& cell) {
    bool const fenced = proxy_fences[cell.writer] > cell.write_stamp || proxy_fences[current.thread] > cell.write_stamp;
    if (cell.write_epoch < block_epoch || cell.copied || fenced) return false;
    Index3 const writer = thread_coordinates(cell.writer);
    char text[512];
    snprintf(text, sizeof text, "this reads %s through the async proxy, but thread (%u, %u, %u) wrote it without fence.proxy.async "
             "afterwards (tma_store_fence(), fence_view_async_shared()): a GPU may see what was there before", region.name, writer.x,
             writer.y, writer.z);
    at_frames(pc, frame);
    if (last_proxy_fence <= cell.write_stamp) fail("MEMORY_ERROR", "missing-fence", region.name, "%s", text);
    warn("missing-fence", region.name, "%s", text);
    return true;
  });
}

// Warns of the reverse: ordinary reads of this block that a bulk copy may overtake. Of several warps one is looked at.
void check_overwritten(uintptr_t address, size_t bytes, uintptr_t pc, uintptr_t frame) {
  find_cell(address, bytes, [=](const Region& region, const Cell& cell) {
    if (cell.read_epoch < block_epoch || cell.read_by_proxy || proxy_fences[current.thread] > cell.read_stamp) return false;
    for (int lane = 0; lane < 32; ++lane) {
      int const thread = cell.read_warp * 32 + lane;
      if (!(cell.read_lanes >> lane & 1) || proxy_fences[thread] > cell.read_stamp) continue;
      Index3 const reader = thread_coordinates(thread);
      at_frames(pc, frame);
      warn("missing-fence", region.name, "this copies over %s through the async proxy, but thread (%u, %u, %u) read it without "
           "fence.proxy.async afterwards (fence_view_async_shared()): on a GPU it may read what is copied", region.name, reader.x,
           reader.y, reader.z);
      return true;
    }
    return false;
  });
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

void order_atomics_after(uintptr_t address, size_t bytes) {
  find_cell(address, bytes, [](const Region&, Cell& cell) {
    cell.written_atomically = true;
    return false;
  });
}

// A store or copy by a block of the cluster has come, whose sender knows what this block did before a time.
void remote_arrived(uintptr_t address, size_t bytes, uint32_t from, uint32_t known_time, uintptr_t pc, uintptr_t frame) {
  Region* const region = find(address);
  if (!region || !region->cells) return;
  access_pc = pc, access_frame = frame, access_address = address, access_bytes = bytes;
  auto const all = (uint32_t)((address - region->low) | bytes | region->granule), finest = all & -all;
  if (finest < region->granule) refine(*region, finest);
  for (size_t i = (address - region->low) / region->granule; i <= (address + bytes - 1 - region->low) / region->granule; ++i) {
    Cell& cell = region->cells[i];
    bool const read = cell.read_epoch >= block_epoch, wrote = cell.write_epoch >= block_epoch;
    if ((read || wrote) && cell.cluster_time >= known_time) stored_too_early(*region, region->low + i * region->granule, from, !read);
    remember_write(cell, Access::WRITE);
    cell.copied = true, cell.sent_by = (uint8_t)(from + 1);
  }
  mark_arrived(*region, address, bytes);
}

void checker_begin_launch() {
  ++launch_number;
  launch_epoch = ++epoch;
  banks_begin_launch();
  begin_findings();
  begin_blocks_of_launch();
  resize_dynamic(spec.launches[current.launch].smem_bytes);
}

void checker_begin_block() {
  block_epoch = ++epoch;
  banks_begin_block();
  name_block();
  begin_order();
  begin_block_order();
}

void checker_barrier() {
  join_fences_of_block();
  forget_far();
  ++epoch;
}

bool worked_since_barrier(int thread) { return last_access[thread] == epoch; }

}  // namespace runner
