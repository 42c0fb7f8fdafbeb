// What the overlay of CUDA's vector_types.h puts into the short vectors: copies whose source and target the compiler
// checks for alignment. Brace initialisation and default construction stay as they are.
#pragma once

#define EMU_COPY2(NAME, TYPE)                                    \
  NAME() = default;                                              \
  constexpr NAME(TYPE a, TYPE b = 0) : x(a), y(b) {}             \
  constexpr NAME(NAME const& o) : x(o.x), y(o.y) {}              \
  constexpr NAME& operator=(NAME const& o) {                     \
    x = o.x, y = o.y;                                            \
    return *this;                                                \
  }
#define EMU_COPY4(NAME, TYPE)                                                                    \
  NAME() = default;                                                                              \
  constexpr NAME(TYPE a, TYPE b = 0, TYPE c = 0, TYPE d = 0) : x(a), y(b), z(c), w(d) {}         \
  constexpr NAME(NAME const& o) : x(o.x), y(o.y), z(o.z), w(o.w) {}                              \
  constexpr NAME& operator=(NAME const& o) {                                                     \
    x = o.x, y = o.y, z = o.z, w = o.w;                                                          \
    return *this;                                                                                \
  }
