// Moving, converting, comparing, choosing, branching.
#include <float.h>
#include <math.h>
#include <limits>
#include "numbers.h"
#include "ptx_machine.h"

namespace runner::ptx {
namespace {

// -- mov ------------------------------------------------------------------------------------------------------------------

template <class T>
void move(const Call& call) { call.out(0, call.in<T>(1)); }

void move_predicate(const Call& call) { call.out(0, (uint32_t)call.predicate(call.at->operands[1])); }

// `mov.b32 %0, {a, b}` packs, `mov.b32 {a, b}, %0` takes apart; detail[0]: bytes of a part.
void pack(const Call& call) {
  const Operand& parts = call.at->operands[1];
  auto const bytes = (size_t)call.at->detail[0];
  uint8_t whole[16] = {};
  for (int i = 0; i < parts.count; ++i) call.read(parts.parts[i], whole + bytes * (size_t)i, bytes);
  call.write(call.at->operands[0], whole, bytes * (size_t)parts.count);
}
void unpack(const Call& call) {
  const Operand& parts = call.at->operands[0];
  auto const bytes = (size_t)call.at->detail[0];
  uint8_t whole[16] = {};
  call.read(call.at->operands[1], whole, bytes * (size_t)parts.count);
  for (int i = 0; i < parts.count; ++i) call.write(parts.parts[i], whole + bytes * (size_t)i, bytes);
}

Execute decode_move(Instruction& i) {
  if (i.count != 2 || i.word_count != 2) return nullptr;
  int const bits = type_bits(i.last());
  for (int side = 0; side < 2; ++side)
    if (i.operands[side].kind == Operand::VECTOR) {
      i.detail[0] = bits / 8 / i.operands[side].count;
      return i.detail[0] > 0 && bits <= 128 ? side ? pack : unpack : nullptr;
    }
  if (i.operands[1].kind == Operand::LABEL) return nullptr;
  switch (bits) {
    case 1: return move_predicate;
    case 16: return move<uint16_t>;
    case 32: return move<uint32_t>;
    case 64: return move<uint64_t>;
    case 128: return move<unsigned __int128>;
    default: return nullptr;
  }
}

// -- cvt ------------------------------------------------------------------------------------------------------------------

enum class Format : uint8_t { NONE, S8, S16, S32, S64, U8, U16, U32, U64, F16, BF16, TF32, F32, F64 };

Format format_of(const char* type) {
  struct Entry { const char* name; Format format; };
  for (Entry const& entry :
       {Entry{"s8", Format::S8}, {"s16", Format::S16}, {"s32", Format::S32}, {"s64", Format::S64}, {"u8", Format::U8},
        {"u16", Format::U16}, {"u32", Format::U32}, {"u64", Format::U64}, {"f16", Format::F16}, {"bf16", Format::BF16},
        {"tf32", Format::TF32}, {"f32", Format::F32}, {"f64", Format::F64}})
    if (strcmp(type, entry.name) == 0) return entry.format;
  return Format::NONE;
}

bool is_integer(Format f) { return f >= Format::S8 && f <= Format::U64; }
bool is_unsigned(Format f) { return f >= Format::U8 && f <= Format::U64; }
int bits_of(Format f) {
  static constexpr int bits[] = {0, 8, 16, 32, 64, 8, 16, 32, 64, 16, 16, 32, 32, 64};
  return bits[(int)f];
}

__int128 read_integer(const Call& call, const Operand& operand, Format format) {
  auto const raw = call.in<uint64_t>(operand);
  int const unused = 64 - bits_of(format);
  return is_unsigned(format) ? (__int128)(raw << unused >> unused) : (__int128)((int64_t)(raw << unused) >> unused);
}

double read_float(const Call& call, const Operand& operand, Format format) {
  switch (format) {
    case Format::F16: return call.in<Half>(operand).wide();
    case Format::BF16: return call.in<Bfloat>(operand).wide();
    case Format::F64: return call.in<double>(operand);
    default: return call.in<float>(operand);
  }
}

// detail: destination format, source format, rounding, flags.
enum Flag : int64_t { SAT = 1, RELU = 2, FTZ = 4, FINITE = 8 };

uint64_t float_bits(double x, Format format, Round how, int64_t flags) {
  if (flags & RELU) x = x != x ? NAN : x <= 0 ? 0 : x;
  if ((flags & SAT) && !(flags & FINITE)) x = x != x || x <= 0 ? 0 : x > 1 ? 1 : x;
  switch (format) {
    case Format::F16: return Half::from(x, how).bits;
    case Format::BF16: return Bfloat::from(x, how).bits;
    case Format::TF32: return bits_as<uint32_t>((float)round_to(x, 10, -126, 127, how));
    case Format::F64: return bits_as<uint64_t>(x);
    default: {
      float const narrow = how == Round::NEAREST ? (float)x : (float)round_to(x, 23, -126, 127, how);
      return bits_as<uint32_t>(flags & FTZ && fpclassify(narrow) == FP_SUBNORMAL ? copysignf(0.f, narrow) : narrow);
    }
  }
}

__int128 to_integer(double x, Format format, Round how) {
  if (x != x) return 0;
  double const whole = how == Round::ZERO ? trunc(x) : how == Round::DOWN ? floor(x) : how == Round::UP ? ceil(x) : rint(x);
  int const bits = bits_of(format);
  double const high = is_unsigned(format) ? ldexp(1, bits) : ldexp(1, bits - 1), low = is_unsigned(format) ? 0 : -high;
  if (whole >= high) return ((__int128)1 << (is_unsigned(format) ? bits : bits - 1)) - 1;
  return whole <= low ? (__int128)low : (__int128)whole;
}

__int128 clamped(__int128 x, Format format) {
  int const bits = bits_of(format) - (is_unsigned(format) ? 0 : 1);
  __int128 const high = ((__int128)1 << bits) - 1, low = is_unsigned(format) ? 0 : -high - 1;
  return x < low ? low : x > high ? high : x;
}

Round rounding_of(const Instruction& i) {
  if (i.has("rz") || i.has("rzi")) return Round::ZERO;
  if (i.has("rm") || i.has("rmi")) return Round::DOWN;
  if (i.has("rp") || i.has("rpi")) return Round::UP;
  return i.has("rna") ? Round::AWAY : Round::NEAREST;
}

void convert(const Call& call) {
  auto const to = (Format)call.at->detail[0], from = (Format)call.at->detail[1];
  auto const how = (Round)call.at->detail[2];
  int64_t const flags = call.at->detail[3];
  const Operand& source = call.at->operands[1];
  if (is_integer(from)) {
    __int128 const x = read_integer(call, source, from);
    if (is_integer(to)) {
      // Signed results are widened with their sign, as registers hold them.
      auto const kept = (uint64_t)(flags & SAT ? clamped(x, to) : x);
      int const unused = 64 - bits_of(to);
      return call.out(0, is_unsigned(to) ? kept << unused >> unused : (uint64_t)((int64_t)(kept << unused) >> unused));
    }
    auto const near = (double)x;  // of 64 bits it may be inexact: made odd, so that the last rounding is right
    bool const exact = (__int128)near == x;
    double const odd = exact ? near : add_to_odd((double)(int64_t)(x >> 32) * 4294967296.0, (double)(uint32_t)x);
    return call.out(0, float_bits(to == Format::F64 ? near : odd, to, how, flags));
  }
  double x = read_float(call, source, from);
  if ((flags & FTZ) && from == Format::F32 && fpclassify((float)x) == FP_SUBNORMAL) x = copysign(0, x);
  if (is_integer(to)) return call.out(0, (uint64_t)to_integer(x, to, how));
  if (call.at->detail[4]) x = how == Round::ZERO ? trunc(x) : how == Round::DOWN ? floor(x) : how == Round::UP ? ceil(x) : rint(x);
  call.out(0, float_bits(x, to, call.at->detail[4] ? Round::NEAREST : how, flags));
}

// cvt.rn.f16x2.f32 d, a, b: a becomes the upper half.
void convert_pair(const Call& call) {
  auto const how = (Round)call.at->detail[2];
  auto const format = (Format)call.at->detail[0];
  uint64_t const high = float_bits(call.in<float>(1), format, how, call.at->detail[3]);
  uint64_t const low = float_bits(call.in<float>(2), format, how, call.at->detail[3]);
  call.out(0, (uint32_t)(high << 16 | low));
}

// cvt.rn.satfinite.{e4m3x2,e5m2x2}.f32 d, a, b and .f16x2 d, a: a, or the upper half of it, becomes the upper byte.
template <class T>
void convert_to_float8(const Call& call) {
  bool const pair = call.at->count == 2;
  double high = pair ? call.in<Pair<Half>>(1).high.wide() : call.in<float>(1);
  double low = pair ? call.in<Pair<Half>>(1).low.wide() : call.in<float>(2);
  if (call.at->detail[3] & RELU) high = high != high ? high : fmax(high, 0), low = low != low ? low : fmax(low, 0);
  call.out(0, (uint16_t)(T::from(high).bits << 8 | T::from(low).bits));
}

// cvt.rn.f16x2.{e4m3x2,e5m2x2} d, a.
template <class T>
void convert_from_float8(const Call& call) {
  auto const bits = call.in<uint16_t>(1);
  double high = T{(uint8_t)(bits >> 8)}.wide(), low = T{(uint8_t)bits}.wide();
  if (call.at->detail[3] & RELU) high = high != high ? high : fmax(high, 0), low = low != low ? low : fmax(low, 0);
  call.out(0, (uint32_t)Half::from(high).bits << 16 | Half::from(low).bits);
}

Execute decode_float8(Instruction& i) {
  const char *const to = i.words[i.word_count - 2], *const from = i.last();
  if (strcmp(to, "f16x2") == 0 && i.count == 2 && i.has("rn"))
    return strcmp(from, "e4m3x2") == 0 ? convert_from_float8<E4m3> : convert_from_float8<E5m2>;
  bool const fits = strcmp(from, "f32") == 0 ? i.count == 3 : strcmp(from, "f16x2") == 0 && i.count == 2;
  if (!fits || !i.has("rn") || !i.has("satfinite")) return nullptr;
  return strcmp(to, "e4m3x2") == 0 ? convert_to_float8<E4m3> : convert_to_float8<E5m2>;
}

// cvt.pack.sat.{u16,s16}.s32 d, a, b and cvt.pack.sat.{u8,s8}.s32.b32 d, a, b, c.
void pack_saturated(const Call& call) {
  auto const format = (Format)call.at->detail[0];
  int const bits = bits_of(format);
  uint32_t const mask = (1u << bits) - 1;
  uint32_t const a = (uint32_t)clamped(call.in<int32_t>(1), format) & mask, b = (uint32_t)clamped(call.in<int32_t>(2), format) & mask;
  uint32_t const above = call.at->count > 3 && bits < 16 ? call.in<uint32_t>(3) << 2 * bits : 0;
  call.out(0, above | a << bits | b);
}

Execute decode_convert(Instruction& i) {
  if (i.word_count < 3) return nullptr;
  i.detail[2] = (int64_t)rounding_of(i);
  i.detail[3] = (i.has("sat") ? SAT : 0) | (i.has("relu") ? RELU : 0) | (i.has("ftz") ? FTZ : 0) | (i.has("satfinite") ? FINITE : 0);
  if (i.has("pack")) {
    i.detail[0] = (int64_t)format_of(i.words[3]);
    return i.count >= 3 && is_integer((Format)i.detail[0]) && bits_of((Format)i.detail[0]) >= 8 ? pack_saturated : nullptr;
  }
  if (i.has("e4m3x2") || i.has("e5m2x2")) return decode_float8(i);
  const char* const to = i.words[i.word_count - 2];
  bool const pair = strcmp(to, "f16x2") == 0 || strcmp(to, "bf16x2") == 0;
  if (pair && strcmp(i.last(), "f32") == 0 && i.count == 3) {
    i.detail[0] = (int64_t)(to[0] == 'b' ? Format::BF16 : Format::F16);
    return i.detail[3] & FINITE ? nullptr : convert_pair;
  }
  i.detail[0] = (int64_t)format_of(to), i.detail[1] = (int64_t)format_of(i.last());
  if (!i.detail[0] || !i.detail[1] || i.count != 2 || i.detail[3] & FINITE) return nullptr;
  i.detail[4] = i.has("rni") || i.has("rzi") || i.has("rmi") || i.has("rpi");
  return convert;
}

// -- comparisons ---------------------------------------------------------------------------------------------------------

enum class Compare : uint8_t { EQ, NE, LT, LE, GT, GE, EQU, NEU, LTU, LEU, GTU, GEU, NUM, NAN_, NONE };

Compare compare_of(const char* word) {
  struct Entry { const char* name; Compare compare; };
  for (Entry const& e : {Entry{"eq", Compare::EQ}, {"ne", Compare::NE}, {"lt", Compare::LT}, {"le", Compare::LE},
                         {"gt", Compare::GT}, {"ge", Compare::GE}, {"lo", Compare::LT}, {"ls", Compare::LE},
                         {"hi", Compare::GT}, {"hs", Compare::GE}, {"equ", Compare::EQU}, {"neu", Compare::NEU},
                         {"ltu", Compare::LTU}, {"leu", Compare::LEU}, {"gtu", Compare::GTU}, {"geu", Compare::GEU},
                         {"num", Compare::NUM}, {"nan", Compare::NAN_}})
    if (strcmp(word, e.name) == 0) return e.compare;
  return Compare::NONE;
}

template <class T>
bool holds(T a, T b, Compare how) {
  bool const unordered = a != a || b != b;
  switch (how) {
    case Compare::EQ: return a == b;
    case Compare::NE: return !unordered && a != b;
    case Compare::LT: return a < b;
    case Compare::LE: return a <= b;
    case Compare::GT: return a > b;
    case Compare::GE: return a >= b;
    case Compare::EQU: return unordered || a == b;
    case Compare::NEU: return unordered || a != b;
    case Compare::LTU: return unordered || a < b;
    case Compare::LEU: return unordered || a <= b;
    case Compare::GTU: return unordered || a > b;
    case Compare::GEU: return unordered || a >= b;
    case Compare::NUM: return !unordered;
    default: return unordered;
  }
}

// detail: comparison, boolean operation with a further predicate (0 none, 1 and, 2 or, 3 xor), format, 1 for `.bN`.
bool compared(const Call& call) {
  auto const how = (Compare)call.at->detail[0];
  auto const format = (Format)call.at->detail[2];
  const Operand &a = call.at->operands[1], &b = call.at->operands[2];
  if (is_integer(format)) return holds(read_integer(call, a, format), read_integer(call, b, format), how);
  double x = read_float(call, a, format), y = read_float(call, b, format);
  if (call.at->detail[4]) x = fabs(x) < FLT_MIN ? 0 : x, y = fabs(y) < FLT_MIN ? 0 : y;
  return holds(x, y, how);
}

bool combined(const Call& call, bool result) {
  if (!call.at->detail[1]) return result;
  bool const other = call.predicate(call.at->operands[3]);
  return call.at->detail[1] == 1 ? result && other : call.at->detail[1] == 2 ? result || other : result != other;
}

void set_predicate(const Call& call) {
  bool const result = compared(call);
  const Operand& target = call.at->operands[0];
  if (target.kind != Operand::VECTOR) return call.out(target, (uint32_t)combined(call, result));
  call.out(target.parts[0], (uint32_t)combined(call, result));
  call.out(target.parts[1], (uint32_t)combined(call, !result));
}

void set_value(const Call& call) {
  bool const result = combined(call, compared(call));
  if (call.at->detail[3]) call.out(0, result ? 1.f : 0.f);
  else call.out(0, result ? ~0u : 0u);
}

Format compared_format(const char* type) {
  if (type[0] != 'b' || strcmp(type, "bf16") == 0) return format_of(type);
  int const bits = type_bits(type);
  return bits == 16 ? Format::U16 : bits == 32 ? Format::U32 : bits == 64 ? Format::U64 : Format::NONE;
}

bool decode_comparison(Instruction& i) {
  if (i.word_count < 3 || i.count < 3) return false;
  i.detail[0] = (int64_t)compare_of(i.words[1]);
  i.detail[1] = i.has("and") ? 1 : i.has("or") ? 2 : i.has("xor") ? 3 : 0;
  i.detail[2] = (int64_t)compared_format(i.last());
  i.detail[4] = i.has("ftz");
  return i.detail[0] != (int64_t)Compare::NONE && i.detail[2] != 0 && (i.detail[1] == 0) == (i.count == 3);
}

Execute decode_setp(Instruction& i) { return decode_comparison(i) ? set_predicate : nullptr; }
Execute decode_set(Instruction& i) {
  if (!decode_comparison(i)) return nullptr;
  const char* const to = i.words[i.word_count - 2];
  i.detail[3] = strcmp(to, "f32") == 0;
  return i.detail[3] || strcmp(to, "u32") == 0 || strcmp(to, "s32") == 0 ? set_value : nullptr;
}

template <class T>
void select(const Call& call) { call.out(0, call.predicate(call.at->operands[3]) ? call.in<T>(1) : call.in<T>(2)); }

Execute decode_select(Instruction& i) {
  bool const is_float = i.last()[0] == 'f';
  if (i.count != 4) return nullptr;
  switch (type_bits(i.last())) {
    case 16: return select<uint16_t>;
    case 32: return is_float ? select<float> : select<uint32_t>;
    case 64: return is_float ? select<double> : select<uint64_t>;
    default: return nullptr;
  }
}

// -- flow -----------------------------------------------------------------------------------------------------------------

void branch(const Call& call) { *call.next = call.at->operands[0].index; }
Execute decode_branch(Instruction& i) { return i.count == 1 && i.operands[0].kind == Operand::LABEL ? branch : nullptr; }

void stop(const Call& call) {
  fault(call, "RUNTIME_ERROR", "trap", "", "the kernel stopped itself with %s", call.at->opcode);
}
Execute decode_stop(Instruction&) { return stop; }

void nothing(const Call&) {}
Execute decode_nothing(Instruction&) { return nothing; }

}  // namespace

const Family move_family[] = {
    {"mov", decode_move}, {"cvt", decode_convert}, {"setp", decode_setp}, {"set", decode_set}, {"selp", decode_select},
    {"bra", decode_branch}, {"trap", decode_stop}, {"brkpt", decode_stop}, {"griddepcontrol", decode_nothing},
    {"pmevent", decode_nothing}, {}};

}  // namespace runner::ptx
