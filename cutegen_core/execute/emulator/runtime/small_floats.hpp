// Functions of __half and __nv_bfloat16 that CUDA's headers have on the device only, computed in float and rounded once.
#pragma once
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cmath>

namespace emu {

inline float wide(__half x) { return __half2float(x); }
inline float wide(__nv_bfloat16 x) { return __bfloat162float(x); }
inline float relu(float x) { return x > 0.f || x != x ? x : 0.f; }
inline float clamp01(float x) { return fminf(fmaxf(x, 0.f), 1.f); }

template <class T>
struct narrow;
template <>
struct narrow<__half> {
  static __half from(float x) { return __float2half_rn(x); }
};
template <>
struct narrow<__nv_bfloat16> {
  static __nv_bfloat16 from(float x) { return __float2bfloat16_rn(x); }
};

}  // namespace emu

#define EMU_SMALL_UNARY(NAME, T, T2, EXPRESSION)                          \
  inline T h##NAME(T h) {                                                 \
    float const x = emu::wide(h);                                         \
    return emu::narrow<T>::from(EXPRESSION);                              \
  }                                                                       \
  inline T2 h2##NAME(T2 h) { return T2(h##NAME(h.x), h##NAME(h.y)); }

#define EMU_SMALL_FMA(NAME, T, T2, FINISH)                                                                    \
  inline T __hfma##NAME(T a, T b, T c) {                                                                      \
    return emu::narrow<T>::from(FINISH(fmaf(emu::wide(a), emu::wide(b), emu::wide(c))));                      \
  }                                                                                                           \
  inline T2 __hfma2##NAME(T2 a, T2 b, T2 c) { return T2(__hfma##NAME(a.x, b.x, c.x), __hfma##NAME(a.y, b.y, c.y)); }

#define EMU_SMALL(T, T2)                                                          \
  EMU_SMALL_UNARY(ceil, T, T2, ceilf(x))                                          \
  EMU_SMALL_UNARY(floor, T, T2, floorf(x))                                        \
  EMU_SMALL_UNARY(trunc, T, T2, truncf(x))                                        \
  EMU_SMALL_UNARY(rint, T, T2, rintf(x))                                          \
  EMU_SMALL_UNARY(cos, T, T2, cosf(x))                                            \
  EMU_SMALL_UNARY(sin, T, T2, sinf(x))                                            \
  EMU_SMALL_UNARY(exp, T, T2, expf(x))                                            \
  EMU_SMALL_UNARY(exp2, T, T2, exp2f(x))                                          \
  EMU_SMALL_UNARY(exp10, T, T2, powf(10.f, x))                                    \
  EMU_SMALL_UNARY(log, T, T2, logf(x))                                            \
  EMU_SMALL_UNARY(log2, T, T2, log2f(x))                                          \
  EMU_SMALL_UNARY(log10, T, T2, log10f(x))                                        \
  EMU_SMALL_UNARY(rcp, T, T2, 1.f / x)                                            \
  EMU_SMALL_UNARY(sqrt, T, T2, sqrtf(x))                                          \
  EMU_SMALL_UNARY(rsqrt, T, T2, 1.f / sqrtf(x))                                   \
  EMU_SMALL_UNARY(tanh, T, T2, tanhf(x))                                          \
  EMU_SMALL_UNARY(tanh_approx, T, T2, tanhf(x))                                   \
  EMU_SMALL_FMA(, T, T2, )                                                        \
  EMU_SMALL_FMA(_relu, T, T2, emu::relu)                                          \
  EMU_SMALL_FMA(_sat, T, T2, emu::clamp01)
EMU_SMALL(__half, __half2)
EMU_SMALL(__nv_bfloat16, __nv_bfloat162)
#undef EMU_SMALL
// a * b + c of complex numbers.
#define EMU_SMALL_COMPLEX(T2)                                                                   \
  inline T2 __hcmadd(T2 a, T2 b, T2 c) {                                                        \
    auto const real = __hfma(a.x, b.x, c.x), imaginary = __hfma(a.x, b.y, c.y);                 \
    return T2(__hfma(__hneg(a.y), b.y, real), __hfma(a.y, b.x, imaginary));                     \
  }
EMU_SMALL_COMPLEX(__half2)
EMU_SMALL_COMPLEX(__nv_bfloat162)
#undef EMU_SMALL_COMPLEX
#undef EMU_SMALL_FMA
#undef EMU_SMALL_UNARY

#define EMU_SMALL_TO_INTEGER(PREFIX, T, NAME, TYPE)                                                       \
  inline TYPE PREFIX##NAME##_rn(T h) { return emu::saturate<TYPE>(rintf(emu::wide(h))); }                 \
  inline TYPE PREFIX##NAME##_rd(T h) { return emu::saturate<TYPE>(floorf(emu::wide(h))); }                \
  inline TYPE PREFIX##NAME##_ru(T h) { return emu::saturate<TYPE>(ceilf(emu::wide(h))); }
#define EMU_SMALL_TO_INTEGERS(PREFIX, T)                          \
  EMU_SMALL_TO_INTEGER(PREFIX, T, short, short)                   \
  EMU_SMALL_TO_INTEGER(PREFIX, T, ushort, unsigned short)         \
  EMU_SMALL_TO_INTEGER(PREFIX, T, int, int)                       \
  EMU_SMALL_TO_INTEGER(PREFIX, T, uint, unsigned)                 \
  EMU_SMALL_TO_INTEGER(PREFIX, T, ll, long long)                  \
  EMU_SMALL_TO_INTEGER(PREFIX, T, ull, unsigned long long)
EMU_SMALL_TO_INTEGERS(__half2, __half)
EMU_SMALL_TO_INTEGERS(__bfloat162, __nv_bfloat16)
#undef EMU_SMALL_TO_INTEGERS
#undef EMU_SMALL_TO_INTEGER
