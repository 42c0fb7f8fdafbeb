// Intrinsics that treat a word as two 16-bit or four 8-bit numbers.
#pragma once
#include <cstdint>

namespace emu {

template <class T, class F>
inline unsigned packed(unsigned a, unsigned b, F f) {
  constexpr int bits = 8 * sizeof(T);
  constexpr unsigned mask = (1u << bits) - 1;
  unsigned result = 0;
  for (int shift = 0; shift < 32; shift += bits)
    result |= ((unsigned)f((int)(T)(a >> shift), (int)(T)(b >> shift)) & mask) << shift;
  return result;
}

template <class T, class F>
inline unsigned packed_sum(unsigned a, unsigned b, F f) {
  unsigned result = 0;
  for (int shift = 0; shift < 32; shift += 8 * (int)sizeof(T)) result += (unsigned)f((int)(T)(a >> shift), (int)(T)(b >> shift));
  return result;
}

inline int clamp_to(int x, int low, int high) { return x < low ? low : x > high ? high : x; }

}  // namespace emu

#define EMU_PACKED(NAME, TYPE, EXPRESSION) \
  inline unsigned NAME(unsigned a, unsigned b) { return emu::packed<TYPE>(a, b, [](int x, int y) { return EXPRESSION; }); }
#define EMU_PACKED_SUM(NAME, TYPE, EXPRESSION) \
  inline unsigned NAME(unsigned a, unsigned b) { return emu::packed_sum<TYPE>(a, b, [](int x, int y) { return EXPRESSION; }); }
#define EMU_PACKED_UNARY(NAME, TYPE, EXPRESSION) \
  inline unsigned NAME(unsigned a) { return emu::packed<TYPE>(a, 0u, [](int x, int) { return EXPRESSION; }); }
// N elements, signed and unsigned type, and their limits.
#define EMU_PACKED_ALL(N, S, U, LOW, HIGH, MOST)                                                       \
  EMU_PACKED(__vadd##N, U, x + y)                                                                      \
  EMU_PACKED(__vsub##N, U, x - y)                                                                      \
  EMU_PACKED(__vaddss##N, S, emu::clamp_to(x + y, LOW, HIGH))                                          \
  EMU_PACKED(__vaddus##N, U, emu::clamp_to(x + y, 0, MOST))                                            \
  EMU_PACKED(__vsubss##N, S, emu::clamp_to(x - y, LOW, HIGH))                                          \
  EMU_PACKED(__vsubus##N, U, emu::clamp_to(x - y, 0, MOST))                                            \
  EMU_PACKED(__vmaxs##N, S, x > y ? x : y)                                                             \
  EMU_PACKED(__vmaxu##N, U, x > y ? x : y)                                                             \
  EMU_PACKED(__vmins##N, S, x < y ? x : y)                                                             \
  EMU_PACKED(__vminu##N, U, x < y ? x : y)                                                             \
  EMU_PACKED(__vavgs##N, S, (x + y + ((x + y) >= 0)) >> 1)                                             \
  EMU_PACKED(__vavgu##N, U, (x + y + 1) >> 1)                                                          \
  EMU_PACKED(__vhaddu##N, U, (x + y) >> 1)                                                             \
  EMU_PACKED(__vabsdiffs##N, S, x > y ? x - y : y - x)                                                 \
  EMU_PACKED(__vabsdiffu##N, U, x > y ? x - y : y - x)                                                 \
  EMU_PACKED_SUM(__vsads##N, S, x > y ? x - y : y - x)                                                 \
  EMU_PACKED_SUM(__vsadu##N, U, x > y ? x - y : y - x)                                                 \
  EMU_PACKED_UNARY(__vabs##N, S, x < 0 ? -x : x)                                                       \
  EMU_PACKED_UNARY(__vabsss##N, S, emu::clamp_to(x < 0 ? -x : x, LOW, HIGH))                           \
  EMU_PACKED_UNARY(__vneg##N, U, -x)                                                                   \
  EMU_PACKED_UNARY(__vnegss##N, S, emu::clamp_to(-x, LOW, HIGH))                                       \
  EMU_PACKED(__vcmpeq##N, U, x == y ? -1 : 0)                                                          \
  EMU_PACKED(__vcmpne##N, U, x != y ? -1 : 0)                                                          \
  EMU_PACKED(__vcmpges##N, S, x >= y ? -1 : 0)                                                         \
  EMU_PACKED(__vcmpgeu##N, U, x >= y ? -1 : 0)                                                         \
  EMU_PACKED(__vcmpgts##N, S, x > y ? -1 : 0)                                                          \
  EMU_PACKED(__vcmpgtu##N, U, x > y ? -1 : 0)                                                          \
  EMU_PACKED(__vcmples##N, S, x <= y ? -1 : 0)                                                         \
  EMU_PACKED(__vcmpleu##N, U, x <= y ? -1 : 0)                                                         \
  EMU_PACKED(__vcmplts##N, S, x < y ? -1 : 0)                                                          \
  EMU_PACKED(__vcmpltu##N, U, x < y ? -1 : 0)                                                          \
  EMU_PACKED(__vseteq##N, U, x == y)                                                                   \
  EMU_PACKED(__vsetne##N, U, x != y)                                                                   \
  EMU_PACKED(__vsetges##N, S, x >= y)                                                                  \
  EMU_PACKED(__vsetgeu##N, U, x >= y)                                                                  \
  EMU_PACKED(__vsetgts##N, S, x > y)                                                                   \
  EMU_PACKED(__vsetgtu##N, U, x > y)                                                                   \
  EMU_PACKED(__vsetles##N, S, x <= y)                                                                  \
  EMU_PACKED(__vsetleu##N, U, x <= y)                                                                  \
  EMU_PACKED(__vsetlts##N, S, x < y)                                                                   \
  EMU_PACKED(__vsetltu##N, U, x < y)
EMU_PACKED_ALL(2, int16_t, uint16_t, -32768, 32767, 65535)
EMU_PACKED_ALL(4, int8_t, uint8_t, -128, 127, 255)
#undef EMU_PACKED_ALL
#undef EMU_PACKED_UNARY
#undef EMU_PACKED_SUM
#undef EMU_PACKED
