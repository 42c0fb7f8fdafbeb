// Raises the emulator runner's walls around itself and says what each forbidden system call answers afterwards.
//
//   walls OPEN         OPEN is 1 for a machine without a system call filter
//   walls 0 worker     behind the walls of a worker, which executes the kernel; answers come on the error output
//
// Built by test_walls.py with the runner's own sandbox.cpp.
#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>
#include "runner.h"
#include "sandbox.h"

namespace runner {
Spec spec;
void refuse(const char* status, const char* format, ...) {
  printf("refused to start: %s %s\n", status, format);
  exit(3);
}
}  // namespace runner

static jmp_buf back;
static int output = 1;
static void on_forbidden(int) { longjmp(back, 1); }

static void attempt(const char* name, long number, long a = 0, long b = 0, long c = 0, long d = 0, long e = 0, long f = 0) {
  char line[96];
  int length;
  if (_setjmp(back)) length = snprintf(line, sizeof line, "%s trapped\n", name);
  else {
    long const answer = syscall(number, a, b, c, d, e, f);
    length = snprintf(line, sizeof line, "%s %s\n", name, answer >= 0 ? "done" : errno == EPERM ? "refused" : "failed");
  }
  if (write(output, line, (size_t)length) != length) _exit(4);
}

int main(int count, char** words) {
  runner::spec.timeout_ms = 1000;
  runner::spec.open_walls = atoi(words[1]) != 0;
  struct sigaction action = {};
  action.sa_handler = on_forbidden;
  action.sa_flags = SA_NODEFER;
  sigaction(SIGSYS, &action, nullptr);
  void* const page = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  runner::shut_in();
  if (count > 2) {
    output = 2;
    runner::shut_in_worker();
    attempt("handler", SYS_rt_sigaction, SIGSEGV, 0, (long)page, 8);
    attempt("signal-stack", SYS_sigaltstack, (long)page, 0);
    attempt("signal-mask", SYS_rt_sigprocmask, 0, (long)page, 0, 8);
    attempt("timer", SYS_setitimer, ITIMER_REAL, (long)page, 0);
    attempt("protect", SYS_mprotect, (long)page, 4096, PROT_READ);
    attempt("fork", SYS_fork);
    attempt("clone", SYS_clone, SIGCHLD);
    attempt("read", SYS_read, 0, (long)page, 1);
    attempt("close", SYS_close, 0);
    attempt("write-elsewhere", SYS_write, 1, (long)page, 1);
    attempt("limit", SYS_prlimit64, 0, RLIMIT_FSIZE, (long)page, 0);
    attempt("fixed-memory", SYS_mmap, (long)page, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    attempt("another-filter", SYS_prctl, 22, 2, 0, 0, 0);
    attempt("memory", SYS_mmap, 0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  }
  const char* const none[] = {nullptr};
  attempt("socket", SYS_socket, AF_UNIX, SOCK_STREAM, 0);
  attempt("open", SYS_open, (long)"/etc/passwd", O_RDONLY);
  attempt("openat", SYS_openat, AT_FDCWD, (long)"/etc/passwd", O_RDONLY);
  if (!runner::spec.open_walls) {  // without walls these would really happen
    attempt("ptrace", SYS_ptrace, 0, 0, 0, 0);
    attempt("new-namespace", SYS_clone, CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0);
  }
  attempt("execve", SYS_execve, (long)"/nowhere/at/all", (long)none, (long)none);
  attempt("kill", SYS_kill, getppid(), 0);
  attempt("unlink", SYS_unlink, (long)"/nowhere/at/all");
  attempt("memfd", SYS_memfd_create, (long)"m", 0);
  attempt("readv-other", SYS_process_vm_readv, getppid(), 0, 0, 0, 0, 0);
  attempt("io_uring", 425 /* io_uring_setup */, 1, 0);
  attempt("unshare", SYS_unshare, 0);
  attempt("prctl", SYS_prctl, 4, 1, 0, 0, 0);
  attempt("executable-memory", SYS_mmap, 0, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  attempt("make-executable", SYS_mprotect, (long)page, 4096, PROT_READ | PROT_WRITE | PROT_EXEC);
  attempt("memory", SYS_mmap, 0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  attempt("time", SYS_clock_gettime, 1, (long)page);
  if (!runner::spec.open_walls) return 0;  // asking for a limit is no allowed call either
  rlimit core = {};
  getrlimit(RLIMIT_CORE, &core);
  char line[64];
  int const length = snprintf(line, sizeof line, "core-limit %s\n", core.rlim_max ? "open" : "zero");
  return write(1, line, (size_t)length) != length;
}
