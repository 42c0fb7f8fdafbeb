// The runner's own walls, raised once its files are open and its memory is mapped.
#include "sandbox.h"
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include "runner.h"

namespace runner {
namespace {

constexpr uint32_t ARCHITECTURE = 0xC000003E;  // AUDIT_ARCH_X86_64
constexpr uint32_t ARGUMENT0 = offsetof(seccomp_data, args[0]), ARGUMENT2 = offsetof(seccomp_data, args[2]),
                   ARGUMENT3 = offsetof(seccomp_data, args[3]);
constexpr uint32_t CLONE_ALLOWED = CLONE_CHILD_CLEARTID | CLONE_CHILD_SETTID | 0xFF;

const int allowed[] = {
    SYS_read, SYS_write, SYS_pwrite64, SYS_exit, SYS_exit_group, SYS_munmap, SYS_brk, SYS_madvise, SYS_futex,
    SYS_clock_gettime, SYS_rt_sigaction, SYS_rt_sigprocmask, SYS_rt_sigreturn, SYS_sigaltstack, SYS_setitimer,
    SYS_fork, SYS_wait4, SYS_getpid, SYS_getppid, SYS_gettid, SYS_set_robust_list, SYS_rseq, SYS_close, SYS_setrlimit,
    SYS_prlimit64,
};

// While a kernel runs: output of printf, memory of the interpreter and the checker, waiting for other blocks, ending.
const int allowed_in_worker[] = {SYS_exit, SYS_exit_group, SYS_munmap, SYS_brk, SYS_futex, SYS_clock_gettime};
constexpr rlim_t LOG_BYTES = 1 << 20;

struct Program {
  sock_filter code[128];
  unsigned short length = 0;
  void add(uint16_t operation, uint32_t value, uint8_t if_true = 0, uint8_t if_false = 0) {
    code[length++] = {operation, if_true, if_false, value};
  }
  void load(uint32_t offset) { add(BPF_LD | BPF_W | BPF_ABS, offset); }
  void answer(uint32_t value) { add(BPF_RET | BPF_K, value); }
  // Allows `call` when none of `forbidden` is set in one of its arguments.
  void allow_without(int call, uint32_t argument, uint32_t forbidden) {
    add(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)call, 0, 4);
    load(argument);
    add(BPF_JMP | BPF_JSET | BPF_K, forbidden, 1, 0);
    answer(SECCOMP_RET_ALLOW);
    answer(SECCOMP_RET_TRAP);
  }
  // Allows `call` with this value, or the other one, of one of its arguments only.
  void allow_only(int call, uint32_t argument, uint32_t value) { allow_only(call, argument, value, value); }
  void allow_only(int call, uint32_t argument, uint32_t value, uint32_t other) {
    add(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)call, 0, 5);
    load(argument);
    add(BPF_JMP | BPF_JEQ | BPF_K, value, 1, 0);
    add(BPF_JMP | BPF_JEQ | BPF_K, other, 0, 1);
    answer(SECCOMP_RET_ALLOW);
    answer(SECCOMP_RET_TRAP);
  }
};

template <size_t N>
Program begin(const int (&calls)[N]) {
  Program program;
  program.load(offsetof(seccomp_data, arch));
  program.add(BPF_JMP | BPF_JEQ | BPF_K, ARCHITECTURE, 1, 0);
  program.answer(SECCOMP_RET_KILL_PROCESS);
  program.load(offsetof(seccomp_data, nr));
  for (int const call : calls) {
    program.add(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)call, 0, 1);
    program.answer(SECCOMP_RET_ALLOW);
  }
  return program;
}

Program filter() {
  Program program = begin(allowed);
  program.allow_only(SYS_prctl, ARGUMENT0, PR_SET_SECCOMP, PR_SET_PDEATHSIG);  // for workers, before they run a kernel
  program.allow_without(SYS_mmap, ARGUMENT2, PROT_EXEC);
  program.allow_without(SYS_mprotect, ARGUMENT2, PROT_EXEC);
  program.allow_without(SYS_clone, ARGUMENT0, ~CLONE_ALLOWED);
  program.answer(SECCOMP_RET_TRAP);
  return program;
}

Program worker_filter() {
  Program program = begin(allowed_in_worker);
  program.allow_only(SYS_write, ARGUMENT0, 2);  // the log
  // mmap: fresh memory at a place that the system chooses, never executable.
  program.add(BPF_JMP | BPF_JEQ | BPF_K, SYS_mmap, 0, 6);
  program.load(ARGUMENT2);
  program.add(BPF_JMP | BPF_JSET | BPF_K, PROT_EXEC, 3, 0);
  program.load(ARGUMENT3);
  program.add(BPF_JMP | BPF_JSET | BPF_K, MAP_FIXED | MAP_FIXED_NOREPLACE, 1, 0);
  program.answer(SECCOMP_RET_ALLOW);
  program.answer(SECCOMP_RET_TRAP);
  program.answer(SECCOMP_RET_TRAP);
  return program;
}

void install(Program program) {
  sock_fprog const installed = {program.length, program.code};
  if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &installed, 0, 0) != 0)
    refuse("MACHINE_ERROR", "the system call filter could not be installed (errno %d)", errno);
}

void limit(int resource, rlim_t value) {
  rlimit const both = {value, value};
  setrlimit((__rlimit_resource)resource, &both);
}

}  // namespace

void end_with_parent() { prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0); }

void shut_in() {
  limit(RLIMIT_CORE, 0);
  limit(RLIMIT_NPROC, 4096);
  limit(RLIMIT_CPU, spec.timeout_ms / 1000 * MAX_WORKERS + 10);
  prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) refuse("MACHINE_ERROR", "this kernel has no PR_SET_NO_NEW_PRIVS");
  if (!spec.open_walls) install(filter());
}

void shut_in_worker() {
  limit(RLIMIT_FSIZE, LOG_BYTES);
  if (!spec.open_walls) install(worker_filter());
}

}  // namespace runner
