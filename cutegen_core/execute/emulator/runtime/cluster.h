// The blocks of a cluster, and the shared memory that they read and write of one another.
//
//   cluster.cpp          their processes, and where each finds the others' shared memory
//   cluster_barrier.cpp  barrier.cluster
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
  Awaited awaited[MAX_CLUSTER];
  uint32_t fenced;               // a block used a device-wide fence
  uint32_t touched[MAX_CLUSTER]; // arrivals of the last block that used this rank's shared memory
  uint32_t left[MAX_CLUSTER];    // clusters of the launch of which this rank's block has ended
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
SharedByte shared_byte(uintptr_t address);
bool of_another_block(uintptr_t address);
uint32_t most_blocks();                  // of a cluster of any launch
uintptr_t window_of(uint32_t rank);
extern Meeting* meeting;                 // of the running block's cluster
uint32_t cluster_number();
void meet(uint32_t Meeting::*count);     // this block counts as there, by `arrived` or `ended`
void wait_past(uint32_t* word, uint32_t old);  // until another block has changed it
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

// cluster_marks.cpp
void prepare_marks();
void check_leaving();
void mark_access(const Region& region, uintptr_t address, size_t bytes, Access access);
bool written_by_cluster(const Region& region, uintptr_t address);  // by another block of it

}  // namespace runner
