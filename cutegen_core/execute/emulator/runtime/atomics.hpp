// CUDA's atomic functions over one compare-and-swap of the runner: blocks run in several processes over shared memory.
#pragma once
#include "abi.h"

namespace emu {

template <class T, class F>
inline T read_modify_write(T* address, F next) {
  emu_atomic(address, sizeof(T));
  T old, desired;
  emu_atomic_load(address, &old, sizeof(T));
  do desired = next(old);
  while (!emu_compare_exchange(address, &old, &desired, sizeof(T)));
  return old;
}

template <class T>
struct identity {
  using type = T;
};

}  // namespace emu

#define EMU_ATOMIC(NAME, EXPRESSION)                                                       \
  template <class T>                                                                       \
  inline T NAME(T* address, typename emu::identity<T>::type value) {                       \
    return emu::read_modify_write(address, [&](T old) -> T { return EXPRESSION; });        \
  }                                                                                        \
  template <class T>                                                                       \
  inline T NAME##_block(T* address, typename emu::identity<T>::type value) {               \
    return NAME(address, value);                                                           \
  }                                                                                        \
  template <class T>                                                                       \
  inline T NAME##_system(T* address, typename emu::identity<T>::type value) {              \
    return NAME(address, value);                                                           \
  }
EMU_ATOMIC(atomicAdd, old + value)
EMU_ATOMIC(atomicSub, old - value)
EMU_ATOMIC(atomicExch, ((void)old, value))
EMU_ATOMIC(atomicMin, value < old ? value : old)
EMU_ATOMIC(atomicMax, value > old ? value : old)
EMU_ATOMIC(atomicAnd, old& value)
EMU_ATOMIC(atomicOr, old | value)
EMU_ATOMIC(atomicXor, old ^ value)
EMU_ATOMIC(atomicInc, old >= value ? T(0) : T(old + 1))
EMU_ATOMIC(atomicDec, old == 0 || old > value ? value : T(old - 1))
#undef EMU_ATOMIC

// Vectors of floats, each element an update of its own.
inline float2 atomicAdd(float2* address, float2 value) {
  return {atomicAdd(&address->x, value.x), atomicAdd(&address->y, value.y)};
}
inline float4 atomicAdd(float4* address, float4 value) {
  return {atomicAdd(&address->x, value.x), atomicAdd(&address->y, value.y), atomicAdd(&address->z, value.z),
          atomicAdd(&address->w, value.w)};
}

template <class T>
inline T atomicCAS(T* address, typename emu::identity<T>::type compare, typename emu::identity<T>::type value) {
  return emu::read_modify_write(address, [&](T old) -> T { return memcmp(&old, &compare, sizeof(T)) == 0 ? value : old; });
}
template <class T>
inline T atomicCAS_block(T* address, typename emu::identity<T>::type compare, typename emu::identity<T>::type value) {
  return atomicCAS(address, compare, value);
}
template <class T>
inline T atomicCAS_system(T* address, typename emu::identity<T>::type compare, typename emu::identity<T>::type value) {
  return atomicCAS(address, compare, value);
}
