// What an `asm volatile(...)` statement becomes: a call that carries the PTX text and its operands to the interpreter,
// whose instruction families (and how one is added) are described in ptx_machine.h.
#pragma once
#include "abi.h"

namespace emu {

template <char Constraint, class T>
inline EmuOperand out(T& value) {
  return {(void*)&value, sizeof(T), Constraint, true, false};
}
template <char Constraint, class T>
inline EmuOperand inout(T& value) {
  return {(void*)&value, sizeof(T), Constraint, true, true};
}
// Inputs may be temporaries: they live until the end of the full expression, which is the call itself.
template <char Constraint, class T>
inline EmuOperand in(T const& value) {
  return {(void*)&value, sizeof(T), Constraint, false, true};
}

template <class... Operands>
inline void ptx(const char* text, Operands... operands) {
  EmuOperand list[sizeof...(Operands) + 1] = {operands...};
  emu_ptx(text, list, sizeof...(Operands));
}

// Extremes of floats stand in inner loops, so they do not go to the interpreter: `asm_statements.WRITTEN_OUT`.
template <bool LARGEST>
inline void extreme(const char*, EmuOperand result, EmuOperand first, EmuOperand second) {
  float const a = *(float const*)first.address, b = *(float const*)second.address;
  bool const a_less = a < b || (a == b && __builtin_signbit(a) && !__builtin_signbit(b));
  *(float*)result.address = a != a || b != b ? __builtin_nanf("") : a_less == LARGEST ? b : a;
}

}  // namespace emu
