// What a block does at the barriers (mbarrier) of the other blocks of its cluster: stores that report to one (st.async), arrivals,
// and copies that come to several blocks at once.
//
// It waits in memory of all until a thread of the block that it is for asks the barrier, and happens then. So a wait that is
// missing gives wrong numbers in every run.
//
// A checked run judges by times. A block's time goes on with each such operation, and with each barrier of the cluster that it
// arrives at; with each it tells up to which time of every block it knows, by operations that have come and by barriers. What
// a block did to its own memory at a later time, who stores over it cannot have known of. An arrival also orders what was
// done before it; stores and copies order nothing but themselves.
#include <stdlib.h>
#include <string.h>
#include "cluster.h"
#include "ptx_hopper.h"

namespace runner {

uint32_t cluster_time = 1;

namespace {

uint32_t known[MAX_CLUSTER];    // the time of each rank's block before which this one knows what it did
uint32_t arrived[MAX_CLUSTER];  // and before which that is ordered before what this block does

void raise(uint32_t* times, const uint32_t* others) {
  for (uint32_t rank = 0; rank < cluster->blocks; ++rank)
    if (others[rank] > times[rank]) times[rank] = others[rank];
}

// Takes the first operation at this barrier, if there is one.
bool take(size_t barrier, RemoteOperation& taken) {
  RemoteOperations& operations = cluster->remote[cluster_rank()];
  lock_cluster();
  uint32_t at = 0;
  while (at < operations.count && (operations.list[at].cluster != cluster_number() || operations.list[at].barrier != barrier)) ++at;
  bool const found = at < operations.count;
  if (found) {
    taken = operations.list[at];
    memmove(&operations.list[at], &operations.list[at + 1], sizeof(RemoteOperation) * (--operations.count - at));
  }
  unlock_cluster();
  return found;
}

void perform(RemoteOperation const& one, uintptr_t barrier, ptx::hopper::Place const& place) {
  if (one.kind == RemoteKind::ARRIVAL) {
    raise(arrived, one.ordered);
    return ptx::hopper::arrive_for(place, barrier, one.count, one.bytes);
  }
  uintptr_t const to = own_address(one.to);
  if (spec.checked) remote_arrived(to, one.bytes, one.from, one.known[cluster_rank()], place.pc, place.frame);
  if (one.kind == RemoteKind::STORE) memcpy((void*)to, one.value, one.bytes);
  else ptx::hopper::copy_for(place, one, to);
  ptx::hopper::complete_bytes(place, barrier, one.bytes);
}

}  // namespace

void learn_times(const uint32_t* times) { raise(known, times); }

bool ordered_by_arrival(uint32_t rank, uint32_t time) { return time < arrived[rank]; }

void send_remote(uint32_t rank, RemoteOperation one, bool orders) {
  one.cluster = cluster_number(), one.from = cluster_rank();
  known[cluster_rank()] = ++cluster_time;
  if (orders) arrived[cluster_rank()] = cluster_time;
  memcpy(one.known, known, sizeof known);
  memcpy(one.ordered, arrived, sizeof arrived);
  RemoteOperations& operations = cluster->remote[rank];
  lock_cluster();
  bool const fits = operations.count < MOST_REMOTE;
  if (fits) operations.list[operations.count++] = one;
  tell_others(&operations.sent, operations.sent + 1);
  unlock_cluster();
  if (!fits) fail("UNSUPPORTED", "cluster", "", "more than %u operations at barriers of block %u of the cluster that it does not wait for", MOST_REMOTE, rank);
}

bool perform_remote(uintptr_t barrier, uintptr_t pc, uintptr_t frame) {
  if (!clustered()) return false;
  RemoteOperation one;
  if (!take(shared_byte(barrier).offset, one)) return false;
  perform(one, barrier, {current.thread, pc, frame, {}});
  raise(known, one.known);
  return true;
}

bool remote_came() {
  if (!clustered()) return false;
  RemoteOperations& operations = cluster->remote[cluster_rank()];
  uint32_t const sent = __atomic_load_n(&operations.sent, __ATOMIC_SEQ_CST);
  if (sent == operations.looked_at) return false;
  __atomic_store_n(&operations.looked_at, sent, __ATOMIC_SEQ_CST);
  note_change();
  return true;
}

bool await_remote() {
  return clustered() && wait_for_remote(cluster->remote[cluster_rank()]) && (remote_came() || open_cluster_barrier());
}

void end_remote() {
  if (!clustered()) return;
  RemoteOperations& operations = cluster->remote[cluster_rank()];
  lock_cluster();
  uint32_t kept = 0, lost = 0;
  for (uint32_t i = 0; i < operations.count; ++i) {
    RemoteOperation const& one = operations.list[i];
    if (one.cluster != cluster_number()) operations.list[kept++] = one;
    else lost += one.kind != RemoteKind::ARRIVAL;
  }
  operations.count = kept;
  unlock_cluster();
  if (lost) fail("MEMORY_ERROR", "bulk-copy", "", "block %u of the cluster ends while %u stores or copies of the cluster's blocks to its shared memory "
                 "are under way: wait for their barrier", cluster_rank(), lost);
}

}  // namespace runner
