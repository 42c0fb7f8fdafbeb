// Extremes of three numbers, of a sum and a number, with 0, and with their place: what sm_90 has as DPX. Words are one
// number of 32 bits, or two of 16, whose sums wrap around.
#pragma once
#include <cstdint>
#include <type_traits>

namespace emu {

template <class T> inline T larger(T a, T b) { return a > b ? a : b; }
template <class T> inline T smaller(T a, T b) { return a < b ? a : b; }
template <class T> inline T wrapped_sum(T a, T b) { return (T)((unsigned)a + (unsigned)b); }

template <class T, class F>
inline unsigned halves_of(unsigned a, unsigned b, unsigned c, F f) {
  auto const at = [&](int shift) { return (unsigned)(uint16_t)f((T)(a >> shift), (T)(b >> shift), (T)(c >> shift)) << shift; };
  return at(16) | at(0);
}

// The larger one, or the smaller; `first` says whether that is `a`, of equal ones, too.
template <class T, bool LARGER>
inline T extreme_and_place(T a, T b, bool* first) {
  *first = LARGER ? a >= b : a <= b;
  return *first ? a : b;
}
template <class T, bool LARGER>
inline unsigned extremes_and_places(unsigned a, unsigned b, bool* high, bool* low) {
  T const of_high = extreme_and_place<T, LARGER>((T)(a >> 16), (T)(b >> 16), high);
  return (unsigned)(uint16_t)of_high << 16 | (uint16_t)extreme_and_place<T, LARGER>((T)a, (T)b, low);
}

}  // namespace emu

// EXPRESSION is one over x, y and z.
#define EMU_EXTREME(NAME, EXPRESSION)                                                                                          \
  inline int NAME##_s32(int x, int y, int z) { return EXPRESSION; }                                                            \
  inline unsigned NAME##_u32(unsigned x, unsigned y, unsigned z) { return EXPRESSION; }                                        \
  inline unsigned NAME##_s16x2(unsigned a, unsigned b, unsigned c) {                                                           \
    return emu::halves_of<int16_t>(a, b, c, [](int16_t x, int16_t y, int16_t z) { return EXPRESSION; });                      \
  }                                                                                                                            \
  inline unsigned NAME##_u16x2(unsigned a, unsigned b, unsigned c) {                                                           \
    return emu::halves_of<uint16_t>(a, b, c, [](uint16_t x, uint16_t y, uint16_t z) { return EXPRESSION; });                  \
  }                                                                                                                            \
  inline int NAME##_s32_relu(int x, int y, int z) { return emu::larger(NAME##_s32(x, y, z), 0); }                             \
  inline unsigned NAME##_s16x2_relu(unsigned a, unsigned b, unsigned c) {                                                      \
    return emu::halves_of<int16_t>(NAME##_s16x2(a, b, c), 0u, 0u, [](int16_t x, int16_t y, int16_t) { return emu::larger(x, y); }); \
  }
EMU_EXTREME(__viaddmax, emu::larger(emu::wrapped_sum(x, y), z))
EMU_EXTREME(__viaddmin, emu::smaller(emu::wrapped_sum(x, y), z))
EMU_EXTREME(__vimax3, emu::larger(emu::larger(x, y), z))
EMU_EXTREME(__vimin3, emu::smaller(emu::smaller(x, y), z))
#undef EMU_EXTREME

inline int __vimax_s32_relu(int a, int b) { return emu::larger(emu::larger(a, b), 0); }
inline int __vimin_s32_relu(int a, int b) { return emu::larger(emu::smaller(a, b), 0); }
inline unsigned __vimax_s16x2_relu(unsigned a, unsigned b) { return __vimax3_s16x2(a, b, 0u); }
inline unsigned __vimin_s16x2_relu(unsigned a, unsigned b) { return __vimin3_s16x2_relu(a, b, a); }

#define EMU_PLACED(NAME, LARGER)                                                                                            \
  inline int NAME##_s32(int a, int b, bool* first) { return emu::extreme_and_place<int, LARGER>(a, b, first); }            \
  inline unsigned NAME##_u32(unsigned a, unsigned b, bool* first) {                                                         \
    return emu::extreme_and_place<unsigned, LARGER>(a, b, first);                                                           \
  }                                                                                                                         \
  inline unsigned NAME##_s16x2(unsigned a, unsigned b, bool* high, bool* low) {                                             \
    return emu::extremes_and_places<int16_t, LARGER>(a, b, high, low);                                                      \
  }                                                                                                                         \
  inline unsigned NAME##_u16x2(unsigned a, unsigned b, bool* high, bool* low) {                                             \
    return emu::extremes_and_places<uint16_t, LARGER>(a, b, high, low);                                                     \
  }
EMU_PLACED(__vibmax, true)
EMU_PLACED(__vibmin, false)
#undef EMU_PLACED
