"""Device functions that the formulas of pointwise operations call, each after those it calls itself."""

from __future__ import annotations

from collections.abc import Mapping

from cutegen_core.propose.playbook.pointwise.for_halves import ROUGH_FUNCTIONS

HELPERS: Mapping[str, str] = {
    "max_of": """// The larger one; NaN when either is NaN, as in PyTorch. One instruction for floats.
template <class T>
__device__ T max_of(T a, T b) { return a > b || a != a ? a : b; }
__device__ float max_of(float a, float b) {
  float largest;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(largest) : "f"(a), "f"(b));
  return largest;
}
""",
    "min_of": """// The smaller one; NaN when either is NaN, as in PyTorch. One instruction for floats.
template <class T>
__device__ T min_of(T a, T b) { return a < b || a != a ? a : b; }
__device__ float min_of(float a, float b) {
  float smallest;
  asm("min.NaN.f32 %0, %1, %2;" : "=f"(smallest) : "f"(a), "f"(b));
  return smallest;
}
""",
    "Sum": """struct Sum {
  template <class T>
  __device__ T operator()(T a, T b) const { return a + b; }
};
""",
    "Times": """struct Times {
  template <class T>
  __device__ T operator()(T a, T b) const { return a * b; }
};
""",
    "Max": """struct Max {
  template <class T>
  __device__ T operator()(T a, T b) const { return max_of(a, b); }
};
""",
    "Min": """struct Min {
  template <class T>
  __device__ T operator()(T a, T b) const { return min_of(a, b); }
};
""",
    "power_of_two": """__device__ float power_of_two(float exponent) {
  float power;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(exponent));
  return power;
}
""",
    "reciprocal": """__device__ float reciprocal(float x) {
  float share;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(share) : "f"(x));
  return share;
}
""",
    "exp_to_one": """// An instruction's exponential of what is not above 0, and what rounding took from its argument.
// Besides what the instruction errs, by 1.9 units in the last place from 0 to -20, by 5 at -87. What a float holds with
// loss only is 0.
__device__ float exp_to_one(float distance) {
  float const above = max_of(distance, -100.0f);  // NaN stays
  float const exponent = above * 1.44269504f, power = power_of_two(exponent);
  return fmaf(power, fmaf(exponent, -0.693147181f, above), power);
}
""",
    "ranked": """// A value and its position as one number: it is larger for a larger value, NaN above all, and for
// an earlier position of equal ones.
__device__ long ranked(float value, long position) {
  int const bits = __float_as_int(value + 0.0f);
  int const order = value != value ? 0x7fffffff : bits ^ (bits >> 31 & 0x7fffffff);
  return long(uint64_t(uint32_t(order)) << 32 | uint32_t(0x7fffffff - int(position)));
}
""",
    "value_of_rank": """// The value of a rank, which has the bits of a float in another order.
__device__ float value_of_rank(long rank) {
  int const order = int(rank >> 32);
  return __int_as_float(order ^ (order >> 31 & 0x7fffffff));
}
""",
    "whole_quotient": """// Where a thread has no element it divides nothing by nothing.
__device__ long whole_quotient(long a, long b) { return b == 0 ? 0 : a / b; }
""",
    "whole_rest": """// What is left of a whole quotient.
__device__ long whole_rest(long a, long b) { return b == 0 ? 0 : a % b; }
""",
    "shifted_left": """// By fewer than no bits, or by all of them, nothing is left, as in PyTorch.
__device__ long shifted_left(long a, long bits) { return bits < 0 || bits > 63 ? 0 : long(uint64_t(a) << bits); }
""",
    "shifted_right": """// By fewer than no bits, or by all of them, the sign is left, as in PyTorch.
__device__ long shifted_right(long a, long bits) { return a >> (bits < 0 || bits > 63 ? 63 : bits); }
""",
    "remainder_of": """// What is left of a division, with the divisor's sign.
template <class T>
__device__ T remainder_of(T a, T b) {
  T const left = fmod(a, b);
  return left != T(0) && (b < T(0)) != (left < T(0)) ? left + b : left;
}
__device__ long remainder_of(long a, long b) {
  long const left = whole_rest(a, b);
  return left != 0 && (b < 0) != (left < 0) ? left + b : left;
}
""",
    "floor_quotient": """// The whole number at or below a / b, also where a / b is rounded up to the next one.
template <class T>
__device__ T floor_quotient(T a, T b) {
  T const left = fmod(a, b);
  if (b == T(0)) return a / b;
  T const quotient = (a - left) / b - T(left != T(0) && (b < T(0)) != (left < T(0)));
  T const whole = floor(quotient);
  return quotient == T(0) ? copysign(T(0), a / b) : quotient - whole > T(0.5) ? whole + T(1) : whole;
}
__device__ long floor_quotient(long a, long b) {
  return whole_quotient(a, b) - (whole_rest(a, b) != 0 && (a < 0) != (b < 0));
}
""",
    "abs_of": """template <class T>
__device__ T abs_of(T a) { return a < T(0) ? -a : a; }
__device__ float abs_of(float a) { return fabsf(a); }
__device__ double abs_of(double a) { return fabs(a); }
""",
    "Logaddexp": """// The logarithm of the sum of two exponentials; of -inf, which stands for 0, it is the other one.
struct Logaddexp {
  template <class T>
  __device__ T operator()(T a, T b) const {
    if (a == b && isinf(a)) return a;
    T const distance = -abs_of(a - b);
    if constexpr (sizeof(T) == 4) return max_of(a, b) + log1pf(expf(distance));
    else return max_of(a, b) + log1p(exp(distance));
  }
};
""",
    **ROUGH_FUNCTIONS,
}
"""By their names; a function stands behind those that it calls."""
