// st.async: stores to the shared memory of a block of the cluster that report to a barrier (mbarrier) there.
//
// A store waits in memory of all until a thread of the block that it is for asks the barrier, and happens then. So a wait
// that is missing gives wrong numbers in every run. It orders nothing but itself.
//
// Whether the block was done with what lay there is judged by times. A block's time goes on when it sends a store and when
// it arrives at a barrier of the cluster; with each store it tells up to which time of every block it knows, by stores that
// have come and by barriers. What a block did at a later time, the sender cannot have known of.
#include <stdlib.h>
#include <string.h>
#include "cluster.h"
#include "ptx_hopper.h"

namespace runner {

namespace {

uint32_t known[MAX_CLUSTER];   // the time of each rank's block before which this one knows what it did

RemoteStores& stores_for(uint32_t rank) { return cluster->stores[rank]; }

// Takes the first store that reports to this byte, if there is one.
bool take(size_t barrier, RemoteStore& taken) {
  RemoteStores& stores = stores_for(cluster_rank());
  lock_cluster();
  uint32_t at = 0;
  while (at < stores.count && (stores.list[at].cluster != cluster_number() || stores.list[at].barrier != barrier)) ++at;
  bool const found = at < stores.count;
  if (found) {
    taken = stores.list[at];
    memmove(&stores.list[at], &stores.list[at + 1], sizeof(RemoteStore) * (--stores.count - at));
  }
  unlock_cluster();
  return found;
}

}  // namespace

uint32_t cluster_time = 1;

void learn_times(const uint32_t* times) {
  for (uint32_t rank = 0; rank < cluster->blocks; ++rank)
    if (times[rank] > known[rank]) known[rank] = times[rank];
}

void send_store(uint32_t rank, RemoteStore store) {
  store.cluster = cluster_number(), store.from = cluster_rank();
  known[cluster_rank()] = ++cluster_time;
  memcpy(store.known, known, sizeof known);
  RemoteStores& stores = stores_for(rank);
  lock_cluster();
  bool const fits = stores.count < MOST_REMOTE_STORES;
  if (fits) stores.list[stores.count++] = store;
  unlock_cluster();
  if (!fits) fail("UNSUPPORTED", "remote-store", "", "more than %u stores to block %u of the cluster under way that it does not wait for", MOST_REMOTE_STORES, rank);
  tell_others(&stores.sent, stores.sent + 1);
}

bool deliver_store(uintptr_t barrier, uintptr_t pc, uintptr_t frame) {
  if (!clustered()) return false;
  RemoteStore store;
  if (!take(shared_byte(barrier).offset, store)) return false;
  uintptr_t const to = own_address(store.to);
  if (spec.checked) store_arrived(to, store.bytes, store.from, store.known[cluster_rank()], pc, frame);
  learn_times(store.known);
  memcpy((void*)to, store.value, store.bytes);
  ptx::hopper::complete_bytes({current.thread, pc, frame, {}}, barrier, store.bytes);
  return true;
}

bool stores_came() {
  if (!clustered()) return false;
  RemoteStores& stores = stores_for(cluster_rank());
  uint32_t const sent = __atomic_load_n(&stores.sent, __ATOMIC_SEQ_CST);
  if (sent == stores.looked_at) return false;
  __atomic_store_n(&stores.looked_at, sent, __ATOMIC_SEQ_CST);
  note_change();
  return true;
}

bool await_stores() {
  return clustered() && wait_for_store(stores_for(cluster_rank())) && (stores_came() || open_cluster_barrier());
}

void end_stores() {
  if (!clustered()) return;
  RemoteStores& stores = stores_for(cluster_rank());
  lock_cluster();
  uint32_t kept = 0, lost = 0;
  for (uint32_t i = 0; i < stores.count; ++i) {
    if (stores.list[i].cluster == cluster_number()) ++lost;
    else stores.list[kept++] = stores.list[i];
  }
  stores.count = kept;
  unlock_cluster();
  if (lost) warn("bulk-copy", "", "block %u of the cluster ends while %u stores of the cluster's blocks (st.async) to its shared memory are under way: wait for their barrier", cluster_rank(), lost);
}

}  // namespace runner
