// Functions that compiled code calls: before every load and store in a checked build, and for atomics in both builds.
#include <string.h>
#include "runner.h"

using runner::Access;

namespace runner {
namespace {

inline bool own_variable(uintptr_t address, size_t alignment) {
  return address - (uintptr_t)current.stack_low < STACK_BYTES && address % alignment == 0 && !write_pending;
}

}  // namespace
}  // namespace runner

#define EMU_CHECK(BYTES, ACCESS)                                                            \
  do {                                                                                      \
    runner::check_access((uintptr_t)address, BYTES, ACCESS, EMU_CALLER, EMU_FRAME);         \
    runner::note_shared((uintptr_t)address, BYTES, ACCESS, EMU_CALLER, EMU_FRAME);          \
  } while (0)

#define EMU_STRONG(BYTES, ACCESS)  \
  runner::strong_access = true;    \
  EMU_CHECK(BYTES, ACCESS);        \
  runner::strong_access = false

extern "C" {

// The compiler calls these for accesses it assumes to be aligned. Most concern a thread's own variables: skip those.
#define EMU_CHECK_ALIGNED(BYTES, ACCESS)                                                                         \
  if (runner::own_variable((uintptr_t)address, BYTES < 8 ? BYTES : 8)) return;                                   \
  runner::check_alignment((uintptr_t)address, BYTES < 8 ? BYTES : 8, EMU_CALLER, EMU_FRAME);                     \
  EMU_CHECK(BYTES, ACCESS)

#define EMU_SIZE(BYTES)                                                                             \
  void __tsan_read##BYTES(void* address) { EMU_CHECK_ALIGNED(BYTES, Access::READ); }                        \
  void __tsan_write##BYTES(void* address) { EMU_CHECK_ALIGNED(BYTES, Access::WRITE); }                      \
  void __tsan_volatile_read##BYTES(void* address) { runner::spin_point((uintptr_t)address); EMU_STRONG(BYTES, Access::READ); } \
  void __tsan_volatile_write##BYTES(void* address) { EMU_STRONG(BYTES, Access::WRITE); }            \
  void __tsan_unaligned_read##BYTES(void* address) { EMU_CHECK(BYTES, Access::READ); }              \
  void __tsan_unaligned_write##BYTES(void* address) { EMU_CHECK(BYTES, Access::WRITE); }            \
  void __tsan_unaligned_volatile_read##BYTES(void* address) { EMU_STRONG(BYTES, Access::READ); }    \
  void __tsan_unaligned_volatile_write##BYTES(void* address) { EMU_STRONG(BYTES, Access::WRITE); }
EMU_SIZE(1)
EMU_SIZE(2)
EMU_SIZE(4)
EMU_SIZE(8)
EMU_SIZE(16)

void __tsan_read_range(void* address, size_t bytes) { EMU_CHECK(bytes, Access::READ); }
void __tsan_write_range(void* address, size_t bytes) { EMU_CHECK(bytes, Access::WRITE); }
void __tsan_vptr_update(void** address, void*) { EMU_CHECK(8, Access::WRITE); }
void __tsan_vptr_read(void** address) { EMU_CHECK(8, Access::READ); }
void __tsan_init() {}
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}

void* __tsan_memcpy(void* address, const void* from, size_t bytes) {
  if (bytes == 0) return address;
  runner::check_access((uintptr_t)from, bytes, Access::READ, EMU_CALLER, EMU_FRAME);
  EMU_CHECK(bytes, Access::WRITE);
  return memcpy(address, from, bytes);
}
void* __tsan_memmove(void* address, const void* from, size_t bytes) {
  if (bytes == 0) return address;
  runner::check_access((uintptr_t)from, bytes, Access::READ, EMU_CALLER, EMU_FRAME);
  EMU_CHECK(bytes, Access::WRITE);
  return memmove(address, from, bytes);
}
void* __tsan_memset(void* address, int value, size_t bytes) {
  if (bytes == 0) return address;
  EMU_CHECK(bytes, Access::WRITE);
  return memset(address, value, bytes);
}

void __tsan_atomic_thread_fence(int) { runner::note_fence(); }
void __tsan_atomic_signal_fence(int) {}

#define EMU_ATOMIC_ENTER \
  runner::spin_point((uintptr_t)address);  \
  EMU_CHECK(sizeof *address, Access::ATOMIC)
#define EMU_FETCH(BITS, TYPE, NAME)                                                     \
  TYPE __tsan_atomic##BITS##_fetch_##NAME(volatile TYPE* address, TYPE value, int) {    \
    EMU_ATOMIC_ENTER;                                                                   \
    return __atomic_fetch_##NAME(address, value, __ATOMIC_SEQ_CST);                     \
  }
#define EMU_ATOMIC_SIZE(BITS, TYPE)                                                                              \
  TYPE __tsan_atomic##BITS##_load(volatile TYPE* address, int) {                                                 \
    EMU_ATOMIC_ENTER;                                                                                            \
    return __atomic_load_n(address, __ATOMIC_SEQ_CST);                                                           \
  }                                                                                                              \
  void __tsan_atomic##BITS##_store(volatile TYPE* address, TYPE value, int) {                                    \
    EMU_ATOMIC_ENTER;                                                                                            \
    __atomic_store_n(address, value, __ATOMIC_SEQ_CST);                                                          \
  }                                                                                                              \
  TYPE __tsan_atomic##BITS##_exchange(volatile TYPE* address, TYPE value, int) {                                 \
    EMU_ATOMIC_ENTER;                                                                                            \
    return __atomic_exchange_n(address, value, __ATOMIC_SEQ_CST);                                                \
  }                                                                                                              \
  EMU_FETCH(BITS, TYPE, add) EMU_FETCH(BITS, TYPE, sub) EMU_FETCH(BITS, TYPE, and) EMU_FETCH(BITS, TYPE, or)     \
  EMU_FETCH(BITS, TYPE, xor) EMU_FETCH(BITS, TYPE, nand)                                                         \
  int __tsan_atomic##BITS##_compare_exchange_strong(volatile TYPE* address, TYPE* expected, TYPE value, int, int) { \
    EMU_ATOMIC_ENTER;                                                                                            \
    return __atomic_compare_exchange_n(address, expected, value, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);     \
  }                                                                                                              \
  int __tsan_atomic##BITS##_compare_exchange_weak(volatile TYPE* address, TYPE* expected, TYPE value, int, int) { \
    EMU_ATOMIC_ENTER;                                                                                            \
    return __atomic_compare_exchange_n(address, expected, value, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);     \
  }                                                                                                              \
  TYPE __tsan_atomic##BITS##_compare_exchange_val(volatile TYPE* address, TYPE expected, TYPE value, int, int) { \
    EMU_ATOMIC_ENTER;                                                                                            \
    __atomic_compare_exchange_n(address, &expected, value, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);           \
    return expected;                                                                                             \
  }
EMU_ATOMIC_SIZE(8, uint8_t)
EMU_ATOMIC_SIZE(16, uint16_t)
EMU_ATOMIC_SIZE(32, uint32_t)
EMU_ATOMIC_SIZE(64, uint64_t)

// The prelude's atomics call this in both builds.
void emu_atomic(const void* address, size_t bytes) {
  runner::spin_point((uintptr_t)address);
  *runner::met = 1;
  if (runner::spec.checked) EMU_CHECK(bytes, Access::ATOMIC);
}

void emu_atomic_load(const void* address, void* result, size_t bytes) {
  switch (bytes) {
    case 1: *(uint8_t*)result = __atomic_load_n((const uint8_t*)address, __ATOMIC_SEQ_CST); return;
    case 2: *(uint16_t*)result = __atomic_load_n((const uint16_t*)address, __ATOMIC_SEQ_CST); return;
    case 4: *(uint32_t*)result = __atomic_load_n((const uint32_t*)address, __ATOMIC_SEQ_CST); return;
    case 8: *(uint64_t*)result = __atomic_load_n((const uint64_t*)address, __ATOMIC_SEQ_CST); return;
    default: emu_unsupported("an atomic operation on more than 8 bytes");
  }
}

int emu_compare_exchange(void* address, void* expected, const void* desired, size_t bytes) {
  if (memcmp(expected, desired, bytes) != 0) runner::got_somewhere();
#define EMU_CAS(TYPE)                                                                                       \
  return __atomic_compare_exchange_n((TYPE*)address, (TYPE*)expected, *(const TYPE*)desired, false,         \
                                     __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)
  switch (bytes) {
    case 1: EMU_CAS(uint8_t);
    case 2: EMU_CAS(uint16_t);
    case 4: EMU_CAS(uint32_t);
    default: EMU_CAS(uint64_t);
  }
#undef EMU_CAS
}

void emu_fence(int scope) {
  __atomic_thread_fence(__ATOMIC_SEQ_CST);
  if (runner::spec.checked && scope > 0) runner::note_fence();
}

float emu_approximate(float exact, double absolute, double relative) {
  *runner::approximate = 1;
  if (!runner::spec.edge || exact == 0 || !__builtin_isfinite(exact)) return exact;
  return (float)(exact + runner::spec.edge * (absolute + relative * __builtin_fabs(exact)));
}

void emu_read_only(const void* address, size_t bytes) {
  if (runner::spec.checked) runner::check_read_only((uintptr_t)address, bytes, EMU_CALLER, EMU_FRAME);
}

// -- undefined behaviour sanitizer ------------------------------------------------------------------------------------

struct SourceLocation {
  const char* file;
  uint32_t line, column;
};
static void at_place(const SourceLocation& place) { runner::at_line((int)place.line, place.file, (int)place.column); }
struct TypeDescriptor {
  uint16_t kind, information;
  char name[1];
};
struct TypeMismatch {
  SourceLocation location;
  const TypeDescriptor* type;
  uint8_t log_alignment, kind;
};
struct AlignmentAssumption {
  SourceLocation location, assumption;
  const TypeDescriptor* type;
};
struct ShiftOutOfBounds {
  SourceLocation location;
  const TypeDescriptor *value, *count;
};
struct OutOfBounds {
  SourceLocation location;
  const TypeDescriptor *array, *index;
};

void __ubsan_handle_type_mismatch_v1(TypeMismatch* data, uintptr_t address) {
  runner::at_frames(EMU_CALLER, EMU_FRAME);
  const char* const name = runner::name_at(address);
  runner::fail("MEMORY_ERROR", "misaligned", name, "accesses %s as %s, which must lie at a multiple of %d bytes",
               name[0] ? name : "memory", data->type->name, 1 << data->log_alignment);
}
void __ubsan_handle_type_mismatch_v1_abort(TypeMismatch* data, uintptr_t address) {
  __ubsan_handle_type_mismatch_v1(data, address);
}
void __ubsan_handle_out_of_bounds(OutOfBounds* data, uintptr_t index) {
  runner::at_frames(EMU_CALLER, EMU_FRAME);
  at_place(data->location);
  runner::fail("MEMORY_ERROR", "out-of-bounds", "", "index %ld is outside an array of type %s", (long)index,
               data->array->name);
}
void __ubsan_handle_out_of_bounds_abort(OutOfBounds* data, uintptr_t index) { __ubsan_handle_out_of_bounds(data, index); }
void __ubsan_handle_shift_out_of_bounds(ShiftOutOfBounds* data, uintptr_t, uintptr_t count) {
  runner::at_frames(EMU_CALLER, EMU_FRAME);
  at_place(data->location);
  runner::fail("RUNTIME_ERROR", "shift", "", "shifts a value of type %s by %ld bits", data->value->name, (long)(int)count);
}
void __ubsan_handle_shift_out_of_bounds_abort(ShiftOutOfBounds* data, uintptr_t value, uintptr_t count) {
  __ubsan_handle_shift_out_of_bounds(data, value, count);
}
void __ubsan_handle_alignment_assumption(AlignmentAssumption* data, uintptr_t address, uintptr_t alignment, uintptr_t offset) {
  runner::at_frames(EMU_CALLER, EMU_FRAME);
  at_place(data->location);
  const char* const name = runner::name_at(address);
  runner::fail("MEMORY_ERROR", "misaligned", name, "assumes that %s lies at a multiple of %lu bytes, and it does not",
               name[0] ? name : "memory", alignment);
}
void __ubsan_handle_alignment_assumption_abort(AlignmentAssumption* data, uintptr_t address, uintptr_t alignment, uintptr_t offset) {
  __ubsan_handle_alignment_assumption(data, address, alignment, offset);
}
void __ubsan_handle_builtin_unreachable(SourceLocation* place) {
  runner::at_frames(EMU_CALLER, EMU_FRAME);
  at_place(*place);
  runner::fail("RUNTIME_ERROR", "unreachable", "", "the kernel reached a place it declared unreachable");
}
void __ubsan_handle_missing_return(SourceLocation* place) {
  runner::at_frames(EMU_CALLER, EMU_FRAME);
  at_place(*place);
  runner::fail("RUNTIME_ERROR", "missing-return", "", "a function that returns a value ends without a return");
}

}  // extern "C"
