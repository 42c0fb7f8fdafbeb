// Turns a kernel into a record the runner can call: argument values are converted to the kernel's own types.
#pragma once
#include <type_traits>
#include "abi.h"

// Found by name in a candidate that otherwise exports nothing.
#define EMU_EXPORT extern __attribute__((visibility("default")))

namespace emu {

template <class T>
constexpr const char* dtype() {
  if constexpr (std::is_same_v<T, float>) return "float32";
  else if constexpr (std::is_same_v<T, double>) return "float64";
  else if constexpr (std::is_same_v<T, __half> || std::is_same_v<T, cutlass::half_t>) return "float16";
  else if constexpr (std::is_same_v<T, __nv_bfloat16> || std::is_same_v<T, cutlass::bfloat16_t>) return "bfloat16";
  else if constexpr (std::is_same_v<T, __nv_fp8_e4m3> || std::is_same_v<T, cutlass::float_e4m3_t>) return "float8_e4m3fn";
  else if constexpr (std::is_same_v<T, __nv_fp8_e5m2> || std::is_same_v<T, cutlass::float_e5m2_t>) return "float8_e5m2";
  else if constexpr (std::is_same_v<T, bool>) return "bool";
  else if constexpr (std::is_same_v<T, char>) return "";
  else if constexpr (std::is_integral_v<T> && sizeof(T) == 8) return "int64";
  else if constexpr (std::is_integral_v<T> && sizeof(T) == 4) return "int32";
  else if constexpr (std::is_integral_v<T> && sizeof(T) == 2) return "int16";
  else if constexpr (std::is_same_v<T, signed char>) return "int8";
  else return "";
}

template <class T>
constexpr EmuParameter parameter() {
  using Bare = std::remove_cv_t<T>;
  if constexpr (std::is_pointer_v<Bare> && std::is_void_v<std::remove_pointer_t<Bare>>)
    return {EmuParameter::POINTER, 8, 0, 0, ""};
  else if constexpr (std::is_pointer_v<Bare>)
    return {EmuParameter::POINTER, 8, 0, 0, dtype<std::remove_cv_t<std::remove_pointer_t<Bare>>>()};
  else if constexpr (std::is_integral_v<Bare> || std::is_enum_v<Bare>)
    return {EmuParameter::INTEGER, sizeof(T), (Bare)-1 < (Bare)0 || std::is_same_v<Bare, bool>, 0, ""};
  else if constexpr (std::is_floating_point_v<Bare> || std::is_same_v<Bare, __half> || std::is_same_v<Bare, __nv_bfloat16>)
    return {EmuParameter::FLOATING, sizeof(T), 1, 0, ""};
  else if constexpr (std::is_same_v<Bare, cute::TmaDescriptor>)
    return {EmuParameter::TENSOR_MAP, sizeof(T), 0, 0, ""};
  else
    return {EmuParameter::OTHER, 0, 0, 0, ""};
}

template <class T>
inline std::remove_cv_t<T> take(EmuArgument const& argument) {
  using Bare = std::remove_cv_t<T>;
  if constexpr (std::is_pointer_v<Bare>) return (Bare)argument.pointer;
  else if constexpr (std::is_same_v<Bare, __half> || std::is_same_v<Bare, __nv_bfloat16>)
    return Bare((float)argument.floating);
  else if constexpr (std::is_floating_point_v<Bare>) return (Bare)argument.floating;
  else if constexpr (std::is_integral_v<Bare> || std::is_enum_v<Bare>) return (Bare)argument.integer;
  else if constexpr (std::is_same_v<Bare, cute::TmaDescriptor>) return *(Bare const*)argument.pointer;
  else __builtin_trap();  // the runner refuses such a kernel before it calls it
}

template <auto Kernel>
struct Entry;

template <class... P, void (*Kernel)(P...)>
struct Entry<Kernel> {
  static constexpr EmuParameter parameters[sizeof...(P) + 1] = {parameter<P>()..., {}};
  template <size_t... I>
  static void call(EmuArgument const* arguments, std::index_sequence<I...>) {
    Kernel(take<P>(arguments[I])...);
  }
  static void invoke(EmuArgument const* arguments) { call(arguments, std::index_sequence_for<P...>{}); }
  static constexpr EmuKernel record(const char* name) { return {name, &invoke, parameters, sizeof...(P)}; }
};

// Bytes of the innermost element of an array type.
template <class T>
constexpr size_t itemsize() {
  return sizeof(std::remove_all_extents_t<T>);
}

// Storage of a `__shared__` variable with a red zone behind it; untyped, so that no constructor runs.
template <class T>
struct Shared {
  alignas(alignof(T) < 16 ? 16 : alignof(T)) unsigned char bytes[sizeof(T) + 64];
};

}  // namespace emu
