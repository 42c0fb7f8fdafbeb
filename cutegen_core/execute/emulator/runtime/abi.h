// The calls a compiled candidate makes into the runner, and the records it hands over. Nothing else is reachable:
// the runner resolves these names and a short list of libm functions, and refuses to load anything that needs more.
#pragma once
#include <cstddef>
#include <cstdint>

struct EmuArgument {
  enum Kind : int64_t { POINTER, INTEGER, FLOATING, TENSOR_MAP };
  Kind kind;
  int64_t integer;
  double floating;
  void* pointer;       // TENSOR_MAP: to its 128 bytes
};

struct EmuParameter {
  enum Kind : uint8_t { POINTER, INTEGER, FLOATING, OTHER, TENSOR_MAP };
  Kind kind;
  uint8_t bytes;       // of the parameter itself
  uint8_t is_signed;   // INTEGER only
  uint8_t pad = 0;
  const char* element; // POINTER: dtype pointed at, "" when it is none of ours
};

struct EmuKernel {
  const char* name;
  void (*invoke)(const EmuArgument*);
  const EmuParameter* parameters;
  int64_t count;
};

// One `__shared__` variable; the rewriter emits a record beside every declaration.
struct EmuShared {
  const void* address;
  size_t bytes;
  size_t itemsize;  // of its innermost element
  const char* name;
  int64_t line;
};

// One operand of an inline PTX statement.
struct EmuOperand {
  void* address;  // where the value lies (in, out or both)
  uint8_t bytes;
  char constraint; // 'r', 'l', 'f', 'd', 'h', 'n', 'q'
  bool writes;
  bool reads;
};

extern "C" {
void emu_barrier(int line, const char* file);
int emu_barrier_reduce(int operation, int predicate, int line, const char* file); // 0 count, 1 and, 2 or
void emu_warp_sync(uint32_t mask, int line, const char* file);
// Hands `mine` to the lanes of `mask` and returns what `source` handed in (all bits set when that lane is not there).
void emu_warp_exchange(uint32_t mask, const void* mine, void* result, uint32_t bytes, int source, int line,
                       const char* file);
// Same, for every lane at once: `all` holds 32 values. Returns the mask of lanes that are there.
uint32_t emu_warp_gather(uint32_t mask, const void* mine, void* all, uint32_t bytes, int line, const char* file);
// The lanes of the warp that are at this place together.
uint32_t emu_active_mask(int line, const char* file);
// The barrier of all blocks of a cooperative launch.
void emu_grid_sync(int line, const char* file);
int emu_is_cooperative();
// The barrier of a cluster, of a block alone its own; and the shared memory of a block of the cluster.
void emu_cluster_sync(int line, const char* file);
uint32_t emu_cluster_rank();
void emu_cluster_shape(uint32_t* xyz);
void* emu_map_shared(const void* address, uint32_t rank);
uint32_t emu_shared_rank(const void* address);
void emu_atomic(const void* address, size_t bytes);
void emu_atomic_load(const void* address, void* result, size_t bytes);
int emu_compare_exchange(void* address, void* expected, const void* desired, size_t bytes);
void emu_fence(int scope); // 0 block, 1 device, 2 system
void emu_read_only(const void* address, size_t bytes);  // a load through the read-only cache follows
float emu_approximate(float exact, double absolute, double relative);  // within these errors, at the edge that the run asks for
void emu_ptx(const char* text, EmuOperand* operands, int count);
void emu_trap(const char* what);
void emu_unsupported(const char* what);
uint64_t emu_clock();
size_t emu_generic_to_shared(const void* address);
void* emu_shared_to_generic(size_t offset);
int emu_is_shared(const void* address);
int emu_is_global(const void* address);
uint32_t emu_dynamic_smem_bytes();
}
