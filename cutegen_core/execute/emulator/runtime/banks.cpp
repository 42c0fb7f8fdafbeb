// Counts how often shared memory serves the warps of a checked run, and how often it would without bank conflicts.
//
// Shared memory has 32 banks of 4 bytes. A warp's access is served in phases of 128 bytes: all 32 lanes together for up to
// 4 bytes a lane, halves of the warp for 8, quarters for 16 (CUDA C++ Programming Guide, "Shared Memory"). Each time, a
// wavefront, a bank gives one word; lanes that want the same word share it.
//
// Threads run one after another here, so what lanes access together is put together by count: the n-th access of each
// lane at a place of the code. Accesses of one thread to bytes directly behind one another count as one of 8 or 16 bytes
// where they are aligned so, as the compiler for the GPU makes them. The first block of a launch is watched, of each
// place the first times; the others count like these. What the tensor cores' engine and TMA access is not counted.
#include "checker.h"

namespace runner {

BankCount* bank_counts;

namespace {

constexpr uint32_t LANES = 32, BANKS = 32, WORD = 4, WIDEST = 16;
constexpr uint32_t MOST_PLACES = 4096, MOST_TIMES = 8, NOWHERE = ~0u;

struct Together {
  uint32_t offset[LANES];
  uint8_t bytes[LANES];
};

// A place of the code, with what the lanes of one warp access there.
struct Place {
  uintptr_t pc;
  uint32_t warp, times[LANES];
  Frames frames;
  Together seen[MOST_TIMES];
};

// The last access of a thread; `together` is null where it is not one of those that are looked at.
struct Last {
  Together* together;
  uint32_t end;
  Access access;
};

// All zero when a launch begins: each has a process of its own.
Place places[MOST_PLACES];
uint32_t used[MOST_PLACES], used_count;
Last last[MAX_THREADS];
bool fresh, watching;

uint32_t rounded(uint32_t bytes) { return bytes <= WORD ? WORD : bytes <= 8 ? 8 : WIDEST; }

Place* place_of(uintptr_t pc, uint32_t warp, uintptr_t frame) {
  uint32_t at = (uint32_t)((pc * 0x9E3779B97F4A7C15u) >> 40) + warp * 61;
  for (uint32_t tried = 0; tried < 64; ++tried, ++at) {
    Place& place = places[at % MOST_PLACES];
    if (place.pc == pc && place.warp == warp) return &place;
    if (place.pc) continue;
    used[used_count++] = at % MOST_PLACES;
    place.pc = pc, place.warp = warp, place.frames = frames_of(pc, frame);
    for (Together& together : place.seen)
      for (uint32_t& offset : together.offset) offset = NOWHERE;
    return &place;
  }
  return nullptr;
}

// Whether the access goes on where the thread's last one ended, so that the two are one wider access.
bool joins(Last& before, uint32_t lane, uint32_t offset, uint32_t bytes, Access access) {
  if (!before.together || before.end != offset || before.access != access) return false;
  uint32_t const begin = before.together->offset[lane], all = offset + bytes - begin;
  if (all > WIDEST || begin % rounded(all) != 0) return false;
  before.together->bytes[lane] = (uint8_t)all, before.end = offset + bytes;
  return true;
}

// Wavefronts that the lanes of a phase need: of the bank that must give most words.
uint32_t serve(const Together& together, uint32_t first, uint32_t lanes, uint32_t* words) {
  uint32_t known[BANKS][LANES], count[BANKS] = {}, most = 0;
  for (uint32_t lane = first; lane < first + lanes; ++lane) {
    if (together.offset[lane] == NOWHERE) continue;
    for (uint32_t byte = together.offset[lane] / WORD * WORD; byte < together.offset[lane] + together.bytes[lane]; byte += WORD) {
      uint32_t const word = byte / WORD, bank = word % BANKS;
      bool found = false;
      for (uint32_t i = 0; i < count[bank]; ++i) found |= known[bank][i] == word;
      if (found || count[bank] == LANES) continue;
      known[bank][count[bank]++] = word, ++*words;
      if (count[bank] > most) most = count[bank];
    }
  }
  return most;
}

struct Served {
  uint32_t wavefronts, least;
};

Served serve_warp(const Together& together) {
  uint32_t widest = WORD;
  for (uint32_t lane = 0; lane < LANES; ++lane)
    if (together.offset[lane] != NOWHERE && rounded(together.bytes[lane]) > widest) widest = rounded(together.bytes[lane]);
  uint32_t const lanes = LANES * WORD / widest;
  Served all = {};
  for (uint32_t first = 0; first < LANES; first += lanes) {
    uint32_t words = 0;
    all.wavefronts += serve(together, first, lanes, &words);
    all.least += (words + BANKS - 1) / BANKS;
  }
  return all;
}

void count_place(const Place& place, BankCount& counted) {
  uint32_t times = 0;
  for (uint32_t each : place.times)
    if (each > times) times = each;
  uint32_t const looked_at = times < MOST_TIMES ? times : MOST_TIMES;
  Served sum = {};
  for (uint32_t n = 0; n < looked_at; ++n) {
    Served const one = serve_warp(place.seen[n]);
    sum.wavefronts += one.wavefronts, sum.least += one.least;
  }
  if (!sum.least) return;
  uint64_t const wavefronts = (uint64_t)sum.wavefronts * times / looked_at, least = (uint64_t)sum.least * times / looked_at;
  counted.wavefronts += wavefronts, counted.least += least;
  if (wavefronts - least <= counted.most_lost) return;
  counted.most_lost = wavefronts - least, counted.worst = place.frames;
}

}  // namespace

void note_shared(uintptr_t address, size_t bytes, Access access, uintptr_t pc, uintptr_t frame) {
  if (!watching || current.thread < 0 || bytes == 0 || bytes > WIDEST || !emu_is_shared((const void*)address)) return;
  uint32_t const lane = (uint32_t)current.thread % LANES, offset = (uint32_t)(address - SHARED_BASE), size = (uint32_t)bytes;
  Last& before = last[current.thread];
  if (joins(before, lane, offset, size, access)) return;
  before.together = nullptr;
  Place* const place = place_of(pc, (uint32_t)current.thread / LANES, frame);
  if (!place || place->times[lane]++ >= MOST_TIMES) return;
  Together& together = place->seen[place->times[lane] - 1];
  together.offset[lane] = offset, together.bytes[lane] = (uint8_t)size;
  before = {&together, offset + size, access};
}

void banks_begin_launch() { fresh = true; }

void banks_begin_block() { watching = fresh, fresh = false; }

void banks_end_block() {
  if (!watching) return;
  watching = false;
  for (uint32_t i = 0; i < used_count; ++i) count_place(places[used[i]], bank_counts[current.launch]);
}

}  // namespace runner
