// Executes inline PTX: reads each statement once, then walks its instructions. See ptx_machine.h for the families.
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "cluster.h"
#include "ptx_hopper.h"

namespace runner::ptx {
namespace {

const Family* const families[] = {arithmetic_family, integer_family, move_family, memory_family, async_family,
                                  matrix_family, warp_family, hopper::barrier_family, hopper::copy_family,
                                  hopper::matrix_family};

// -- programs by the address of their text, which is a literal of the candidate -----------------------------------------

struct Known {
  const char* text;
  int argument_count;
  const Program* program;
  Known* next;
};
constexpr size_t BUCKETS = 1024;
Known* known[BUCKETS];

const Program* program_of(const char* text, int argument_count, uintptr_t pc, uintptr_t frame) {
  Known*& bucket = known[((uintptr_t)text >> 3) % BUCKETS];
  for (const Known* entry = bucket; entry; entry = entry->next)
    if (entry->text == text && entry->argument_count == argument_count) return entry->program;
  auto* const made = (Known*)malloc(sizeof(Known));
  if (!made) fail("UNSUPPORTED", "memory", "", "out of memory while reading a PTX statement");
  *made = {text, argument_count, parse(text, argument_count, pc, frame), bucket};
  bucket = made;
  return made->program;
}

// -- special registers ---------------------------------------------------------------------------------------------------

uint64_t special_value(const Call& call, int which) {
  Index3 const thread = thread_coordinates(current.thread);
  Launch const& launch = spec.launches[current.launch];
  uint32_t const lane = (uint32_t)current.thread % 32, bit = 1u << lane;
  switch (which) {
    case TID_X: return thread.x;
    case TID_Y: return thread.y;
    case TID_Z: return thread.z;
    case NTID_X: return launch.block.x;
    case NTID_Y: return launch.block.y;
    case NTID_Z: return launch.block.z;
    case CTAID_X: return current.block.x;
    case CTAID_Y: return current.block.y;
    case CTAID_Z: return current.block.z;
    case NCTAID_X: return launch.grid.x;
    case NCTAID_Y: return launch.grid.y;
    case NCTAID_Z: return launch.grid.z;
    case LANEID: return lane;
    case WARPID: return (uint32_t)current.thread / 32;
    case NWARPID: return (launch.block.count() + 31) / 32;
    case SMID: return 0;
    case NSMID:
    case GRIDID:
      fault(call, "REJECTED", "machine-read", "", "'%s' reads the machine (nsmid, gridid): what depends on it cannot be tested; "
            "pass sm_count as an argument", call.at->opcode);
    case LANEMASK_EQ: return bit;
    case LANEMASK_LT: return bit - 1;
    case LANEMASK_LE: return bit | (bit - 1);
    case LANEMASK_GT: return ~(bit | (bit - 1));
    case LANEMASK_GE: return ~(bit - 1);
    case CLUSTER_CTAID_X: return rank_coordinates().x;
    case CLUSTER_CTAID_Y: return rank_coordinates().y;
    case CLUSTER_CTAID_Z: return rank_coordinates().z;
    case CLUSTER_NCTAID_X: return launch.cluster.x;
    case CLUSTER_NCTAID_Y: return launch.cluster.y;
    case CLUSTER_NCTAID_Z: return launch.cluster.z;
    case CLUSTERID_X: return current.block.x / launch.cluster.x;
    case CLUSTERID_Y: return current.block.y / launch.cluster.y;
    case CLUSTERID_Z: return current.block.z / launch.cluster.z;
    case NCLUSTERID_X: return launch.grid.x / launch.cluster.x;
    case NCLUSTERID_Y: return launch.grid.y / launch.cluster.y;
    case NCLUSTERID_Z: return launch.grid.z / launch.cluster.z;
    case CLUSTER_CTARANK: return cluster_rank();
    case CLUSTER_NCTARANK: return launch.cluster.count();
    case DYNAMIC_SMEM_SIZE: return launch.smem_bytes;
    case WARP_SIZE: return 32;
    case CLOCK: return emu_clock();
    default: unsupported(*call.at);
  }
}

}  // namespace

bool is_local(const void* address) {
  uintptr_t const low = fiber_stack_low(0), high = fiber_stack_low((int)spec.launches[current.launch].block.count());
  return (uintptr_t)address >= low && (uintptr_t)address < high;
}

Execute find(Instruction& instruction) {
  const Family* best = nullptr;
  size_t best_length = 0;
  for (const Family* family : families)
    for (const Family* entry = family; entry->prefix; ++entry) {
      size_t const length = strlen(entry->prefix);
      bool const fits = strncmp(instruction.opcode, entry->prefix, length) == 0 &&
                        (instruction.opcode[length] == '.' || instruction.opcode[length] == 0);
      if (fits && length > best_length) best = entry, best_length = length;
    }
  return best ? best->decode(instruction) : nullptr;
}

void unsupported(const Instruction& instruction) {
  fail("UNSUPPORTED", "unsupported-ptx", "", "the emulator does not execute the PTX instruction '%s'", instruction.opcode);
}

void fault(const Call& call, const char* status, const char* kind, const char* variable, const char* format, ...) {
  char text[512];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  at_frames(call.pc, call.frame);
  fail(status, kind, variable, "%s", text);
}

void access(const Call& call, uintptr_t address, size_t bytes, Access kind, size_t alignment) {
  if (address % alignment != 0)
    fault(call, "MEMORY_ERROR", "misaligned", spec.checked ? name_at(address) : "",
          "'%s' at an address that is not a multiple of %zu bytes", call.at->opcode, alignment);
  if (!spec.checked) return;
  check_access(address, bytes, kind, call.pc, call.frame);
  note_shared(address, bytes, kind, call.pc, call.frame);
}

void Call::read(const Operand& operand, void* value, size_t bytes) const {
  uint64_t word = 0;
  switch (operand.kind) {
    case Operand::ARGUMENT: {
      const EmuOperand& argument = arguments[operand.index];
      size_t const there = argument.bytes < bytes ? argument.bytes : bytes;
      memcpy(value, argument.address, there);
      // A constant may be of a narrower type than the instruction reads.
      bool const minus = argument.constraint == 'n' && there < bytes && ((uint8_t*)value)[there - 1] & 0x80;
      memset((uint8_t*)value + there, minus ? 0xFF : 0, bytes - there);
      return;
    }
    case Operand::REGISTER: word = registers[operand.index]; break;
    case Operand::INTEGER: word = (uint64_t)operand.integer; break;
    case Operand::SPECIAL: word = special_value(*this, operand.index); break;
    case Operand::FLOAT: {
      auto const narrow = (float)operand.floating;
      if (bytes == 4) memcpy(&word, &narrow, 4);
      else memcpy(&word, &operand.floating, 8);
      break;
    }
    default: unsupported(*at);
  }
  memcpy(value, &word, bytes < 8 ? bytes : 8);
  if (bytes > 8) memset((uint8_t*)value + 8, 0, bytes - 8);
}

void Call::write(const Operand& operand, const void* value, size_t bytes) const {
  if (operand.kind == Operand::REGISTER) {
    registers[operand.index] = 0;
    memcpy(&registers[operand.index], value, bytes < 8 ? bytes : 8);
    return;
  }
  if (operand.kind == Operand::SINK) return;
  if (operand.kind != Operand::ARGUMENT) unsupported(*at);
  const EmuOperand& argument = arguments[operand.index];
  // An output that is no local variable is stored to memory: the checker wants to know.
  if (spec.checked && !is_local(argument.address))
    check_access((uintptr_t)argument.address, argument.bytes, Access::WRITE, pc, frame);
  size_t const there = argument.bytes < bytes ? argument.bytes : bytes;
  memcpy(argument.address, value, there);
  memset((uint8_t*)argument.address + there, 0, argument.bytes - there);
}

uintptr_t Call::generic_address(int number) const {
  const Operand& operand = at->operands[number];
  if (operand.kind != Operand::ADDRESS) unsupported(*at);
  const Operand& base = operand.parts[0];
  bool const narrow = is_whole<uint32_t>(base) && arguments[base.index].constraint == 'r';
  uint64_t address = (narrow ? in<uint32_t>(base) : in<uint64_t>(base)) + (uint64_t)operand.integer;
  if (base.parts) address += in<uint64_t>(*base.parts);
  return address;
}

__attribute__((always_inline)) inline void execute(const char* text, const EmuOperand* arguments, int argument_count, uintptr_t pc, uintptr_t frame) {
  const Program* const program = program_of(text, argument_count, pc, frame);
  uint64_t registers[MAX_REGISTERS];
  for (int i = 0; i < program->registers; ++i) registers[i] = 0;
  for (int next = 0; next < program->count;) {
    const Instruction& instruction = program->instructions[next++];
    Call const call = {&instruction, arguments, registers, &next, pc, frame};
    if (instruction.predicated && !call.predicate(instruction.predicate)) continue;
    instruction.execute(call);
  }
}

}  // namespace runner::ptx

extern "C" void emu_ptx(const char* text, EmuOperand* operands, int count) {
  runner::ptx::execute(text, operands, count, EMU_CALLER, *(uintptr_t*)EMU_FRAME);
}
