// What the instructions that came with sm_90 share: barriers in shared memory, copies under way, and the matrix unit.
//
// Everything asynchronous is done as late as the program allows: a load when a thread asks the barrier it reports to, a
// store when its group is waited for, a matrix product when its group is waited for. Until then the destination holds
// NaN. So a wait that is missing, or a tile that is filled again too early, gives wrong numbers in every run and not
// only in an unlucky one. A `fence.proxy.async` that is missing between ordinary stores and the copy engine or the
// matrix unit changes nothing here; the checked run warns of it.
//
//   ptx_hopper_barrier.cpp   mbarrier.*, elect.sync, setmaxnreg, mapa, barrier.cluster, fence.proxy
//   ptx_hopper_copy.cpp      cp(.reduce).async.bulk.* (tensor maps and plain bytes), st.async, prefetch.tensormap
//   ptx_hopper_matrix.cpp    wgmma.*
#pragma once
#include "ptx_machine.h"

namespace runner {
struct RemoteOperation;
}

namespace runner::ptx::hopper {

// A place in the candidate, to be blamed later than when it ran.
struct Place {
  int thread;
  uintptr_t pc, frame;
  Frames frames;
};
inline Place here(const Call& call) { return {current.thread, call.pc, call.frame, frames_of(call.pc, call.frame)}; }

// Acts in the name of another thread for as long as it lives.
class As {
 public:
  explicit As(Place const& place) : before(current), blamed_before(blamed) {
    current.thread = place.thread;
    current.stack_low = (uint8_t*)fiber_stack_low(place.thread);
    blamed = &place.frames;
    at_frames(place.pc, place.frame);
  }
  As(As const&) = delete;
  ~As() {
    current = before;
    blamed = blamed_before;
  }

 private:
  Current before;
  const Frames* blamed_before;
};

[[noreturn]] void fault_at(Place const& place, const char* status, const char* kind, const char* variable,
                           const char* format, ...) __attribute__((format(printf, 5, 6)));

// Whether all of these bytes belong to the block's shared memory.
bool in_shared(uintptr_t address, size_t bytes);
// Where the checker knows shared variables by name, the name; else "".
const char* shared_name(uintptr_t address);

// ptx_hopper_barrier.cpp
void complete_bytes(Place const& place, uintptr_t barrier, uint32_t bytes);
void arrive_for(Place const& place, uintptr_t barrier, uint32_t count, uint32_t bytes);  // in the name of another block
void check_barrier(const Call& call, uintptr_t barrier);
bool ask_others();  // no thread can run, and some wait for an answer of a barrier: waits for other blocks; false if none can act
void check_barrier_word(const Call& call, uintptr_t barrier);  // that it is initialised; of any block of the cluster

// ptx_hopper_copy.cpp
void copy_for(Place const& place, RemoteOperation const& one, uintptr_t to);  // in the name of another block
void arrive_loads(uintptr_t barrier);  // performs the loads that report to this barrier

// At the ends of every block; the second warns of what nobody has waited for.
void begin_block();
void end_block();
void begin_barriers();
void begin_copies();
void end_copies();
void begin_products();
void end_products();

extern const Family barrier_family[], copy_family[], matrix_family[];

}  // namespace runner::ptx::hopper
