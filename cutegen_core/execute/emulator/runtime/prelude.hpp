// What comes before a candidate, precompiled. The order matters: qualifiers first, CUDA's headers in their host form
// (neither __CUDACC__ nor __CUDA_ARCH__), then CuTe from the overlay, and only then the macros that make the
// candidate believe that it is compiled for a device.
#pragma once
// Line tables of the functions below are much of a tensor-core kernel's compile. Without them, code that is
// inlined has the line of its call in the kernel file, and a frame that has none leads to its caller's.
#pragma clang attribute push(__attribute__((nodebug)), apply_to = hasType(functionType))
#include <algorithm>
#include <array>
#include <cassert>
#include <cfloat>
#include <climits>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <functional>
#include <limits>
#include <tuple>
#include <type_traits>
#include <utility>

#include "qualifiers.hpp"

#define CUTE_ARCH_MMA_SM70_ENABLED
#define CUTE_ARCH_MMA_SM75_ENABLED
#define CUTE_ARCH_MMA_SM80_ENABLED
#define CUTE_ARCH_CP_ASYNC_SM80_ENABLED
#define CUTE_ARCH_LDSM_SM75_ENABLED 1
#define CUTE_ARCH_LDSM_SM75_ACTIVATED 1
#define CUTE_ARCH_MOVM_SM75_ACTIVATED 1
#define CUTE_CVTA_GENERIC_TO_SHARED_ACTIVATED 1
#define CUTE_ARCH_CLUSTER_SM90_ENABLED
#define CUTE_ARCH_ELECT_ONE_SM90_ENABLED
#define CUTE_ARCH_MMA_SM90A_ENABLED
#define CUTE_ARCH_STSM_SM90_ENABLED
#define CUTE_ARCH_TMA_SM90_ENABLED
#define CUDA_CTA_RECONFIG_ACTIVATED 1

#include "vectors.hpp"
#include <vector_types.h>  // the overlay's
#include <cuda_runtime_api.h>
#include <math_constants.h>
#include <cuda_fp16.h>
#include <cuda_bf16.h>
#include <cuda_fp8.h>

#include "ptx.hpp"
#include "threads.hpp"
#include "atomics.hpp"
// A rounded operation (__fmul_rn) is never contracted with the next one, in whichever build.
#pragma clang fp contract(off)
#include "intrinsics.hpp"
#include "extremes.hpp"
#include "packed_integers.hpp"
#include "rounding.hpp"
#include "small_floats.hpp"
#pragma clang fp contract(fast)

#include <cute/tensor.hpp>
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

#pragma clang attribute pop
#include "launch.hpp"

// CUDA's headers have meanings of their own for some of them.
#include "qualifiers.hpp"

#define clock() ((int)clock64())  // the C library has a function of that name
#define __builtin_assume(...) ((__VA_ARGS__) ? void() : __builtin_unreachable())
#define __assume(...) __builtin_assume(__VA_ARGS__)
#define __noinline__ __attribute__((noinline))
#define __CUDA_ARCH__ 900
#define __CUDA_ARCH_FEAT_SM90_ALL 1
