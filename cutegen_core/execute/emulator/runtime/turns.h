// The angle whose sine and cosine the hardware computes.
#pragma once
#include <math.h>

// `sin.approx` and `cos.approx` multiply by 1 / 2 pi in float, rounded towards zero, and take the fraction: large angles lose
// bits, and those of 2^24 turns and more are whole turns. Held against an H200 in tests/execute/emulator/test_gpu_values.py.
inline double hardware_angle(float x) {
  double const exact = (double)x * 0.15915493667125701904;
  auto turns = (float)exact;
  if (fabs((double)turns) > fabs(exact)) turns = nextafterf(turns, 0);
  return ((double)turns - rint((double)turns)) * 6.28318530717958647692;
}
