// Every name outside itself that a candidate may use. What is not listed here does not exist for it.
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "runner.h"

// Written by the scheduler, constant for the thread that reads them.
extern "C" {
runner::Index3 threadIdx, blockIdx, blockDim, gridDim;
}

// Every name is declared once more under an alias, since its type does not matter here.
#define EMU_LIBM(X) \
    X(expf) X(exp2f) X(exp10f) X(expm1f) X(logf) X(log2f) X(log10f) X(log1pf) X(sinf) X(cosf) X(tanf) X(asinf) \
    X(acosf) X(atanf) X(sinhf) X(coshf) X(tanhf) X(asinhf) X(acoshf) X(atanhf) X(sqrtf) X(cbrtf) X(erff) X(erfcf) \
    X(tgammaf) X(lgammaf) X(floorf) X(ceilf) X(truncf) X(roundf) X(rintf) X(nearbyintf) X(fabsf) X(logbf) X(j0f) \
    X(j1f) X(y0f) X(y1f) X(powf) X(fmodf) X(remainderf) X(atan2f) X(hypotf) X(fminf) X(fmaxf) X(copysignf) \
    X(nextafterf) X(fdimf) X(exp) X(exp2) X(exp10) X(expm1) X(log) X(log2) X(log10) X(log1p) X(sin) X(cos) X(tan) \
    X(asin) X(acos) X(atan) X(sinh) X(cosh) X(tanh) X(asinh) X(acosh) X(atanh) X(sqrt) X(cbrt) X(erf) X(erfc) \
    X(tgamma) X(lgamma) X(floor) X(ceil) X(trunc) X(round) X(rint) X(nearbyint) X(fabs) X(logb) X(j0) X(j1) X(y0) \
    X(y1) X(pow) X(fmod) X(remainder) X(atan2) X(hypot) X(fmin) X(fmax) X(copysign) X(nextafter) X(fdim) X(fmaf) \
    X(fma) X(ldexpf) X(ldexp) X(frexpf) X(frexp) X(modff) X(modf) X(scalbnf) X(scalbn) X(scalblnf) X(scalbln) \
    X(ilogbf) X(ilogb) X(lroundf) X(lround) X(llroundf) X(llround) X(lrintf) X(lrint) X(llrintf) X(llrint) \
    X(sincosf) X(sincos) X(remquof) X(remquo) X(memcmp) X(strlen) X(memcpy) X(memmove) X(memset)

#define EMU_OWN(X) \
    X(emu_barrier) X(emu_barrier_reduce) X(emu_warp_sync) X(emu_warp_exchange) X(emu_warp_gather) X(emu_active_mask) \
    X(emu_atomic) X(emu_atomic_load) X(emu_compare_exchange) X(emu_fence) X(emu_read_only) X(emu_approximate) X(emu_ptx) X(emu_trap) X(emu_unsupported) \
    X(emu_clock) X(emu_generic_to_shared) X(emu_shared_to_generic) X(emu_is_shared) X(emu_is_global) \
    X(emu_dynamic_smem_bytes) X(emu_grid_sync) X(emu_is_cooperative) X(emu_cluster_sync) \
    X(emu_cluster_rank) X(emu_cluster_shape) X(emu_map_shared) X(emu_shared_rank)

// What the compiler calls in a checked build; in callbacks.cpp.
#define EMU_CHECKED(X) \
    X(__tsan_read1) X(__tsan_volatile_read1) X(__tsan_write1) X(__tsan_volatile_write1) X(__tsan_read2) \
    X(__tsan_volatile_read2) X(__tsan_unaligned_read2) X(__tsan_unaligned_volatile_read2) X(__tsan_write2) \
    X(__tsan_volatile_write2) X(__tsan_unaligned_write2) X(__tsan_unaligned_volatile_write2) X(__tsan_read4) \
    X(__tsan_volatile_read4) X(__tsan_unaligned_read4) X(__tsan_unaligned_volatile_read4) X(__tsan_write4) \
    X(__tsan_volatile_write4) X(__tsan_unaligned_write4) X(__tsan_unaligned_volatile_write4) X(__tsan_read8) \
    X(__tsan_volatile_read8) X(__tsan_unaligned_read8) X(__tsan_unaligned_volatile_read8) X(__tsan_write8) \
    X(__tsan_volatile_write8) X(__tsan_unaligned_write8) X(__tsan_unaligned_volatile_write8) X(__tsan_read16) \
    X(__tsan_volatile_read16) X(__tsan_unaligned_read16) X(__tsan_unaligned_volatile_read16) X(__tsan_write16) \
    X(__tsan_volatile_write16) X(__tsan_unaligned_write16) X(__tsan_unaligned_volatile_write16) X(__tsan_read_range) \
    X(__tsan_write_range) X(__tsan_memcpy) X(__tsan_memmove) X(__tsan_memset) X(__tsan_vptr_update) \
    X(__tsan_vptr_read) X(__tsan_init) X(__tsan_func_entry) X(__tsan_func_exit) X(__tsan_atomic_thread_fence) \
    X(__tsan_atomic_signal_fence) X(__tsan_atomic8_load) X(__tsan_atomic8_store) X(__tsan_atomic8_exchange) \
    X(__tsan_atomic8_fetch_add) X(__tsan_atomic8_fetch_sub) X(__tsan_atomic8_fetch_and) X(__tsan_atomic8_fetch_or) \
    X(__tsan_atomic8_fetch_xor) X(__tsan_atomic8_fetch_nand) X(__tsan_atomic8_compare_exchange_strong) \
    X(__tsan_atomic8_compare_exchange_weak) X(__tsan_atomic8_compare_exchange_val) X(__tsan_atomic16_load) \
    X(__tsan_atomic16_store) X(__tsan_atomic16_exchange) X(__tsan_atomic16_fetch_add) X(__tsan_atomic16_fetch_sub) \
    X(__tsan_atomic16_fetch_and) X(__tsan_atomic16_fetch_or) X(__tsan_atomic16_fetch_xor) \
    X(__tsan_atomic16_fetch_nand) X(__tsan_atomic16_compare_exchange_strong) \
    X(__tsan_atomic16_compare_exchange_weak) X(__tsan_atomic16_compare_exchange_val) X(__tsan_atomic32_load) \
    X(__tsan_atomic32_store) X(__tsan_atomic32_exchange) X(__tsan_atomic32_fetch_add) X(__tsan_atomic32_fetch_sub) \
    X(__tsan_atomic32_fetch_and) X(__tsan_atomic32_fetch_or) X(__tsan_atomic32_fetch_xor) \
    X(__tsan_atomic32_fetch_nand) X(__tsan_atomic32_compare_exchange_strong) \
    X(__tsan_atomic32_compare_exchange_weak) X(__tsan_atomic32_compare_exchange_val) X(__tsan_atomic64_load) \
    X(__tsan_atomic64_store) X(__tsan_atomic64_exchange) X(__tsan_atomic64_fetch_add) X(__tsan_atomic64_fetch_sub) \
    X(__tsan_atomic64_fetch_and) X(__tsan_atomic64_fetch_or) X(__tsan_atomic64_fetch_xor) \
    X(__tsan_atomic64_fetch_nand) X(__tsan_atomic64_compare_exchange_strong) \
    X(__tsan_atomic64_compare_exchange_weak) X(__tsan_atomic64_compare_exchange_val) \
    X(__ubsan_handle_type_mismatch_v1) X(__ubsan_handle_out_of_bounds) X(__ubsan_handle_alignment_assumption) \
    X(__ubsan_handle_type_mismatch_v1_abort) X(__ubsan_handle_out_of_bounds_abort) \
    X(__ubsan_handle_alignment_assumption_abort) X(__ubsan_handle_builtin_unreachable) X(__ubsan_handle_missing_return) \
    X(__ubsan_handle_shift_out_of_bounds) X(__ubsan_handle_shift_out_of_bounds_abort)

#define EMU_DECLARE(NAME) void emu_alias_##NAME() __asm__(#NAME);
extern "C" {
EMU_LIBM(EMU_DECLARE) EMU_OWN(EMU_DECLARE) EMU_CHECKED(EMU_DECLARE)
}

namespace runner {
namespace {

constexpr int PRINT_LIMIT = 64 << 10;
int printed = 0;

int device_printf(const char* format, ...) {
  char line[1024];
  va_list arguments;
  va_start(arguments, format);
  int const length = vsnprintf(line, sizeof line, format, arguments);
  va_end(arguments);
  if (printed >= PRINT_LIMIT) {
    at_frames(EMU_CALLER, EMU_FRAME);
    fail("RUNTIME_ERROR", "output", "", "prints more than %d KiB: print from one thread, or not at all", PRINT_LIMIT >> 10);
  }
  int const kept = length < (int)sizeof line ? length : (int)sizeof line - 1;
  if (kept > 0) printed += (int)write(2, line, (size_t)kept);
  return length;
}

// What the host compiler makes of a printf without numbers.
int device_puts(const char* text) { return device_printf("%s\n", text); }
int device_putchar(int character) { return device_printf("%c", character); }

// CuTe asserts `0 && "Attempting to use ..."` where an instruction is not there on this target.
[[noreturn]] void device_assert(const char* expression, const char* file, unsigned line, const char*) {
  if (strncmp(expression, "0 && \"", 6) == 0) emu_unsupported(expression + 5);
  if (strstr(file, "candidate.cu")) at_line((int)line, file);
  at_frames(EMU_CALLER, EMU_FRAME);
  fail("RUNTIME_ERROR", "assert", "", "assertion failed: %s", expression);
}

[[noreturn]] void device_abort() {
  at_frames(EMU_CALLER, EMU_FRAME);
  fail("RUNTIME_ERROR", "trap", "", "the kernel stopped itself (abort)");
}

struct Name {
  const char* name;
  void* address;
};

#define EMU_ENTRY(NAME) {#NAME, (void*)emu_alias_##NAME},
const Name names[] = {
    {"threadIdx", &threadIdx}, {"blockIdx", &blockIdx}, {"blockDim", &blockDim}, {"gridDim", &gridDim},
    {"emu_dynamic_shared", (void*)DYNAMIC_BASE},
    {"printf", (void*)device_printf}, {"puts", (void*)device_puts}, {"putchar", (void*)device_putchar},
    {"__assert_fail", (void*)device_assert}, {"abort", (void*)device_abort},
    EMU_LIBM(EMU_ENTRY) EMU_OWN(EMU_ENTRY) EMU_CHECKED(EMU_ENTRY)
};

// A pointer to one of these is called directly, where the compiler watches nothing.
const Name watched[] = {
    {"memcpy", (void*)emu_alias___tsan_memcpy}, {"memmove", (void*)emu_alias___tsan_memmove},
    {"memset", (void*)emu_alias___tsan_memset},
};

}  // namespace

void* resolve(const char* name) {
  for (auto const& known : watched)
    if (spec.checked && strcmp(known.name, name) == 0) return known.address;
  for (auto const& known : names)
    if (strcmp(known.name, name) == 0) return known.address;
  return nullptr;
}

}  // namespace runner
