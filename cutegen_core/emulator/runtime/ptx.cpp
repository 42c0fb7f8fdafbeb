// Interprets inline PTX, one instruction a statement. What is not here answers UNSUPPORTED with its opcode.
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "runner.h"

namespace runner {
namespace {

struct Statement {
  char opcode[64];        // "ld.global.f32"
  char operands[160];     // "%0, [%1 + 4]"
};

struct Machine {
  EmuOperand* operands;
  int count;

  template <class T>
  T get(int index) const {
    T value = {};
    memcpy(&value, operands[index].address, sizeof(T) < operands[index].bytes ? sizeof(T) : operands[index].bytes);
    return value;
  }
  template <class T>
  void set(int index, T value) const {
    memcpy(operands[index].address, &value, sizeof(T) < operands[index].bytes ? sizeof(T) : operands[index].bytes);
  }
};

bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

[[noreturn]] void unsupported(const char* opcode) {
  fail("UNSUPPORTED", "unsupported-ptx", "", "the emulator does not execute the PTX instruction '%s'", opcode);
}

// Splits "{ op operands; }" into opcode and operands; several instructions in one statement are not interpreted yet.
Statement parse(const char* text) {
  Statement statement = {};
  while (is_space(*text) || *text == '{') ++text;
  size_t length = 0;
  while (text[length] && !is_space(text[length]) && text[length] != ';' && length < sizeof statement.opcode - 1) ++length;
  memcpy(statement.opcode, text, length);
  text += length;
  while (is_space(*text)) ++text;
  length = 0;
  while (text[length] && text[length] != ';' && length < sizeof statement.operands - 1) ++length;
  memcpy(statement.operands, text, length);
  text += length;
  while (is_space(*text) || *text == ';' || *text == '}') ++text;
  if (*text) unsupported(statement.opcode);
  return statement;
}

bool starts(const char* text, const char* prefix) { return strncmp(text, prefix, strlen(prefix)) == 0; }
bool has(const char* text, const char* part) { return strstr(text, part) != nullptr; }

// -- arithmetic -----------------------------------------------------------------------------------------------------

bool unary(const char* opcode, const Machine& m) {
  if (!has(opcode, ".f32")) return false;
  float const x = m.count > 1 ? m.get<float>(1) : 0.f;
  float result;
  if (starts(opcode, "ex2.approx")) result = exp2f(x);
  else if (starts(opcode, "lg2.approx")) result = log2f(x);
  else if (starts(opcode, "rcp.")) result = 1.f / x;
  else if (starts(opcode, "rsqrt.approx")) result = 1.f / sqrtf(x);
  else if (starts(opcode, "sqrt.")) result = sqrtf(x);
  else if (starts(opcode, "tanh.approx")) result = tanhf(x);
  else if (starts(opcode, "sin.approx")) result = sinf(x);
  else if (starts(opcode, "cos.approx")) result = cosf(x);
  else if (starts(opcode, "neg.")) result = -x;
  else if (starts(opcode, "abs.")) result = fabsf(x);
  else return false;
  m.set(0, result);
  return true;
}

bool binary(const char* opcode, const Machine& m) {
  if (!has(opcode, ".f32") || m.count < 3) return false;
  float const x = m.get<float>(1), y = m.get<float>(2);
  bool const sticky = has(opcode, ".NaN") && (x != x || y != y);
  float result;
  if (starts(opcode, "add.")) result = x + y;
  else if (starts(opcode, "sub.")) result = x - y;
  else if (starts(opcode, "mul.")) result = x * y;
  else if (starts(opcode, "div.")) result = x / y;
  else if (starts(opcode, "max.")) result = sticky ? NAN : fmaxf(x, y);
  else if (starts(opcode, "min.")) result = sticky ? NAN : fminf(x, y);
  else if (starts(opcode, "fma.rn") && m.count >= 4) result = fmaf(x, y, m.get<float>(3));
  else return false;
  m.set(0, result);
  return true;
}

// -- memory ---------------------------------------------------------------------------------------------------------

// The register list of a vector access, "{%0, %1, %2, %3}, [%4]" or "[%4], {...}", and the address.
struct Access {
  int registers[8];
  int count = 0;
  uintptr_t address = 0;
};

int number_at(const char*& text) {
  int value = 0;
  while (*text >= '0' && *text <= '9') value = value * 10 + (*text++ - '0');
  return value;
}

Access parse_access(const Statement& statement, const Machine& m) {
  Access access;
  bool bracket = false;
  for (const char* c = statement.operands; *c;) {
    if (*c == '[') bracket = true;
    if (*c == ']') bracket = false;
    if (*c == '%') {
      ++c;
      int const index = number_at(c);
      if (index >= m.count) unsupported(statement.opcode);
      if (!bracket && access.count < 8) access.registers[access.count++] = index;
      else if (bracket) access.address += m.get<uint64_t>(index);
      continue;
    }
    if (bracket && *c == '+') {
      ++c;
      while (is_space(*c)) ++c;
      access.address += (uintptr_t)number_at(c);
      continue;
    }
    ++c;
  }
  if (has(statement.opcode, ".shared")) access.address = SHARED_BASE + (uint32_t)access.address;
  return access;
}

// Bytes of one element: the digits at the end of the last type, as in ".v4.f32".
size_t element_bytes(const char* opcode) {
  const char* const type = strrchr(opcode, '.');
  int bits = 0;
  for (const char* c = type ? type : ""; *c; ++c)
    if (*c >= '0' && *c <= '9') bits = bits * 10 + (*c - '0');
  return (size_t)bits / 8;
}

bool memory(const Statement& statement, const Machine& m) {
  bool const load = starts(statement.opcode, "ld."), store = starts(statement.opcode, "st.");
  if (!load && !store) return false;
  size_t const bytes = element_bytes(statement.opcode);
  Access const access = parse_access(statement, m);
  size_t const total = bytes * (size_t)access.count;
  if (bytes == 0 || bytes > 8 || access.count == 0) return false;
  if (access.address % total != 0)
    fail("MEMORY_ERROR", "misaligned", "", "'%s' of %zu bytes at an address that is not a multiple of it",
         statement.opcode, total);
  if (spec.checked)
    check_access(access.address, total, load ? runner::Access::READ : runner::Access::WRITE, 0, 0);
  for (int i = 0; i < access.count; ++i) {
    auto* const place = (uint8_t*)access.address + bytes * (size_t)i;
    const EmuOperand& operand = m.operands[access.registers[i]];
    size_t const moved = bytes < operand.bytes ? bytes : operand.bytes;
    if (load) {
      memset(operand.address, 0, operand.bytes);
      memcpy(operand.address, place, moved);
    } else {
      memcpy(place, operand.address, moved);
    }
  }
  return true;
}

// -- the rest -------------------------------------------------------------------------------------------------------

bool move(const Statement& statement, const Machine& m) {
  if (!starts(statement.opcode, "mov.")) return false;
  if (has(statement.operands, "%%laneid") || has(statement.operands, "%laneid"))
    return m.set(0, (uint32_t)(current.thread % 32)), true;
  if (has(statement.operands, "%smid") || has(statement.operands, "%%smid")) return m.set(0, 0u), true;
  if (m.count == 2 && !has(statement.operands, "{")) {
    memcpy(m.operands[0].address, m.operands[1].address,
           m.operands[0].bytes < m.operands[1].bytes ? m.operands[0].bytes : m.operands[1].bytes);
    return true;
  }
  return false;
}

bool synchronise(const Statement& statement) {
  const char* const op = statement.opcode;
  if (starts(op, "prefetch") || starts(op, "griddepcontrol") || starts(op, "nanosleep")) return true;
  if (starts(op, "membar") || starts(op, "fence.acq_rel") || starts(op, "fence.sc")) {
    emu_fence(has(op, "cta") ? 0 : 1);
    return true;
  }
  bool const whole = strcmp(statement.operands, "0") == 0;
  if ((starts(op, "bar.sync") || starts(op, "barrier.sync") || starts(op, "bar.cta.sync")) && whole) {
    emu_barrier(0, "");
    return true;
  }
  if (starts(op, "bar.warp.sync") && !has(statement.operands, "%")) {
    emu_warp_sync(~0u, 0, "");
    return true;
  }
  return false;
}

}  // namespace
}  // namespace runner

extern "C" void emu_ptx(const char* text, EmuOperand* operands, int count) {
  using namespace runner;
  at_frames(EMU_CALLER, *(uintptr_t*)EMU_FRAME);
  Statement const statement = parse(text);
  Machine const machine = {operands, count};
  const char* const op = statement.opcode;
  if (strcmp(op, "brkpt") == 0 || strcmp(op, "trap") == 0) emu_trap(op);
  if (unary(op, machine) || binary(op, machine) || memory(statement, machine) || move(statement, machine) ||
      synchronise(statement))
    return;
  unsupported(op);
}
