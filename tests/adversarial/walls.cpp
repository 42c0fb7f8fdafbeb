// Raises the emulator runner's walls around itself and says what each forbidden system call answers afterwards.
//
//   walls OPEN       OPEN is 1 for a machine without a system call filter
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

static sigjmp_buf back;
static void on_forbidden(int) { siglongjmp(back, 1); }

static void attempt(const char* name, long number, long a = 0, long b = 0, long c = 0, long d = 0, long e = 0, long f = 0) {
  char line[96];
  int length;
  if (sigsetjmp(back, 1)) length = snprintf(line, sizeof line, "%s trapped\n", name);
  else {
    long const answer = syscall(number, a, b, c, d, e, f);
    length = snprintf(line, sizeof line, "%s %s\n", name, answer >= 0 ? "done" : errno == EPERM ? "refused" : "failed");
  }
  if (write(1, line, (size_t)length) != length) _exit(4);
}

int main(int, char** words) {
  runner::spec.timeout_ms = 1000;
  runner::spec.open_walls = atoi(words[1]) != 0;
  struct sigaction action = {};
  action.sa_handler = on_forbidden;
  sigaction(SIGSYS, &action, nullptr);
  void* const page = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  runner::shut_in();
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
