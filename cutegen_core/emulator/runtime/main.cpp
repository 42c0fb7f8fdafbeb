// The runner: reads a description of one run, maps every tensor, loads the compiled kernel, shuts itself in, runs the
// launches in worker processes and reports. The main process never executes candidate code.
//
//   runner SPEC RESULT
//
// SPEC is lines of words (see `read_spec`); RESULT becomes lines of `key value` (see `write_result`).
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "runner.h"
#include "sandbox.h"

namespace runner {

Spec spec;

namespace {

struct Shared {
  Report reports[MAX_TOGETHER];
  Report warnings[MAX_TOGETHER];
  volatile int stop, met;
  Grid grid;
};

Shared* shared;
int result_fd = -1;
uint32_t most_workers;  // of any launch
double deadline_s;

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

// -- the spec -------------------------------------------------------------------------------------------------------

// Words hold no spaces; those of a path are written %20, and % is %25.
void decode(char* path) {
  char* out = path;
  for (const char* in = path; *in; ++out) {
    unsigned code = 0;
    bool const coded = *in == '%' && sscanf(in + 1, "%2x", &code) == 1;
    *out = coded ? (char)code : *in;
    in += coded ? 3 : 1;
  }
  *out = 0;
}

void read_buffer(FILE* file) {
  Buffer& buffer = spec.buffers[spec.buffer_count++];
  char path[4096];
  int role, zero;
  if (fscanf(file, "%d %95s %zu %u %d %4095s", &role, buffer.name, &buffer.bytes, &buffer.itemsize, &zero, path) != 6)
    refuse("MACHINE_ERROR", "malformed buffer in the spec");
  decode(path);
  buffer.role = (Role)role;
  buffer.zero = zero;
  buffer.fd = buffer.role == Role::SCRATCH ? -1 : open(path, (buffer.role == Role::INPUT ? O_RDONLY : O_RDWR) | O_CLOEXEC);
  if (buffer.role != Role::SCRATCH && buffer.fd < 0) refuse("MACHINE_ERROR", "cannot open %s", path);
}

// NAME BUFFER OFFSET ITEMSIZE SWIZZLE NAN RANK DIMS... STRIDES... BOX...
void read_tensor_map(FILE* file) {
  int const number = spec.tensor_map_count++;
  TensorMap& map = spec.tensor_maps[number];
  int nan = 0;
  int fields = fscanf(file, "%95s %d %lu %u %d %d %d", map.name, &map.buffer, &map.offset, &map.itemsize, &map.swizzle, &nan, &map.rank);
  bool right = fields == 7 && map.rank >= 1 && map.rank <= 5 && map.buffer < spec.buffer_count;
  for (int i = 0; right && i < map.rank; ++i) right = fscanf(file, "%lu", &map.dims[i]) == 1;
  for (int i = 1; right && i < map.rank; ++i) right = fscanf(file, "%lu", &map.strides[i]) == 1;
  for (int i = 0; right && i < map.rank; ++i) right = fscanf(file, "%u", &map.box[i]) == 1;
  if (!right) refuse("MACHINE_ERROR", "malformed tensor map in the spec");
  map.fills_nan = nan;
  spec.descriptors[number] = {TENSOR_MAP_MARK, (uint64_t)number, {}};
}

void read_launch(FILE* file) {
  Launch& launch = spec.launches[spec.launch_count++];
  Index3 &g = launch.grid, &b = launch.block;
  int const got = fscanf(file, "%d %d %u %u %u %u %u %u %u %d", &launch.kernel, &launch.cooperative, &g.x, &g.y, &g.z, &b.x, &b.y, &b.z,
                         &launch.smem_bytes, &launch.argument_count);
  if (got != 10 || launch.argument_count > MAX_ARGUMENTS) refuse("MACHINE_ERROR", "malformed launch in the spec");
  for (int i = 0; i < launch.argument_count; ++i) {
    char kind;
    EmuArgument& argument = launch.arguments[i];
    launch.argument_buffer[i] = -1;
    if (fscanf(file, " %c", &kind) != 1) refuse("MACHINE_ERROR", "malformed argument in the spec");
    int fields = 0;
    if (kind == 'p') fields = fscanf(file, "%d %11s", &launch.argument_buffer[i], launch.argument_dtype[i]) - 1;
    if (kind == 'm') fields = fscanf(file, "%ld", &argument.integer);
    if (kind == 'i') fields = fscanf(file, "%ld", &argument.integer);
    if (kind == 'f') fields = fscanf(file, "%lf", &argument.floating);
    if (fields != 1) refuse("MACHINE_ERROR", "malformed argument in the spec");
    argument.kind = kind == 'p' ? EmuArgument::POINTER : kind == 'i' ? EmuArgument::INTEGER : EmuArgument::FLOATING;
    if (kind == 'm') {
      if (argument.integer < 0 || argument.integer >= spec.tensor_map_count) refuse("MACHINE_ERROR", "malformed argument in the spec");
      argument.kind = EmuArgument::TENSOR_MAP;
      argument.pointer = &spec.descriptors[argument.integer];
    }
    if (kind == 'i') argument.floating = (double)argument.integer;
    if (kind == 'f') argument.integer = (int64_t)argument.floating;
  }
}

void read_spec(const char* path) {
  FILE* const file = fopen(path, "re");
  if (!file) refuse("MACHINE_ERROR", "cannot open the spec");
  char word[64];
  while (fscanf(file, "%63s", word) == 1) {
    int fields = 1, number = 0;
    if (strcmp(word, "image") == 0) fields = fscanf(file, "%4095s", spec.image), decode(spec.image);
    else if (strcmp(word, "checked") == 0) fields = fscanf(file, "%d", &number), spec.checked = number;
    else if (strcmp(word, "order") == 0) fields = fscanf(file, "%d", &number), spec.order = (Order)number;
    else if (strcmp(word, "seed") == 0) fields = fscanf(file, "%lu", &spec.seed);
    else if (strcmp(word, "timeout_ms") == 0) fields = fscanf(file, "%u", &spec.timeout_ms);
    else if (strcmp(word, "workers") == 0) fields = fscanf(file, "%u", &spec.workers);
    else if (strcmp(word, "poison") == 0) fields = fscanf(file, "%d", &number), spec.poison = (uint8_t)number;
    else if (strcmp(word, "eager") == 0) fields = fscanf(file, "%d", &number), spec.eager = number;
    else if (strcmp(word, "open_walls") == 0) fields = fscanf(file, "%d", &number), spec.open_walls = number;
    else if (strcmp(word, "buffer") == 0 && spec.buffer_count < MAX_BUFFERS) read_buffer(file);
    else if (strcmp(word, "tensormap") == 0 && spec.tensor_map_count < MAX_TENSOR_MAPS) read_tensor_map(file);
    else if (strcmp(word, "launch") == 0 && spec.launch_count < MAX_LAUNCHES) read_launch(file);
    else fields = 0;
    if (fields != 1) refuse("MACHINE_ERROR", "the spec has a '%s' the runner cannot read", word);
  }
  fclose(file);
}

// -- memory ---------------------------------------------------------------------------------------------------------

constexpr size_t GUARD = 16 * PAGE;
constexpr size_t ALIGNMENT = 256;  // what a device allocation has
constexpr uint8_t CANARY = 0xFF;   // NaN for every float, so that reading past the end shows

// [unmapped | canary | data | canary | unmapped]; the data ends as close to the unmapped pages as its alignment allows.
void map_buffer(Buffer& buffer) {
  size_t const room = (buffer.bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
  buffer.mapped = (room + PAGE - 1) / PAGE * PAGE;
  if (buffer.mapped == 0) buffer.mapped = PAGE;
  void* const place = mmap(nullptr, buffer.mapped + 2 * GUARD, PROT_NONE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (place == MAP_FAILED) refuse("MACHINE_ERROR", "cannot map %zu bytes for %s", buffer.bytes, buffer.name);
  buffer.mapping = (uint8_t*)place + GUARD;
  mprotect(buffer.mapping, buffer.mapped, PROT_READ | PROT_WRITE);
  buffer.data = buffer.mapping + buffer.mapped - room;
  memset(buffer.mapping, CANARY, (size_t)(buffer.data - buffer.mapping));
  memset(buffer.data + buffer.bytes, CANARY, (size_t)(buffer.mapping + buffer.mapped - buffer.data) - buffer.bytes);
}

void fill_buffer(Buffer& buffer) {
  if (buffer.role != Role::INPUT) {
    memset(buffer.data, buffer.zero ? 0 : spec.poison, buffer.bytes);
    return;
  }
  for (size_t done = 0; done < buffer.bytes;) {
    ssize_t const got = read(buffer.fd, buffer.data + done, buffer.bytes - done);
    if (got <= 0) refuse("MACHINE_ERROR", "the file of %s is shorter than its shape", buffer.name);
    done += (size_t)got;
  }
  mprotect(buffer.mapping, buffer.mapped, PROT_READ);
}

bool all_canary(const uint8_t* from, const uint8_t* to) {
  for (; from < to; ++from)
    if (*from != CANARY) return false;
  return true;
}

void check_canaries() {
  for (int i = 0; i < spec.buffer_count; ++i) {
    const Buffer& buffer = spec.buffers[i];
    bool const before = all_canary(buffer.mapping, buffer.data);
    bool const after = all_canary(buffer.data + buffer.bytes, buffer.mapping + buffer.mapped);
    if (!before || !after)
      refuse("MEMORY_ERROR out-of-bounds", "writes %s %s", before ? "past the end of" : "before the start of", buffer.name);
  }
}

// A variable that outlives the call would tell the next one what this one saw.
void check_device_variables() {
  char name[128];
  if (!changed_device_variable(name, sizeof name)) return;
  say("variable %s\n", name);
  refuse("MEMORY_ERROR kept-state", "leaves the __device__ variable %s changed: what one call leaves there reaches the "
         "next; use [[scratch]], or put back what it held", name);
}

void write_outputs() {
  for (int i = 0; i < spec.buffer_count; ++i) {
    const Buffer& buffer = spec.buffers[i];
    if (buffer.role != Role::OUTPUT) continue;
    for (size_t done = 0; done < buffer.bytes;) {
      ssize_t const put = pwrite(buffer.fd, buffer.data + done, buffer.bytes - done, (off_t)done);
      if (put <= 0) refuse("MACHINE_ERROR", "cannot write the file of %s", buffer.name);
      done += (size_t)put;
    }
  }
}

// -- arguments ------------------------------------------------------------------------------------------------------

void check_number(const EmuKernel& kernel, const EmuParameter& wanted, const EmuArgument& given, int index) {
  if (wanted.kind != EmuParameter::INTEGER) return;
  if (given.kind == EmuArgument::FLOATING)
    refuse("LAUNCH_ERROR", "%s: argument %d is a whole number, the plan gives %g", kernel.name, index + 1, given.floating);
  if (wanted.bytes >= 8) return;
  int64_t const span = (int64_t)1 << (8 * wanted.bytes - (wanted.is_signed ? 1 : 0));
  if (given.integer >= span || given.integer < (wanted.is_signed ? -span : 0))
    refuse("LAUNCH_ERROR", "%s: argument %d (%ld) does not fit its %d-bit parameter", kernel.name, index + 1,
           given.integer, 8 * wanted.bytes);
}

void check_argument(const EmuKernel& kernel, Launch& launch, int i) {
  const EmuParameter& wanted = kernel.parameters[i];
  EmuArgument& given = launch.arguments[i];
  if (wanted.kind == EmuParameter::OTHER)
    refuse("UNSUPPORTED", "%s: parameter %d is passed by value and is not a number", kernel.name, i + 1);
  bool const map = given.kind == EmuArgument::TENSOR_MAP;
  if (map != (wanted.kind == EmuParameter::TENSOR_MAP))
    refuse("LAUNCH_ERROR", "%s: parameter %d is %sa tensor map, the plan gives %s", kernel.name, i + 1, map ? "not " : "",
           map ? "one" : "something else");
  if (map) return;
  bool const pointer = given.kind == EmuArgument::POINTER;
  if (pointer != (wanted.kind == EmuParameter::POINTER))
    refuse("LAUNCH_ERROR", "%s: parameter %d is a %s, the plan gives a %s", kernel.name, i + 1,
           wanted.kind == EmuParameter::POINTER ? "pointer" : "number", pointer ? "tensor" : "number");
  if (!pointer) return check_number(kernel, wanted, given, i);
  if (wanted.element[0] && strcmp(wanted.element, launch.argument_dtype[i]) != 0 &&
      !(strcmp(launch.argument_dtype[i], "uint8") == 0 && strcmp(wanted.element, "int8") == 0))
    refuse("LAUNCH_ERROR", "%s: parameter %d points to %s, but %s holds %s", kernel.name, i + 1, wanted.element,
           spec.buffers[launch.argument_buffer[i]].name, launch.argument_dtype[i]);
  given.pointer = spec.buffers[launch.argument_buffer[i]].data;
}

uint32_t check_launches() {
  size_t known = 0;
  const EmuKernel* const list = kernels(&known);
  uint32_t threads = 1;
  for (int l = 0; l < spec.launch_count; ++l) {
    Launch& launch = spec.launches[l];
    const EmuKernel& kernel = list[launch.kernel];
    if (kernel.count != launch.argument_count)
      refuse("LAUNCH_ERROR", "%s takes %ld arguments, the plan gives %d", kernel.name, kernel.count, launch.argument_count);
    for (int i = 0; i < launch.argument_count; ++i) check_argument(kernel, launch, i);
    uint64_t const block = launch.block.count();
    if (block == 0 || block > MAX_THREADS)
      refuse("LAUNCH_ERROR", "%s: a block of %lu threads (1 to %d are possible)", kernel.name, block, MAX_THREADS);
    if (launch.smem_bytes > DYNAMIC_BYTES - PAGE)
      refuse("LAUNCH_ERROR", "%s: %u bytes of dynamic shared memory are more than any device has", kernel.name, launch.smem_bytes);
    if (launch.cooperative && launch.grid.count() > MAX_TOGETHER)
      refuse("UNSUPPORTED", "%s: a cooperative launch of %lu blocks; the emulator runs up to %d together", kernel.name,
             launch.grid.count(), MAX_TOGETHER);
    if (launch.cooperative && has_device_variables())
      refuse("UNSUPPORTED", "%s: the emulator has no cooperative launches of kernels with __device__ variables; use [[scratch]]",
             kernel.name);
    if (block > threads) threads = (uint32_t)block;
  }
  return threads;
}

// -- running --------------------------------------------------------------------------------------------------------

// A worker executes the candidate: it keeps no way to the verdict or to the files of the outputs.
void close_files() {
  close(result_fd);
  for (int i = 0; i < spec.buffer_count; ++i)
    if (spec.buffers[i].fd >= 0) close(spec.buffers[i].fd);
}

[[noreturn]] void work(int launch, uint32_t worker, uint32_t workers) {
  close_files();
  report = &shared->reports[worker];
  warning = &shared->warnings[worker];
  stop = &shared->stop;
  install_signal_handlers();
  double const left_s = deadline_s - now_s();
  itimerval timer = {};
  timer.it_value.tv_sec = (time_t)(left_s > 0 ? left_s : 0);
  timer.it_value.tv_usec = left_s > 0 ? (suseconds_t)((left_s - (double)(time_t)left_s) * 1e6) + 1 : 1;
  setitimer(ITIMER_REAL, &timer, nullptr);
  run_launch(launch, worker, workers);
  if (spec.launches[launch].cooperative) leave_grid();
  _exit(0);
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
    say("%sframe %ld\n", prefix, (long)(found.frames[i] - IMAGE_BASE));
}

[[noreturn]] void finish_with_report(uint32_t workers) {
  for (uint32_t w = 0; w < workers; ++w)
    if (shared->reports[w].raised) {
      write_result(shared->reports[w], "");
      _exit(0);
    }
  _exit(3);
}

// One worker a block where blocks must be there together; one a core where blocks are independent of `__device__` variables; one in all in the checked run, whose
// bookkeeping is not shared.
uint32_t worker_count(const Launch& launch) {
  if (launch.cooperative) return (uint32_t)launch.grid.count();
  if (spec.checked || has_device_variables()) return 1;
  uint64_t const blocks = launch.grid.count();
  uint32_t const most = spec.workers < MAX_WORKERS ? spec.workers : MAX_WORKERS;
  return blocks < most ? (uint32_t)blocks : most;
}

void run_one(int launch) {
  uint32_t const workers = worker_count(spec.launches[launch]);
  shared->grid = {workers, 0, 0, 0};
  if (workers > most_workers) most_workers = workers;
  for (uint32_t w = 0; w < workers; ++w) {
    pid_t const child = fork();
    if (child < 0) refuse("MACHINE_ERROR", "cannot start a worker process: %s", strerror(errno));
    if (child == 0) work(launch, w, workers);
  }
  for (uint32_t ended = 0; ended < workers; ++ended) {
    int status = 0;
    if (wait(&status) < 0) refuse("MACHINE_ERROR", "lost a worker process");
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) continue;
    if (WIFEXITED(status)) finish_with_report(workers);
    refuse(WTERMSIG(status) == SIGSYS ? "RUNTIME_ERROR sandbox" : "RUNTIME_ERROR crash",
           WTERMSIG(status) == SIGSYS ? "the kernel tried a system call, which the sandbox forbids (signal %d)"
                                      : "the kernel died of signal %d", WTERMSIG(status));
  }
}

void prepare() {
  shared = (Shared*)mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  stop = &shared->stop, met = &shared->met, grid = &shared->grid;
  for (int i = 0; i < spec.buffer_count; ++i) {
    map_buffer(spec.buffers[i]);
    fill_buffer(spec.buffers[i]);
  }
  void* const dynamic = mmap((void*)DYNAMIC_BASE, DYNAMIC_BYTES, PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
  if (dynamic != (void*)DYNAMIC_BASE) refuse("MACHINE_ERROR", "cannot map shared memory at its fixed address");
  load_image(spec.image);
  prepare_fibers(check_launches());
  if (spec.checked) prepare_checker();
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
  read_spec(words[1]);
  deadline_s = now_s() + spec.timeout_ms * 1e-3;
  prepare();
  shut_in();
  for (int launch = 0; launch < spec.launch_count; ++launch)
    if (spec.launches[launch].grid.count() > 0) run_one(launch);
  check_canaries();
  check_device_variables();
  write_outputs();
  for (uint32_t w = 0; w < most_workers; ++w)
    if (shared->warnings[w].raised) {
      write_result(shared->warnings[w], "warning-");
      break;
    }
  say("met %d\nstatus PASSED\n", shared->met);
  return 0;
}
