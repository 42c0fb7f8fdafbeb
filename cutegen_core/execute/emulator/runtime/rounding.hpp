// Arithmetic rounded toward zero, down or up, as the intrinsics with _rz, _rd and _ru say.
//
// The result to the nearest is moved by one unit where it lies on the wrong side of the exact one. For floats the exact
// result is kept in a double whose last bit is set when it is inexact, so that no information is lost.
#pragma once
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

namespace emu {

enum class Toward { ZERO, DOWN, UP };

// What overflowed to infinity, where rounding keeps it from going there.
template <class T>
inline T back_from_infinity(T nearest, Toward way) {
  bool const inward = way == Toward::ZERO || (way == Toward::DOWN) == (nearest > 0);
  return inward ? std::copysign(std::numeric_limits<T>::max(), nearest) : nearest;
}

// A sum that is exactly zero: of numbers that cancel it is -0 only where sums are rounded down.
template <class T>
inline T zero_sum(T a, T b, Toward way) {
  return a == 0 && std::signbit(a) == std::signbit(b) ? a : way == Toward::DOWN ? -T(0) : T(0);
}

// `nearest` moved, if need be, to the side of the exact result that is asked for; `error`: exact minus nearest.
template <class T>
inline T moved(T nearest, double error, Toward way) {
  if (error == 0 || nearest != nearest || std::isinf(nearest)) return nearest;
  bool const negative = nearest < 0 || (nearest == 0 && error < 0);
  bool const down = way == Toward::DOWN || (way == Toward::ZERO && !negative);
  if (down && error < 0) return std::nextafter(nearest, (T)-INFINITY);
  if (!down && error > 0) return std::nextafter(nearest, (T)INFINITY);
  return nearest;
}

// a + b, with the last bit set when it is inexact.
inline double odd_sum(double a, double b) {
  double const sum = a + b, part = sum - a, error = (a - (sum - part)) + (b - part);
  int64_t word;
  memcpy(&word, &sum, 8);
  if (error == 0 || std::isinf(sum) || sum != sum || (word & 1)) return sum;
  word += (error > 0) == (sum > 0) ? 1 : -1;
  double odd;
  memcpy(&odd, &word, 8);
  return odd;
}
// x, whose error has the sign of `error`, likewise.
inline double odd(double x, double error) { return error == 0 ? x : odd_sum(x, error > 0 ? std::fabs(x) * 1e-20 : -std::fabs(x) * 1e-20); }

inline float rounded(double exact, Toward way) {
  auto const nearest = (float)exact;
  if (std::isinf(nearest) && !std::isinf(exact)) return back_from_infinity(nearest, way);
  return moved(nearest, exact - (double)nearest, way);
}

inline float sum_of(double a, double b, Toward way) {
  double const sum = odd_sum(a, b);
  return sum == 0 ? (float)zero_sum(a, b, way) : rounded(sum, way);
}
inline float add(float a, float b, Toward way) { return sum_of(a, b, way); }
inline float multiply(float a, float b, Toward way) { return rounded((double)a * b, way); }
inline float multiply_add(float a, float b, float c, Toward way) { return sum_of((double)a * b, c, way); }
inline float divide(float a, float b, Toward way) {
  double const q = (double)a / b;
  return rounded(std::isinf(q) || q != q ? q : odd(q, std::fma(-q, (double)b, (double)a) * (b < 0 ? -1 : 1)), way);
}
inline float root(float a, Toward way) {
  double const r = std::sqrt((double)a);
  return rounded(r != r || std::isinf(r) ? r : odd(r, std::fma(-r, r, (double)a)), way);
}

inline double add(double a, double b, Toward way) {
  double const sum = a + b, part = sum - a;
  if (std::isinf(sum) && std::isfinite(a) && std::isfinite(b)) return back_from_infinity(sum, way);
  if (sum == 0) return zero_sum(a, b, way);
  return moved(sum, (a - (sum - part)) + (b - part), way);
}
inline double multiply(double a, double b, Toward way) {
  double const product = a * b;
  if (std::isinf(product) && std::isfinite(a) && std::isfinite(b)) return back_from_infinity(product, way);
  return moved(product, std::fma(a, b, -product), way);
}
inline double divide(double a, double b, Toward way) {
  double const q = a / b;
  if (std::isinf(q) && std::isfinite(a) && b != 0) return back_from_infinity(q, way);
  return moved(q, std::fma(-q, b, a) * (b < 0 ? -1 : 1), way);
}
inline double root(double a, Toward way) {
  double const r = std::sqrt(a);
  return moved(r, std::fma(-r, r, a), way);
}

template <class To = float, class T>
inline To to_float(T x, Toward way) {
  auto const nearest = (To)x;
  auto const back = (long double)nearest, exact = (long double)x;
  return moved(nearest, exact > back ? 1 : exact < back ? -1 : 0, way);
}

}  // namespace emu

#define EMU_DIRECTED(SUFFIX, WAY)                                                                                    \
  inline float __fadd_##SUFFIX(float a, float b) { return emu::add(a, b, emu::Toward::WAY); }                        \
  inline float __fsub_##SUFFIX(float a, float b) { return emu::add(a, -b, emu::Toward::WAY); }                       \
  inline float __fmul_##SUFFIX(float a, float b) { return emu::multiply(a, b, emu::Toward::WAY); }                   \
  inline float __fmaf_##SUFFIX(float a, float b, float c) { return emu::multiply_add(a, b, c, emu::Toward::WAY); }   \
  inline float __fdiv_##SUFFIX(float a, float b) { return emu::divide(a, b, emu::Toward::WAY); }                     \
  inline float __frcp_##SUFFIX(float a) { return emu::divide(1.f, a, emu::Toward::WAY); }                            \
  inline float __fsqrt_##SUFFIX(float a) { return emu::root(a, emu::Toward::WAY); }                                  \
  inline double __dadd_##SUFFIX(double a, double b) { return emu::add(a, b, emu::Toward::WAY); }                     \
  inline double __dsub_##SUFFIX(double a, double b) { return emu::add(a, -b, emu::Toward::WAY); }                    \
  inline double __dmul_##SUFFIX(double a, double b) { return emu::multiply(a, b, emu::Toward::WAY); }                \
  inline double __ddiv_##SUFFIX(double a, double b) { return emu::divide(a, b, emu::Toward::WAY); }                  \
  inline double __drcp_##SUFFIX(double a) { return emu::divide(1.0, a, emu::Toward::WAY); }                          \
  inline double __dsqrt_##SUFFIX(double a) { return emu::root(a, emu::Toward::WAY); }                                \
  inline float __double2float_##SUFFIX(double a) { return emu::rounded(a, emu::Toward::WAY); }                       \
  inline float __int2float_##SUFFIX(int a) { return emu::to_float(a, emu::Toward::WAY); }                            \
  inline float __uint2float_##SUFFIX(unsigned a) { return emu::to_float(a, emu::Toward::WAY); }                      \
  inline float __ll2float_##SUFFIX(long long a) { return emu::to_float(a, emu::Toward::WAY); }                       \
  inline float __ull2float_##SUFFIX(unsigned long long a) { return emu::to_float(a, emu::Toward::WAY); }             \
  inline double __ll2double_##SUFFIX(long long a) { return emu::to_float<double>(a, emu::Toward::WAY); }             \
  inline double __ull2double_##SUFFIX(unsigned long long a) { return emu::to_float<double>(a, emu::Toward::WAY); }
EMU_DIRECTED(rz, ZERO)
EMU_DIRECTED(rd, DOWN)
EMU_DIRECTED(ru, UP)
#undef EMU_DIRECTED
