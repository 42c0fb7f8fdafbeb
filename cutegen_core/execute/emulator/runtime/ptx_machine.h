// The interpreter of inline PTX: what a statement is once it is read, and what an instruction sees while it runs.
//
// A statement is read once per process (ptx_parser.cpp), every instruction of it is bound to a function, and each
// execution walks the list (ptx.cpp). Instructions come in families, one file each:
//
//   ptx_arithmetic.cpp  add, fma, max, ex2 ... of floats    ptx_memory.cpp  ld, st, atom, red, prefetch, address spaces
//   ptx_integer.cpp     add, mad, shf, lop3, dp4a ...       ptx_async.cpp   cp.async and its groups
//   ptx_move.cpp        mov, cvt, setp, selp, bra           ptx_matrix.cpp  ldmatrix, stmatrix, mma, movmatrix
//                                                           ptx_warp.cpp    shfl, vote, match, redux, bar, fences
//
// To add a family: write `ptx_NAME.cpp` with a table `const Family NAME_family[] = {{"prefix", decode}, ..., {}}`,
// declare it at the end of this file and add it to `families` in ptx.cpp. The longest prefix that ends where a word of
// the opcode ends wins ("cp.async.bulk" before "cp.async"). `decode` looks at the words and operands of an instruction,
// may leave numbers in `detail`, and returns the function that executes it, or null: then the run answers UNSUPPORTED
// with the opcode. Deciding once keeps execution fast, so nothing compares strings while it executes.
#pragma once
#include <string.h>
#include <initializer_list>
#include <type_traits>
#include "runner.h"

namespace runner::ptx {

// An operand as it is written. VECTOR is `{a, b}` and also `a|b`; ADDRESS is `[base + offset]`, and `[base, {x, y}]` or
// `[base, x]` has the other expressions as further parts.
struct Operand {
  enum Kind : uint8_t { ARGUMENT, REGISTER, INTEGER, FLOAT, SPECIAL, SINK, LABEL, ADDRESS, VECTOR };
  Kind kind;
  bool negated;             // `!p`
  bool predicate;           // a REGISTER declared `.pred`
  bool single;              // FLOAT written as 0f...: bits of a float
  int count;                // of the parts of ADDRESS and VECTOR
  int index;                // number of the argument, register or special register; target of a LABEL
  int64_t integer;          // INTEGER; offset of an ADDRESS
  double floating;          // FLOAT
  const Operand* parts;
};

enum Special : int {
  TID_X, TID_Y, TID_Z, NTID_X, NTID_Y, NTID_Z, CTAID_X, CTAID_Y, CTAID_Z, NCTAID_X, NCTAID_Y, NCTAID_Z,
  LANEID, WARPID, NWARPID, SMID, NSMID, GRIDID, LANEMASK_EQ, LANEMASK_LT, LANEMASK_LE, LANEMASK_GT, LANEMASK_GE,
  CLUSTER_CTAID_X, CLUSTER_CTAID_Y, CLUSTER_CTAID_Z, CLUSTER_NCTAID_X, CLUSTER_NCTAID_Y, CLUSTER_NCTAID_Z,
  CLUSTERID_X, CLUSTERID_Y, CLUSTERID_Z, NCLUSTERID_X, NCLUSTERID_Y, NCLUSTERID_Z, CLUSTER_CTARANK, CLUSTER_NCTARANK,
  DYNAMIC_SMEM_SIZE, WARP_SIZE, CLOCK, UNKNOWN_SPECIAL
};

struct Call;
using Execute = void (*)(const Call& call);

constexpr int MAX_WORDS = 24;

struct Instruction {
  const char* opcode;                // "ld.global.v4.f32"
  const char* words[MAX_WORDS];      // "ld", "global", "v4", "f32"
  int word_count;
  bool predicated;
  Operand predicate;
  const Operand* operands;
  int count;
  Execute execute;
  int64_t detail[6];                 // what `decode` worked out

  bool has(const char* word) const {
    for (int i = 1; i < word_count; ++i)
      if (strcmp(words[i], word) == 0) return true;
    return false;
  }
  const char* last() const { return words[word_count - 1]; }
};

constexpr int MAX_REGISTERS = 64;

// A statement: its instructions and how many registers it declares.
struct Program {
  const Instruction* instructions;
  int count;
  int registers;
};

// One execution of one instruction by one thread.
struct Call {
  const Instruction* at;
  const EmuOperand* arguments;
  uint64_t* registers;
  int* next;                         // the instruction that follows; `bra` changes it
  uintptr_t pc, frame;               // of the statement, for reports

  // Value of an operand (or of a part of one). Narrower values are widened with zeros, constants ("n") with their sign.
  template <class T>
  T in(const Operand& operand) const;
  template <class T>
  T in(int operand) const { return in<T>(at->operands[operand]); }
  template <class T>
  void out(const Operand& operand, T value) const {
    if (is_whole<T>(operand) && !spec.checked) memcpy(arguments[operand.index].address, &value, sizeof(T));
    else write(operand, &value, sizeof(T));
  }
  template <class T>
  void out(int operand, T value) const { out(at->operands[operand], value); }
  bool predicate(const Operand& operand) const { return (in<uint32_t>(operand) != 0) != operand.negated; }

  // Address of an ADDRESS operand; a shared one is an offset into the block's window.
  uintptr_t generic_address(int operand) const;
  uintptr_t shared_address(int operand) const { return SHARED_BASE + (uint32_t)generic_address(operand); }

  // Whether the operand is a variable of just this size. Most are, and copies of a known size are one instruction.
  template <class T>
  bool is_whole(const Operand& operand) const {
    return operand.kind == Operand::ARGUMENT && arguments[operand.index].bytes == sizeof(T);
  }

  void read(const Operand& operand, void* value, size_t bytes) const;
  void write(const Operand& operand, const void* value, size_t bytes) const;
};

template <class T>
T Call::in(const Operand& operand) const {
  T value = {};
  if (is_whole<T>(operand)) {
    memcpy(&value, arguments[operand.index].address, sizeof(T));
    return value;
  }
  if constexpr (std::is_same_v<T, float> || std::is_same_v<T, double>) {
    if (operand.kind == Operand::FLOAT) return (T)operand.floating;
    if (operand.kind == Operand::INTEGER) return (T)operand.integer;
  }
  read(operand, &value, sizeof(T));
  return value;
}

using Decode = Execute (*)(Instruction& instruction);

struct Family {
  const char* prefix;
  Decode decode;
};

// Ends the run at this instruction.
[[noreturn]] void fault(const Call& call, const char* status, const char* kind, const char* variable, const char* format, ...)
    __attribute__((format(printf, 5, 6)));
[[noreturn]] void unsupported(const Instruction& instruction);
// In a checked run tells the checker; in both, refuses an address that is not a multiple of `alignment`.
void access(const Call& call, uintptr_t address, size_t bytes, Access kind, size_t alignment);
// Whether it is a variable of some thread of the block: one lane may write those of all, see `warp_together`.
bool is_local(const void* address);

// Waits until all lanes of `mask` that still run are at this instruction. The last to come runs `act` for all of them:
// lanes[l] is the call of lane l, null where there is none. Registers may be read and written through it.
using Together = void (*)(const Call* const* lanes);
void warp_together(const Call& call, uint32_t mask, Together act);

// ptx_memory.cpp
// The bits that an atomic operation leaves in memory; `c` is there for compare-and-swap.
using Change = uint64_t (*)(uint64_t old, uint64_t b, uint64_t c);
Change change_of(const Instruction& instruction, const char* type);  // by the operation's word; null if it has none for the type
uint64_t change_at(uintptr_t address, size_t bytes, Change change, uint64_t b, uint64_t c = 0);  // returns what was there

// ptx_async.cpp
void begin_block();  // no copies under way
// Calls `then` once the copies (cp.async) the running thread has issued so far have arrived: when it waits for them, or
// when no thread can go on; at once where copies arrive at once.
void after_copies(void (*then)(int thread, uint64_t argument), uint64_t argument);

// ptx_parser.cpp
const Program* parse(const char* text, int argument_count, uintptr_t pc, uintptr_t frame);
Execute find(Instruction& instruction);  // ptx.cpp: by family

// Number of bits in a type word ("f32" -> 32, "bf16x2" -> 32, "pred" -> 1), 0 for none.
int type_bits(const char* type);

extern const Family arithmetic_family[], integer_family[], move_family[], memory_family[], async_family[],
    matrix_family[], warp_family[];
Execute decode_integer(Instruction& instruction);  // add, mul, min ... of integers

}  // namespace runner::ptx
