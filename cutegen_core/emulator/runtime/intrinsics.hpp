// Device functions the host headers do not have. Fast-math forms are exact here: a kernel that passes with exact
// functions may still lose accuracy on a GPU, which is a known difference.
#pragma once
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <vector_functions.h>
#include <cmath>
#include <cstring>

namespace emu {

template <class To, class From>
inline To bits(From value) {
  static_assert(sizeof(To) == sizeof(From));
  To result;
  memcpy(&result, &value, sizeof(To));
  return result;
}

// Float to integer as the hardware does it: NaN gives 0, overflow saturates.
template <class To, class From>
inline To saturate(From value) {
  if (value != value) return 0;
  constexpr To low = std::numeric_limits<To>::min(), high = std::numeric_limits<To>::max();
  if (value <= (From)low) return low;
  if (value >= (From)high) return high;
  return (To)value;
}

}  // namespace emu

#define EMU_UNARY(NAME, EXPRESSION) inline float NAME(float x) { return EXPRESSION; }
EMU_UNARY(__expf, expf(x))
EMU_UNARY(__exp10f, powf(10.f, x))
EMU_UNARY(__logf, logf(x))
EMU_UNARY(__log2f, log2f(x))
EMU_UNARY(__log10f, log10f(x))
EMU_UNARY(__sinf, sinf(x))
EMU_UNARY(__cosf, cosf(x))
EMU_UNARY(__tanf, tanf(x))
EMU_UNARY(__tanhf, tanhf(x))
EMU_UNARY(__saturatef, fminf(fmaxf(x, 0.f), 1.f))
EMU_UNARY(__frcp_rn, 1.f / x)
EMU_UNARY(__fsqrt_rn, sqrtf(x))
EMU_UNARY(__frsqrt_rn, 1.f / sqrtf(x))
EMU_UNARY(rsqrtf, 1.f / sqrtf(x))
EMU_UNARY(rcbrtf, 1.f / cbrtf(x))
EMU_UNARY(sinpif, sinf(x * 3.14159265358979323846f))
EMU_UNARY(cospif, cosf(x * 3.14159265358979323846f))
EMU_UNARY(erfcxf, expf(x * x) * erfcf(x))
EMU_UNARY(normcdff, 0.5f * erfcf(-x * 0.70710678118654752440f))
#ifndef _GNU_SOURCE
EMU_UNARY(exp10f, powf(10.f, x))
#endif
#undef EMU_UNARY
inline double rsqrt(double x) { return 1.0 / sqrt(x); }
inline float rsqrt(float x) { return 1.f / sqrtf(x); }
inline double rcbrt(double x) { return 1.0 / cbrt(x); }
inline double normcdf(double x) { return 0.5 * erfc(-x * 0.70710678118654752440); }
inline double __drcp_rn(double x) { return 1.0 / x; }
inline double __dsqrt_rn(double x) { return sqrt(x); }
inline void __sincosf(float x, float* s, float* c) { *s = sinf(x), *c = cosf(x); }

#define EMU_BINARY(NAME, EXPRESSION) inline float NAME(float x, float y) { return EXPRESSION; }
EMU_BINARY(__fadd_rn, x + y)
EMU_BINARY(__fsub_rn, x - y)
EMU_BINARY(__fmul_rn, x* y)
EMU_BINARY(__fdiv_rn, x / y)
EMU_BINARY(__fdividef, x / y)
EMU_BINARY(fdividef, x / y)
EMU_BINARY(__powf, powf(x, y))
#undef EMU_BINARY
inline float __fmaf_rn(float x, float y, float z) { return fmaf(x, y, z); }
inline double __fma_rn(double x, double y, double z) { return fma(x, y, z); }
inline double __dadd_rn(double x, double y) { return x + y; }
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
inline unsigned __byte_perm(unsigned a, unsigned b, unsigned selector) {
  unsigned long long const all = (unsigned long long)b << 32 | a;
  unsigned r = 0;
  for (int i = 0; i < 4; ++i) {
    unsigned const s = selector >> (4 * i) & 0xf, byte = (unsigned)(all >> (8 * (s & 7))) & 0xff;
    r |= (s & 8 ? (byte & 0x80 ? 0xffu : 0u) : byte) << (8 * i);
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
inline int __hadd(int a, int b) { return (int)(((long long)a + b) >> 1); }
inline unsigned __funnelshift_l(unsigned lo, unsigned hi, unsigned n) {
  return (unsigned)(((unsigned long long)hi << 32 | lo) << (n & 31) >> 32);
}
inline unsigned __funnelshift_r(unsigned lo, unsigned hi, unsigned n) {
  return (unsigned)(((unsigned long long)hi << 32 | lo) >> (n & 31));
}
inline int __dp4a(int a, int b, int c) {
  for (int i = 0; i < 32; i += 8) c += (int8_t)(a >> i) * (int8_t)(b >> i);
  return c;
}
inline unsigned __dp4a(unsigned a, unsigned b, unsigned c) {
  for (int i = 0; i < 32; i += 8) c += (uint8_t)(a >> i) * (uint8_t)(b >> i);
  return c;
}

// Caching hints change nothing here.
#define EMU_LOAD(NAME) \
  template <class T>   \
  inline T NAME(T const* address) { return *address; }
EMU_LOAD(__ldg)
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
