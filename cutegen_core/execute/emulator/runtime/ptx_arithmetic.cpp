// Floating point arithmetic. Approximate instructions err as far as the PTX manual says, to the side that the run asks for.
#include <fenv.h>
#include <math.h>
#include "numbers.h"
#include "ptx_machine.h"
#include "turns.h"

namespace runner::ptx {
namespace {

enum Flag : int64_t { FTZ = 1, SAT = 2, STICKY_NAN = 4, RELU = 8 };

int64_t flags_of(const Instruction& i) {
  return (i.has("ftz") ? FTZ : 0) | (i.has("sat") ? SAT : 0) | (i.has("NaN") ? STICKY_NAN : 0) | (i.has("relu") ? RELU : 0);
}

int rounding_of(const Instruction& i) {
  return i.has("rz") ? FE_TOWARDZERO : i.has("rm") ? FE_DOWNWARD : i.has("rp") ? FE_UPWARD : FE_TONEAREST;
}

// -- number formats -------------------------------------------------------------------------------------------------

template <class T>
constexpr bool is_small = std::is_same_v<T, Half> || std::is_same_v<T, Bfloat>;

template <class T>
T flushed(T x) {
  if constexpr (std::is_same_v<T, float>) return fpclassify(x) == FP_SUBNORMAL ? copysignf(0.f, x) : x;
  if constexpr (std::is_same_v<T, Half>) return x.bits & 0x7C00 ? x : Half{(uint16_t)(x.bits & 0x8000)};
  return x;
}

template <class T>
T finished(T x, int64_t flags) {
  if (flags & FTZ) x = flushed(x);
  if constexpr (is_small<T>) {
    double const wide = x.wide();
    if (flags & RELU) x = wide != wide ? T{0x7FFF} : wide <= 0 ? T{0} : x;
    if (flags & SAT) x = T::from(wide != wide || wide <= 0 ? 0.0 : wide > 1 ? 1.0 : wide);
  } else {
    if (flags & SAT) x = x != x || x <= 0 ? T(0) : x > 1 ? T(1) : x;
  }
  return x;
}

// -- operations: on float and double directly, on small numbers through a double that is rounded once -----------------

struct Add { static double small(double a, double b, double) { return add_to_odd(a, b); }
             template <class T> static T of(T a, T b, T) { return a + b; } };
struct Sub { static double small(double a, double b, double) { return add_to_odd(a, -b); }
             template <class T> static T of(T a, T b, T) { return a - b; } };
struct Mul { static double small(double a, double b, double) { return a * b; }
             template <class T> static T of(T a, T b, T) { return a * b; } };
struct Div { static double small(double a, double b, double) { return a / b; }
             template <class T> static T of(T a, T b, T) { return a / b; } };
struct Fma { static double small(double a, double b, double c) { return add_to_odd(a * b, c); }
             static float of(float a, float b, float c) { return fmaf(a, b, c); }
             static double of(double a, double b, double c) { return fma(a, b, c); } };

template <class T>
T compute_rounded(T a, T b, T c, int rounding, T (*of)(T, T, T)) {
  if (rounding == FE_TONEAREST) return of(a, b, c);
  // Volatile, so that the operation stays between the two calls.
  T volatile x = a, y = b, z = c;
  fesetround(rounding);
  T volatile const result = of(x, y, z);
  fesetround(FE_TONEAREST);
  return result;
}

template <class T, class Op>
T compute(T a, T b, T c, int64_t flags, int rounding) {
  if (flags & FTZ) a = flushed(a), b = flushed(b), c = flushed(c);
  if constexpr (is_small<T>) return finished(T::from(Op::small(a.wide(), b.wide(), c.wide())), flags);
  else return finished(compute_rounded<T>(a, b, c, rounding, [](T x, T y, T z) { return Op::of(x, y, z); }), flags);
}

template <class T, class Op>
void arithmetic(const Call& call) {
  int64_t const flags = call.at->detail[0];
  T const c = call.at->count > 3 ? call.in<T>(3) : T{};
  call.out(0, compute<T, Op>(call.in<T>(1), call.in<T>(2), c, flags, (int)call.at->detail[1]));
}

template <class T, class Op>
void arithmetic_pair(const Call& call) {
  int64_t const flags = call.at->detail[0];
  auto const a = call.in<Pair<T>>(1), b = call.in<Pair<T>>(2), c = call.at->count > 3 ? call.in<Pair<T>>(3) : Pair<T>{};
  call.out(0, Pair<T>{compute<T, Op>(a.low, b.low, c.low, flags, FE_TONEAREST),
                      compute<T, Op>(a.high, b.high, c.high, flags, FE_TONEAREST)});
}

template <class Op>
Execute by_type(const char* type) {
  if (strcmp(type, "f32") == 0) return arithmetic<float, Op>;
  if (strcmp(type, "f64") == 0) return arithmetic<double, Op>;
  if (strcmp(type, "f16") == 0) return arithmetic<Half, Op>;
  if (strcmp(type, "bf16") == 0) return arithmetic<Bfloat, Op>;
  if (strcmp(type, "f16x2") == 0) return arithmetic_pair<Half, Op>;
  if (strcmp(type, "bf16x2") == 0) return arithmetic_pair<Bfloat, Op>;
  return nullptr;
}

template <class Op>
Execute decode_arithmetic(Instruction& i) {
  if (i.has("cc") || i.has("oob") || i.count < 3) return nullptr;
  i.detail[0] = flags_of(i), i.detail[1] = rounding_of(i);
  return by_type<Op>(i.last());
}

// -- minimum, maximum, absolute value, sign ----------------------------------------------------------------------------

template <class T>
double widened(T x) {
  if constexpr (is_small<T>) return x.wide();
  else return (double)x;
}
template <class T>
T not_a_number() {
  if constexpr (is_small<T>) return T{0x7FFF};
  else return (T)NAN;
}

template <class T, bool Largest>
T extreme(T a, T b, int64_t flags) {
  if (flags & FTZ) a = flushed(a), b = flushed(b);
  double const x = widened(a), y = widened(b);
  bool const first = x != x, second = y != y;
  if ((first && second) || ((first || second) && (flags & STICKY_NAN))) return not_a_number<T>();
  if (first || second) return first ? b : a;
  bool const a_less = x < y || (x == y && signbit(x) && !signbit(y));
  return a_less == Largest ? b : a;
}

template <class T, bool Largest>
void extreme_one(const Call& call) {
  call.out(0, extreme<T, Largest>(call.in<T>(1), call.in<T>(2), call.at->detail[0]));
}
template <class T, bool Largest>
void extreme_pair(const Call& call) {
  auto const a = call.in<Pair<T>>(1), b = call.in<Pair<T>>(2);
  call.out(0, Pair<T>{extreme<T, Largest>(a.low, b.low, call.at->detail[0]), extreme<T, Largest>(a.high, b.high, call.at->detail[0])});
}

template <bool Largest>
Execute decode_extreme(Instruction& i) {
  const char* const type = i.last();
  if (i.count != 3 || i.has("xorsign")) return nullptr;
  i.detail[0] = flags_of(i);
  if (strcmp(type, "f32") == 0) return extreme_one<float, Largest>;
  if (strcmp(type, "f64") == 0) return extreme_one<double, Largest>;
  if (strcmp(type, "f16") == 0) return extreme_one<Half, Largest>;
  if (strcmp(type, "bf16") == 0) return extreme_one<Bfloat, Largest>;
  if (strcmp(type, "f16x2") == 0) return extreme_pair<Half, Largest>;
  if (strcmp(type, "bf16x2") == 0) return extreme_pair<Bfloat, Largest>;
  return decode_integer(i);
}

// Sign bits of the format: cleared by abs, turned by neg.
template <class Word, bool Clear>
void sign(const Call& call) {
  auto const mask = (Word)call.at->detail[1];
  auto const x = call.in<Word>(1);
  Word result = Clear ? (Word)(x & ~mask) : (Word)(x ^ mask);
  if constexpr (sizeof(Word) == 4)
    if ((call.at->detail[0] & FTZ) && call.at->detail[2]) result = bits_as<Word>(flushed(bits_as<float>(result)));
  call.out(0, result);
}

template <bool Clear>
Execute decode_sign(Instruction& i) {
  const char* const type = i.last();
  if (i.count != 2) return nullptr;
  i.detail[0] = flags_of(i);
  i.detail[2] = strcmp(type, "f32") == 0;
  bool const pair = strcmp(type, "f16x2") == 0 || strcmp(type, "bf16x2") == 0;
  if (i.detail[2] || pair) return i.detail[1] = pair ? 0x80008000 : 0x80000000, sign<uint32_t, Clear>;
  if (strcmp(type, "f64") == 0) return i.detail[1] = INT64_MIN, sign<uint64_t, Clear>;
  if (strcmp(type, "f16") == 0 || strcmp(type, "bf16") == 0) return i.detail[1] = 0x8000, sign<uint16_t, Clear>;
  return decode_integer(i);
}

// -- functions of one number -------------------------------------------------------------------------------------------

using Function = double (*)(double);

double reciprocal(double x) { return 1 / x; }
double reciprocal_root(double x) { return 1 / sqrt(x); }
double sine(double x) { return sin(hardware_angle((float)x)); }
double cosine(double x) { return cos(hardware_angle((float)x)); }

Function function_of(const char* name) {
  struct Entry { const char* name; Function function; };
  for (Entry const& entry : {Entry{"ex2", exp2}, {"lg2", log2}, {"sin", sine}, {"cos", cosine}, {"tanh", tanh}, {"sqrt", sqrt},
                             {"rcp", reciprocal}, {"rsqrt", reciprocal_root}})
    if (strcmp(name, entry.name) == 0) return entry.function;
  return nullptr;
}

// Largest errors of the approximate instructions, from the PTX manual: absolute and relative to the result.
struct Error {
  const char *name, *type;
  double absolute, relative;
};
const Error errors[] = {
    {"ex2", "f32", 0, 0x1p-22}, {"lg2", "f32", 0x1p-22, 0}, {"sin", "f32", 0x1p-20, 0}, {"cos", "f32", 0x1p-20, 0},
    {"tanh", "f32", 0, 0x1p-11}, {"rcp", "f32", 0, 0x1p-23}, {"sqrt", "f32", 0, 0x1p-23}, {"rsqrt", "f32", 0, 0x1p-22},
    {"ex2", "f16", 0, 0x1p-9}, {"tanh", "f16", 0x1p-10, 0}, {"ex2", "bf16", 0, 0x1p-7}, {"tanh", "bf16", 0, 0x1p-8},
};

// The index of an instruction's error plus one; 0: it is exact.
int64_t error_of(const Instruction& i) {
  bool const small = strstr(i.last(), "f16") != nullptr;
  if (!i.has("approx") && !small) return 0;
  for (size_t e = 0; e < sizeof errors / sizeof *errors; ++e)
    if (strcmp(errors[e].name, i.words[0]) == 0 && strncmp(errors[e].type, i.last(), strlen(errors[e].type)) == 0)
      return (int64_t)e + 1;
  return 0;
}

// Of zero the manual gives the results, among them 2^0 and cos 0.
double at_edge(const Call& call, double exact, bool of_zero) {
  int64_t const found = of_zero ? 0 : call.at->detail[3];
  return found ? (double)emu_approximate((float)exact, errors[found - 1].absolute, errors[found - 1].relative) : exact;
}

template <class T>
T applied(const Call& call, T x) {
  auto const function = (Function)call.at->detail[1];
  int64_t const flags = call.at->detail[0];
  if (flags & FTZ) x = flushed(x);
  if constexpr (is_small<T>) return finished(T::from(at_edge(call, function(x.wide()), x.wide() == 0)), flags);
  else return finished((T)at_edge(call, function((double)x), x == 0), flags);
}
template <class T>
void apply(const Call& call) { call.out(0, applied(call, call.in<T>(1))); }
template <class T>
void apply_pair(const Call& call) {
  auto const x = call.in<Pair<T>>(1);
  call.out(0, Pair<T>{applied(call, x.low), applied(call, x.high)});
}

// sqrt and rcp of a float, rounded as asked: the double is precise enough for one more rounding to be the right one.
void rounded_function(const Call& call) {
  auto const function = (Function)call.at->detail[1];
  float const x = call.at->detail[0] & FTZ ? flushed(call.in<float>(1)) : call.in<float>(1);
  static constexpr Round ways[] = {Round::NEAREST, Round::ZERO, Round::DOWN, Round::UP};
  call.out(0, finished((float)round_to(function(x), 23, -126, 127, ways[call.at->detail[2]]), call.at->detail[0]));
}

Execute decode_function(Instruction& i) {
  const char* const type = i.last();
  if (i.count != 2) return nullptr;
  i.detail[0] = flags_of(i), i.detail[1] = (int64_t)function_of(i.words[0]);
  i.detail[2] = i.has("rz") ? 1 : i.has("rm") ? 2 : i.has("rp") ? 3 : 0;
  i.detail[3] = error_of(i);
  if (strcmp(type, "f32") == 0) return i.detail[2] ? rounded_function : apply<float>;
  if (strcmp(type, "f64") == 0) return i.detail[2] ? nullptr : apply<double>;
  if (strcmp(type, "f16") == 0) return apply<Half>;
  if (strcmp(type, "bf16") == 0) return apply<Bfloat>;
  if (strcmp(type, "f16x2") == 0) return apply_pair<Half>;
  if (strcmp(type, "bf16x2") == 0) return apply_pair<Bfloat>;
  return nullptr;
}

template <class T, class Word>
void copy_sign(const Call& call) {
  Word const mask = (Word)1 << (8 * sizeof(Word) - 1);
  call.out(0, (Word)((call.in<Word>(1) & mask) | (call.in<Word>(2) & ~mask)));
}

Execute decode_copysign(Instruction& i) {
  if (strcmp(i.last(), "f32") == 0) return copy_sign<float, uint32_t>;
  return strcmp(i.last(), "f64") == 0 ? copy_sign<double, uint64_t> : nullptr;
}

// The word is followed by a float type; integers are decoded elsewhere.
template <class Op>
Execute decode_mixed(Instruction& i) {
  Execute const floating = decode_arithmetic<Op>(i);
  return floating ? floating : decode_integer(i);
}

// x * (1 / y) in `.approx`, whose reciprocal of more than 2^126 is flushed to zero; both forms are right to 2 units.
void approximate_quotient(const Call& call) {
  int64_t const flags = call.at->detail[0];
  float a = call.in<float>(1), b = call.in<float>(2);
  if (flags & FTZ) a = flushed(a), b = flushed(b);
  bool const vanishes = call.at->detail[1] && fabsf(b) > 0x1p126f && !isinf(b);
  call.out(0, finished(vanishes ? a * copysignf(0, b) : emu_approximate(a / b, 0, 0x1p-22), flags));
}

Execute decode_quotient(Instruction& i) {
  if (strcmp(i.last(), "f32") != 0 || !(i.has("approx") || i.has("full"))) return decode_mixed<Div>(i);
  i.detail[0] = flags_of(i), i.detail[1] = i.has("approx");
  return i.count == 3 ? approximate_quotient : nullptr;
}

}  // namespace

const Family arithmetic_family[] = {
    {"add", decode_mixed<Add>}, {"sub", decode_mixed<Sub>}, {"mul", decode_mixed<Mul>}, {"div", decode_quotient},
    {"fma", decode_arithmetic<Fma>}, {"mad", decode_mixed<Fma>},
    {"min", decode_extreme<false>}, {"max", decode_extreme<true>}, {"abs", decode_sign<true>}, {"neg", decode_sign<false>},
    {"ex2", decode_function}, {"lg2", decode_function}, {"sin", decode_function}, {"cos", decode_function},
    {"tanh", decode_function}, {"sqrt", decode_function}, {"rcp", decode_function}, {"rsqrt", decode_function},
    {"copysign", decode_copysign}, {}};

}  // namespace runner::ptx
