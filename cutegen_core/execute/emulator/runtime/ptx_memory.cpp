// Loads, stores, atomics, prefetches and address spaces.
#include <math.h>
#include "numbers.h"
#include "ptx_machine.h"

namespace runner::ptx {
namespace {

bool is_shared(const Instruction& i) {
  return i.has("shared") || i.has("shared::cta") || i.has("shared::cluster");
}

uintptr_t address_of(const Call& call, int operand) {
  return call.at->detail[0] ? call.shared_address(operand) : call.generic_address(operand);
}

// -- ld, st ---------------------------------------------------------------------------------------------------------------

// detail: shared?, bytes of an element, signed?, elements, how the checker sees it, may another thread be waited for?
const Operand* element(const Operand& operand, int i) { return operand.kind == Operand::VECTOR ? &operand.parts[i] : &operand; }

enum Order : int64_t { SPINS = 1, ACQUIRES = 2, RELEASES = 4, READ_ONLY = 8 };

// Orders of less than the device's scope do not reach other blocks.
int64_t order_of(const Instruction& i) {
  bool const both = i.has("acq_rel"), narrow = i.has("cta");
  bool const acquires = !narrow && (both || i.has("acquire")), releases = !narrow && (both || i.has("release"));
  bool const strong = both || i.has("acquire") || i.has("release") || i.has("relaxed") || i.has("volatile");
  return (strong ? SPINS : 0) | (acquires ? ACQUIRES : 0) | (releases ? RELEASES : 0);
}

void ordered_access(const Call& call, uintptr_t address, size_t bytes, Access kind) {
  int64_t const order = call.at->detail[5];
  if (spec.checked && (order & RELEASES)) note_fence();
  strong_access = kind != Access::ATOMIC && (order & SPINS);
  access(call, address, bytes, kind, bytes);
  strong_access = false;
  if (spec.checked && (order & ACQUIRES)) note_fence();
}

void load(const Call& call) {
  auto const bytes = (size_t)call.at->detail[1];
  auto const count = (int)call.at->detail[3];
  uintptr_t const address = address_of(call, 1);
  if (call.at->detail[5] & SPINS) spin_point(address);
  ordered_access(call, address, bytes * (size_t)count, (Access)call.at->detail[4]);
  if (spec.checked && (call.at->detail[5] & READ_ONLY)) check_read_only(address, bytes * (size_t)count, call.pc, call.frame);
  for (int i = 0; i < count; ++i) {
    uint64_t value = 0;
    memcpy(&value, (const uint8_t*)address + bytes * (size_t)i, bytes);
    int const unused = 64 - 8 * (int)bytes;
    if (call.at->detail[2]) value = (uint64_t)((int64_t)(value << unused) >> unused);
    call.write(*element(call.at->operands[0], i), &value, bytes < 4 ? 4 : bytes);
  }
}

void store(const Call& call) {
  auto const bytes = (size_t)call.at->detail[1];
  auto const count = (int)call.at->detail[3];
  uint8_t values[64];
  for (int i = 0; i < count; ++i) call.read(*element(call.at->operands[1], i), values + bytes * (size_t)i, bytes);
  uintptr_t const address = address_of(call, 0);
  ordered_access(call, address, bytes * (size_t)count, (Access)call.at->detail[4]);
  memcpy((void*)address, values, bytes * (size_t)count);
}

int elements_of(const Instruction& i) {
  return i.has("v2") ? 2 : i.has("v4") ? 4 : i.has("v8") ? 8 : 1;
}

bool decode_access(Instruction& i, Access kind) {
  const char* const type = i.last();
  if (i.count < 2 || i.count > 3 || i.has("param") || i.has("mmio")) return false;
  int const bits = type_bits(type);
  i.detail[0] = is_shared(i);
  i.detail[1] = bits / 8, i.detail[2] = type[0] == 's', i.detail[3] = elements_of(i);
  bool const ordered = i.has("relaxed") || i.has("acquire") || i.has("release");
  i.detail[4] = (int64_t)(ordered ? Access::ATOMIC : kind);
  i.detail[5] = order_of(i) | (i.has("nc") || strcmp(i.words[0], "ldu") == 0 ? READ_ONLY : 0);
  const Operand& value = i.operands[kind == Access::READ ? 0 : 1];
  int const given = value.kind == Operand::VECTOR ? value.count : 1;
  return bits >= 8 && bits <= 64 && given == i.detail[3] && bits / 8 * given <= 32;
}

Execute decode_load(Instruction& i) { return decode_access(i, Access::READ) ? load : nullptr; }
Execute decode_store(Instruction& i) { return !i.has("async") && decode_access(i, Access::WRITE) ? store : nullptr; }

// -- atom, red ----------------------------------------------------------------------------------------------------------

template <class T>
T number(uint64_t bits) {
  T value;
  memcpy(&value, &bits, sizeof value);
  return value;
}
template <class T>
uint64_t bits_of(T value) {
  uint64_t bits = 0;
  memcpy(&bits, &value, sizeof value);
  return bits;
}
uint64_t half_sum(uint64_t a, uint64_t b, bool bfloat, int shift) {
  auto const x = (uint16_t)(a >> shift), y = (uint16_t)(b >> shift);
  uint16_t const sum = bfloat ? Bfloat::from(add_to_odd(Bfloat{x}.wide(), Bfloat{y}.wide())).bits
                              : Half::from(Half{x}.wide() + Half{y}.wide()).bits;
  return (uint64_t)sum << shift;
}

uint64_t exchange(uint64_t, uint64_t b, uint64_t) { return b; }
uint64_t swap_if_equal(uint64_t old, uint64_t b, uint64_t c) { return old == b ? c : old; }
uint64_t change_and(uint64_t old, uint64_t b, uint64_t) { return old & b; }
uint64_t change_or(uint64_t old, uint64_t b, uint64_t) { return old | b; }
uint64_t change_xor(uint64_t old, uint64_t b, uint64_t) { return old ^ b; }
uint64_t increment(uint64_t old, uint64_t b, uint64_t) { return old >= b ? 0 : old + 1; }
uint64_t decrement(uint64_t old, uint64_t b, uint64_t) { return old == 0 || old > b ? b : old - 1; }
uint64_t add_half(uint64_t old, uint64_t b, uint64_t) { return half_sum(old, b, false, 0); }
uint64_t add_bfloat(uint64_t old, uint64_t b, uint64_t) { return half_sum(old, b, true, 0); }
uint64_t add_half_pair(uint64_t old, uint64_t b, uint64_t) { return half_sum(old, b, false, 0) | half_sum(old, b, false, 16); }
uint64_t add_bfloat_pair(uint64_t old, uint64_t b, uint64_t) { return half_sum(old, b, true, 0) | half_sum(old, b, true, 16); }
template <class T>
uint64_t change_add(uint64_t old, uint64_t b, uint64_t) { return bits_of((T)(number<T>(old) + number<T>(b))); }
template <class T>
uint64_t change_min(uint64_t old, uint64_t b, uint64_t) { return number<T>(b) < number<T>(old) ? b : old; }
template <class T>
uint64_t change_max(uint64_t old, uint64_t b, uint64_t) { return number<T>(old) < number<T>(b) ? b : old; }

template <class T, bool MIN>
uint64_t change_extreme(uint64_t old, uint64_t b, uint64_t) {
  double const x = T{(uint16_t)old}.wide(), y = T{(uint16_t)b}.wide();
  return x != x || (MIN ? y < x : x < y) ? b : old;
}

Change sum_of(const char* type) {
  struct Entry { const char* type; Change change; };
  for (Entry const& e : {Entry{"u32", change_add<uint32_t>}, {"s32", change_add<uint32_t>}, {"u64", change_add<uint64_t>},
                         {"s64", change_add<uint64_t>}, {"f32", change_add<float>}, {"f64", change_add<double>},
                         {"f16", add_half}, {"bf16", add_bfloat}, {"f16x2", add_half_pair}, {"bf16x2", add_bfloat_pair}})
    if (strcmp(type, e.type) == 0) return e.change;
  return nullptr;
}

}  // namespace

Change change_of(const Instruction& i, const char* type) {
  int const bits = type_bits(type);
  bool const wide = bits == 64, is_signed = type[0] == 's', floating = type[0] == 'f' || strncmp(type, "bf", 2) == 0;
  if (i.has("add")) return sum_of(type);
  if (i.has("exch")) return exchange;
  if (i.has("cas")) return swap_if_equal;
  if (strcmp(type, "f16") == 0)
    return i.has("min") ? change_extreme<Half, true> : i.has("max") ? change_extreme<Half, false> : nullptr;
  if (strcmp(type, "bf16") == 0)
    return i.has("min") ? change_extreme<Bfloat, true> : i.has("max") ? change_extreme<Bfloat, false> : nullptr;
  if (floating || bits < 32) return nullptr;
  if (i.has("and")) return change_and;
  if (i.has("or")) return change_or;
  if (i.has("xor")) return change_xor;
  if (i.has("inc")) return increment;
  if (i.has("dec")) return decrement;
  if (i.has("min")) return is_signed ? wide ? change_min<int64_t> : change_min<int32_t>
                                     : wide ? change_min<uint64_t> : change_min<uint32_t>;
  if (i.has("max")) return is_signed ? wide ? change_max<int64_t> : change_max<int32_t>
                                     : wide ? change_max<uint64_t> : change_max<uint32_t>;
  return nullptr;
}

uint64_t change_at(uintptr_t address, size_t bytes, Change change, uint64_t b, uint64_t c) {
  uint64_t old = 0, desired;
  emu_atomic_load((const void*)address, &old, bytes);
  do desired = change(old, b, c);
  while (!emu_compare_exchange((void*)address, &old, &desired, bytes));
  return old;
}

namespace {

// detail: shared?, bytes, function, elements, first operand of the values (1 for atom, 0 for red).
void update(const Call& call) {
  auto const bytes = (size_t)call.at->detail[1];
  auto const count = (int)call.at->detail[3], first = (int)call.at->detail[4];
  uintptr_t const address = address_of(call, first);
  spin_point(address);
  ordered_access(call, address, bytes * (size_t)count, Access::ATOMIC);
  for (int i = 0; i < count; ++i) {
    uint64_t b = 0, c = 0;
    call.read(*element(call.at->operands[first + 1], i), &b, bytes);
    if (call.at->has("cas")) call.read(call.at->operands[first + 2], &c, bytes);
    uint64_t const old = change_at(address + bytes * (size_t)i, bytes, (Change)call.at->detail[2], b, c);
    if (first) call.write(*element(call.at->operands[0], i), &old, bytes);
  }
}

Execute decode_update(Instruction& i) {
  bool const returns = strcmp(i.words[0], "atom") == 0;
  int const bits = type_bits(i.last());
  if (i.has("async") || bits < 16 || bits > 64 || i.count < (returns ? 3 : 2)) return nullptr;
  i.detail[0] = is_shared(i);
  i.detail[1] = bits / 8, i.detail[2] = (int64_t)change_of(i, i.last()), i.detail[3] = elements_of(i), i.detail[4] = returns;
  i.detail[5] = order_of(i);
  return i.detail[2] ? update : nullptr;
}

// -- address spaces, hints ------------------------------------------------------------------------------------------------

// cvta.to.shared.u64 makes an offset of a generic address, cvta.shared.u64 the reverse; other spaces are generic already.
void to_shared(const Call& call) { call.out(0, (uint64_t)emu_generic_to_shared((void*)call.in<uint64_t>(1))); }
void from_shared(const Call& call) { call.out(0, (uint64_t)emu_shared_to_generic(call.in<uint64_t>(1))); }
void same_address(const Call& call) { call.out(0, call.in<uint64_t>(1)); }

Execute decode_cvta(Instruction& i) {
  if (i.count != 2) return nullptr;
  if (!is_shared(i)) return same_address;
  return i.has("to") ? to_shared : from_shared;
}

void is_in_shared(const Call& call) { call.out(0, (uint32_t)emu_is_shared((void*)call.in<uint64_t>(1))); }
void is_in_global(const Call& call) { call.out(0, (uint32_t)emu_is_global((void*)call.in<uint64_t>(1))); }
Execute decode_isspacep(Instruction& i) { return is_shared(i) ? is_in_shared : i.has("global") ? is_in_global : nullptr; }

void nothing(const Call&) {}
Execute decode_hint(Instruction&) { return nothing; }

// A cache policy is a number that nothing here looks at.
void policy(const Call& call) { call.out(0, (uint64_t)0); }
Execute decode_policy(Instruction&) { return policy; }

}  // namespace

const Family memory_family[] = {
    {"ld", decode_load}, {"ldu", decode_load}, {"st", decode_store}, {"atom", decode_update}, {"red", decode_update},
    {"cvta", decode_cvta}, {"isspacep", decode_isspacep}, {"prefetch", decode_hint}, {"prefetchu", decode_hint},
    {"applypriority", decode_hint}, {"discard", decode_hint}, {"createpolicy", decode_policy}, {}};

}  // namespace runner::ptx
