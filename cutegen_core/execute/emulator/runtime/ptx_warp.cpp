// What threads do together: shuffles, votes, reductions over a warp, barriers, fences.
#include "ptx_machine.h"

namespace runner::ptx {
namespace {

void nothing(const Call&) {}
Execute decode_nothing(Instruction&) { return nothing; }

// -- values across the warp -------------------------------------------------------------------------------------------

// `d` or `d|p`.
const Operand& first(const Operand& operand) { return operand.kind == Operand::VECTOR ? operand.parts[0] : operand; }

enum Direction : int64_t { UP, DOWN, BUTTERFLY, INDEX };

void shuffle(const Call& call) {
  auto const lane = (uint32_t)current.thread % 32, value = call.in<uint32_t>(1), b = call.in<uint32_t>(2) & 31;
  uint32_t const control = call.in<uint32_t>(3), segment = control >> 8 & 31, limit = control & 31;
  auto const most = (int)((lane & segment) | (limit & ~segment)), least = (int)(lane & segment);
  int64_t const way = call.at->detail[0];
  int const wanted = way == UP ? (int)lane - (int)b : way == DOWN ? (int)(lane + b) : way == BUTTERFLY ? (int)(lane ^ b)
                                                                                     : (least | (int)(b & ~segment));
  bool const inside = way == UP ? wanted >= most : wanted <= most;
  uint32_t result;
  emu_warp_exchange(call.in<uint32_t>(4), &value, &result, 4, inside ? wanted : (int)lane, 0, "");
  const Operand& target = call.at->operands[0];
  call.out(first(target), result);
  if (target.kind == Operand::VECTOR) call.out(target.parts[1], (uint32_t)inside);
}

Execute decode_shuffle(Instruction& i) {
  if (!i.has("sync") || i.count != 5 || strcmp(i.last(), "b32") != 0) return nullptr;
  i.detail[0] = i.has("up") ? UP : i.has("down") ? DOWN : i.has("bfly") ? BUTTERFLY : INDEX;
  return shuffle;
}

// Lanes of the mask for which the operand holds, and those that are there.
struct Votes {
  uint32_t yes, there;
};

Votes count_votes(uint32_t mask, bool mine) {
  uint8_t all[32], vote = mine;
  uint32_t const there = emu_warp_gather(mask, &vote, all, 1, 0, "");
  uint32_t yes = 0;
  for (int lane = 0; lane < 32; ++lane) yes |= (there >> lane & all[lane] & 1u) << lane;
  return {yes, there};
}

void vote(const Call& call) {
  Votes const votes = count_votes(call.in<uint32_t>(2), call.predicate(call.at->operands[1]));
  switch (call.at->words[2][0] == 'b' ? 'b' : call.at->words[2][1]) {
    case 'b': return call.out(0, votes.yes);                                        // ballot
    case 'l': return call.out(0, (uint32_t)(votes.yes == votes.there));             // all
    case 'n': {                                                                     // any, uni
      bool const any = call.at->words[2][0] == 'a';
      return call.out(0, (uint32_t)(any ? votes.yes != 0 : votes.yes == 0 || votes.yes == votes.there));
    }
    default: unsupported(*call.at);
  }
}
Execute decode_vote(Instruction& i) { return i.word_count == 4 && i.has("sync") && i.count == 3 ? vote : nullptr; }

template <class T>
void match(const Call& call) {
  T all[32], mine = call.in<T>(1);
  uint32_t const mask = call.in<uint32_t>(2), there = emu_warp_gather(mask, &mine, all, sizeof(T), 0, "");
  uint32_t same = 0;
  for (int lane = 0; lane < 32; ++lane) same |= (uint32_t)(there >> lane & 1 && all[lane] == mine) << lane;
  const Operand& target = call.at->operands[0];
  bool const everybody = same == there;
  call.out(first(target), call.at->detail[0] && !everybody ? 0u : same);
  if (target.kind == Operand::VECTOR) call.out(target.parts[1], (uint32_t)everybody);
}
Execute decode_match(Instruction& i) {
  if (!i.has("sync") || i.count != 3) return nullptr;
  i.detail[0] = i.has("all");
  return type_bits(i.last()) == 64 ? match<uint64_t> : match<uint32_t>;
}

enum Reduction : int64_t { ADD, MIN, MAX, AND, OR, XOR };

template <class T>
void reduce(const Call& call) {
  T all[32], mine = call.in<T>(1);
  uint32_t const there = emu_warp_gather(call.in<uint32_t>(2), &mine, all, sizeof(T), 0, "");
  T result = mine;
  bool found = false;
  for (int lane = 0; lane < 32; ++lane) {
    if (!(there >> lane & 1)) continue;
    T const x = all[lane];
    switch (found ? call.at->detail[0] : -1) {
      case ADD: result = (T)((uint32_t)result + (uint32_t)x); break;
      case MIN: result = x < result ? x : result; break;
      case MAX: result = x > result ? x : result; break;
      case AND: result &= x; break;
      case OR: result |= x; break;
      case XOR: result ^= x; break;
      default: result = x;
    }
    found = true;
  }
  call.out(0, result);
}
Execute decode_reduce(Instruction& i) {
  const char* const names[] = {"add", "min", "max", "and", "or", "xor"};
  if (!i.has("sync") || i.count != 3 || type_bits(i.last()) != 32 || i.last()[0] == 'f') return nullptr;
  for (int op = ADD; op <= XOR; ++op)
    if (i.has(names[op])) {
      i.detail[0] = op;
      return i.last()[0] == 's' ? reduce<int32_t> : reduce<uint32_t>;
    }
  return nullptr;
}

void active_mask(const Call& call) { call.out(0, active_mask_at(0, "", call.pc, call.frame)); }
Execute decode_active_mask(Instruction& i) { return i.count == 1 ? active_mask : nullptr; }

// -- barriers --------------------------------------------------------------------------------------------------------------

// bar.sync id{, threads} and bar.arrive id, threads. detail: waits?
void barrier(const Call& call) {
  auto const id = call.in<uint32_t>(0), threads = call.at->count > 1 ? call.in<uint32_t>(1) : 0;
  if (id >= 16) fault(call, "RUNTIME_ERROR", "named-barrier", "", "there is no named barrier %u; a block has 0 to 15", id);
  if (id == 0 && call.at->detail[0] && (threads == 0 || threads == spec.launches[current.launch].block.count()))
    return emu_barrier(0, "");
  named_barrier((int)id, threads, call.at->detail[0], call.pc, call.frame);
}

// bar.red.OP d, 0, {!}p of the whole block.
void barrier_reduce(const Call& call) {
  call.out(0, (uint32_t)emu_barrier_reduce((int)call.at->detail[1], call.predicate(call.at->operands[2]), 0, ""));
}

Execute decode_barrier(Instruction& i) {
  i.detail[0] = i.has("sync");
  i.detail[1] = i.has("and") ? 1 : i.has("or") ? 2 : 0;
  if (i.has("cluster")) return nullptr;
  if (i.has("red")) {
    bool const whole = i.count == 3 && i.operands[1].kind == Operand::INTEGER && i.operands[1].integer == 0;
    return whole ? barrier_reduce : nullptr;
  }
  if (i.has("sync")) return i.count == 1 || i.count == 2 ? barrier : nullptr;
  return i.has("arrive") && i.count == 2 ? barrier : nullptr;
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
    {"bar.warp", decode_warp_barrier}, {"shfl", decode_shuffle}, {"vote", decode_vote}, {"match", decode_match},
    {"redux", decode_reduce}, {"activemask", decode_active_mask},
    {"membar", decode_fence}, {"fence", decode_fence}, {"nanosleep", decode_nothing}, {}};

}  // namespace runner::ptx
