// What threads do together: shuffles, votes, reductions over a warp, barriers, fences.
#include "ptx_machine.h"

namespace runner::ptx {
namespace {

void nothing(const Call&) {}
Execute decode_nothing(Instruction&) { return nothing; }

// -- barriers --------------------------------------------------------------------------------------------------------------

void block_barrier(const Call&) { emu_barrier(0, ""); }

Execute decode_barrier(Instruction& i) {
  bool const whole = i.count == 1 && i.operands[0].kind == Operand::INTEGER && i.operands[0].integer == 0;
  return i.has("sync") && whole ? block_barrier : nullptr;
}

void warp_barrier(const Call& call) { emu_warp_sync(call.in<uint32_t>(0), 0, ""); }
Execute decode_warp_barrier(Instruction& i) { return i.count == 1 ? warp_barrier : nullptr; }

void fence(const Call& call) { emu_fence((int)call.at->detail[0]); }
Execute decode_fence(Instruction& i) {
  bool const proxy = i.has("proxy") || i.has("mbarrier_init");
  i.detail[0] = i.has("cta") ? 0 : i.has("sys") ? 2 : 1;
  return proxy ? nullptr : fence;
}

}  // namespace

const Family warp_family[] = {
    {"bar", decode_barrier}, {"barrier", decode_barrier}, {"barrier.cta", decode_barrier}, {"bar.cta", decode_barrier},
    {"bar.warp", decode_warp_barrier}, {"membar", decode_fence}, {"fence", decode_fence}, {"nanosleep", decode_nothing}, {}};

}  // namespace runner::ptx
