// The runner: reads a description of one run, maps every tensor, loads the compiled kernel, shuts itself in, runs the
// launches in worker processes and reports. The main process never executes candidate code.
//
//   runner SPEC RESULT
//
// SPEC is lines of words (see spec.cpp); RESULT becomes lines of `key value` (see `write_result`).
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <initializer_list>
#include "cluster.h"
#include "sandbox.h"

namespace runner {

namespace {

struct Shared {
  Report reports[MAX_TOGETHER];
  Report warnings[MAX_TOGETHER];
  volatile int stop, met, approximate, parted;
  BankCount banks[MAX_LAUNCHES];
  uint64_t switches;
  Grid grid;
  Cluster cluster;
};

Shared* shared;
int result_fd = -1;
uint32_t most_workers;  // of any launch
double left_s;      // of processor time, for each worker of the launches to come
double deadline_s;  // on the clock, for what waits without using the processor; generous, since others may use it
constexpr double PATIENCE = 10;
int finished;       // exit status of a worker that has run all its blocks; another one each time

double now_s() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

void say(const char* format, ...) {
  char line[2048];
  va_list arguments;
  va_start(arguments, format);
  int const length = vsnprintf(line, sizeof line, format, arguments);
  va_end(arguments);
  if (write(result_fd, line, (size_t)length) != length) _exit(4);
}

// A worker executes the candidate: it keeps no way to the verdict or to the files of the outputs.
void close_files() {
  close(result_fd);
  for (int i = 0; i < spec.buffer_count; ++i)
    if (spec.buffers[i].fd >= 0) close(spec.buffers[i].fd);
}

void start_timer(__itimer_which which, double seconds) {
  itimerval timer = {};
  timer.it_value.tv_sec = (time_t)(seconds > 0 ? seconds : 0);
  timer.it_value.tv_usec = seconds > 0 ? (suseconds_t)((seconds - (double)(time_t)seconds) * 1e6) + 1 : 1;
  setitimer(which, &timer, nullptr);
}

double seconds_of(const rusage& used) {
  return (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
         (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) * 1e-6;
}

[[noreturn]] void work(int launch, uint32_t worker, uint32_t workers, pid_t parent) {
  end_with_parent();
  if (getppid() != parent) _exit(1);
  close_files();
  mprotect((void*)&spec, sizeof spec, PROT_READ);
  report = &shared->reports[worker];
  warning = &shared->warnings[worker];
  stop = &shared->stop;
  install_signal_handlers();
  start_timer(ITIMER_PROF, left_s);
  start_timer(ITIMER_REAL, deadline_s - now_s());
  if (spec.launches[launch].clustered()) join_cluster(worker);
  shut_in_worker();
  run_launch(launch, worker, workers);
  __atomic_fetch_add(&shared->switches, switches, __ATOMIC_RELAXED);
  if (spec.launches[launch].cooperative) leave_grid();
  _exit(finished);
}

// A network has more tensors than a process may usually have files open.
void raise_file_limit() {
  rlimit files;
  if (getrlimit(RLIMIT_NOFILE, &files) != 0) return;
  files.rlim_cur = files.rlim_max;
  setrlimit(RLIMIT_NOFILE, &files);
}

// Kernel code shares the worker's memory, so what a worker leaves there is read as a stranger's.
bool is_failure(const char* status) {
  for (const char* const known : {"MEMORY_ERROR", "RUNTIME_ERROR", "TIMEOUT", "UNSUPPORTED", "INPUT_MODIFIED", "REJECTED"})
    if (strcmp(status, known) == 0) return true;
  return false;
}

void clean(char* text, size_t size) {
  text[size - 1] = 0;
  for (; *text; ++text)
    if ((unsigned char)*text < ' ') *text = ' ';
}

Report cleaned(Report found) {
  clean(found.status, sizeof found.status), clean(found.kind, sizeof found.kind);
  clean(found.message, sizeof found.message), clean(found.variable, sizeof found.variable);
  clean(found.file, sizeof found.file);
  if (found.frame_count < 0 || found.frame_count > MAX_FRAMES) found.frame_count = 0;
  return found;
}

void write_result(const Report& found, const char* prefix) {
  say("%sstatus %s\n%skind %s\n%smessage %s\n%svariable %s\n", prefix, found.status, prefix, found.kind, prefix,
      found.message, prefix, found.variable);
  say("%sfile %s\n%sline %d\n%scolumn %d\n%slaunch %d\n", prefix, found.file, prefix, found.line,
      prefix, found.column, prefix, found.launch);
  if (found.has_thread)
    say("%sblock %u %u %u\n%sthread %u %u %u\n", prefix, found.block.x, found.block.y, found.block.z, prefix,
        found.thread.x, found.thread.y, found.thread.z);
  for (int i = 0; i < found.frame_count; ++i)
    say("%sframe %ld\n", prefix, (long)(found.frames[i] - (uintptr_t)image_begin()));
}

void write_banks() {
  for (int launch = 0; launch < spec.launch_count; ++launch) {
    const BankCount& found = shared->banks[launch];
    if (!found.least) continue;
    say("banks %d %lu %lu\n", launch, found.wavefronts, found.least);
    for (int i = 0; i < found.worst.count && i < MAX_FRAMES; ++i)
      say("banks-frame %d %ld\n", launch, (long)(found.worst.frames[i] - (uintptr_t)image_begin()));
  }
}

[[noreturn]] void finish_with_report(uint32_t workers) {
  for (uint32_t w = 0; w < workers; ++w)
    if (shared->reports[w].raised) {
      Report const found = cleaned(shared->reports[w]);
      if (!is_failure(found.status)) break;
      write_result(found, "");
      _exit(0);
    }
  refuse("RUNTIME_ERROR crash", "the kernel ended its process itself");
}

// One worker a block where blocks must be there together; one a core where blocks are independent of `__device__`
// variables and of what another block does; one in all in the checked run, whose bookkeeping is not shared.
constexpr uint64_t WORTH_SHARING = 1 << 16;  // threads: below, starting a process costs more than it saves
uint32_t worker_count(const Launch& launch) {
  if (launch.clustered()) return (uint32_t)launch.cluster.count();
  if (launch.cooperative) return (uint32_t)launch.grid.count();
  if (spec.checked || spec.talks || has_device_variables()) return 1;
  uint64_t const blocks = launch.grid.count();
  if (blocks * launch.block.count() < WORTH_SHARING) return 1;
  uint32_t const most = spec.workers < MAX_WORKERS ? spec.workers : MAX_WORKERS;
  return blocks < most ? (uint32_t)blocks : most;
}

void run_one(int launch) {
  uint32_t const workers = worker_count(spec.launches[launch]);
  shared->grid = {workers, 0, 0, 0};
  if (spec.launches[launch].clustered()) begin_clusters(spec.launches[launch]);
  if (workers > most_workers) most_workers = workers;
  pid_t const self = getpid();
  for (uint32_t w = 0; w < workers; ++w) {
    pid_t const child = fork();
    if (child < 0) refuse("MACHINE_ERROR", "cannot start a worker process: %s", strerror(errno));
    if (child == 0) work(launch, w, workers, self);
  }
  for (uint32_t ended = 0; ended < workers; ++ended) {
    int status = 0;
    rusage used = {};
    if (wait4(-1, &status, 0, &used) < 0) refuse("MACHINE_ERROR", "lost a worker process");
    left_s -= seconds_of(used) / workers;
    if (WIFEXITED(status) && WEXITSTATUS(status) == finished) continue;
    if (WIFEXITED(status)) finish_with_report(workers);
    refuse(WTERMSIG(status) == SIGSYS ? "RUNTIME_ERROR sandbox" : "RUNTIME_ERROR crash",
           WTERMSIG(status) == SIGSYS ? "the kernel tried a system call, which the sandbox forbids (signal %d)"
                                      : "the kernel died of signal %d", WTERMSIG(status));
  }
}

void prepare() {
  shared = (Shared*)mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  bank_counts = shared->banks;
  stop = &shared->stop, met = &shared->met, approximate = &shared->approximate, parted = &shared->parted;
  grid = &shared->grid, cluster = &shared->cluster;
  map_buffers();
  void* const dynamic = mmap((void*)DYNAMIC_BASE, DYNAMIC_BYTES, PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
  if (dynamic != (void*)DYNAMIC_BASE) refuse("MACHINE_ERROR", "cannot map shared memory at its fixed address");
  load_image(spec.image);
  prepare_fibers(check_launches());
  if (most_blocks() > 1) prepare_clusters();
  if (spec.checked) prepare_checker();
}

// A variable that outlives the call would tell the next one what this one saw.
void check_device_variables() {
  char name[128];
  if (!changed_device_variable(name, sizeof name)) return;
  say("variable %s\n", name);
  refuse("MEMORY_ERROR kept-state", "leaves the __device__ variable %s changed: what one call leaves there reaches the "
         "next; use [[scratch]], or put back what it held", name);
}

}  // namespace

// Ends the run from the main process, where no thread is to blame.
void refuse(const char* status, const char* format, ...) {
  char message[1024], word[32] = "", kind[32] = "";
  sscanf(status, "%31s %31s", word, kind);
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(message, sizeof message, format, arguments);
  va_end(arguments);
  say("status %s\nkind %s\nmessage %s\n", word, kind, message);
  _exit(0);
}

}  // namespace runner

int main(int count, char** words) {
  using namespace runner;
  if (count != 3) return 2;
  result_fd = open(words[2], O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (result_fd < 0) return 2;
  raise_file_limit();
  read_spec(words[1]);
  left_s = spec.timeout_ms * 1e-3;
  deadline_s = now_s() + left_s * PATIENCE;
  unsigned char chosen = 0;
  if (getrandom(&chosen, 1, 0) != 1) refuse("MACHINE_ERROR", "this kernel has no random numbers");
  finished = 8 + chosen % 200;
  prepare();
  end_with_parent();
  shut_in();
  for (int launch = 0; launch < spec.launch_count; ++launch)
    if (spec.launches[launch].grid.count() > 0) run_one(launch);
  check_canaries();
  check_device_variables();
  write_outputs();
  for (uint32_t w = 0; w < most_workers; ++w)
    if (shared->warnings[w].raised) {
      write_result(cleaned(shared->warnings[w]), "warning-");
      break;
    }
  write_banks();
  say("met %d\napproximate %d\nparted %d\nswitches %lu\nstatus PASSED\n", shared->met != 0, shared->approximate != 0, shared->parted != 0,
      shared->switches);
  return 0;
}
