// Operations of a warp: lanes hand in a value, wait for the others, take what they came for.
#include <string.h>
#include "block.h"

namespace runner {

using ptx::Together;

Warp warps[MAX_THREADS / 32];

namespace {

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
  lanes_met = true;
  for (int lane = 0; lane < 32; ++lane)
    if (operation.arrived >> lane & 1) fibers[first_thread + lane].state = State::READY;
  if (spec.checked) checker_warp(first_thread, operation.arrived);
  if (operation.act) act_for_all(operation);
  return true;
}

// Joins the operation the other lanes of `mask` are in, or opens one; returns once all have come.
inline __attribute__((always_inline)) WarpOperation* join(uint32_t mask, const void* mine, uint32_t bytes, int line, const char* file, uintptr_t pc,
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
  found->identity = identity, found->act = act;
  if (bytes == sizeof(void*)) memcpy(found->values[current.thread % 32], mine, sizeof(void*));  // one instruction
  else memcpy(found->values[current.thread % 32], mine, bytes);
  if (!complete(current.thread / 32 * 32, *found)) wait_as(State::WARP, line, file, pc, frame);
  return found;
}

void leave(WarpOperation* operation) {
  operation->unread &= ~(1u << (current.thread % 32));
  if (!operation->unread) operation->arrived = 0;
}

// Which lanes are together is the device's choice: unless threads run forward, every second one is told of its like
// alone, so that what needs all of them shows.
uint32_t part(uint32_t same, int lane) {
  constexpr uint32_t EVEN = 0x55555555u;
  uint32_t const like = lane % 2 ? ~EVEN : EVEN;
  if (spec.order == Order::FORWARD || !(same & ~like)) return same;
  *parted = 1;
  return same & like;
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
      if (same >> l & 1) lanes[l].state = State::READY, lanes[l].barrier_value = (int)part(same, l);
    told = true;
  }
  return told;
}

}  // namespace

void begin_warps() {
  for (uint32_t w = 0; w < (thread_count + 31) / 32; ++w) {
    uint32_t const lanes = thread_count - w * 32;
    warps[w].ended = 0;  // its operations are free again: a block ends only when nobody waits
    warps[w].present = lanes >= 32 ? ~0u : (1u << lanes) - 1;
  }
}

void lane_ended(int thread) {
  Warp& warp = warps[thread / 32];
  warp.ended |= 1u << (thread % 32);
  for (auto& operation : warp.operations)
    if (operation.arrived && !operation.unread) complete(thread / 32 * 32, operation);
}

bool tell_all_lanes() {
  bool told = false;
  for (uint32_t w = 0; w < (thread_count + 31) / 32; ++w) told |= tell_lanes(w, false);
  return told;
}

uint32_t active_mask_at(int line, const char* file, uintptr_t pc, uintptr_t frame) {
  Fiber& self = fibers[current.thread];
  self.state = State::GATHER;
  self.line = line, self.file = file, self.pc = pc;
  *met = 1;
  if (!tell_lanes((uint32_t)current.thread / 32, true)) wait_as(State::GATHER, line, file, pc, frame);
  return (uint32_t)self.barrier_value;
}

void ptx::warp_together(const Call& call, uint32_t mask, Together act) {
  const Call* const mine = &call;
  leave(join(mask, &mine, sizeof mine, 0, "", call.pc, call.frame, call.at, act));
}

}  // namespace runner

using namespace runner;

extern "C" {

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

}  // extern "C"
