/* cutegen
idea = "every way to an 8-bit float and back, one float a thread, four where the conversion takes four"

[let]
n = "x.numel"

[[launch]]
kernel = "narrow"
grid   = ["ceil_div(n, 1024)"]
block  = [256]
args   = ["x", "out0", "out1", "out2", "out3", "out4", "out5", "out6", "out7", "out8", "out9", "out10", "out11", "n"]

[[launch]]
kernel = "widen"
grid   = [1]
block  = [256]
args   = ["codes", "out12", "out13", "out14", "out15", "out16", "out17"]
*/
#include <cute/tensor.hpp>
#include <cutlass/numeric_conversion.h>
using namespace cute;

__device__ __nv_fp8x2_storage_t by_ptx(float low, float high) {
  unsigned short packed;
  asm volatile("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(packed) : "f"(high), "f"(low));
  return packed;
}

__device__ unsigned halves_by_ptx(__nv_fp8_storage_t code) {
  unsigned halves;
  asm volatile("cvt.rn.f16x2.e5m2x2 %0, %1;" : "=r"(halves) : "h"((unsigned short)(code << 8 | code)));
  return halves;
}

__global__ void narrow(
    float const* x, __nv_fp8_storage_t* e4m3, __nv_fp8_storage_t* e4m3_plain, __nv_fp8_storage_t* e5m2,
    __nv_fp8_storage_t* e5m2_plain, float_e4m3_t* cutlass_e4m3, float_e5m2_t* cutlass_e5m2, __nv_fp8x4_e4m3* four,
    float_e4m3_t* array, __nv_fp8_e4m3* of_half, __nv_fp8_e5m2* of_bfloat16, __nv_fp8_e4m3* of_double,
    __nv_fp8_storage_t* ptx, long n) {
  long const begin = 4 * (long(blockIdx.x) * 256 + threadIdx.x);
  if (begin >= n) return;
  four[begin / 4] = __nv_fp8x4_e4m3(make_float4(x[begin], x[begin + 1], x[begin + 2], x[begin + 3]));
  cutlass::NumericArrayConverter<float_e4m3_t, float, 4> convert;
  cutlass::Array<float, 4> given;
  for (int k = 0; k < 4; ++k) given[k] = x[begin + k];
  auto const converted = convert(given);
  for (int k = 0; k < 4; ++k) {
    long const i = begin + k;
    e4m3[i] = __nv_cvt_float_to_fp8(x[i], __NV_SATFINITE, __NV_E4M3);
    e4m3_plain[i] = __nv_cvt_float_to_fp8(x[i], __NV_NOSAT, __NV_E4M3);
    e5m2[i] = __nv_cvt_float_to_fp8(x[i], __NV_SATFINITE, __NV_E5M2);
    e5m2_plain[i] = __nv_cvt_float_to_fp8(x[i], __NV_NOSAT, __NV_E5M2);
    cutlass_e4m3[i] = float_e4m3_t(x[i]);
    cutlass_e5m2[i] = float_e5m2_t(x[i]);
    array[i] = converted[k];
    of_half[i] = __nv_fp8_e4m3(__float2half_rn(x[i]));
    of_bfloat16[i] = __nv_fp8_e5m2(__float2bfloat16_rn(x[i]));
    of_double[i] = __nv_fp8_e4m3(double(x[i]));
    __nv_fp8x2_storage_t const pair = by_ptx(x[i], x[begin + (k + 1) % 4]);
    ptx[i] = __nv_fp8_storage_t(pair & 0xff);
  }
}

__global__ void widen(
    unsigned char const* codes, float* e4m3, float* e5m2, float* cutlass_e4m3, float* cutlass_e5m2, __half* halves,
    __half* ptx) {
  int const i = threadIdx.x;
  __nv_fp8_e4m3 a;
  __nv_fp8_e5m2 b;
  a.__x = b.__x = codes[i];
  e4m3[i] = float(a);
  e5m2[i] = float(b);
  cutlass_e4m3[i] = float(float_e4m3_t::bitcast(codes[i]));
  cutlass_e5m2[i] = float(float_e5m2_t::bitcast(codes[i]));
  halves[i] = __half(a);
  ptx[i] = __ushort_as_half((unsigned short)(halves_by_ptx(codes[i]) >> 16));
}
