// Half precision numbers of the interpreter, rounded exactly once and to nearest even.
#pragma once
#include <math.h>
#include <stdint.h>
#include <string.h>
#include <type_traits>

namespace runner::ptx {

template <class To, class From>
inline To bits_as(From value) {
  static_assert(sizeof(To) == sizeof(From));
  To result;
  memcpy(&result, &value, sizeof(To));
  return result;
}

// How a result that does not fit is rounded.
enum class Round : uint8_t { NEAREST, ZERO, DOWN, UP, AWAY };

// Rounds to a format of `mantissa` stored bits and exponents from `lowest` (of the smallest normal number) to `highest`;
// `finite`: overflow gives the largest number instead of infinity. The result as a double.
inline double round_to(double x, int mantissa, int lowest, int highest, Round how = Round::NEAREST, bool finite = false) {
  if (x == 0 || x != x || isinf(x)) return x;
  int exponent;
  frexp(x, &exponent);
  --exponent;
  double const unit = ldexp(1.0, (exponent < lowest ? lowest : exponent) - mantissa);
  double const scaled = x / unit;  // exact: a power of two
  double whole = how == Round::NEAREST ? rint(scaled) : how == Round::ZERO ? trunc(scaled) : how == Round::DOWN ? floor(scaled)
                 : how == Round::UP ? ceil(scaled) : round(scaled);
  double const result = whole * unit, largest = ldexp(2.0 - ldexp(1.0, -mantissa), highest);
  if (fabs(result) <= largest) return whole == 0 ? copysign(0.0, x) : result;
  bool const inward = finite || how == Round::ZERO || (how == Round::DOWN && x > 0) || (how == Round::UP && x < 0);
  return copysign(inward ? largest : INFINITY, x);
}

struct Half {
  uint16_t bits;
  static constexpr int MANTISSA = 10, LOWEST = -14, HIGHEST = 15;
  static Half from(double x, Round how = Round::NEAREST) {
    if (x != x) return {0x7FFF};
    double const r = round_to(x, MANTISSA, LOWEST, HIGHEST, how);
    auto const sign = (uint16_t)(signbit(r) ? 0x8000 : 0);
    double const a = fabs(r);
    if (isinf(a)) return {(uint16_t)(sign | 0x7C00)};
    if (a < ldexp(1.0, LOWEST)) return {(uint16_t)(sign | (uint16_t)ldexp(a, 24))};
    int exponent;
    double const fraction = frexp(a, &exponent);
    return {(uint16_t)(sign | (uint16_t)((exponent + 14) << 10) | ((uint16_t)ldexp(fraction, 11) & 0x3FF))};
  }
  double wide() const {
    int const exponent = bits >> 10 & 31, fraction = bits & 0x3FF;
    if (exponent != 0 && exponent != 31)
      return bits_as<float>((uint32_t)(bits & 0x8000) << 16 | (((uint32_t)(bits & 0x7FFF) << 13) + (112u << 23)));
    double const a = exponent == 31 ? (fraction ? NAN : INFINITY)
                     : ldexp(fraction, -24);
    return bits & 0x8000 ? -a : a;
  }
};

struct Bfloat {
  uint16_t bits;
  static Bfloat from(double x, Round how = Round::NEAREST) {
    if (x != x) return {0x7FFF};
    return {(uint16_t)(bits_as<uint32_t>((float)round_to(x, 7, -126, 127, how)) >> 16)};
  }
  double wide() const { return bits_as<float>((uint32_t)bits << 16); }
};

// The 8-bit floats as `.satfinite` converts to them: beyond the largest number, and for infinities, the largest number.
template <int STORED, int SMALLEST, int LARGEST>
struct Float8 {
  uint8_t bits;
  static Float8 from(double x) {
    if (x != x) return {0x7F};
    double const r = fmin(fabs(round_to(x, STORED, SMALLEST, 1023)), LARGEST), unit = ldexp(1.0, SMALLEST - STORED);
    int exponent = SMALLEST;
    if (r >= ldexp(1.0, SMALLEST)) frexp(r, &exponent), --exponent;
    // A normal number's leading bit is counted in the exponent field.
    auto const field = (unsigned)(exponent - SMALLEST) << STORED;
    return {(uint8_t)((signbit(x) ? 0x80 : 0) | (field + (unsigned)ldexp(r / unit, SMALLEST - exponent)))};
  }
  double wide() const {
    int const exponent = (bits & 0x7F) >> STORED, fraction = bits & ((1 << STORED) - 1);
    double const a = exponent ? ldexp((1 << STORED) + fraction, exponent - 1 + SMALLEST - STORED)
                              : ldexp(fraction, SMALLEST - STORED);
    double const known = a <= LARGEST ? a : STORED == 2 && fraction == 0 ? INFINITY : NAN;
    return bits & 0x80 ? -known : known;
  }
};
using E4m3 = Float8<3, -6, 448>;
using E5m2 = Float8<2, -14, 57344>;

template <class T>
struct Pair {
  T low, high;
};

// tf32: the upper 19 bits of a float; the hardware ignores the others.
inline float tf32(uint32_t bits) { return bits_as<float>(bits & 0xFFFFE000u); }

// a + b with the last bit set when it is inexact: rounding that once more gives the correctly rounded sum.
inline double add_to_odd(double a, double b) {
  double const sum = a + b;
  if (isinf(sum) || sum != sum) return sum;
  double const part = sum - a, error = (a - (sum - part)) + (b - part);
  if (error == 0) return sum;
  auto const word = bits_as<uint64_t>(sum);
  if (word & 1) return sum;
  return bits_as<double>((error > 0) == (sum > 0) ? word + 1 : word - 1);
}

}  // namespace runner::ptx
