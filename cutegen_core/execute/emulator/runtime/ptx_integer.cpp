// Integer arithmetic and bits.
#include <limits>
#include "ptx_machine.h"

namespace runner::ptx {
namespace {

template <class T>
using Unsigned = std::make_unsigned_t<T>;
template <class T>
struct Wider;
template <> struct Wider<int16_t> { using type = int32_t; };
template <> struct Wider<uint16_t> { using type = uint32_t; };
template <> struct Wider<int32_t> { using type = int64_t; };
template <> struct Wider<uint32_t> { using type = uint64_t; };
template <> struct Wider<int64_t> { using type = __int128; };
template <> struct Wider<uint64_t> { using type = unsigned __int128; };

template <class T>
T saturated(__int128 x) {
  constexpr T low = std::numeric_limits<T>::min(), high = std::numeric_limits<T>::max();
  return x < low ? low : x > high ? high : (T)x;
}

// -- two or three operands of one type ---------------------------------------------------------------------------------

// Wraps as the hardware does: signed overflow is computed unsigned.
#define EMU_INTEGER(NAME, EXPRESSION)                                     \
  struct NAME {                                                           \
    template <class T>                                                    \
    static T of(T a, T b, T c) {                                          \
      [[maybe_unused]] auto const ua = (Unsigned<T>)a, ub = (Unsigned<T>)b, uc = (Unsigned<T>)c; \
      [[maybe_unused]] constexpr int width = 8 * (int)sizeof(T);          \
      using W [[maybe_unused]] = typename Wider<T>::type;                 \
      return (T)(EXPRESSION);                                             \
    }                                                                     \
  };
EMU_INTEGER(Add, ua + ub)
EMU_INTEGER(AddSaturated, saturated<T>((__int128)a + b))
EMU_INTEGER(Sub, ua - ub)
EMU_INTEGER(SubSaturated, saturated<T>((__int128)a - b))
EMU_INTEGER(MulLow, (unsigned __int128)ua * ub)
EMU_INTEGER(MulHigh, ((W)a * (W)b) >> width)
EMU_INTEGER(MadLow, (unsigned __int128)ua * ub + uc)
EMU_INTEGER(MadHigh, (Unsigned<T>)(((W)a * (W)b) >> width) + uc)
EMU_INTEGER(Sad, uc + (a < b ? ub - ua : ua - ub))
EMU_INTEGER(Div, b == 0 ? (T)-1 : b == (T)-1 && std::numeric_limits<T>::is_signed ? (T)(0 - ua) : a / b)
EMU_INTEGER(Rem, b == 0 ? (T)-1 : b == (T)-1 && std::numeric_limits<T>::is_signed ? 0 : a % b)
EMU_INTEGER(Min, a < b ? a : b)
EMU_INTEGER(Max, a < b ? b : a)
EMU_INTEGER(Abs, a < 0 ? 0 - ua : ua)
EMU_INTEGER(Neg, 0 - ua)
EMU_INTEGER(And, a & b)
EMU_INTEGER(Or, a | b)
EMU_INTEGER(Xor, a ^ b)
EMU_INTEGER(Not, ~a)
EMU_INTEGER(LogicalNot, a == 0)
#undef EMU_INTEGER

template <class T, class Op>
void integer(const Call& call) {
  int const count = call.at->count;
  call.out(0, Op::of(call.in<T>(1), count > 2 ? call.in<T>(2) : T{}, count > 3 ? call.in<T>(3) : T{}));
}

// Of two 16-bit numbers each in a word.
template <class T, class Op>
void integer_pair(const Call& call) {
  int const count = call.at->count;
  uint32_t const a = call.in<uint32_t>(1), b = count > 2 ? call.in<uint32_t>(2) : 0;
  auto const low = (uint16_t)Op::of((T)a, (T)b, T{}), high = (uint16_t)Op::of((T)(a >> 16), (T)(b >> 16), T{});
  call.out(0, (uint32_t)high << 16 | low);
}

template <class Op>
Execute by_type(const char* type) {
  bool const is_signed = type[0] == 's';
  if (type[0] != 's' && type[0] != 'u' && type[0] != 'b') return nullptr;
  if (strcmp(type + 1, "16x2") == 0) return is_signed ? integer_pair<int16_t, Op> : integer_pair<uint16_t, Op>;
  switch (type_bits(type)) {
    case 16: return is_signed ? integer<int16_t, Op> : integer<uint16_t, Op>;
    case 32: return is_signed ? integer<int32_t, Op> : integer<uint32_t, Op>;
    case 64: return is_signed ? integer<int64_t, Op> : integer<uint64_t, Op>;
    default: return nullptr;
  }
}

template <class Op>
Execute decode_simple(Instruction& i) {
  return i.word_count == 2 ? by_type<Op>(i.last()) : nullptr;
}

// -- products twice as wide as their factors ----------------------------------------------------------------------------

template <class T>
void wide_product(const Call& call) {
  using W = typename Wider<T>::type;
  W const product = (W)call.in<T>(1) * (W)call.in<T>(2);
  call.out(0, call.at->count > 3 ? (W)((Unsigned<W>)product + (Unsigned<W>)call.in<W>(3)) : product);
}

Execute decode_wide(const Instruction& i) {
  const char* const type = i.last();
  if (strcmp(type, "s32") == 0) return wide_product<int32_t>;
  if (strcmp(type, "u32") == 0) return wide_product<uint32_t>;
  if (strcmp(type, "s16") == 0) return wide_product<int16_t>;
  if (strcmp(type, "u16") == 0) return wide_product<uint16_t>;
  return nullptr;
}

template <class T>
void product24(const Call& call) {
  T const a = (T)(call.in<T>(1) << 8) >> 8, b = (T)(call.in<T>(2) << 8) >> 8;
  auto const product = (typename Wider<T>::type)a * b;
  auto const part = (T)(call.at->detail[0] ? product >> 16 : product);
  call.out(0, (T)(part + (call.at->count > 3 ? call.in<T>(3) : T{})));
}

Execute decode_24(Instruction& i) {
  if (i.has("sat")) return nullptr;
  i.detail[0] = i.has("hi");
  return strcmp(i.last(), "s32") == 0 ? product24<int32_t> : product24<uint32_t>;
}

// -- bits -----------------------------------------------------------------------------------------------------------------

template <class T>
void shift_left(const Call& call) {
  auto const n = call.in<uint32_t>(2);
  call.out(0, (T)(n >= 8 * sizeof(T) ? 0 : (T)(call.in<T>(1) << n)));
}
template <class T>
void shift_right(const Call& call) {
  constexpr uint32_t last = 8 * sizeof(T) - 1;
  auto const n = call.in<uint32_t>(2);
  T const x = call.in<T>(1);
  call.out(0, (T)(n > last ? (x < 0 ? (T)-1 : 0) : x >> n));
}

Execute decode_shift_left(Instruction& i) {
  int const bits = type_bits(i.last());
  return bits == 16 ? shift_left<uint16_t> : bits == 32 ? shift_left<uint32_t> : bits == 64 ? shift_left<uint64_t> : nullptr;
}
Execute decode_shift_right(Instruction& i) {
  int const bits = type_bits(i.last());
  if (i.last()[0] == 's') return bits == 16 ? shift_right<int16_t> : bits == 32 ? shift_right<int32_t> : shift_right<int64_t>;
  return bits == 16 ? shift_right<uint16_t> : bits == 32 ? shift_right<uint32_t> : bits == 64 ? shift_right<uint64_t> : nullptr;
}

// shf: two words shifted as one; `.l` keeps the upper, `.r` the lower.
void funnel(const Call& call) {
  uint32_t n = call.in<uint32_t>(3);
  n = call.at->detail[0] ? n & 31 : n > 32 ? 32 : n;
  uint64_t const both = (uint64_t)call.in<uint32_t>(2) << 32 | call.in<uint32_t>(1);
  call.out(0, (uint32_t)(call.at->detail[1] ? (both << n) >> 32 : both >> n));
}
Execute decode_funnel(Instruction& i) {
  i.detail[0] = i.has("wrap"), i.detail[1] = i.has("l");
  return funnel;
}

template <class T>
void count_ones(const Call& call) { call.out(0, (uint32_t)__builtin_popcountll(call.in<T>(1))); }
template <class T>
void leading_zeros(const Call& call) {
  T const x = call.in<T>(1);
  call.out(0, (uint32_t)(x ? __builtin_clzll(x) - (64 - 8 * (int)sizeof(T)) : 8 * (int)sizeof(T)));
}
template <class T>
void reversed(const Call& call) {
  T const x = call.in<T>(1);
  T result = 0;
  for (unsigned b = 0; b < 8 * sizeof(T); ++b) result |= (T)((x >> b & 1) << (8 * sizeof(T) - 1 - b));
  call.out(0, result);
}
// The position of the highest bit that is not the sign; all ones when there is none.
template <class T>
void find_bit(const Call& call) {
  T const given = call.in<T>(1);
  auto const x = (Unsigned<T>)(given < 0 ? ~given : given);
  int const highest = x ? 63 - __builtin_clzll(x) : -1;
  call.out(0, (uint32_t)(highest < 0 ? -1 : call.at->detail[0] ? 8 * (int)sizeof(T) - 1 - highest : highest));
}


Execute decode_popc(Instruction& i) { return type_bits(i.last()) == 64 ? count_ones<uint64_t> : count_ones<uint32_t>; }
Execute decode_clz(Instruction& i) { return type_bits(i.last()) == 64 ? leading_zeros<uint64_t> : leading_zeros<uint32_t>; }
Execute decode_brev(Instruction& i) { return type_bits(i.last()) == 64 ? reversed<uint64_t> : reversed<uint32_t>; }
Execute decode_bfind(Instruction& i) {
  i.detail[0] = i.has("shiftamt");
  const char* const type = i.last();
  if (type[0] == 's') return type_bits(type) == 64 ? find_bit<int64_t> : find_bit<int32_t>;
  return type_bits(type) == 64 ? find_bit<uint64_t> : find_bit<uint32_t>;
}

template <class T>
void extract(const Call& call) {
  T const x = call.in<T>(1);
  constexpr int last = 8 * (int)sizeof(T) - 1;
  int const position = (int)(call.in<uint32_t>(2) & 0xFF), length = (int)(call.in<uint32_t>(3) & 0xFF);
  bool const minus = std::numeric_limits<T>::is_signed && length && (x >> (position + length - 1 < last ? position + length - 1 : last) & 1);
  T result = 0;
  for (int b = 0; b <= last; ++b) {
    bool const taken = b < length && position + b <= last;
    result |= (T)((Unsigned<T>)(taken ? (x >> (position + b) & 1) : minus) << b);
  }
  call.out(0, result);
}
template <class T>
void insert(const Call& call) {
  T const from = call.in<T>(1);
  T result = call.in<T>(2);
  uint32_t const position = call.in<uint32_t>(3) & 0xFF, length = call.in<uint32_t>(4) & 0xFF;
  for (uint32_t b = 0; b < length && position + b < 8 * sizeof(T); ++b) {
    T const bit = (T)1 << (position + b);
    result = (T)(from >> b & 1 ? result | bit : result & ~bit);
  }
  call.out(0, result);
}
Execute decode_extract(Instruction& i) {
  const char* const type = i.last();
  if (type[0] == 's') return type_bits(type) == 64 ? extract<int64_t> : extract<int32_t>;
  return type_bits(type) == 64 ? extract<uint64_t> : extract<uint32_t>;
}
Execute decode_insert(Instruction& i) { return type_bits(i.last()) == 64 ? insert<uint64_t> : insert<uint32_t>; }

void any_logic(const Call& call) {
  auto const a = call.in<uint32_t>(1), b = call.in<uint32_t>(2), c = call.in<uint32_t>(3), table = call.in<uint32_t>(4);
  uint32_t result = 0;
  for (int bit = 0; bit < 32; ++bit) {
    uint32_t const row = (a >> bit & 1) << 2 | (b >> bit & 1) << 1 | (c >> bit & 1);
    result |= (table >> row & 1) << bit;
  }
  call.out(0, result);
}
Execute decode_lop3(Instruction& i) { return i.count == 5 && strcmp(i.opcode, "lop3.b32") == 0 ? any_logic : nullptr; }

void permute(const Call& call) {
  uint64_t const both = (uint64_t)call.in<uint32_t>(2) << 32 | call.in<uint32_t>(1);
  uint32_t const selector = call.in<uint32_t>(3);
  uint32_t result = 0;
  for (int i = 0; i < 4; ++i) {
    uint32_t const choice = selector >> 4 * i & 15, byte = (uint32_t)(both >> 8 * (choice & 7)) & 0xFF;
    result |= (choice & 8 ? (byte & 0x80 ? 0xFFu : 0u) : byte) << 8 * i;
  }
  call.out(0, result);
}

// Where byte i of the result of a mode comes from, of the eight of both words.
using Source = int (*)(int i, int c);
void permute_by_mode(const Call& call) {
  uint64_t const both = (uint64_t)call.in<uint32_t>(2) << 32 | call.in<uint32_t>(1);
  auto const source = (Source)call.at->detail[0];
  int const c = (int)(call.in<uint32_t>(3) & 3);
  uint32_t result = 0;
  for (int i = 0; i < 4; ++i) result |= ((uint32_t)(both >> 8 * source(i, c)) & 0xFF) << 8 * i;
  call.out(0, result);
}

Execute decode_permute(Instruction& i) {
  if (strcmp(i.opcode, "prmt.b32") == 0) return permute;
  struct Mode { const char* name; Source source; };
  for (Mode const& mode : {Mode{"f4e", [](int i, int c) { return i + c; }}, {"b4e", [](int i, int c) { return (c - i) & 7; }},
                           {"rc8", [](int, int c) { return c; }}, {"ecl", [](int i, int c) { return i > c ? i : c; }},
                           {"ecr", [](int i, int c) { return i < c ? i : c; }}, {"rc16", [](int i, int c) { return 2 * (c & 1) + (i & 1); }}})
    if (i.has(mode.name)) return i.detail[0] = (int64_t)mode.source, permute_by_mode;
  return nullptr;
}

// detail: whether numbers of bits wrap; they are clamped else.
uint32_t bits_in(const Call& call, int operand) {
  auto const n = call.in<uint32_t>(operand);
  return call.at->detail[0] ? n & 31 : n < 32 ? n : 32;
}
void make_mask(const Call& call) {
  uint64_t const ones = ((uint64_t)1 << bits_in(call, 2)) - 1;
  call.out(0, (uint32_t)(ones << bits_in(call, 1)));
}
template <class T>
void extend(const Call& call) {
  uint32_t const unused = 32 - bits_in(call, 2);
  call.out(0, (uint32_t)(unused == 32 ? 0 : (T)(call.in<uint32_t>(1) << unused) >> unused));
}
Execute decode_mask(Instruction& i) {
  i.detail[0] = i.has("wrap");
  return i.count == 3 ? make_mask : nullptr;
}
Execute decode_extend(Instruction& i) {
  i.detail[0] = i.has("wrap");
  return i.count != 3 ? nullptr : i.last()[0] == 's' ? extend<int32_t> : extend<uint32_t>;
}

// -- small dot products -----------------------------------------------------------------------------------------------

int32_t byte_at(uint32_t word, int i, bool is_signed) {
  auto const byte = (uint8_t)(word >> 8 * i);
  return is_signed ? (int8_t)byte : byte;
}

void dot4(const Call& call) {
  auto const a = call.in<uint32_t>(1), b = call.in<uint32_t>(2);
  auto sum = call.in<uint32_t>(3);
  for (int i = 0; i < 4; ++i) sum += (uint32_t)(byte_at(a, i, call.at->detail[0]) * byte_at(b, i, call.at->detail[1]));
  call.out(0, sum);
}
void dot2(const Call& call) {
  auto const a = call.in<uint32_t>(1), b = call.in<uint32_t>(2);
  auto sum = call.in<uint32_t>(3);
  for (int i = 0; i < 2; ++i) {
    auto const word = (uint16_t)(a >> 16 * i);
    int32_t const wide = call.at->detail[0] ? (int16_t)word : word;
    sum += (uint32_t)(wide * byte_at(b, i + (call.at->detail[2] ? 2 : 0), call.at->detail[1]));
  }
  call.out(0, sum);
}
bool types_of_dot(Instruction& i) {
  if (i.word_count < 3) return false;
  i.detail[0] = i.words[i.word_count - 2][0] == 's', i.detail[1] = i.last()[0] == 's', i.detail[2] = i.has("hi");
  return true;
}
Execute decode_dot4(Instruction& i) { return types_of_dot(i) ? dot4 : nullptr; }
Execute decode_dot2(Instruction& i) { return types_of_dot(i) ? dot2 : nullptr; }

// -- predicates ----------------------------------------------------------------------------------------------------------

enum Logic : int64_t { AND, OR, XOR, NOT };

void predicates(const Call& call) {
  bool const a = call.predicate(call.at->operands[1]), b = call.at->count > 2 && call.predicate(call.at->operands[2]);
  int64_t const how = call.at->detail[0];
  call.out(0, (uint32_t)(how == AND ? a && b : how == OR ? a || b : how == XOR ? a != b : !a));
}

template <class Op, int64_t How>
Execute decode_logic(Instruction& i) {
  if (strcmp(i.last(), "pred") != 0) return decode_simple<Op>(i);
  i.detail[0] = How;
  return predicates;
}

template <class Low, class High>
Execute decode_product(Instruction& i) {
  if (i.has("wide")) return decode_wide(i);
  if (i.has("sat")) return nullptr;
  return i.has("hi") ? by_type<High>(i.last()) : by_type<Low>(i.last());
}

}  // namespace

Execute decode_integer(Instruction& i) {
  const char* const name = i.words[0];
  if (i.has("cc") || i.has("ftz") || i.has("NaN")) return nullptr;
  bool const saturates = i.has("sat");
  if (strcmp(name, "add") == 0) return saturates ? by_type<AddSaturated>(i.last()) : by_type<Add>(i.last());
  if (strcmp(name, "sub") == 0) return saturates ? by_type<SubSaturated>(i.last()) : by_type<Sub>(i.last());
  if (strcmp(name, "mul") == 0) return decode_product<MulLow, MulHigh>(i);
  if (strcmp(name, "mad") == 0) return decode_product<MadLow, MadHigh>(i);
  if (strcmp(name, "div") == 0) return by_type<Div>(i.last());
  if (strcmp(name, "min") == 0 && !i.has("relu")) return by_type<Min>(i.last());
  if (strcmp(name, "max") == 0 && !i.has("relu")) return by_type<Max>(i.last());
  if (strcmp(name, "abs") == 0) return by_type<Abs>(i.last());
  if (strcmp(name, "neg") == 0) return by_type<Neg>(i.last());
  return nullptr;
}

const Family integer_family[] = {
    {"rem", decode_simple<Rem>}, {"sad", decode_simple<Sad>}, {"mul24", decode_24}, {"mad24", decode_24},
    {"and", decode_logic<And, AND>}, {"or", decode_logic<Or, OR>}, {"xor", decode_logic<Xor, XOR>},
    {"not", decode_logic<Not, NOT>}, {"cnot", decode_simple<LogicalNot>}, {"shl", decode_shift_left},
    {"shr", decode_shift_right}, {"shf", decode_funnel}, {"popc", decode_popc}, {"clz", decode_clz},
    {"brev", decode_brev}, {"bfind", decode_bfind}, {"bfe", decode_extract}, {"bfi", decode_insert},
    {"lop3", decode_lop3}, {"prmt", decode_permute}, {"bmsk", decode_mask}, {"szext", decode_extend}, {"dp4a", decode_dot4}, {"dp2a", decode_dot2}, {}};

}  // namespace runner::ptx
