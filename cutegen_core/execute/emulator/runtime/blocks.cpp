// What each thread knows of earlier blocks: the memory model's release and acquire patterns across blocks.
//
// A checked run executes blocks one after another. A block publishes what is *performed*: the accesses before a
// device-wide fence of their own thread, or of one that they are ordered before. An atomic (or a volatile write) releases
// what is performed and ordered before it, at its address; an atomic (or a volatile read) of a later block acquires what
// was released there, and threads behind a barrier or a warp operation know it, too. A fence alone publishes nothing, and
// an atomic without a fence publishes nothing either.
#include <stdlib.h>
#include <string.h>
#include "cluster.h"

namespace runner {

namespace {

// The performed accesses of one block: all in epochs from `first` to before `full`; in `full` itself those of thread
// `base + i` with a stamp below limits[i].
struct Performed {
  uint32_t first, full;
  int base, count;
  uint32_t* limits;
};

template <class T>
struct Growing {
  T* items = nullptr;
  uint32_t count = 0, room = 0;
  void add(T const& item) {
    if (count == room) {
      room = room ? room * 2 : 16;
      items = (T*)realloc((void*)items, room * sizeof(T));
      if (!items) fail("UNSUPPORTED", "memory", "", "out of memory for the order of blocks");
    }
    items[count++] = item;
  }
};

// What was released at one address; the list only grows.
struct Place {
  uintptr_t address;
  Growing<const Performed*> released;
  Place* next;
};

// An acquire of the running block: the first `count` entries of the place.
struct Acquired {
  Place* place;
  uint32_t count;
  int thread;
  uint32_t epoch, stamp;
  uint64_t time;
};

// What a thread's warp has performed in the epoch of its last fence.
struct Fenced {
  uint32_t epoch;
  uint32_t limits[32];
};

constexpr size_t BUCKETS = 4096;
Place* places[BUCKETS];
Growing<Acquired> acquired;
Fenced fences[MAX_THREADS];
uint64_t fence_times[MAX_THREADS], now;
bool fenced;                             // a thread of this launch used a fence
uint32_t joined_epoch;                   // epoch of the last barrier before which threads of this block used a fence
uint32_t joined_limits[MAX_THREADS];
const Performed* joined;                 // the same, once it was released; null: not yet made

Place* place_at(uintptr_t address, bool make) {
  Place*& bucket = places[(address >> 2) % BUCKETS];
  for (Place* place = bucket; place; place = place->next)
    if (place->address == address) return place;
  if (!make) return nullptr;
  auto* const made = (Place*)calloc(1, sizeof(Place));
  if (!made) fail("UNSUPPORTED", "memory", "", "out of memory for the order of blocks");
  made->address = address, made->next = bucket;
  return bucket = made;
}

const Performed* make(uint32_t full, int base, int count, const uint32_t* limits) {
  auto* const made = (Performed*)malloc(sizeof(Performed) + (size_t)count * sizeof(uint32_t));
  if (!made) fail("UNSUPPORTED", "memory", "", "out of memory for the order of blocks");
  *made = {block_epoch, full, base, count, (uint32_t*)(made + 1)};
  memcpy(made->limits, limits, (size_t)count * sizeof(uint32_t));
  return made;
}

// What the running thread may release; null: nothing was performed.
const Performed* performed() {
  Fenced const& own = fences[current.thread];
  if (own.epoch == epoch) return make(epoch, current.thread / 32 * 32, 32, own.limits);
  if (joined_epoch < block_epoch) return nullptr;
  if (!joined) joined = make(joined_epoch, 0, (int)spec.launches[current.launch].block.count(), joined_limits);
  return joined;
}

bool visible(Acquired const& event) {
  return event.thread == current.thread || event.epoch < epoch || ordered(event.thread, event.stamp);
}

// thread -1: all of them.
bool covers(const Performed& done, uint32_t at, int thread, uint32_t stamp) {
  if (at < done.first || at > done.full) return false;
  if (at < done.full) return true;
  int const i = thread - done.base;
  return thread >= 0 && i >= 0 && i < done.count && stamp < done.limits[i];
}

}  // namespace

void begin_blocks_of_launch() {
  fenced = false;
  begin_block_order();
}

void begin_block_order() {
  acquired.count = 0;
  joined_epoch = 0, joined = nullptr;
}

bool any_fence() { return fenced; }

void note_fence() {
  if (current.thread < 0) return;
  fenced = true;
  cluster->fenced = 1;
  fence_times[current.thread] = ++now;
  Fenced& own = fences[current.thread];
  int const lane = current.thread % 32;
  if (own.epoch != epoch) memset(own.limits, 0, sizeof own.limits);
  own.epoch = epoch;
  for (int l = 0; l < 32; ++l)
    if (seen[current.thread][l] > own.limits[l]) own.limits[l] = seen[current.thread][l];
  own.limits[lane] = stamps[current.thread] = ++stamp_counter;  // what comes later is not part of it
}

void join_fences_of_block() {
  auto const threads = (int)spec.launches[current.launch].block.count();
  bool any = false;
  for (int t = 0; t < threads; ++t) {
    if (fences[t].epoch != epoch) continue;
    if (!any) memset(joined_limits, 0, sizeof joined_limits);
    any = true;
    for (int l = 0; l < 32; ++l) {
      uint32_t& limit = joined_limits[t / 32 * 32 + l];
      if (fences[t].limits[l] > limit) limit = fences[t].limits[l];
    }
  }
  if (any) joined_epoch = epoch, joined = nullptr;
}

void join_fences_of_warp(int first_thread, uint32_t lanes) {
  Fenced all = {};
  for (int lane = 0; lane < 32; ++lane) {
    Fenced const& one = fences[first_thread + lane];
    if (!(lanes >> lane & 1) || one.epoch != epoch) continue;
    all.epoch = epoch;
    for (int l = 0; l < 32; ++l)
      if (one.limits[l] > all.limits[l]) all.limits[l] = one.limits[l];
  }
  for (int lane = 0; all.epoch && lane < 32; ++lane)
    if (lanes >> lane & 1) fences[first_thread + lane] = all;
}

void release_at(uintptr_t address) {
  const Performed* const own = performed();
  Place* const place = place_at(address, own != nullptr);
  if (!own || !place) return;
  if (!place->released.count || place->released.items[place->released.count - 1] != own) place->released.add(own);
  // What this thread has acquired elsewhere is part of what it releases.
  for (uint32_t i = 0; i < acquired.count; ++i) {
    Acquired const event = acquired.items[i];
    if (event.place == place || !visible(event)) continue;
    for (uint32_t k = 0; k < event.count; ++k) place->released.add(event.place->released.items[k]);
  }
}

void acquire_at(uintptr_t address) {
  Place* const place = place_at(address, false);
  if (!place || !place->released.count) return;
  for (uint32_t i = 0; i < acquired.count; ++i) {
    Acquired& known = acquired.items[i];
    if (known.place != place || known.thread != current.thread || known.epoch != epoch) continue;
    known.count = place->released.count, known.time = ++now;
    return;
  }
  acquired.add({place, place->released.count, current.thread, epoch, stamps[current.thread], ++now});
}

bool known_from_block(uint32_t at, int thread, uint32_t stamp, bool* unfenced) {
  bool known = false, all_fenced = false;
  for (uint32_t i = 0; i < acquired.count && !all_fenced; ++i) {
    Acquired const& event = acquired.items[i];
    if (!event.count || !visible(event)) continue;
    for (uint32_t k = event.count; k-- > 0;) {
      if (!covers(*event.place->released.items[k], at, thread, stamp)) continue;
      known = true;
      all_fenced |= fence_times[event.thread] > event.time || fence_times[current.thread] > event.time;
      break;
    }
  }
  *unfenced |= known && !all_fenced;
  return known;
}

bool touched_atomically(uintptr_t address) {
  for (uint32_t i = 0; i < acquired.count; ++i)
    if (acquired.items[i].place->address == address && visible(acquired.items[i])) return true;
  return false;
}

}  // namespace runner
