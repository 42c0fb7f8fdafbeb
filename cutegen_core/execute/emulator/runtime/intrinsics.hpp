// Device functions the host headers do not have. Fast-math forms err as far as the CUDA programming guide says, downward
// or upward as the run asks; a rounded operation (__fmul_rn) is never contracted with the next one.
#pragma once
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <vector_functions.h>
#include <cmath>
#include <cstring>
#include "abi.h"
#include "turns.h"

namespace emu {

// Errors of the fast-math functions in units of the last place, relative to the result.
inline float by_ulps(float exact, double ulps) { return emu_approximate(exact, 0, ulps * 0x1p-23); }
inline float by_distance(float exact, double distance, double ulps) {
  return emu_approximate(exact, distance, ulps * 0x1p-23);
}
// A power or a cosine: of zero it is 1, as that of the instruction below it.
inline float unless_of_zero(float x, float exact, double distance, double ulps) {
  return x == 0 ? exact : by_distance(exact, distance, ulps);
}

template <class To, class From>
inline To bits(From value) {
  static_assert(sizeof(To) == sizeof(From));
  To result;
  memcpy(&result, &value, sizeof(To));
  return result;
}

// Float to integer as the hardware does it: overflow saturates; NaN gives 0, or only the highest bit where either has 64 bits.
template <class To, class From>
inline To saturate(From value) {
  if (value != value) return sizeof(To) == 8 || sizeof(From) == 8 ? (To)(1ull << (8 * sizeof(To) - 1)) : To(0);
  constexpr To low = std::numeric_limits<To>::min(), high = std::numeric_limits<To>::max();
  if (value <= (From)low) return low;
  if (value >= (From)high) return high;
  return (To)value;
}

// x with erfc(-x / sqrt 2) / 2 = p: a first guess (Hastings, in Abramowitz and Stegun 26.2.22), then Newton steps.
inline double normal_quantile(double p) {
  if (!(p > 0 && p < 1)) return p == 0 ? -INFINITY : p == 1 ? INFINITY : NAN;
  double const tail = p < 0.5 ? p : 1 - p, t = sqrt(-2 * log(tail));
  double x = -(t - (2.30753 + 0.27061 * t) / (1 + t * (0.99229 + 0.04481 * t)));
  for (int step = 0; step < 6; ++step) {
    double const error = 0.5 * erfc(-x * 0.70710678118654752440) - tail;
    x -= error / (0.39894228040143267794 * exp(-0.5 * x * x));
  }
  return p < 0.5 ? x : -x;
}

// y with erf y = x: near zero by Newton steps from the first term of the series.
inline double inverse_erf(double x) {
  if (fabs(x) >= 0.5) return copysign(-normal_quantile((1 - fabs(x)) / 2) * 0.70710678118654752440, x);
  double y = 0.88622692545275801365 * x;
  for (int step = 0; step < 6; ++step) y -= (erf(y) - x) / (1.12837916709551257390 * exp(-y * y));
  return y;
}
inline double inverse_erfc(double x) {
  if (x > 0.5 && x < 1.5) return inverse_erf(1 - x);
  return x < 1 ? -normal_quantile(x / 2) * 0.70710678118654752440 : normal_quantile((2 - x) / 2) * 0.70710678118654752440;
}
inline double inverse_normal(double p) {
  return p > 0.25 && p < 0.75 ? 1.41421356237309504880 * inverse_erf(2 * p - 1) : normal_quantile(p);
}

// exp(x^2) erfc(x), beyond 25 by its asymptotic series (Abramowitz and Stegun 7.1.23).
inline double scaled_erfc(double x) {
  if (!(x > 25)) return exp(x * x) * erfc(x);
  double const r = 1 / (2 * x * x);
  return 0.56418958354775628695 / x * (1 - r * (1 - 3 * r * (1 - 5 * r * (1 - 7 * r))));
}

// Of x half turns, which are reduced without an error.
inline double sine_of_half_turns(double x) {
  double const r = remainder(x, 2), near = fabs(r) > 0.5 ? 1 - fabs(r) : fabs(r);
  return copysign(sin(3.14159265358979323846 * near), r);
}
inline double cosine_of_half_turns(double x) { return sin(3.14159265358979323846 * (0.5 - fabs(remainder(x, 2)))); }

inline double norm(double x, double y, double z, double w) { return sqrt(x * x + y * y + z * z + w * w); }

// The modified Bessel function of order 0 or 1, by its series, whose terms have one sign (Abramowitz and Stegun 9.6.10).
inline double bessel_i(int order, double x) {
  if (fabs(x) > 720) return order ? copysign(INFINITY, x) : INFINITY;
  double term = order ? x / 2 : 1, sum = term;
  for (int k = 1; fabs(term) > 1e-17 * fabs(sum); ++k) sum += term *= x * x / 4 / ((double)k * (k + order));
  return x != x ? x : sum;
}

// As sine over cosine, both of which are off by 2^-21.
inline float fast_tangent(float x) {
  double const angle = hardware_angle(x), cosine = cos(angle), tangent = sin(angle) / cosine;
  return by_distance((float)tangent, 0x1p-21 * (1 + fabs(tangent)) / fabs(cosine), 4);
}

// 2 to the power of y log2 x, each of which is approximate: NaN of a negative x, and of 0 and infinity to the power of 0.
inline float fast_power(float x, float y) {
  double const logarithm = log2((double)x), power = y * logarithm;
  double const of_logarithm = x >= 0.5f && x <= 2 ? 0x1p-22 : 0x1p-22 * fabs(logarithm);
  double const relative = 0.69314718055994530942 * (fabs(y) * of_logarithm + 0x1p-24 * fabs(power)) + 0x1p-22;
  return power == 0 ? 1 : emu_approximate((float)exp2(power), 0, fmin(relative, 0.99));
}

// A GPU computes x * (1 / y), whose reciprocal of more than 2^126 is flushed to zero.
inline float fast_quotient(float x, float y) {
  if (fabsf(y) > 0x1p126f && fabsf(y) < INFINITY) return x * copysignf(0.f, y);
  return by_ulps(x / y, 2);
}

}  // namespace emu

#define EMU_UNARY(NAME, EXPRESSION) inline float NAME(float x) { return EXPRESSION; }
EMU_UNARY(__expf, emu::unless_of_zero(x, expf(x), 0, 2 + floorf(fabsf(1.173f * x))))
EMU_UNARY(__exp10f, emu::unless_of_zero(x, powf(10.f, x), 0, 2 + floorf(fabsf(2.97f * x))))
EMU_UNARY(__logf, x >= 0.5f && x <= 2 ? emu::by_distance(logf(x), 0x1p-21, 0) : emu::by_ulps(logf(x), 3))
EMU_UNARY(__log2f, x >= 0.5f && x <= 2 ? emu::by_distance(log2f(x), 0x1p-22, 0) : emu::by_ulps(log2f(x), 2))
EMU_UNARY(__log10f, x >= 0.5f && x <= 2 ? emu::by_distance(log10f(x), 0x1p-24, 0) : emu::by_ulps(log10f(x), 3))
EMU_UNARY(__sinf, emu::by_distance((float)sin(hardware_angle(x)), 0x1p-21, 0))
EMU_UNARY(__cosf, emu::unless_of_zero(x, (float)cos(hardware_angle(x)), 0x1p-21, 0))
EMU_UNARY(__tanf, emu::fast_tangent(x))
EMU_UNARY(__tanhf, emu::by_distance(tanhf(x), 0, 0x1p12))
EMU_UNARY(__saturatef, fminf(fmaxf(x, 0.f), 1.f))
EMU_UNARY(__frcp_rn, 1.f / x)
EMU_UNARY(__fsqrt_rn, sqrtf(x))
EMU_UNARY(__frsqrt_rn, 1.f / sqrtf(x))
EMU_UNARY(rsqrtf, emu::by_ulps(1.f / sqrtf(x), 2))
EMU_UNARY(rcbrtf, 1.f / cbrtf(x))
EMU_UNARY(sinpif, (float)emu::sine_of_half_turns(x))
EMU_UNARY(cospif, (float)emu::cosine_of_half_turns(x))
EMU_UNARY(erfcxf, (float)emu::scaled_erfc(x))
EMU_UNARY(normcdfinvf, (float)emu::inverse_normal(x))
EMU_UNARY(erfinvf, (float)emu::inverse_erf(x))
EMU_UNARY(erfcinvf, (float)emu::inverse_erfc(x))
EMU_UNARY(cyl_bessel_i0f, (float)emu::bessel_i(0, x))
EMU_UNARY(cyl_bessel_i1f, (float)emu::bessel_i(1, x))
#ifndef _GNU_SOURCE
EMU_UNARY(exp10f, powf(10.f, x))
#endif
#undef EMU_UNARY
inline double rsqrt(double x) { return 1.0 / sqrt(x); }
inline float rsqrt(float x) { return rsqrtf(x); }
inline double rcbrt(double x) { return 1.0 / cbrt(x); }
inline double normcdf(double x) { return 0.5 * erfc(-x * 0.70710678118654752440); }
inline float normcdff(float x) { return (float)normcdf((double)x); }
inline double __drcp_rn(double x) { return 1.0 / x; }
inline double __dsqrt_rn(double x) { return sqrt(x); }
inline void sincospif(float x, float* s, float* c) { *s = sinpif(x), *c = cospif(x); }
inline double sinpi(double x) { return emu::sine_of_half_turns(x); }
inline double cospi(double x) { return emu::cosine_of_half_turns(x); }
inline void sincospi(double x, double* s, double* c) { *s = sinpi(x), *c = cospi(x); }
inline double erfinv(double x) { return emu::inverse_erf(x); }
inline double erfcinv(double x) { return emu::inverse_erfc(x); }
inline double normcdfinv(double x) { return emu::inverse_normal(x); }
inline double erfcx(double x) { return emu::scaled_erfc(x); }
inline double cyl_bessel_i0(double x) { return emu::bessel_i(0, x); }
inline double cyl_bessel_i1(double x) { return emu::bessel_i(1, x); }
inline float norm3df(float x, float y, float z) { return (float)emu::norm(x, y, z, 0); }
inline float rnorm3df(float x, float y, float z) { return (float)(1 / emu::norm(x, y, z, 0)); }
inline float norm4df(float x, float y, float z, float w) { return (float)emu::norm(x, y, z, w); }
inline float rnorm4df(float x, float y, float z, float w) { return (float)(1 / emu::norm(x, y, z, w)); }
inline float rhypotf(float x, float y) { return (float)(1 / hypot((double)x, (double)y)); }
inline double rhypot(double x, double y) { return 1 / hypot(x, y); }
inline void __sincosf(float x, float* s, float* c) { *s = __sinf(x), *c = __cosf(x); }

#define EMU_BINARY(NAME, EXPRESSION) inline float NAME(float x, float y) { return EXPRESSION; }
EMU_BINARY(__fadd_rn, x + y)
EMU_BINARY(__fsub_rn, x - y)
EMU_BINARY(__fmul_rn, x* y)
EMU_BINARY(__fdiv_rn, x / y)
EMU_BINARY(__fdividef, emu::fast_quotient(x, y))
EMU_BINARY(fdividef, x / y)
EMU_BINARY(__powf, emu::fast_power(x, y))
#undef EMU_BINARY
inline float __fmaf_rn(float x, float y, float z) { return fmaf(x, y, z); }
inline double __fma_rn(double x, double y, double z) { return fma(x, y, z); }
inline double __dadd_rn(double x, double y) { return x + y; }
inline double __dsub_rn(double x, double y) { return x - y; }
inline double __dmul_rn(double x, double y) { return x * y; }
inline double __ddiv_rn(double x, double y) { return x / y; }

inline int __float_as_int(float x) { return emu::bits<int>(x); }
inline unsigned __float_as_uint(float x) { return emu::bits<unsigned>(x); }
inline float __int_as_float(int x) { return emu::bits<float>(x); }
inline float __uint_as_float(unsigned x) { return emu::bits<float>(x); }
inline long long __double_as_longlong(double x) { return emu::bits<long long>(x); }
inline double __longlong_as_double(long long x) { return emu::bits<double>(x); }

#define EMU_CONVERT(FROM, NAME, TO, TYPE)                                                        \
  inline TYPE __##FROM##2##NAME##_rn(TO x) { return emu::saturate<TYPE>(nearbyint(x)); }         \
  inline TYPE __##FROM##2##NAME##_rz(TO x) { return emu::saturate<TYPE>(trunc(x)); }             \
  inline TYPE __##FROM##2##NAME##_rd(TO x) { return emu::saturate<TYPE>(floor(x)); }             \
  inline TYPE __##FROM##2##NAME##_ru(TO x) { return emu::saturate<TYPE>(ceil(x)); }
EMU_CONVERT(float, int, float, int)
EMU_CONVERT(float, uint, float, unsigned)
EMU_CONVERT(float, ll, float, long long)
EMU_CONVERT(float, ull, float, unsigned long long)
EMU_CONVERT(double, int, double, int)
EMU_CONVERT(double, uint, double, unsigned)
EMU_CONVERT(double, ll, double, long long)
EMU_CONVERT(double, ull, double, unsigned long long)
#undef EMU_CONVERT
inline float __int2float_rn(int x) { return (float)x; }
inline float __uint2float_rn(unsigned x) { return (float)x; }
inline float __ll2float_rn(long long x) { return (float)x; }
inline float __ull2float_rn(unsigned long long x) { return (float)x; }
inline float __double2float_rn(double x) { return (float)x; }
inline double __int2double_rn(int x) { return x; }
inline double __uint2double_rn(unsigned x) { return x; }
inline double __ll2double_rn(long long x) { return (double)x; }
inline double __ull2double_rn(unsigned long long x) { return (double)x; }
inline int __double2hiint(double x) { return (int)(emu::bits<unsigned long long>(x) >> 32); }
inline int __double2loint(double x) { return (int)emu::bits<unsigned long long>(x); }
inline double __hiloint2double(int high, int low) {
  return emu::bits<double>((unsigned long long)(unsigned)high << 32 | (unsigned)low);
}

inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
inline int __clz(int x) { return x ? __builtin_clz((unsigned)x) : 32; }
inline int __clzll(long long x) { return x ? __builtin_clzll((unsigned long long)x) : 64; }
inline int __ffs(int x) { return __builtin_ffs(x); }
inline int __ffsll(long long x) { return __builtin_ffsll(x); }
inline unsigned __brev(unsigned x) {
  unsigned r = 0;
  for (int i = 0; i < 32; ++i) r |= (x >> i & 1u) << (31 - i);
  return r;
}
inline unsigned long long __brevll(unsigned long long x) {
  return (unsigned long long)__brev((unsigned)x) << 32 | __brev((unsigned)(x >> 32));
}
// Position of the n-th set bit at or above `base` (n > 0), at or below it (n < 0); all ones when there is none.
inline unsigned __fns(unsigned mask, unsigned base, int offset) {
  if (offset == 0) return mask >> base & 1 ? base : ~0u;
  int const step = offset > 0 ? 1 : -1;
  int left = offset > 0 ? offset : -offset;
  for (int at = (int)base; at >= 0 && at < 32; at += step)
    if ((mask >> at & 1) && --left == 0) return (unsigned)at;
  return ~0u;
}
inline unsigned __byte_perm(unsigned a, unsigned b, unsigned selector) {
  unsigned long long const all = (unsigned long long)b << 32 | a;
  unsigned r = 0;
  for (int i = 0; i < 4; ++i) {
    unsigned const byte = (unsigned)(all >> (8 * (selector >> (4 * i) & 7))) & 0xff;
    r |= byte << (8 * i);
  }
  return r;
}
inline int __mul24(int a, int b) { return (a << 8 >> 8) * (b << 8 >> 8); }
inline unsigned __umul24(unsigned a, unsigned b) { return (a & 0xffffff) * (b & 0xffffff); }
inline int __mulhi(int a, int b) { return (int)(((long long)a * b) >> 32); }
inline unsigned __umulhi(unsigned a, unsigned b) { return (unsigned)(((unsigned long long)a * b) >> 32); }
inline long long __mul64hi(long long a, long long b) { return (long long)(((__int128)a * b) >> 64); }
inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
  return (unsigned long long)(((unsigned __int128)a * b) >> 64);
}
inline unsigned __sad(int a, int b, unsigned c) { return c + (a > b ? (unsigned)a - b : (unsigned)b - a); }
inline unsigned __usad(unsigned a, unsigned b, unsigned c) { return c + (a > b ? a - b : b - a); }
inline int __rhadd(int a, int b) { return (int)(((long long)a + b + 1) >> 1); }
inline unsigned __uhadd(unsigned a, unsigned b) { return (unsigned)(((unsigned long long)a + b) >> 1); }
inline unsigned __urhadd(unsigned a, unsigned b) { return (unsigned)(((unsigned long long)a + b + 1) >> 1); }
inline int __hadd(int a, int b) { return (int)(((long long)a + b) >> 1); }
inline unsigned __funnelshift_l(unsigned lo, unsigned hi, unsigned n) {
  return (unsigned)(((unsigned long long)hi << 32 | lo) << (n & 31) >> 32);
}
inline unsigned __funnelshift_r(unsigned lo, unsigned hi, unsigned n) {
  return (unsigned)(((unsigned long long)hi << 32 | lo) >> (n & 31));
}
inline unsigned __funnelshift_lc(unsigned lo, unsigned hi, unsigned n) {
  return n >= 32 ? lo : (unsigned)(((unsigned long long)hi << 32 | lo) << n >> 32);
}
inline unsigned __funnelshift_rc(unsigned lo, unsigned hi, unsigned n) {
  return n >= 32 ? hi : (unsigned)(((unsigned long long)hi << 32 | lo) >> n);
}

// Dot products of bytes with bytes (dp4a) or with 16-bit numbers (dp2a); the sum wraps.
namespace emu {

template <class A, class B, class Sum>
inline Sum dot(unsigned a, unsigned b, Sum c) {
  auto sum = (unsigned)c;
  for (int i = 0; i < 4 / (int)sizeof(A); ++i)
    sum += (unsigned)((int)(A)(a >> 8 * sizeof(A) * i) * (int)(B)(b >> 8 * sizeof(B) * i));
  return (Sum)sum;
}

}  // namespace emu

inline int __dp4a(int a, int b, int c) { return emu::dot<int8_t, int8_t>((unsigned)a, (unsigned)b, c); }
inline unsigned __dp4a(unsigned a, unsigned b, unsigned c) { return emu::dot<uint8_t, uint8_t>(a, b, c); }
inline int __dp2a_lo(int a, int b, int c) { return emu::dot<int16_t, int8_t>((unsigned)a, (unsigned)b, c); }
inline unsigned __dp2a_lo(unsigned a, unsigned b, unsigned c) { return emu::dot<uint16_t, uint8_t>(a, b, c); }
inline int __dp2a_hi(int a, int b, int c) { return emu::dot<int16_t, int8_t>((unsigned)a, (unsigned)b >> 16, c); }
inline unsigned __dp2a_hi(unsigned a, unsigned b, unsigned c) { return emu::dot<uint16_t, uint8_t>(a, b >> 16, c); }
inline int __dp4a(char4 a, char4 b, int c) { return __dp4a(emu::bits<int>(a), emu::bits<int>(b), c); }
inline unsigned __dp4a(uchar4 a, uchar4 b, unsigned c) { return __dp4a(emu::bits<unsigned>(a), emu::bits<unsigned>(b), c); }
inline int __dp2a_lo(short2 a, char4 b, int c) { return __dp2a_lo(emu::bits<int>(a), emu::bits<int>(b), c); }
inline int __dp2a_hi(short2 a, char4 b, int c) { return __dp2a_hi(emu::bits<int>(a), emu::bits<int>(b), c); }
inline unsigned __dp2a_lo(ushort2 a, uchar4 b, unsigned c) { return __dp2a_lo(emu::bits<unsigned>(a), emu::bits<unsigned>(b), c); }
inline unsigned __dp2a_hi(ushort2 a, uchar4 b, unsigned c) { return __dp2a_hi(emu::bits<unsigned>(a), emu::bits<unsigned>(b), c); }

// Caching hints change nothing here.
#define EMU_LOAD(NAME) \
  template <class T>   \
  inline T NAME(T const* address) { return *address; }
template <class T>
inline T __ldg(T const* address) {
  emu_read_only(address, sizeof(T));
  return *address;
}
EMU_LOAD(__ldca)
EMU_LOAD(__ldcg)
EMU_LOAD(__ldcs)
EMU_LOAD(__ldlu)
EMU_LOAD(__ldcv)
#undef EMU_LOAD
#define EMU_STORE(NAME) \
  template <class T>    \
  inline void NAME(T* address, T value) { *address = value; }
EMU_STORE(__stwb)
EMU_STORE(__stcg)
EMU_STORE(__stcs)
EMU_STORE(__stwt)
#undef EMU_STORE

// CUDA's global min and max.
#define EMU_MIN_MAX(TYPE)                                               \
  inline TYPE min(TYPE a, TYPE b) { return b < a ? b : a; }             \
  inline TYPE max(TYPE a, TYPE b) { return a < b ? b : a; }
EMU_MIN_MAX(int)
EMU_MIN_MAX(unsigned)
EMU_MIN_MAX(long)
EMU_MIN_MAX(unsigned long)
EMU_MIN_MAX(long long)
EMU_MIN_MAX(unsigned long long)
#undef EMU_MIN_MAX
inline float min(float a, float b) { return fminf(a, b); }
inline float max(float a, float b) { return fmaxf(a, b); }
inline double min(double a, double b) { return fmin(a, b); }
inline double max(double a, double b) { return fmax(a, b); }
inline unsigned min(int a, unsigned b) { return min((unsigned)a, b); }
inline unsigned min(unsigned a, int b) { return min(a, (unsigned)b); }
inline unsigned max(int a, unsigned b) { return max((unsigned)a, b); }
inline unsigned max(unsigned a, int b) { return max(a, (unsigned)b); }
