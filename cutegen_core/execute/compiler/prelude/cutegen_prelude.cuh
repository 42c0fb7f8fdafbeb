// What every candidate is compiled after: CuTe, the small float types, and what NVRTC leaves out of C and C++.
// Precompiled once a server. The emulator gives candidates the same names through the host's own headers.
#pragma once

// How far libcu++ writes out its lists of types, instead of recursing: 16 costs each compile a third of a second.
#define _CCCL_META_UNROLL_LIMIT 4

#include "cutegen_tuple_element.cuh"

#include <cute/tensor.hpp>
#include <cuda_fp16.h>
#include <cuda_bf16.h>
#include <cuda_fp8.h>
#include <cuda/std/array>
#include <cuda/std/bit>
#include <cuda/std/climits>
#include <cuda/std/cmath>
#include <cuda/std/cstddef>
#include <cuda/std/cstdint>
#include <cuda/std/functional>
#include <cuda/std/limits>
#include <cuda/std/tuple>
#include <cuda/std/type_traits>
#include <cuda/std/utility>

// std::exp, std::numeric_limits, ... as everywhere else; files of `std/` answer #include <cmath> and the like.
namespace std {
using namespace cuda::std;
}

// What cuda.h calls it, which NVRTC does not have: 128 opaque bytes. <cuda/barrier> declares it as a struct of this name.
struct CUtensorMap_st : cute::TmaDescriptor {};
typedef struct CUtensorMap_st CUtensorMap;

typedef unsigned int uint;
typedef unsigned short ushort;

#ifndef HUGE_VALF
#define HUGE_VALF (cuda::std::numeric_limits<float>::infinity())
#define HUGE_VAL (cuda::std::numeric_limits<double>::infinity())
#endif
#ifndef INFINITY
#define INFINITY (cuda::std::numeric_limits<float>::infinity())
#endif
#ifndef NAN
#define NAN (cuda::std::numeric_limits<float>::quiet_NaN())
#endif
#ifndef FLT_MAX
#define FLT_MAX 3.402823466e+38f
#define FLT_MIN 1.175494351e-38f
#define FLT_EPSILON 1.192092896e-07f
#define DBL_MAX 1.7976931348623158e+308
#define DBL_MIN 2.2250738585072014e-308
#define DBL_EPSILON 2.2204460492503131e-16
#endif

#ifndef M_PI
#define M_E 2.7182818284590452354
#define M_LOG2E 1.4426950408889634074
#define M_LOG10E 0.43429448190325182765
#define M_LN2 0.69314718055994530942
#define M_LN10 2.30258509299404568402
#define M_PI 3.14159265358979323846
#define M_PI_2 1.57079632679489661923
#define M_PI_4 0.78539816339744830962
#define M_2_PI 0.63661977236758134308
#define M_1_PI 0.31830988618379067154
#define M_2_SQRTPI 1.12837916709551257390
#define M_SQRT2 1.41421356237309504880
#define M_SQRT1_2 0.70710678118654752440
#endif
