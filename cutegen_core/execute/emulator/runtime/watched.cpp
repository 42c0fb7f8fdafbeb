// Which memory a checked run watches, and the cells it keeps of it.
#include <string.h>
#include <sys/mman.h>
#include <initializer_list>
#include "cluster.h"

extern "C" runner::Index3 threadIdx, blockIdx, blockDim, gridDim;

namespace runner {

constexpr uint32_t WORD = 4;
constexpr int MAX_REGIONS = MAX_BUFFERS + 512;
Region regions[MAX_REGIONS];
int region_count, last_region;

namespace {

int dynamic_region = -1, peer_regions = -1;

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
  Cell* const cells = kind == Kind::IMAGE || kind == Kind::PEER || !writable ? nullptr : map_cells<Cell>(count);
  Readers* const readers = cells && partial ? map_cells<Readers>(count) : nullptr;
  regions[region_count++] = {low, low + bytes, kind, writable, granule, cells, name, itemsize, readers, nullptr};
}

// Outputs and scratch hold nothing of this call until it writes there; shared, since each launch is a process.
uint8_t* map_written(const Buffer& buffer) {
  if (buffer.role == Role::INPUT || buffer.zero) return nullptr;
  void* const place = mmap(nullptr, buffer.bytes + PAGE, PROT_READ | PROT_WRITE,
                           MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (place == MAP_FAILED) refuse("UNSUPPORTED", "not enough memory for the instrumented run; use a smaller workload");
  return (uint8_t*)place;
}

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

// Shared memory of the other blocks of a cluster; of each first the dynamic part.
void add_peer_regions(const EmuShared* records, size_t count) {
  Region const dynamic = regions[dynamic_region];
  peer_regions = region_count;
  for (uint32_t rank = 0; rank < most_blocks(); ++rank)
    add_region(window_of(rank), DYNAMIC_BYTES, Kind::PEER, dynamic.name, WORD, true, dynamic.itemsize);
  for (uint32_t rank = 0; rank < most_blocks(); ++rank)
    for (size_t i = 0; i < count; ++i)
      if (records[i].address)
        add_region(window_of(rank) + static_offset() + ((uintptr_t)records[i].address - (uintptr_t)shared_begin()),
                   records[i].bytes, Kind::PEER, records[i].name, WORD, true, records[i].itemsize);
}

// The text of every PTX statement is part of the image. `bar.sync 0;` is a barrier of the whole block.
bool has_partial_barriers() {
  for (const char* const word : {"mbarrier", "bar.arrive", "barrier.arrive", "barrier.sync", "bar.cta", "barrier.cluster.arrive"})
    if (memmem(image_begin(), image_bytes(), word, strlen(word))) return true;
  auto const* const end = (const char*)image_begin() + image_bytes();
  for (auto const* at = (const char*)image_begin();; ++at) {
    at = (const char*)memmem(at, (size_t)(end - at), "bar.sync ", 9);
    if (!at) return false;
    at += 9;
    if (at[0] != '0' || at[1] != ';') return true;
  }
}

template <class T>
T* spread(T* old, size_t old_count, size_t times) {
  if (!old) return nullptr;
  T* const made = map_cells<T>(old_count * times);
  for (size_t i = 0; i < old_count * times; ++i) made[i] = old[i / times];
  munmap((void*)old, old_count * sizeof(T) + PAGE);
  return made;
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
  each_device_range([](uintptr_t low, uintptr_t high) { add_region(low, high - low, Kind::DEVICE, "", WORD, true, 1); });
  // Constants: everything of the image but its variables, which are found first.
  uintptr_t const shared_low = (uintptr_t)shared_begin(), shared_high = shared_low + shared_bytes();
  auto const image = (uintptr_t)image_begin();
  if (shared_high == shared_low) {
    add_region(image, image_bytes(), Kind::IMAGE, "", 1, true, 1);
  } else {
    add_region(image, shared_low - image, Kind::IMAGE, "", 1, true, 1);
    add_region(shared_high, image + image_bytes() - shared_high, Kind::IMAGE, "", 1, true, 1);
  }
  if (most_blocks() > 1) add_peer_regions(records, count);
}

// A plan may have hundreds of tensors, of which a kernel takes a few. Tensors overlap nothing; other regions may.
Region* search(uintptr_t address) {
  static int recent[8], next;
  for (int const i : recent)
    if (regions[i].kind == Kind::TENSOR && regions[i].holds(address)) return &regions[last_region = i];
  for (int i = 0; i < region_count; ++i)
    if (regions[i].holds(address)) {
      if (regions[i].kind == Kind::TENSOR) recent[next++ % 8] = i;
      return &regions[last_region = i];
    }
  return nullptr;
}

// Every cell becomes several.
void refine(Region& region, uint32_t granule) {
  size_t const bytes = region.kind == Kind::DYNAMIC ? DYNAMIC_BYTES : region.high - region.low;
  size_t const count = (bytes + region.granule - 1) / region.granule, times = region.granule / granule;
  region.cells = spread(region.cells, count, times);
  region.readers = spread(region.readers, count, times);
  region.granule = granule;
}

void resize_dynamic(size_t bytes) {
  regions[dynamic_region].high = DYNAMIC_BASE + bytes;
  for (uint32_t rank = 0; peer_regions >= 0 && rank < most_blocks(); ++rank) regions[peer_regions + (int)rank].high = window_of(rank) + bytes;
}

// A plain run watches no regions, but knows its tensors.
const char* name_at(uintptr_t address) {
  if (const Region* const region = find(address)) return region->name;
  long offset;
  const Buffer* const buffer = buffer_near(address, &offset);
  return buffer ? buffer->name : "";
}

void check_alignment(uintptr_t address, size_t alignment, uintptr_t pc, uintptr_t frame) {
  if (address % alignment == 0) return;
  at_frames(pc, frame);
  const char* const name = name_at(address);
  fail("MEMORY_ERROR", "misaligned", name, "an access of %s must lie at a multiple of %zu bytes", name[0] ? name : "memory", alignment);
}

}  // namespace runner
