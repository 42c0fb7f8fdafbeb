// The blocks of a cluster, and the shared memory that they read and write of one another.
//
//   cluster.cpp          their processes, and where each finds the others' shared memory
//   cluster_barrier.cpp  barrier.cluster
//   cluster_remote.cpp   what a block does at barriers of another one
//   cluster_marks.cpp    what a checked run knows of what they do to the same bytes
//
// In a checked run the blocks of a cluster take turns, so that a run can be repeated; in a plain one they run at once.
//
// What one block does is ordered before what another does only by barriers of the cluster. Their arrivals count up through
// the whole run: an access of a thread that has arrived `a` times is ordered before one of a thread of another block of the
// cluster that has waited `w` times exactly if one of the arrivals behind the first `a` and up to `w` was not relaxed.
#pragma once
#include "checker.h"

namespace runner {

// What a block waits for: that another one changes a word.
struct Awaited {
  uint32_t* word;                // null: nothing
  uint32_t old;
};

// An operation at a barrier in the shared memory of a block.
enum class RemoteKind : uint32_t { STORE, ARRIVAL, COPY };
constexpr uint32_t MOST_REMOTE = 1024, REMOTE_BYTES = 32;
struct RemoteOperation {
  RemoteKind kind;
  uint32_t cluster, from;        // number of the cluster; rank of the block that it comes from
  size_t to, barrier;            // offsets in the block's shared memory
  uint32_t bytes;                // that come, or that an arrival announces
  uint32_t count;                // of arrivals
  uint8_t value[REMOTE_BYTES];   // of a store
  int32_t map, at[5];            // of a copy: the tensor map, and the coordinates of its box; -1: bytes as they lie
  uintptr_t global;
  uint32_t known[MAX_CLUSTER];   // the times of all blocks before which the sender knew what they did
  uint32_t ordered[MAX_CLUSTER]; // and before which that is ordered before an arrival
};

// Those under way to a rank's block.
struct RemoteOperations {
  uint32_t sent;                 // so far; a futex
  uint32_t looked_at;            // of them, when the block had nothing else to do
  uint32_t count;
  RemoteOperation list[MOST_REMOTE];
};

// Where the blocks of a cluster meet; of one that is over, another cluster's may.
struct Meeting {
  uint32_t arrived, ended;
  uint32_t phase;                // number of barriers that have opened; a futex
  uint32_t over;                 // number of clusters that have ended; a futex
};

// In memory shared by the processes of a launch.
struct Cluster {
  uint32_t blocks, locked;
  Meeting meetings[MOST_AHEAD];
  uint32_t first;                // checked run: the meeting's `phase` when the launch began
  uint32_t turn;                 // checked run: the rank whose block runs
  uint32_t begun[MAX_CLUSTER];   // checked run: number of turns; a futex each
  Awaited awaited[MAX_CLUSTER], also_awaited[MAX_CLUSTER];
  uint32_t stuck;                // checked run: no block has anything to do
  uint32_t fenced;               // a block used a device-wide fence
  // When each other rank's block last used this rank's shared memory: its arrivals at barriers of the cluster, and its time.
  struct { uint32_t arrivals, time; } touched[MAX_CLUSTER][MAX_CLUSTER];
  uint32_t left[MAX_CLUSTER];    // clusters of the launch of which this rank's block has ended
  uint32_t times[MAX_CLUSTER];   // of the rank's block, at its last barrier of the cluster
  RemoteOperations remote[MAX_CLUSTER];
  uint64_t relaxed[MAX_CLUSTER]; // bits: of the cluster's first 64 barriers those at which a thread of the rank's block arrived relaxed
};
extern Cluster* cluster;
inline bool clustered() { return spec.launches[current.launch].clustered(); }

// A byte of a block's shared memory. rank -1: of none.
struct SharedByte {
  int rank;
  size_t offset;
};

// cluster.cpp
void prepare_clusters();
void begin_clusters(Launch const& launch);
void join_cluster(uint32_t rank);        // in the rank's process, before any of its blocks
void enter_cluster(uint32_t number);     // of the launch, by the block that begins
void leave_cluster();                    // this block has ended
void end_clusters();                     // of the launch, for this rank
uint32_t cluster_rank();
Index3 rank_coordinates();
size_t part_bytes();                     // of the shared memory of a block
size_t static_offset();                  // of the first static variable in it
uintptr_t own_address(size_t offset);    // in this block's shared memory
uintptr_t address_in(uint32_t rank, size_t offset);
SharedByte shared_byte(uintptr_t address);
bool of_another_block(uintptr_t address);
uint32_t most_blocks();                  // of a cluster of any launch
uintptr_t window_of(uint32_t rank);
extern Meeting* meeting;                 // of the running block's cluster
uint32_t cluster_number();
void meet(uint32_t Meeting::*count);     // this block counts as there, by `arrived` or `ended`
void wait_past(uint32_t* word, uint32_t old);  // until another block has changed it
bool wait_for_remote(RemoteOperations& operations);  // until one is sent, or a barrier of the cluster opens; false if none can be
void tell_others(uint32_t* word, uint32_t value);
void lock_cluster();
void unlock_cluster();
void let_others_run();

// cluster_barrier.cpp
void begin_cluster_block();
void arrive_at_cluster(bool relaxed, uintptr_t pc, uintptr_t frame);
bool released_by(uint32_t rank, uint32_t when);  // what this rank did with `when` arrivals is ordered before the running thread
void wait_for_cluster(int line, const char* file, uintptr_t pc, uintptr_t frame);
void leave_cluster_barrier(int thread);  // that has ended
bool open_cluster_barrier();             // no thread can run: waits for the other blocks; false if this one is not there
void share_cluster_waits();              // what one thread has waited for, all know behind a barrier of the block
uint32_t cluster_base();                 // barriers that had opened when this cluster began
uint32_t cluster_arrivals();             // of the running thread
bool cluster_began();                    // the running thread knows that every block of the cluster has
uint32_t most_cluster_waits();           // of any thread of the block

uint32_t next_cluster_arrival();         // of the running thread: which barrier it would arrive at
bool has_waited_for(uint32_t barrier);   // the running thread, at the cluster's barrier of this number
bool cluster_barrier_opened();           // one at which this block has arrived
bool waits_at_cluster_barrier();

// cluster_remote.cpp
void send_remote(uint32_t rank, RemoteOperation one, bool orders = false);  // `orders`: what was done before, too
bool perform_remote(uintptr_t barrier, uintptr_t pc, uintptr_t frame);  // the next one at this block's barrier; false: there is none
bool remote_came();                      // since this was last asked
bool await_remote();                     // no thread can run: waits for other blocks; false if nothing can come
void end_remote();                       // of the block: warns of what is still under way
void learn_times(const uint32_t* times);
bool ordered_by_arrival(uint32_t rank, uint32_t time);  // what this rank did at that time is ordered before this block
extern uint32_t cluster_time;            // of this block

// cluster_marks.cpp
void prepare_marks();
void check_leaving();
void mark_access(const Region& region, uintptr_t address, size_t bytes, Access access);
void check_remote(uintptr_t address, size_t bytes, uintptr_t pc, uintptr_t frame);  // of a store to a block of the cluster
void stored_too_early(const Region& region, uintptr_t address, uint32_t from, bool wrote);
void mark_arrived(const Region& region, uintptr_t address, size_t bytes);  // such a store, in the block that it is for
bool written_by_cluster(const Region& region, uintptr_t address);  // by another block of it

}  // namespace runner
