// How a run that must not go on is told: one record in memory shared with the main process, then the worker ends.
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>
#include <initializer_list>
#include "runner.h"

namespace runner {

Report* report;
Report* warning;
volatile int* stop;
volatile int* met;
volatile int *approximate, *parted;

namespace {

Report draft;  // where `at_line` and `at_frames` gather what `fail` completes
alignas(16) uint8_t signal_stack[64 << 10];

void complete(Report* target, const char* status, const char* kind, const char* variable, const char* format,
              va_list arguments) {
  *target = draft;
  snprintf(target->status, sizeof target->status, "%s", status);
  snprintf(target->kind, sizeof target->kind, "%s", kind);
  snprintf(target->variable, sizeof target->variable, "%s", variable);
  vsnprintf(target->message, sizeof target->message, format, arguments);
  target->launch = current.launch;
  target->has_thread = current.thread >= 0;
  if (target->has_thread) {
    target->block = current.block;
    target->thread = thread_coordinates(current.thread);
  }
  target->raised = 1;
}

void complete_with(Report* target, const char* status, const char* kind, const char* variable, const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  complete(target, status, kind, variable, format, arguments);
  va_end(arguments);
}

bool inside(uintptr_t address, const void* low, size_t bytes) {
  return address >= (uintptr_t)low && address < (uintptr_t)low + bytes;
}

// A bad access in the plain build: the address tells which tensor was meant.
[[noreturn]] void explain_fault(uintptr_t address, bool write) {
  long offset = 0;
  const Buffer* const buffer = buffer_near(address, &offset);
  if (buffer && write && buffer->role == Role::INPUT && offset >= 0 && (size_t)offset < buffer->bytes)
    fail("INPUT_MODIFIED", "input-modified", buffer->name, "writes to input %s (element %ld)", buffer->name,
         offset / (long)buffer->itemsize);
  if (buffer)
    fail("MEMORY_ERROR", "out-of-bounds", buffer->name, "%s %s at element %ld; it has %zu element%s",
         write ? "writes" : "reads", buffer->name, offset / (long)buffer->itemsize, buffer->bytes / buffer->itemsize,
         buffer->bytes == buffer->itemsize ? "" : "s");
  if (current.thread >= 0 && address + (64 << 10) >= fiber_stack_low(current.thread) &&
      address < fiber_stack_low(current.thread) + STACK_BYTES)
    fail("UNSUPPORTED", "local-memory", "", "a thread needs more than the %zu KiB of local memory the emulator gives",
         STACK_BYTES >> 10);
  stray(address, write ? "writes" : "reads");
}

void on_fault(int number, siginfo_t* info, void* context) {
  auto* const machine = &((ucontext_t*)context)->uc_mcontext;
  at_frames((uintptr_t)machine->gregs[REG_RIP], (uintptr_t)machine->gregs[REG_RBP]);
  if (number == SIGFPE)
    fail("RUNTIME_ERROR", "arithmetic", "", "integer division by zero");
  if (number == SIGILL || number == SIGTRAP)
    fail("RUNTIME_ERROR", "trap", "", "the kernel reached a trap: an access through a null pointer, code that can only be reached by a mistake, or a loop that never ends and does nothing, which compilers take for such");
  constexpr long WRITE_FAULT = 2;
  bool const general = number == SIGSEGV && info->si_code == SI_KERNEL;
  if (general && current.thread >= 0)
    fail("MEMORY_ERROR", "misaligned", "", "a vector access is not aligned, or its address is no address at all");
  explain_fault((uintptr_t)info->si_addr, machine->gregs[REG_ERR] & WRITE_FAULT);
}

void on_alarm(int number, siginfo_t*, void* context) {
  auto* const machine = &((ucontext_t*)context)->uc_mcontext;
  at_frames((uintptr_t)machine->gregs[REG_RIP], (uintptr_t)machine->gregs[REG_RBP]);
  fail("TIMEOUT", "timeout", "",
       "still running after %u ms%s: an endless loop, a wait for another block (blocks run one after another here), or "
       "a workload too large for the emulator", spec.timeout_ms,
       number == SIGPROF ? " of processor time" : ", and after ten times that on the clock");
}

// Installed by the sandbox below as the answer to a forbidden system call.
void on_forbidden(int, siginfo_t* info, void* context) {
  auto* const machine = &((ucontext_t*)context)->uc_mcontext;
  at_frames((uintptr_t)machine->gregs[REG_RIP], (uintptr_t)machine->gregs[REG_RBP]);
  fail("RUNTIME_ERROR", "sandbox", "", "the kernel tried system call %d, which the sandbox forbids", info->si_syscall);
}

void handle(int number, void (*action)(int, siginfo_t*, void*)) {
  struct sigaction entry = {};
  entry.sa_sigaction = action;
  entry.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigfillset(&entry.sa_mask);
  sigaction(number, &entry, nullptr);
}

}  // namespace

void at_line(int line, const char* file, int column) {
  draft.line = line, draft.column = column;
  snprintf(draft.file, sizeof draft.file, "%s", file);
}

const Frames* blamed = nullptr;

// Frame pointers are kept in candidates, so the chain of callers can be read off the thread's own stack.
Frames frames_of(uintptr_t pc, uintptr_t frame) {
  Frames found = {1, {pc}};
  uintptr_t const low = (uintptr_t)current.stack_low, high = low + STACK_BYTES;
  while (low && frame >= low && frame + 16 <= high && found.count < MAX_FRAMES) {
    auto const* const link = (const uintptr_t*)frame;
    if (link[1] == 0) break;
    found.frames[found.count++] = link[1];
    if (link[0] <= frame) break;
    frame = link[0];
  }
  return found;
}

void at_frames(uintptr_t pc, uintptr_t frame) {
  Frames const found = blamed ? *blamed : frames_of(pc, frame);
  draft.frame_count = found.count;
  memcpy(draft.frames, found.frames, sizeof found.frames);
}

void fail(const char* status, const char* kind, const char* variable, const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  complete(report, status, kind, variable, format, arguments);
  va_end(arguments);
  *stop = 1;
  _exit(1);
}

void prepare_failure(Report* target, const char* status, const char* kind, const char* variable, const char* message) {
  complete_with(target, status, kind, variable, "%s", message);
}

void fail_prepared(const Report* prepared) {
  *report = *prepared;
  *stop = 1;
  _exit(1);
}

void warn(const char* kind, const char* variable, const char* format, ...) {
  if (warning->raised) return;
  va_list arguments;
  va_start(arguments, format);
  complete(warning, "WARNING", kind, variable, format, arguments);
  va_end(arguments);
}

void install_signal_handlers() {
  stack_t alternate = {};
  alternate.ss_sp = signal_stack;
  alternate.ss_size = sizeof signal_stack;
  sigaltstack(&alternate, nullptr);
  for (int number : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP}) handle(number, on_fault);
  for (int number : {SIGPROF, SIGALRM}) handle(number, on_alarm);
  handle(SIGSYS, on_forbidden);
}

[[noreturn]] void stray(uintptr_t address, const char* does) {
  const Buffer* nearest = nullptr;
  size_t distance = APART;
  bool before = false;
  for (int i = 0; i < spec.buffer_count; ++i) {
    const Buffer& buffer = spec.buffers[i];
    auto const low = (uintptr_t)buffer.data, high = low + buffer.bytes;
    size_t const away = address < low ? low - address : address - high;
    if (away < distance) nearest = &buffer, distance = away, before = address < low;
  }
  if (nearest)
    fail("MEMORY_ERROR", "out-of-bounds", "", "%s memory that belongs to no tensor and no variable, %zu bytes %s %s, the nearest tensor",
         does, distance, before ? "before" : "behind", nearest->name);
  fail("MEMORY_ERROR", "out-of-bounds", "", "%s address 0x%lx, which belongs to no tensor and no variable", does,
       (unsigned long)address);
}

const Buffer* buffer_near(uintptr_t address, long* offset) {
  for (int i = 0; i < spec.buffer_count; ++i) {
    const Buffer& buffer = spec.buffers[i];
    // The unmapped pages on both sides belong to the buffer, see `map_buffer`.
    if (!inside(address, buffer.mapping - PAGE * 16, buffer.mapped + PAGE * 32)) continue;
    *offset = (long)(address - (uintptr_t)buffer.data);
    return &buffer;
  }
  return nullptr;
}

}  // namespace runner

extern "C" {

void emu_trap(const char* what) {
  runner::at_frames(EMU_CALLER, EMU_FRAME);
  runner::fail("RUNTIME_ERROR", "trap", "", "the kernel stopped itself with %s", what);
}

void emu_unsupported(const char* what) {
  runner::at_frames(EMU_CALLER, EMU_FRAME);
  runner::fail("UNSUPPORTED", "unsupported", "", "the emulator cannot execute this: %s", what);
}

}  // extern "C"
