// Declarations of the runner: buffers, the loaded image, the running block, and its findings.
#pragma once
#include <cstddef>
#include <cstdint>
#include "abi.h"

namespace runner {

struct Index3 {
  uint32_t x, y, z;
  uint64_t count() const { return (uint64_t)x * y * z; }
};

constexpr size_t PAGE = 4096;
constexpr uintptr_t SHARED_BASE = 0x500000000;       // 4 GiB aligned: a shared address is its low 32 bits
constexpr uintptr_t IMAGE_BASE = 0x500000000;        // static shared variables are part of the image
constexpr uintptr_t DESCRIBED = 1 << 18;              // bytes of shared memory that a matrix descriptor tells apart
constexpr uintptr_t DYNAMIC_BASE = 0x580000000;      // dynamic shared memory
constexpr size_t DYNAMIC_BYTES = 256 << 10;
constexpr size_t STACK_BYTES = 256 << 10;
constexpr int MAX_THREADS = 1024;
constexpr int MAX_FRAMES = 24;
constexpr int MAX_BUFFERS = 2048;
constexpr int MAX_ARGUMENTS = 64;
constexpr int MAX_LAUNCHES = 1024;
constexpr int MAX_TENSOR_MAPS = 64;
constexpr int MAX_WORKERS = 16;
constexpr int MAX_CLUSTER = 16;                       // blocks of a cluster, a process each
constexpr uint32_t MOST_AHEAD = 64;                   // clusters that a process may begin before the first of them is over
constexpr int MAX_TOGETHER = 512;                     // blocks of a cooperative launch, a process each

enum class Role : int { INPUT, OUTPUT, SCRATCH };

// One tensor: its exact bytes, canaries around it, unmapped pages around those.
struct Buffer {
  char name[96];
  Role role;
  size_t bytes;
  uint32_t itemsize;
  bool zero;
  int fd;             // of its file, -1 for scratch
  uint8_t* data;
  uint8_t* mapping;   // first accessible page
  size_t mapped;      // accessible bytes
};

// Content of a TMA descriptor; see `records.launch.TensorMap`.
struct TensorMap {
  char name[96];
  int buffer;
  uint64_t offset;         // bytes from the tensor's start to the view's
  uint32_t itemsize;
  int rank;
  uint64_t dims[5];        // elements, the fastest first
  uint64_t strides[5];     // bytes; [0] is not used
  uint32_t box[5];
  int swizzle;             // bits: 1, 2, 3 for 32, 64, 128 bytes
  bool fills_nan;
  char type[8];            // of an element, as PTX writes it: "f32"
};

// The 128 bytes passed to a kernel.
constexpr uint64_t TENSOR_MAP_MARK = 0x70614D726F736E65;
struct alignas(128) TensorMapDescriptor {
  uint64_t mark, number;
  uint64_t opaque[14];
};

struct Launch {
  int kernel;
  Index3 grid, block, cluster;
  uint32_t smem_bytes;
  int cooperative;
  bool clustered() const { return cluster.count() > 1; }
  int argument_count;
  EmuArgument arguments[MAX_ARGUMENTS];
  int argument_buffer[MAX_ARGUMENTS];      // -1 for a number
  char argument_dtype[MAX_ARGUMENTS][16];
};

enum class Order : int { FORWARD, REVERSE, RANDOM };

// On pages of its own, which are read-only while kernels run.
struct alignas(PAGE) Spec {
  bool checked;
  Order order;
  uint64_t seed;
  uint32_t timeout_ms;
  uint32_t workers;
  uint8_t poison;
  bool eager;                // asynchronous copies complete at once instead of at the wait for them
  int edge;                  // -1, 1: approximate instructions err downward or upward as far as documented; 0: exact
  bool talks;                // blocks may tell one another something: one process runs all of a launch
  bool open_walls;           // run without a system call filter; only on a machine that has none
  char image[4096];
  int buffer_count, launch_count, tensor_map_count;
  Buffer buffers[MAX_BUFFERS];
  Launch launches[MAX_LAUNCHES];
  TensorMap tensor_maps[MAX_TENSOR_MAPS];
  TensorMapDescriptor descriptors[MAX_TENSOR_MAPS];
};

// The first failure of one worker, in memory shared with the main process.
struct Report {
  int raised;                // 1 once complete
  char status[24];
  char kind[32];
  char message[1024];
  char variable[128];
  char file[256];            // set if the candidate itself passes the line
  int line;
  int column;
  int has_thread;
  Index3 block, thread;
  int launch;
  int frame_count;
  uint64_t frames[MAX_FRAMES];
};

// The state of the running block that other parts need.
struct Current {
  int thread;                // linear index of the running thread, -1 in the scheduler
  Index3 block;
  uint8_t* stack_low;
  int launch;
  const EmuKernel* kernel;
};

extern Spec spec;
extern Current current;
extern Report* report;       // of this worker
extern Report* warning;      // of this worker: reported, but no failure
extern volatile int* stop;   // set by any worker with a failure
extern uint64_t switches;         // how often a thread of this process was given its turn
extern volatile int* approximate;  // set when an approximate instruction was executed
extern volatile int* parted;       // set when lanes that ask for the active mask were told of some of those with them
extern volatile int* met;    // set when threads cooperated: only then can their order matter

// The barrier of a cooperative launch, in memory shared by the processes of its blocks.
struct Grid {
  uint32_t blocks, arrived, ended;
  uint32_t generation;       // of the barrier; a futex
};
extern Grid* grid;

// spec.cpp
void read_spec(const char* path);

// buffers.cpp
void map_buffers();          // and fill them
void check_canaries();
void write_outputs();

// launches.cpp
uint32_t check_launches();   // returns the threads of the largest block

// grid.cpp
void wait_for_grid();        // this block has come to the barrier of the grid
void leave_grid();           // this block has ended
void nap();                  // sleeps briefly to let other processes run

// image.cpp
void load_image(const char* path);
uint8_t* image_begin();
size_t image_bytes();
uint8_t* shared_begin();
size_t shared_bytes();
const EmuShared* shared_records(size_t* count);
const EmuKernel* kernels(size_t* count);
const char* device_variable_at(uintptr_t address);      // its name, "" if the file names none
void each_device_range(void (*visit)(uintptr_t low, uintptr_t high));  // where `__device__` variables lie
bool has_device_variables();
bool changed_device_variable(char* name, size_t size);  // finds one whose value differs from the loaded value
void* resolve(const char* name);

// report.cpp
[[noreturn]] void fail(const char* status, const char* kind, const char* variable, const char* format, ...)
    __attribute__((format(printf, 4, 5)));
// Prepares the report of a possible failure, to be raised later.
void prepare_failure(Report* target, const char* status, const char* kind, const char* variable, const char* message);
[[noreturn]] void fail_prepared(const Report* prepared);
void warn(const char* kind, const char* variable, const char* format, ...) __attribute__((format(printf, 3, 4)));
void at_line(int line, const char* file, int column = 0);  // the next report is about this line
void at_frames(uintptr_t pc, uintptr_t frame);  // the next report is about this place in the code
// The callers of a place, recorded before the stack changes; while `blamed` is set, reports name that place.
struct Frames {
  int count;
  uint64_t frames[MAX_FRAMES];
};
Frames frames_of(uintptr_t pc, uintptr_t frame);
extern const Frames* blamed;
void install_signal_handlers();
[[noreturn]] void refuse(const char* status, const char* format, ...) __attribute__((format(printf, 2, 3)));
constexpr size_t APART = 64 << 20;  // unmapped on both sides of all buffers: nothing else of the process is near them
const Buffer* buffer_near(uintptr_t address, long* offset);
// Ends the run: the access is nobody's. Near the buffers the text does not depend on where they lie.
[[noreturn]] void stray(uintptr_t address, const char* does);

// What a synchronising object knows about every thread t: its accesses with stamps before known[t] have happened.
struct Clock {
  uint32_t known[MAX_THREADS];
};

// fibers.cpp
void prepare_fibers(uint32_t threads);
Index3 thread_coordinates(int thread);
uintptr_t fiber_stack_low(int thread);

// block.cpp
void run_launch(int launch, uint32_t worker, uint32_t workers);
// A point at which a thread may be waiting for another one to change `address`; may suspend it.
void spin_point(uintptr_t address);
// Suspends the running thread until `note_change` was called; use it in a loop that tests the condition. When no thread of
// the block can go on, the idle hook may bring what is under way; after that the kernel is reported as a deadlock of a
// thread that waits for `what`.
void wait_for_change(const char* what, uintptr_t pc, uintptr_t frame);
void note_change();
void got_somewhere();  // called when a thread changed memory that others may be watching
void when_idle(bool (*hook)());

// warp.cpp
// Lanes of the running thread's warp that are at the place named by line and file (or by `pc`) when none can go further.
uint32_t active_mask_at(int line, const char* file, uintptr_t pc, uintptr_t frame);

// barrier.cpp
// `bar.sync id, expected` or `bar.arrive`; 0 expected: all threads of the block that have not ended.
void named_barrier(int id, uint32_t expected, bool waits, uintptr_t pc, uintptr_t frame);

// checker.cpp
void checker_begin_launch();
void checker_begin_block();
void checker_barrier();
bool worked_since_barrier(int thread);  // touched memory after the last barrier of the block
enum class Access { READ, WRITE, ATOMIC, COPY };  // COPY: written by an asynchronous copy, see below
void check_access(uintptr_t address, size_t bytes, Access access, uintptr_t pc, uintptr_t frame);
void check_read_only(uintptr_t address, size_t bytes, uintptr_t pc, uintptr_t frame);
extern bool strong_access;   // the access being checked is volatile or relaxed
extern bool proxy_access;    // it is made by the copy engine or the matrix unit, see ByProxy
struct ByProxy {             // the accesses checked while it is there
  ByProxy() { proxy_access = true; }
  ~ByProxy() { proxy_access = false; }
};
// An asynchronous copy into shared memory: Access::COPY when the running thread issues it, `copy_arrived` when the wait for
// it is over (whenever the bytes were moved). In between, any access to these bytes is a finding: "missing-wait".
void order_atomics_after(uintptr_t address, size_t bytes);  // what was last written there: by whoever writes it atomically
void remote_arrived(uintptr_t address, size_t bytes, uint32_t from, uint32_t known_time, uintptr_t pc, uintptr_t frame);
void copy_arrived(int thread, uintptr_t address, size_t bytes);
// What must come after fence.proxy.async: the copy engine and the matrix unit reading shared memory.
void check_proxy(uintptr_t address, size_t bytes, uintptr_t pc, uintptr_t frame);
// What must come after it, too: a bulk copy into shared memory that threads have read.
void check_overwritten(uintptr_t address, size_t bytes, uintptr_t pc, uintptr_t frame);

// banks.cpp
// What shared memory needs for the first block of a launch; in memory shared with the main process.
struct BankCount {
  uint64_t wavefronts, least;  // as it is accessed, and without conflicts
  uint64_t most_lost;          // wavefronts lost at the worst place
  Frames worst;
};
extern BankCount* bank_counts;  // by launch
void note_shared(uintptr_t address, size_t bytes, Access access, uintptr_t pc, uintptr_t frame);
void banks_begin_launch();
void banks_begin_block();
void banks_end_block();

// watched.cpp
void prepare_checker();
const char* name_at(uintptr_t address);
void check_alignment(uintptr_t address, size_t alignment, uintptr_t pc, uintptr_t frame);

// order.cpp
void checker_warp(int first_thread, uint32_t lanes);
void note_proxy_fence();
// Order between threads beyond barriers of the block and warp operations. What the running thread did so far becomes known
// to the object; a thread that acquires from it knows all that.
void release_into(Clock& clock);
void acquire_for(int thread, const Clock& clock);

// blocks.cpp
void note_fence();           // of the running thread, for the whole device

// findings.cpp
void settle_pending_write();
extern bool write_pending;   // by the last access, until it is known what it wrote

// The interpreter of inline PTX is reached through emu_ptx only; see ptx_machine.h.

}  // namespace runner

#define EMU_CALLER ((uintptr_t)__builtin_return_address(0))
#define EMU_FRAME ((uintptr_t)__builtin_frame_address(0))
