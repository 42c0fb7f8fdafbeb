// What the blocks of a launch with clusters do to the same bytes. The cells of a process know only its own blocks; these
// marks are in memory of all. Blocks of different clusters are ordered by nothing.
#include <stdio.h>
#include <sys/mman.h>
#include "cluster.h"

namespace runner {

namespace {

// When a rank last did it: arrivals of the thread, and whether it did so by atomics or volatile accesses only, and
// whether the rank's block of an earlier cluster of this launch did so, too; and the block's time (cluster_remote.cpp). Only
// the rank itself writes its entries.
struct Entry {
  uint32_t when : 30;
  uint32_t strong : 1;
  uint32_t earlier : 1;
  uint32_t time;
};
struct Mark {
  Entry written[MAX_CLUSTER], read[MAX_CLUSTER];
};
static_assert(sizeof(Entry) == 8);

// The marks of a stretch of memory; each stands for `granule` bytes. Two blocks may write neighbouring halves.
struct Marks {
  Mark* marks;
  uint32_t granule;
};
Marks of_parts, of_buffers[MAX_BUFFERS];
bool polled;  // the running block used an atomic or volatile access

Marks map_marks(size_t bytes, uint32_t granule) {
  void* const place = mmap(nullptr, (bytes / granule + 2) * sizeof(Mark), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (place == MAP_FAILED) refuse("UNSUPPORTED", "not enough memory for the instrumented run; use a smaller workload");
  return {(Mark*)place, granule};
}

// The bytes of an access, as marks.
struct Span {
  Mark *first, *last;  // null: not watched
  bool shared;
};

Span span_of(const Region& region, uintptr_t address, size_t bytes) {
  if (region.kind != Kind::TENSOR) {
    SharedByte const byte = shared_byte(address);
    Mark* const first = of_parts.marks + (size_t)byte.rank * part_bytes() + byte.offset;
    return {first, first + bytes - 1, true};
  }
  Marks const marks = of_buffers[&region - regions];  // the first regions are the buffers
  size_t const offset = address - region.low;
  if (!marks.marks) return {};
  return {marks.marks + offset / marks.granule, marks.marks + (offset + bytes - 1) / marks.granule, false};
}

void remember(Entry& entry, bool strong) {
  uint32_t const now = cluster_arrivals();
  bool const of_launch = entry.when >= cluster->first, earlier = of_launch && (entry.earlier || entry.when < cluster_base());
  bool const plain = entry.when == now && !entry.strong;
  entry = {now, strong && !plain, earlier, cluster_time};
}

enum class Relation { BEFORE, STRANGER, RACE };

Relation relation_of(Entry const& entry, uint32_t rank, bool strong, bool shared) {
  if (entry.when < cluster->first || (entry.strong && strong)) return Relation::BEFORE;
  bool const of_cluster = entry.when >= cluster_base();
  if (of_cluster && !released_by(rank, entry.when) && !ordered_by_arrival(rank, entry.time)) return Relation::RACE;
  return !shared && (entry.earlier || entry.when < cluster_base()) ? Relation::STRANGER : Relation::BEFORE;
}

void report(const Region& region, uintptr_t address, Access access, uint32_t rank, Relation relation, bool wrote) {
  char whose[64] = "", text[512];
  if (region.kind == Kind::PEER) snprintf(whose, sizeof whose, " of block %d of the cluster", shared_byte(address).rank);
  snprintf(text, sizeof text, "%s element %ld of %s%s, which block %u of %s cluster %s %s", verb(access),
           (long)((address - region.low) / region.itemsize), name_of(region, address), whose, rank,
           relation == Relation::STRANGER ? "another" : "this", wrote ? "wrote" : "read",
           relation == Relation::STRANGER ? "in the same launch; clusters run in any order" : "with no barrier of the cluster in between");
  raise_race(region, address, access, wrote, text);
}

void warn_unproven() {
  at_frames(access_pc, access_frame);
  warn("race-unproven", "", "blocks of a launch with clusters are processes of their own: an order that fences and atomics make between "
         "them is not judged");
}

void judge(const Region& region, uintptr_t address, Access access, bool strong, const Entry (&entries)[MAX_CLUSTER], bool wrote, bool shared) {
  uint32_t const self = cluster_rank();
  for (uint32_t rank = 0; rank < cluster->blocks; ++rank) {
    Relation const relation = rank == self ? Relation::BEFORE : relation_of(entries[rank], rank, strong, shared);
    if (relation == Relation::BEFORE) continue;
    if (!cluster->fenced || !polled) return report(region, address, access, rank, relation, wrote);
    warn_unproven();
  }
}

bool written_since(Mark const& mark, bool by_others) {
  for (uint32_t rank = 0; rank < cluster->blocks; ++rank)
    if (mark.written[rank].when >= cluster_base() && !(by_others && rank == cluster_rank())) return true;
  return false;
}

// The shared memory of a block that has not begun, or has ended, is not there.
void check_presence(const Region& region, uint32_t rank) {
  bool const began = cluster_began(), ended = cluster->left[rank] == cluster_number() + 1;
  if (!began || ended) at_frames(access_pc, access_frame);
  if (!began)
    fail("MEMORY_ERROR", "cluster", region.name, "uses %s of block %u of the cluster, which may not have begun: a barrier of the cluster must "
         "come first", region.name, rank);
  if (ended)
    fail("MEMORY_ERROR", "cluster", region.name, "uses %s of block %u of the cluster, which has ended: that block must wait at a barrier of the "
         "cluster behind this", region.name, rank);
}

void check_initialised(const Region& region, Mark const& mark, uintptr_t address, uint32_t rank) {
  if (written_since(mark, false)) return;
  at_frames(access_pc, access_frame);
  fail("MEMORY_ERROR", "uninitialised", region.name, "reads element %ld of %s of block %u of the cluster, which no block has written",
       (long)((address - region.low) / region.itemsize), region.name, rank);
}

}  // namespace

void prepare_marks() {
  of_parts = map_marks(most_blocks() * part_bytes(), 1);
  for (int i = 0; i < spec.buffer_count; ++i)
    if (spec.buffers[i].role != Role::INPUT)
      of_buffers[i] = map_marks(spec.buffers[i].bytes, spec.buffers[i].itemsize < 4 ? spec.buffers[i].itemsize : 4);
}

// The end of a block is like a write of all of its shared memory.
void check_leaving() {
  uint32_t const rank = cluster_rank();
  polled = false;
  cluster->left[rank] = cluster_number() + 1;
  bool used = false;
  for (uint32_t from = 0; from < cluster->blocks; ++from) {
    auto const last = cluster->touched[rank][from];
    bool const behind = last.arrivals < cluster_base() || last.arrivals < most_cluster_waits();
    used |= !behind && !ordered_by_arrival(from, last.time);
  }
  if (!used) return;
  at_line(0, "");
  fail("MEMORY_ERROR", "cluster", "", "block %u of the cluster ends while another one may still use its shared memory: it must wait at a "
       "barrier of the cluster behind that", rank);
}

void mark_access(const Region& region, uintptr_t address, size_t bytes, Access access) {
  Span const span = span_of(region, address, bytes);
  if (!span.first) return;
  bool const reads = access == Access::READ, strong = access == Access::ATOMIC || strong_access;
  polled |= strong;
  if (region.kind == Kind::PEER) {
    auto const rank = (uint32_t)shared_byte(address).rank;
    cluster->touched[rank][cluster_rank()] = {cluster_arrivals(), cluster_time};
    check_presence(region, rank);
  }
  uint32_t const self = cluster_rank();
  for (Mark* mark = span.first; mark <= span.last; ++mark) remember((reads ? mark->read : mark->written)[self], strong);
  for (const Mark* mark = span.first; mark <= span.last; ++mark) {
    if (region.kind == Kind::PEER && reads) check_initialised(region, *mark, address, (uint32_t)shared_byte(address).rank);
    judge(region, address, access, strong, mark->written, true, span.shared);
    if (!reads) judge(region, address, access, strong, mark->read, false, span.shared);
  }
}

void check_remote(uintptr_t address, size_t bytes, uintptr_t pc, uintptr_t frame) {
  access_pc = pc, access_frame = frame;
  const Region* const region = find(address);
  if (!region) explain_stray(address, Access::WRITE);
  if (address + bytes > region->high)
    out_of_bounds(region->name, (long)(region->high - region->low), region->itemsize, region->high - region->low, true, Access::WRITE);
  if (region->kind == Kind::PEER) check_presence(*region, (uint32_t)shared_byte(address).rank);
}

void stored_too_early(const Region& region, uintptr_t address, uint32_t from, bool wrote) {
  if (cluster->fenced) return warn_unproven();
  char text[512];
  snprintf(text, sizeof text, "block %u of the cluster stores over element %ld of %s, which this block %s when block %u could not yet "
           "know that it was done: tell it first, or use another place", from, (long)((address - region.low) / region.itemsize),
           name_of(region, address), wrote ? "wrote" : "read", from);
  raise_race(region, address, Access::WRITE, wrote, text);
}

void mark_arrived(const Region& region, uintptr_t address, size_t bytes) {
  Span const span = span_of(region, address, bytes);
  for (Mark* mark = span.first; mark && mark <= span.last; ++mark) remember(mark->written[cluster_rank()], false);
}

bool written_by_cluster(const Region& region, uintptr_t address) {
  return clustered() && written_since(*span_of(region, address, 1).first, true);
}

}  // namespace runner
